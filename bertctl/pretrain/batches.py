"""From index records to masked batches.

Shapes: B batch, T tokens, N masked positions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bertctl.artifacts.examples import Examples
from bertctl.artifacts.shards import TokenShards
from bertctl.pretrain.masking import Flags, Ids, Masking, mask_tokens, uniform_draws
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import Batch, mix, rank_share, shuffled, step_examples, to_tensors
from bertctl.training.runtime import Runtime

HELD_OUT_EPOCH = (1 << 20) - 1  # no run gets here: held-out masks are the same at every evaluation
WIDTH_MULTIPLE = 8
WINDOW_STEPS = 16  # examples of so many steps are dealt out by length, so that a batch holds little padding


@dataclass(frozen=True)
class Rows:
    """Unmasked examples: [CLS] A [SEP] or [CLS] A [SEP] B [SEP], padded to one width; all arrays [B, T]."""

    input_ids: Ids
    attention_mask: Flags
    token_type_ids: Ids
    word_starts: Flags
    special: Flags


@dataclass(frozen=True)
class ExampleReader:
    """Reads examples of one phase and split out of the token shards."""

    shards: TokenShards
    examples: Examples
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest example; no batch is wider, so an encoder that reads so many reads them all."""
        return self.examples.longest(special=self.tokenizer.special_count)

    def lengths(self, ids: Ids | slice = slice(None)) -> NDArray[np.int64]:
        """Tokens of the examples `ids`, special ones included."""
        return self.examples.lengths(ids, special=self.tokenizer.special_count)

    def rows(self, ids: Ids) -> Rows:
        """The examples `ids` [B], in that order."""
        columns = {name: column[ids] for name, column in self.examples.columns.items()}
        lengths = self.lengths(ids)
        width = min(-(-int(lengths.max()) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, self.longest)
        input_ids = np.full((len(ids), width), self.tokenizer.pad_id, dtype=np.int64)
        token_type_ids = np.zeros_like(input_ids)
        word_starts, special = np.zeros(input_ids.shape, dtype=bool), np.zeros(input_ids.shape, dtype=bool)
        for row in range(len(ids)):
            sides = ("a", "b") if columns["b_stop"][row] > columns["b_start"][row] else ("a",)
            spans = [(int(columns[f"{side}_start"][row]), int(columns[f"{side}_stop"][row])) for side in sides]
            frame = self.tokenizer.template.frame([stop - start for start, stop in spans])
            for side, (start, stop), begin in zip(sides, spans, frame.starts, strict=True):
                shard = self.shards.shards[columns[f"{side}_shard"][row]]
                input_ids[row, begin : begin + stop - start] = shard.tokens[start:stop]
                word_starts[row, begin : begin + stop - start] = shard.words(start, stop)
            for place, role in frame.special:
                input_ids[row, place], special[row, place] = self.tokenizer.role_ids[role], True
            token_type_ids[row, frame.second : frame.length] = self.tokenizer.template.second_type
        real = np.arange(width)[None, :] < lengths[:, None]
        return Rows(input_ids, real, token_type_ids, word_starts, special)

    def labels(self, ids: Ids) -> NDArray[np.int64]:
        """Labels of the sentence pairs [B]; -1 where there is no pair."""
        return self.examples.columns["label"][ids].astype(np.int64)

    def has_pairs(self) -> bool:
        """Whether the examples are labelled sentence pairs."""
        return bool(len(self) and self.examples.columns["label"][0] >= 0)


def masked_batch(
    reader: ExampleReader, ids: Ids, epochs: Ids, *, masking: Masking, seed: int, sampled: bool = False
) -> Batch:
    """One micro-batch as tensors: input_ids, attention_mask, token_type_ids [B, T], masked_positions [N] (indices into
    the flattened batch), labels [N], pair_labels [B] if there are pairs, and draws [N] in [0, 1) if masked tokens will
    be `sampled`."""
    rows = reader.rows(ids)
    eligible = rows.attention_mask & ~rows.special & (rows.input_ids != reader.tokenizer.unk_id)
    masked, chosen = mask_tokens(rows.input_ids, eligible, rows.word_starts, ids, epochs, masking=masking, seed=seed)
    positions = np.flatnonzero(chosen)
    arrays: dict[str, NDArray[np.generic]] = {
        "input_ids": masked,
        "attention_mask": rows.attention_mask,
        "token_type_ids": rows.token_type_ids,
        "masked_positions": positions,
        "labels": rows.input_ids.reshape(-1)[positions],
    }
    if reader.has_pairs():
        arrays["pair_labels"] = reader.labels(ids)
    if sampled:
        arrays["draws"] = uniform_draws(ids, epochs, masked.shape[1], seed=seed).reshape(-1)[positions]
    return to_tensors(arrays)


@dataclass(frozen=True)
class Phase:
    """Steps `first` to `last` train on `reader`."""

    first: int
    last: int
    reader: ExampleReader


@dataclass(frozen=True)
class MaskedBatches:
    """The micro-batches of any step, for one rank: a pure function of the step; `sampled` as in `masked_batch`."""

    phases: list[Phase]
    batch_size: int
    micro_batch_size: int | None
    masking: Masking
    seed: int
    runtime: Runtime
    sampled: bool = False

    def __call__(self, step: int) -> list[Batch]:
        """The micro-batches of `step`."""
        phase = next(phase for phase in self.phases if phase.first <= step <= phase.last)
        epochs, ids = self.examples(phase, step)
        shares = rank_share(
            ids,
            rank=self.runtime.rank,
            world_size=self.runtime.world_size,
            micro_batch_size=self.micro_batch_size,
        )
        return [self.batch(phase.reader, ids[share], epochs[share]) for share in shares]

    def examples(self, phase: Phase, step: int) -> tuple[Ids, Ids]:
        """(epochs [B], ids [B]) of `step`. The examples of a window of steps are sorted by length and dealt out, a run
        of like lengths to each step, the steps in random order: little padding, and every example once an epoch."""
        window, place = divmod(step - phase.first, WINDOW_STEPS)
        epochs, ids = step_examples(window + 1, WINDOW_STEPS * self.batch_size, len(phase.reader), self.seed)
        turn = shuffled(np.array([place]), WINDOW_STEPS, seed=mix(self.seed, 2), epoch=window).item()
        order = np.argsort(phase.reader.lengths(ids), kind="stable")
        chosen = order[turn * self.batch_size : (turn + 1) * self.batch_size]
        return epochs[chosen], ids[chosen]

    def batch(self, reader: ExampleReader, ids: Ids, epochs: Ids) -> Batch:
        """Examples `ids` [B] with the masks of `epochs` [B]."""
        return masked_batch(reader, ids, epochs, masking=self.masking, seed=self.seed, sampled=self.sampled)

    def held_out(self, reader: ExampleReader, ids: Ids) -> Batch:
        """Held-out examples with masks that never change."""
        return self.batch(reader, ids, np.full_like(ids, HELD_OUT_EPOCH))
