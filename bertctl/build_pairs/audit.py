"""What was built, in numbers: labels, lengths, padding, and what masking does to it in practice.

The masks come from the code that pretraining runs, over a sample of batches; counting them here is the proof that the
promised shares are met and no special token is ever hidden.
"""

from typing import Any

import numpy as np

from bertctl.artifacts.examples import Examples
from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.records import Records
from bertctl.console import note
from bertctl.text.tokenizer import Tokenizer

BATCHES, BATCH_SIZE = 16, 32
PERCENTILES = (5, 50, 95)
LABELS = {"next_sentence": ("is_next", "is_random"), "sentence_order": ("in_order", "swapped"), "none": ()}


class Drawn(Examples):
    """Examples that are not on disk yet, for the reader of pretraining."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns


def describe(records: Records, tokenizer: Tokenizer, *, second_segment: str, sequence_length: int) -> dict[str, Any]:
    """Counts, label balance, lengths in tokens with the special ones, and the share of padding at full length."""
    if not len(records):
        return {"examples": 0}
    lengths = records.lengths(tokenizer.special_count)
    low, middle, high = np.percentile(lengths, PERCENTILES).tolist()
    return {
        "examples": len(records),
        "labels": {name: int((records.label == value).sum()) for value, name in enumerate(LABELS[second_segment])},
        "tokens": int(lengths.sum()),
        "length": {"mean": float(lengths.mean()), "p5": low, "p50": middle, "p95": high, "max": int(lengths.max())},
        "padding_share": 1 - float(lengths.mean()) / sequence_length,
    }


def masking(
    columns: dict[str, np.ndarray], shards: TokenShards, tokenizer: Tokenizer, *, seed: int
) -> dict[str, dict[str, Any]]:
    """For units `token` and `word`, over a sample of batches masked as pretraining does by default.

    Counts the share of ordinary tokens chosen, the shares of these that became [MASK], a random token, or stayed,
    special tokens masked, and words of which only a part was chosen.
    """
    from bertctl.pretrain.batches import ExampleReader

    reader = ExampleReader(shards, Drawn(columns), tokenizer)
    sample = np.random.default_rng([seed, len(reader)]).integers(len(reader), size=(BATCHES, BATCH_SIZE))
    return {unit: _shares(reader, sample, unit, seed) for unit in ("token", "word")}


def _shares(reader: Any, sample: np.ndarray, unit: Any, seed: int) -> dict[str, Any]:
    from bertctl.pretrain.batches import masked_batch
    from bertctl.pretrain.masking import Masking, ordinary_ids

    tokenizer = reader.tokenizer
    special = np.array(sorted(tokenizer.special_ids))
    rules = Masking(tokenizer.mask_id, ordinary_ids(tokenizer.vocab_size, tokenizer.special_ids), unit=unit)
    ordinary, counts = 0, np.zeros(5, dtype=np.int64)
    for number, ids in enumerate(sample):
        batch = masked_batch(reader, ids, np.full(len(ids), number), masking=rules, seed=seed)
        rows = reader.rows(ids)
        places, before = batch["masked_positions"].numpy(), batch["labels"].numpy()
        after = batch["input_ids"].numpy().reshape(-1)[places]
        is_mask, is_kept = after == tokenizer.mask_id, after == before
        split = _split_words(rows, places) if unit == "word" else 0
        ordinary += int((rows.attention_mask & ~np.isin(rows.input_ids, special)).sum())
        counts += [len(places), is_mask.sum(), is_kept.sum(), np.isin(before, special).sum(), split]
    chosen, masked, kept, hidden_special, split_words = counts.tolist()
    total = max(chosen, 1)
    return {
        "chosen_share": chosen / max(ordinary, 1),
        "mask_share": masked / total,
        "random_share": (chosen - masked - kept) / total,
        "keep_share": kept / total,
        "special_tokens_masked": hidden_special,
        "words_split": split_words,
    }


def _split_words(rows: Any, places: np.ndarray) -> int:
    """Words of which some tokens are chosen and some not; a special token ends a word."""
    words = np.cumsum((rows.word_starts | rows.special | ~rows.attention_mask).reshape(-1))
    chosen = np.zeros(len(words), dtype=bool)
    chosen[places] = True
    pieces, hidden = np.bincount(words), np.bincount(words, weights=chosen)
    after_special = np.bincount(words, weights=rows.special.reshape(-1)) > 0  # a segment cut inside a word begins so
    pieces = pieces - after_special
    return int(((hidden > 0) & (hidden < pieces)).sum())


def show(name: str, split: str, facts: dict[str, Any]) -> None:
    """One line for a phase and split."""
    if not facts["examples"]:
        note(f"phase {name}, {split}: no examples")
        return
    labels = ", ".join(f"{count / facts['examples']:.1%} {label}" for label, count in facts["labels"].items())
    length = facts["length"]
    note(
        f"phase {name}, {split}: {facts['examples']:,} examples{f' ({labels})' if labels else ''}; tokens: mean "
        f"{length['mean']:.1f}, median {length['p50']:.0f}, most {length['max']}; padding {facts['padding_share']:.1%}"
    )


def show_masking(units: dict[str, dict[str, Any]]) -> None:
    """One line for each unit of masking."""
    for unit, facts in units.items():
        split = f", {facts['words_split']} words split" if unit == "word" else ""
        note(
            f"  masking by {unit}: {facts['chosen_share']:.1%} chosen; of these {facts['mask_share']:.1%} [MASK], "
            f"{facts['random_share']:.1%} random, {facts['keep_share']:.1%} kept; special tokens masked: "
            f"{facts['special_tokens_masked']}{split}"
        )
