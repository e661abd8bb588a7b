"""The objective of hidden patches: draw their pixels, and be as near as can be, by absolute difference.

Source: SimMIM, arXiv:2111.09886, section 3.4; the loss is that of transformers' ViTForMaskedImageModeling.
Shapes: B batch, C channels, P patches.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from bertctl.console import warn
from bertctl.heads.model import Model
from bertctl.pretrain.held_out import PLATEAU_SHARE
from bertctl.training.batching import Batch
from bertctl.training.runtime import Runtime

HEAD = "masked_image"


class MaskedImageObjective(nn.Module):
    """Summed absolute differences of hidden pixels, divided by how many numbers these are, channels apart."""

    columns = ("pixel_loss", "mean_loss", "values")

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.beside: dict[str, Model] = {}
        self.weights = {HEAD: 1.0}

    @property
    def stored(self) -> nn.Module:
        """What a checkpoint holds."""
        return self.model

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """The numbers that hidden patches hold."""
        config = self.model.config
        return {HEAD: batch["bool_masked_pos"].sum() * config.patch_size**2 * config.num_channels}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Summed loss of a batch of `ImageBatches`."""
        drawn = self.model.masked_pixels(batch["pixel_values"], batch["bool_masked_pos"])
        return {HEAD: ((drawn.float() - batch["pixel_values"]).abs() * self.hidden_pixels(batch)).sum()}

    def hidden_pixels(self, batch: Batch) -> Tensor:
        """[B, 1, height, width]: which pixels are hidden."""
        side = self.model.config.patch_size
        rows, columns = (length // side for length in batch["pixel_values"].shape[2:])
        mask = batch["bool_masked_pos"].unflatten(1, (rows, columns))
        return mask.repeat_interleave(side, 1).repeat_interleave(side, 2).unsqueeze(1)

    def rows(self, batch: Batch, runtime: Runtime) -> NDArray[np.float64]:
        """For each of the B images, [B, 3]: summed differences of hidden pixels to what is drawn and to the mean of the
        image's visible ones, channel by channel, and how many numbers these are."""
        batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
        with runtime.autocast():
            drawn = self.model.masked_pixels(batch["pixel_values"], batch["bool_masked_pos"]).float()
        pixels, mask = batch["pixel_values"], self.hidden_pixels(batch)
        visible = (pixels * ~mask).sum(dim=(2, 3), keepdim=True) / (~mask).sum(dim=(2, 3), keepdim=True)
        sums = [((guess - pixels).abs() * mask).double().sum(dim=(1, 2, 3)) for guess in (drawn, visible)]
        values = mask.sum(dim=(1, 2, 3)) * pixels.shape[1]
        return np.stack([column.double().cpu().numpy() for column in (*sums, values)], axis=1)

    def summary(self, sums: Mapping[str, float], examples: int) -> dict[str, Any]:
        """Mean absolute difference of a hidden number, in units of the normalised image, and that of a guess which
        draws the mean of what is visible."""
        values = max(sums["values"], 1)
        return {
            "masked_pixels": int(sums["values"]) // self.model.config.num_channels,
            "masked_pixel_loss": sums["pixel_loss"] / values,
            "visible_mean_loss": sums["mean_loss"] / values,
        }


def on_mean(scores: Mapping[str, float]) -> bool:
    """Warn, and say True, if the loss is that of drawing the mean of the visible pixels."""
    loss, mean = scores["masked_pixel_loss"], scores["visible_mean_loss"]
    stuck = loss > PLATEAU_SHARE * mean
    if stuck:
        warn(
            f"held-out loss {loss:.4f} is no better than drawing the mean of the visible pixels ({mean:.4f}): usual "
            "causes are too few steps, or a rate too high or too low"
        )
    return stuck
