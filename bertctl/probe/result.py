"""What goes into a probe and what comes out of it.

Shapes: N rows (words, texts or images), E hidden size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bertctl.probe.config import ProbeSection
from bertctl.probe.extract import States
from bertctl.probe.words import Words

SPLITS = ("train", "dev", "test")

Row = Mapping[str, float | None]


@dataclass(frozen=True)
class HeadAttention:
    """How each head of one block attends, the mean over real tokens as queries. Entropy in nats, and as a share of the
    largest that the number of real keys allows (None if no query has two keys); of images also how far patches look, in
    pixels, and what share of the class token's attention each patch has, as rows of patches."""

    nats: list[float]
    normalised: list[float | None]
    pixels: list[float | None] | None = None
    class_token: list[list[list[float]]] | None = None


@dataclass(frozen=True)
class Layer:
    """One layer as probes see it: the states [N, E] and the words of each split, and how its heads attend."""

    number: int
    states: Mapping[str, States]
    words: Mapping[str, Words]
    labels: list[str]
    attention: HeadAttention | None
    """None for layer 0, which has no heads."""
    section: ProbeSection
    seed: int


@dataclass(frozen=True)
class ProbeResult:
    """What one probe found in one layer: numbers for the layer's row (None: undefined), and anything more."""

    values: Row
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able; appended to the list of this name in the result."""


Probe = Callable[[Layer, Row], ProbeResult]
"""(layer, the numbers that the probes before it found in this layer) -> what it found."""
