"""Neighbouring words mixed by a convolution beside the first layer.

Shapes: B batch, T tokens, E hidden size.
"""

from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.feedforward import ACTIVATIONS
from bertctl.encoder.norms import build_norm


class Convolution(nn.Module):
    """norm(x + act(conv(embeddings))), where x comes from the first layer: words made of several pieces. Source: the
    released code of DeBERTa's second version (its induction layer)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, kernel = config.hidden_size, config.conv_kernel_size
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.act = ACTIVATIONS[config.hidden_act]
        self.norm = build_norm(config, width)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, embedded: Tensor, hidden: Tensor, key_mask: Tensor | None) -> Tensor:
        """Embeddings [B, T, E] and the first layer's output [B, T, E] -> [B, T, E]; padding counts as zeros."""
        if key_mask is not None:
            embedded = embedded * key_mask[..., None]
        mixed = self.conv(embedded.transpose(1, 2)).transpose(1, 2)
        return self.norm(hidden + self.act(self.dropout(mixed)))
