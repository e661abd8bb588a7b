"""One layer of the encoder.

Shapes: B batch, T tokens, E hidden size.
"""

from torch import Tensor, nn

from bertctl.encoder.attention import Attention, at_places
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.feedforward import FeedForward
from bertctl.encoder.norms import build_norm
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.positions import NoPosition
from bertctl.encoder.unpadding import Packing


class Block(nn.Module):
    """Attention and feed-forward, each with a residual. Norm after the sum (post, arXiv:1810.04805) or before the
    part (pre, arXiv:2002.04745), which trains deep stacks without a long warm-up."""

    def __init__(self, config: EncoderConfig, *, first: bool = False) -> None:
        super().__init__()
        self.pre = config.norm_place == "pre"
        self.attention = Attention(
            config.hidden_size, config.num_attention_heads, config.attention_probs_dropout_prob, config.use_bias
        )
        skip = first and config.skip_first_norm
        self.attention_norm = nn.Identity() if skip else build_norm(config, config.hidden_size)
        self.feed_forward = FeedForward(
            config.hidden_size,
            config.intermediate_size,
            config.hidden_act,
            config.feed_forward == "glu",
            config.use_bias,
        )
        self.feed_forward_norm = build_norm(config, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        hidden: Tensor,
        key_mask: Tensor | None,
        position: NoPosition,
        pattern: Pattern,
        want_weights: bool = False,
        places: Tensor | None = None,
        packing: Packing | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """[B, T, E] -> ([B, T, E], or [N, E] for `places` [N] of the flattened tokens; attention weights if asked
        for). `packing` as in `Attention`."""
        attended = self.attention_norm(hidden) if self.pre else hidden
        mixed, weights = self.attention(attended, key_mask, position, pattern, want_weights, places, packing)
        hidden = at_places(hidden, places) + self.dropout(mixed)
        if self.pre:
            return hidden + self.dropout(self.feed_forward(self.feed_forward_norm(hidden))), weights
        hidden = self.attention_norm(hidden)
        return self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden))), weights
