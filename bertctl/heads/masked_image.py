"""The head that draws hidden patches of an image.

Shapes: B batch, C channels, P patches, E hidden size.
"""

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig


class MaskedImageHead(nn.Module):
    """One linear map from a patch's vector to its pixels, and the vector that stands in for what is hidden. Source:
    SimMIM, arXiv:2111.09886, section 3; written as a convolution of width 1 and a pixel shuffle, as in transformers,
    where the vector starts as zeros; it is drawn here, as in SimMIM's own code."""

    drawn = ("mask_token",)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.patch_size = config.patch_size
        self.decoder = nn.Conv2d(config.hidden_size, config.patch_size**2 * config.num_channels, kernel_size=1)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, config.hidden_size))

    def forward(self, hidden: Tensor, grid: tuple[int, int]) -> Tensor:
        """The encoder's output [B, 1 + P, E] for patches in `grid` rows and columns -> pixels [B, C, height, width]."""
        patches = hidden[:, 1:].transpose(1, 2).unflatten(2, grid)
        return nn.functional.pixel_shuffle(self.decoder(patches), self.patch_size)
