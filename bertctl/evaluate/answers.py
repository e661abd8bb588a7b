"""What a model says about a group of inputs: labels, tokens for masks, or vectors.

Shapes: B batch, T tokens, E hidden size, N masks, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertctl import signals
from bertctl.encoder.encoder import EncoderOutput
from bertctl.evaluate.inputs import Record
from bertctl.heads.model import Model
from bertctl.tasks.batches import collate
from bertctl.tasks.config import DataSection
from bertctl.tasks.predicting import feature_logits
from bertctl.tasks.task import Features, Limits, Task, TextExample
from bertctl.tasks.text_windows import encode_windows, mean_over_windows
from bertctl.tasks.texts import encode_texts, fit, framed, refuse_other_texts
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.words import word_places
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

Answer = dict[str, Any]
DECIMALS = 8  # float32 has no more
TINY = 1e-12


@dataclass
class Answerer(ABC):
    """Answers records with a model, a group at a time."""

    model: Model
    tokenizer: Tokenizer
    limits: Limits
    batch_size: int
    runtime: Runtime

    @abstractmethod
    def answers(self, records: Sequence[Record]) -> list[Answer]:
        """One answer a record, in order."""

    def encode(self, records: Sequence[Record]) -> list[Features]:
        """[CLS] text [SEP], with a second text as a pair."""
        examples = [TextExample(*padded_pair(record.texts()), None, record.where) for record in records]
        return encode_texts(examples, self.tokenizer, self.limits.max_length)

    def batches(self, features: Sequence[Features]) -> Iterator[tuple[list[int], Batch, EncoderOutput]]:
        """(places, batch, the encoder's output) for batches of like length."""
        order = sorted(range(len(features)), key=lambda i: -len(features[i].input_ids))
        for begin in range(0, len(order), self.batch_size):
            signals.check("predicting")
            places = order[begin : begin + self.batch_size]
            batch = collate([features[i] for i in places], self.model, self.tokenizer.pad_id)
            batch = {name: tensor.to(self.runtime.device) for name, tensor in batch.items()}
            with torch.inference_mode(), self.runtime.autocast():
                output = self.model(batch["input_ids"], batch.get("attention_mask"), batch.get("token_type_ids"))
                yield places, batch, output


def padded_pair(texts: tuple[str, ...]) -> tuple[str, str | None]:
    """A text and its pair, None if there is none."""
    return texts[0], texts[1] if len(texts) > 1 else None


def note_cut(answer: Answer, features: Sequence[Features]) -> Answer:
    """Say in an answer that its text was cut."""
    pieces, cut = sum(f.pieces for f in features), sum(f.cut for f in features)
    return answer | {"truncated": True, "pieces": pieces, "pieces_kept": pieces - cut} if cut else answer


@dataclass
class Embeddings(Answerer):
    """{"embedding": [E numbers]}: one vector a text, pooled over its real tokens, [CLS] and [SEP] among them; of a text
    in windows their mean. `prefix` is put before every text.

    Source: Sentence-BERT, arXiv:1908.10084.
    """

    normalize: bool
    prefix: str

    def encode(self, records: Sequence[Record]) -> list[Features]:
        """Several features a record, if long texts are read in windows."""
        texts = [tuple(self.prefix + text for text in record.texts()) for record in records]
        examples = [TextExample(*padded_pair(text), None, r.where) for text, r in zip(texts, records, strict=True)]
        if self.limits.windows:
            return encode_windows(examples, self.tokenizer, self.limits)
        return encode_texts(examples, self.tokenizer, self.limits.max_length)

    def answers(self, records: Sequence[Record]) -> list[Answer]:
        features = self.encode(records)
        rows = np.zeros((len(features), self.model.outputs("embedding")))
        for places, _, output in self.batches(features):
            rows[places] = self.model.logits("embedding", output).float().cpu().numpy()
        vectors = mean_over_windows(len(records), features, list(rows))
        if self.normalize:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=TINY)
        own: list[list[Features]] = [[] for _ in records]
        for feature in features:
            own[feature.example].append(feature)
        found = vectors.round(DECIMALS).tolist()
        return [note_cut({"embedding": row}, windows) for row, windows in zip(found, own, strict=True)]


