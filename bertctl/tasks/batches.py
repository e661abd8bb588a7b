"""From features to what the model reads: batches of like length.

Shapes: B batch, T tokens, C labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertctl.heads.model import Model
from bertctl.tasks.task import IGNORED, Features
from bertctl.training.batching import Batch, bucketed_epoch, inputs_of, pad_batch, rank_share, to_tensors
from bertctl.training.runtime import Runtime

WIDTH_MULTIPLE = 8
BUCKET_BATCHES = 50  # batches whose items are sorted by length together


def collate(features: Sequence[Features], model: Model, pad_id: int) -> Batch:
    """One batch: input_ids, attention_mask, token_type_ids [B, T], or of images `image_arrays`; labels [B] or [B, T]
    int64, or [B] or [B, C] float32, if the features have them; `groups` [B], the number of a row's example within the
    batch, and its `roles`.

    No wider than `model` reads. Segments are there for any model: one without them may have a teacher that has them.
    """
    columns: dict[str, list[Any]] = {
        "input_ids": [f.input_ids for f in features],
        "token_type_ids": [f.token_type_ids for f in features],
    }
    labels = [f.labels for f in features]
    per_token = all(isinstance(row, list) and isinstance(row[0], int) for row in labels)
    if per_token:
        columns["labels"] = labels
    longest = max(len(f.input_ids) for f in features)
    fits = -(-longest // WIDTH_MULTIPLE) * WIDTH_MULTIPLE <= model.config.max_position_embeddings
    if model.config.image_size:
        arrays = image_arrays([f.pixels() for f in features if f.pixels is not None], model.config.patch_size)
    else:
        arrays = pad_batch(columns, {"input_ids": pad_id, "labels": IGNORED}, multiple=WIDTH_MULTIPLE if fits else 1)
    if not per_token and None not in labels:
        arrays["labels"] = np.array(labels, dtype=np.int64 if isinstance(labels[0], int) else np.float32)
    arrays["groups"] = np.cumsum([0, *(a.example != b.example for a, b in pairwise(features))])
    arrays["roles"] = np.array([f.role for f in features])
    return to_tensors(arrays)


def token_counts(features: Sequence[Features], model: Model) -> list[int]:
    """Tokens of each input: word pieces, or patches and the class token of images, which are all as large. Errors:
    BertctlError if an image broke since it was checked."""
    if not features or features[0].pixels is None:
        return [len(feature.input_ids) for feature in features]
    return [model.encoder.tokens_of(torch.from_numpy(features[0].pixels()[None]))] * len(features)


def image_arrays(images: Sequence[NDArray[np.float32]], patch_size: int) -> dict[str, NDArray[Any]]:
    """pixel_values [B, channels, height, width], and how many tokens they are: patches, and a class token each."""
    pixels = np.stack(images)
    patches = (pixels.shape[2] // patch_size) * (pixels.shape[3] // patch_size)
    return {"pixel_values": pixels, "tokens": np.array(len(pixels) * (patches + 1))}


@dataclass
class TrainingBatches:
    """The micro-batches of any step, for one rank: a pure function of the step. Every epoch holds every item once,
    in batches of like length, so that little is computed for padding; its last batch may be short.

    An item is a feature, or if `grouped` all features of an example. Without `alike` the items of a batch are any:
    where they are compared with each other, it matters which ones come together.
    """

    features: Sequence[Features]
    model: Model
    pad_id: int
    batch_size: int
    micro_batch_size: int | None
    seed: int
    runtime: Runtime
    grouped: bool = False
    alike: bool = True
    items: list[list[Features]] = field(init=False)
    _epoch: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    def __post_init__(self) -> None:
        self.items = items_of(self.features) if self.grouped else [[feature] for feature in self.features]

    @property
    def steps_in_epoch(self) -> int:
        """Batches of one epoch."""
        return -(-len(self.items) // self.batch_size)

    def __call__(self, step: int) -> list[Batch]:
        """The micro-batches of `step` (the first is 1)."""
        epoch, place = divmod(step - 1, self.steps_in_epoch)
        if self._epoch[0] != epoch:
            lengths = np.array([max(len(f.input_ids) for f in item) for item in self.items], dtype=np.int64)
            window = BUCKET_BATCHES if self.alike else 1
            self._epoch = epoch, bucketed_epoch(lengths, self.batch_size, seed=self.seed, epoch=epoch, window=window)
        ids = self._epoch[1][place]
        rank, world_size, micro = self.runtime.rank, self.runtime.world_size, self.micro_batch_size
        shares = rank_share(ids, rank=rank, world_size=world_size, micro_batch_size=micro)
        return [self._batch(ids[share]) if len(ids[share]) else self._nothing(ids[:1]) for share in shares]

    def _batch(self, ids: NDArray[np.int64]) -> Batch:
        return collate([feature for i in ids for feature in self.items[i]], self.model, self.pad_id)

    def _nothing(self, ids: NDArray[np.int64]) -> Batch:
        """A batch without a label and without a real token, which some losses are divided by, for a rank that a short
        batch leaves without an example: ranks must keep step."""
        batch = self._batch(ids)
        inputs = inputs_of(batch)
        batch["attention_mask"] = torch.zeros(len(inputs), self.model.encoder.tokens_of(inputs), dtype=torch.bool)
        if "tokens" in batch:
            batch["tokens"] = torch.zeros_like(batch["tokens"])
        if "labels" in batch:
            empty = float("nan") if batch["labels"].is_floating_point() else IGNORED
            batch["labels"] = torch.full_like(batch["labels"], empty)
        return batch


def items_of(features: Sequence[Features]) -> list[list[Features]]:
    """The features of each example, which stand next to each other, together."""
    items: list[list[Features]] = []
    for last, feature in zip([None, *features], features, strict=False):
        if last is not None and last.example == feature.example:
            items[-1].append(feature)
        else:
            items.append([feature])
    return items
