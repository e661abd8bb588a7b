"""Normalisation over the last dimension."""

from torch import nn

from bertctl.encoder.config import EncoderConfig


def build_norm(config: EncoderConfig, width: int) -> nn.Module:
    """LayerNorm (arXiv:1607.06450) or RMSNorm (arXiv:1910.07467) over `width` features."""
    if config.norm == "rms":
        return nn.RMSNorm(width, eps=config.layer_norm_eps)
    return nn.LayerNorm(width, eps=config.layer_norm_eps, bias=config.use_bias)
