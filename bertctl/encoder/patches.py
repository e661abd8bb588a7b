"""Patches of an image in place of tokens.

Shapes: B batch, C channels, P patches, E hidden size.
"""

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.embeddings import StandIn, stood_in
from bertctl.encoder.norms import build_norm
from bertctl.encoder.positions import NoPosition


class PatchEmbeddings(nn.Module):
    """One linear map of every patch's pixels, a class token in front, positions, dropout. Source: arXiv:2010.11929,
    section 3.1. The map is a convolution whose stride is its width; what does not fill a patch at the right and lower
    border is not seen."""

    drawn = ("cls_token",)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.channels, self.patch_size = config.num_channels, config.patch_size
        self.most = None if config.position == "grid" else config.max_position_embeddings
        self.patches = nn.Conv2d(self.channels, config.hidden_size, self.patch_size, stride=self.patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.hidden_size))
        self.norm = build_norm(config, config.hidden_size) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        pixel_values: Tensor,
        token_type_ids: Tensor | None,
        position: NoPosition,
        stand_in: StandIn | None = None,
    ) -> Tensor:
        """[B, C, height, width] -> [B, 1 + P, E], patches row by row; the places of `stand_in` are [B, P]. Images have
        no segments.

        Errors: ValueError for other channels, images smaller than a patch, and more patches than there are positions.
        """
        channels, height, width = pixel_values.shape[1:]
        if channels != self.channels or min(height, width) < self.patch_size:
            got = f"{channels} channels of {height} x {width} pixels"
            raise ValueError(f"{got}, but the encoder reads {self.channels} in patches of {self.patch_size}")
        patches = self.patches(pixel_values)
        embedded = stood_in(patches.flatten(2).transpose(1, 2), stand_in)
        if self.most is not None and embedded.shape[1] >= self.most:
            raise ValueError(f"{embedded.shape[1]} patches, but the encoder has positions for {self.most - 1}")
        embedded = torch.cat((self.cls_token.expand(len(embedded), -1, -1), embedded), dim=1)
        return self.dropout(self.norm(position.add_on_grid(embedded, (patches.shape[2], patches.shape[3]))))
