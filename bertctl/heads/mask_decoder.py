"""DeBERTa's enhanced mask decoder: absolute places join in just before masked tokens are predicted.

Shapes: B batch, T tokens, E hidden size.
"""

from torch import Tensor, nn

from bertctl.encoder.block import Block
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder, EncoderOutput
from bertctl.encoder.kernels import attend
from bertctl.encoder.scope import Scope

STEPS = 2


class MaskDecoder(nn.Module):
    """The encoder's last layer, used twice: it is asked with the states before it plus a trained vector for each place,
    then with its own answer, and looks at the states before it both times. Only the table of places is new.

    Source: arXiv:2006.03654, section 3.2, and the released code (github.com/microsoft/DeBERTa,
    apps/models/masked_language_model.py); the paper's I is the sum, its n is 2. Encoders are released without it.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, encoder: Encoder, output: EncoderOutput) -> Tensor:
        """States [B, T, E] from which masked tokens are predicted, of an `output` with its hidden_states."""
        assert output.hidden_states is not None  # Model asks for them
        layer, before = encoder.layers[-1], output.hidden_states[-2]
        assert isinstance(layer, Block)
        states = before + self.table.weight[: before.shape[1]]
        for _ in range(STEPS):
            states = asked(layer, encoder, states, before, output.attention_mask)
        return states


def asked(layer: Block, encoder: Encoder, states: Tensor, before: Tensor, key_mask: Tensor | None) -> Tensor:
    """The encoder's last layer, norms after the sums, with queries and residuals of `states`, keys and values of
    `before`, both [B, T, E]."""
    attention, pattern = layer.attention, encoder.patterns[-1]
    q, k = encoder.position.rotate(attention.queries(states), attention.keys(before), pattern.is_local)
    v = attention.value(before).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
    score_bias = encoder.position.score_bias(attention.queries, attention.keys)
    scope = Scope(key_mask, pattern, score_bias, attention.dropout if layer.training else 0.0)
    context = attend(q, k, v, scope)
    mixed = attention.output(context.transpose(1, 2).flatten(2))
    hidden = layer.attention_norm(states + layer.dropout(mixed))
    return layer.feed_forward_norm(hidden + layer.dropout(layer.feed_forward(hidden)))