@dataclass
class MaskedTokens(Answerer):
    """{"masks": [...]}: for each [MASK] of the text the most probable pieces; null for one that was cut off."""

    top_k: int

    def encode(self, records: Sequence[Record]) -> list[Features]:
        """As for embeddings, but a literal [MASK] is the mask token."""
        return [self._features(record, place) for place, record in enumerate(records)]

    def _features(self, record: Record, place: int) -> Features:
        full = [pieces.ids.tolist() for pieces in self.tokenizer.encode(record.texts(), allow_special=True)]
        parts = fit(full, self.limits.max_length - self.tokenizer.special_count(len(full)))
        features = Features(*framed(parts, self.tokenizer), None, place, sum(map(len, full)))
        features.cut = features.pieces - sum(map(len, parts))
        features.words = [sum(part.count(self.tokenizer.mask_id) for part in full)]
        return features

    def answers(self, records: Sequence[Record]) -> list[Answer]:
        features = self.encode(records)
        masks: list[list[Any]] = [[] for _ in features]
        for places, batch, output in self.batches(features):
            positions = (batch["input_ids"] == self.tokenizer.mask_id).flatten().nonzero().squeeze(-1)
            width = batch["input_ids"].shape[1]
            for position, best in zip(positions.tolist(), self._best(output, positions), strict=True):
                masks[places[position // width]].append(best)
        return [
            note_cut({"masks": found + [None] * (feature.words[0] - len(found))}, [feature])
            for found, feature in zip(masks, features, strict=True)
        ]

    def _best(self, output: EncoderOutput, positions: Tensor) -> list[list[Answer]]:
        """The top_k pieces of each mask [N]."""
        if not len(positions):
            return []
        shares = self.model.masked_logits(output, positions).float().softmax(dim=-1)
        shares = shares[:, : self.tokenizer.vocab_size]  # the matrix may be padded to a round number of rows
        top = shares.topk(min(self.top_k, shares.shape[1]))
        return [
            [
                {"token": self.tokenizer.tokens[token], "probability": round(share, DECIMALS)}
                for share, token in zip(row_shares, row_tokens, strict=True)
            ]
            for row_shares, row_tokens in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]


@dataclass
class TaskLabels(Answerer):
    """The task's own predictions. A text to be labelled word by word is parted as BERT parts it, at blanks and around
    punctuation, and each word says where it stands; `tokens` of an object are taken as they are. `noted` is what the
    checkpoint `source` keeps of how its task reads texts."""

    task: Task
    labels: list[str]
    settings: dict[str, Any]
    noted: Mapping[str, Any]
    source: str

    def answers(self, records: Sequence[Record]) -> list[Answer]:
        spans = [self._spans(record) if self.task.head == "token" else None for record in records]
        examples = [self._example(record, found) for record, found in zip(records, spans, strict=True)]
        refuse_other_texts(examples, self.noted, self.source)
        features = self.task.encode(examples, self.tokenizer, self.labels, self.limits)
        logits = feature_logits(
            self.model,
            self.task.head,
            features,
            pad_id=self.tokenizer.pad_id,
            batch_size=self.batch_size,
            runtime=self.runtime,
        )
        made = self.task.predictions(examples, features, logits, self.labels, self.settings)
        by_example: list[list[Features]] = [[] for _ in examples]
        for feature in features:
            by_example[feature.example].append(feature)
        return [
            note_cut(with_offsets(answer, record, found), own)
            for answer, record, found, own in zip(made, records, spans, by_example, strict=True)
        ]

    def _spans(self, record: Record) -> list[tuple[int, int]] | None:
        """(start, end) of every word of a text, in code points; None for a record that has its words already."""
        if not isinstance(record.value, str) and "text" not in record.value:
            return None
        return word_places([record.texts()[0]])[0]

    def _example(self, record: Record, spans: list[tuple[int, int]] | None) -> Any:
        if spans is None:
            return self.task.input(record.value, DataSection(), record.where)
        text = record.texts()[0]
        return self.task.input({"tokens": [text[start:end] for start, end in spans]}, DataSection(), record.where)


def with_offsets(answer: Answer, record: Record, spans: list[tuple[int, int]] | None) -> Answer:
    """Say of every word, and of every entity, where it stands in the text."""
    if spans is None:
        return answer
    text = record.texts()[0]
    for entity in answer.get("entities", []):
        start, end = spans[entity["start"]][0], spans[entity["stop"] - 1][1]
        entity |= {"text": text[start:end], "start_offset": start, "end_offset": end}
    return answer | {"offsets": [list(span) for span in spans]}
