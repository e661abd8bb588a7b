"""How well a checkpoint predicts masked tokens of any text: every document cut into windows, no token left out.

Shapes: T tokens.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl import signals
from bertctl.console import Progress, note
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.metrics.masked_lm import entropy, masked_lm_metrics
from bertctl.metrics.rows import Metric
from bertctl.pretrain.data import make_masking
from bertctl.pretrain.masking import mask_tokens
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.tasks.config import DataSection
from bertctl.text.config import CorpusSection
from bertctl.text.corpus import read_corpus
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import pad_batch, to_tensors
from bertctl.training.runtime import Runtime

WINDOWS_AT_ONCE = 4096
DOCUMENTS_AT_ONCE = 256

Scored = tuple[dict[str, Any], dict[str, Metric]]
"""Counts for the result, and metrics."""


def metrics_of(rows: NDArray[np.float64]) -> Scored:
    """Counts and metrics from rows [N, >= 3]: loss, right and masked tokens."""
    metrics = masked_lm_metrics(rows[:, 0], rows[:, 1], rows[:, 2])
    return {"examples": len(rows), "masked_tokens": int(rows[:, 2].sum())}, metrics


def score_text(
    section: EvaluateSection,
    objective: PretrainingObjective,
    tokenizer: Tokenizer,
    max_length: int,
    seed: int,
    runtime: Runtime,
) -> Scored:
    """Any text: every document cut into windows of `max_length`, no token left out."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    rows: list[NDArray[np.float64]] = []
    scorer = TextScorer(objective, tokenizer, section, seed, runtime)
    with Progress("evaluate masked_lm", "tokens") as progress:
        for windows in grouped(token_windows(section.data, tokenizer, max_length - tokenizer.special_count(1))):
            rows.append(scorer.rows(windows, first=sum(map(len, rows))))
            for window in windows:
                counts += np.bincount(window[0], minlength=tokenizer.vocab_size)
            progress.update(int(counts.sum()))
    note(f"{counts.sum():,} tokens in {sum(map(len, rows)):,} windows of at most {max_length}")
    about, metrics = metrics_of(np.concatenate(rows))
    tokens = int(counts.sum())
    return {"tokens": tokens, **about, "unigram_entropy": entropy(counts), "max_length": max_length}, metrics


Window = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""Ids and word starts [T] of consecutive pieces of one document, without special tokens."""


def token_windows(data: DataSection, tokenizer: Tokenizer, room: int) -> Iterator[Window]:
    """The windows of all documents, in order."""
    files = [str(path) for path in (data.path, data.test) if path is not None]
    corpus = CorpusSection(name=data.name) if data.name else CorpusSection(files=tuple(files))
    texts: list[str] = []
    for count, document in enumerate(read_corpus(corpus), 1):
        texts.append(document.text)
        if len(texts) == DOCUMENTS_AT_ONCE:
            yield from cut(texts, tokenizer, room)
            texts = []
        if count == data.test_examples:
            break
    yield from cut(texts, tokenizer, room)


def cut(texts: list[str], tokenizer: Tokenizer, room: int) -> Iterator[Window]:
    """Each text's pieces, `room` at a time."""
    for pieces in tokenizer.encode(texts):
        for begin in range(0, len(pieces.ids), room):
            part = slice(begin, begin + room)
            yield pieces.ids[part].astype(np.int64), pieces.word_starts[part]


def grouped(windows: Iterator[Window]) -> Iterator[list[Window]]:
    """Windows by the thousand. Errors: BertctlError if there is none."""
    group: list[Window] = []
    empty = True
    for window in windows:
        empty = False
        group.append(window)
        if len(group) == WINDOWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
    if empty:
        raise BertctlError("data: the text holds no word, so there is nothing to mask")


class TextScorer:
    """Masks and scores windows of text."""

    def __init__(
        self,
        objective: PretrainingObjective,
        tokenizer: Tokenizer,
        section: EvaluateSection,
        seed: int,
        runtime: Runtime,
    ) -> None:
        self.objective, self.tokenizer, self.seed, self.runtime = objective, tokenizer, seed, runtime
        self.masking, self.batch_size = make_masking(section.masking, tokenizer), section.batch_size
        self.ordinary = np.ones(tokenizer.vocab_size, dtype=bool)
        self.ordinary[sorted(tokenizer.special_ids)] = False  # [UNK] is in texts, and is never masked

    def rows(self, windows: list[Window], *, first: int) -> NDArray[np.float64]:
        """Rows [len(windows), 4] of windows that are numbers `first`, ... of the text: their masks depend on nothing
        but that number and the seed."""
        found = np.zeros((len(windows), 4))
        order = np.argsort([-len(ids) for ids, _ in windows], kind="stable")
        with torch.inference_mode():
            for begin in range(0, len(order), self.batch_size):
                signals.check("scoring masked tokens")
                chosen = order[begin : begin + self.batch_size]
                found[chosen] = self._batch_rows([windows[i] for i in chosen], first + chosen)
        return found

    def _batch_rows(self, windows: list[Window], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        joined = [self.tokenizer.join(ids.tolist()) for ids, _ in windows]
        before = joined[0].starts[0]
        after = self.tokenizer.special_count(1) - before
        columns = {
            "input_ids": [one.ids for one in joined],
            "eligible": [[*[0] * before, *self.ordinary[ids], *[0] * after] for ids, _ in windows],
            "word_starts": [[*[0] * before, *starts, *[0] * after] for _, starts in windows],
        }
        arrays = pad_batch(columns, {"input_ids": self.tokenizer.pad_id}, multiple=1)
        ids = arrays["input_ids"]
        eligible, starts = arrays["eligible"].astype(bool), arrays["word_starts"].astype(bool)
        epochs = np.zeros_like(numbers)
        masked, chosen = mask_tokens(ids, eligible, starts, numbers, epochs, masking=self.masking, seed=self.seed)
        positions = np.flatnonzero(chosen)
        batch = {
            "input_ids": masked,
            "attention_mask": arrays["attention_mask"],
            "masked_positions": positions,
            "labels": ids.reshape(-1)[positions],
        }
        return self.objective.rows(to_tensors(batch), self.runtime)
