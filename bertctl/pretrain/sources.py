"""What an objective learns from, by its name: tokens in pairs, or images. `run.py` calls nothing else for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bertctl.pretrain.build import build_masked_image, build_objective
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.data import PretrainingData, make_batches, open_data
from bertctl.pretrain.held_out import on_plateau, unigram_entropy
from bertctl.pretrain.images import image_batches, open_images
from bertctl.pretrain.masked_image import on_mean

UNIGRAM = "unigram_entropy"
Scores = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """One row. `open`: section -> data, with `train` readers by name, a `held_out` one, `tokenizer` and `hashes`."""

    open: Callable[[PretrainSection], Any]
    objective: Callable[[PretrainSection, Any, int], Any]
    """(section, data, seed) -> what is trained."""
    batches: Callable[..., Any]
    """(section, data, steps, seed, runtime) -> the micro-batches of every step."""
    floor: Callable[[Any, Any], Scores]
    """(data, batches) -> what is known before training of a model that has learnt nothing of contexts."""
    plateau: Callable[[Scores, Scores], bool]
    """(held-out scores, floor) -> whether the model is no better than that."""


def frequencies(data: PretrainingData, batches: Any) -> Scores:
    """The loss, in nats, of a model that knows how often each token occurs."""
    return {UNIGRAM: unigram_entropy(data.shards, batches.masking.ordinary_ids)}


PAIRS = Source(
    open_data,
    build_objective,
    make_batches,
    frequencies,
    lambda scores, floor: on_plateau(scores["mlm_loss"], floor[UNIGRAM]),
)
IMAGES = Source(open_images, build_masked_image, image_batches, lambda *_: {}, lambda scores, floor: on_mean(scores))
SOURCES: dict[str, Source] = {
    "masked_lm": PAIRS,
    "replaced_token": replace(PAIRS, batches=partial(make_batches, sampled=True)),  # by the generator
    "masked_image": IMAGES,
}
