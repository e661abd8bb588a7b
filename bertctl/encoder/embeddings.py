"""Token + segment + position embeddings.

Shapes: B batch, T tokens, E hidden size.
"""

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.norms import build_norm
from bertctl.encoder.positions import NoPosition

StandIn = tuple[Tensor, Tensor]
"""Which tokens are hidden [B, T] bool, and the vector [E] that takes the place of their embeddings."""


def stood_in(embedded: Tensor, stand_in: StandIn | None) -> Tensor:
    """[B, T, E] -> the same, before anything is added that says where a token stands."""
    return embedded if stand_in is None else torch.where(stand_in[0].unsqueeze(-1), stand_in[1], embedded)


class Embeddings(nn.Module):
    """Sum of the parts, norm, dropout; projected if factorised. Source: arXiv:1810.04805, figure 2. The first
    Transformer has no norm here and multiplies words by the root of their width (arXiv:1706.03762, section 3.4)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.hidden_size
        self.longest = config.max_position_embeddings
        self.word = nn.Embedding(config.vocab_size, width)
        self.segment = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.scale = width**0.5 if config.scale_embedding else None
        self.norm = build_norm(config, width) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.project = nn.Linear(width, config.hidden_size) if config.embedding_size is not None else None

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor | None,
        position: NoPosition,
        stand_in: StandIn | None = None,
    ) -> Tensor:
        """[B, T] ids -> [B, T, E]; every token belongs to segment 0 without `token_type_ids`, and where there is no
        other segment. Errors: ValueError if T is larger than max_position_embeddings."""
        if input_ids.shape[1] > self.longest:
            raise ValueError(f"{input_ids.shape[1]} tokens, but the encoder has {self.longest}")
        embedded = stood_in(self.word(input_ids), stand_in)
        if self.scale is not None:
            embedded = embedded * self.scale
        if self.segment is not None:
            single = token_type_ids is None or self.segment.num_embeddings == 1
            embedded = embedded + (self.segment.weight[0] if single else self.segment(token_type_ids))
        embedded = self.dropout(self.norm(position.add(embedded)))
        return embedded if self.project is None else self.project(embedded)
