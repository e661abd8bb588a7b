"""From hidden states to one vector for each text.

Shapes: B batch, T tokens, E hidden size.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.feedforward import ACTIVATIONS


class Pooler(nn.Module):
    """act(W h) of the first token, as BERT (tanh) and DistilBERT's classifier (relu) do it."""

    def __init__(self, hidden_size: int, act: str) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.act = ACTIVATIONS[act]

    def forward(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        """[B, T, E] -> [B, E]."""
        return self.act(self.dense(hidden[:, 0]))


class AttentionPooler(nn.Module):
    """A mean over real tokens with learned weights, softmax(u . tanh(W h)). Source: arXiv:1703.03130, with one row."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.project = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        """[B, T, E] -> [B, E]; a row with no real token gives zeros."""
        scores = self.score(torch.tanh(self.project(hidden))).squeeze(-1).float()
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask.bool(), torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if attention_mask is not None:
            weights = weights * attention_mask
        return torch.einsum("bt,bte->be", weights.to(hidden.dtype), hidden)


def mean_pool(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Mean over real tokens. Shapes: hidden [B, T, E], attention_mask [B, T] or None; returns [B, E]; a row with no
    real token gives zeros. Source: Sentence-BERT, arXiv:1908.10084."""
    if attention_mask is None:
        return hidden.mean(dim=1)
    weights = attention_mask.to(hidden.dtype).unsqueeze(-1)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def first_token(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """The vector of [CLS]. Shapes: [B, T, E] -> [B, E]."""
    return hidden[:, 0]


def max_pool(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Largest value over real tokens, for each of the E places. Shapes: as `mean_pool`."""
    if attention_mask is None:
        return hidden.amax(dim=1)
    real = attention_mask.bool()
    largest = hidden.masked_fill(~real.unsqueeze(-1), float("-inf")).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1, keepdim=True), 0.0)


def build_pooler(config: EncoderConfig) -> nn.Module | None:
    """The pooling's own layer, if it has one."""
    if config.pooling == "cls":
        return None if config.label_transform else Pooler(config.hidden_size, config.pooler_act)
    return AttentionPooler(config.hidden_size) if config.pooling == "attention" else None


POOLINGS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "mean": mean_pool,
    "cls": first_token,
    "max": max_pool,
}
