"""One layer of the encoder.

Shapes: B batch, T tokens, E hidden size.
"""

from torch import Tensor, nn

from bertctl.encoder.attention import Attention
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.feedforward import FeedForward
from bertctl.encoder.norms import build_norm
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.positions import NoPosition


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
    ) -> tuple[Tensor, Tensor | None]:
        """[B, T, E] -> ([B, T, E], attention weights if asked for)."""
        if self.pre:
            mixed, weights = self.attention(self.attention_norm(hidden), key_mask, position, pattern, want_weights)
            hidden = hidden + self.dropout(mixed)
            return hidden + self.dropout(self.feed_forward(self.feed_forward_norm(hidden))), weights
        mixed, weights = self.attention(hidden, key_mask, position, pattern, want_weights)
        hidden = self.attention_norm(hidden + self.dropout(mixed))
        return self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden))), weights
