"""What a query may look at, and how its scores are changed: what every attention kernel takes besides q, k and v.

Shapes: B batch, T tokens.
"""

from dataclasses import dataclass

from torch import Tensor

from bertctl.encoder.patterns import Pattern
from bertctl.encoder.relative import ScoreBias


@dataclass(frozen=True, slots=True)
class Scope:
    """key_mask [B, T], True = real token, None = all real; the pattern of this layer; what is added to scores, if
    anything; and the dropout of the weights."""

    key_mask: Tensor | None
    pattern: Pattern
    score_bias: ScoreBias | None = None
    dropout: float = 0.0
