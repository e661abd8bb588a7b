"""From hidden states to one vector for each text.

Shapes: B batch, T tokens, E hidden size.
"""

from collections.abc import Callable

from torch import Tensor, nn

from bertctl.encoder.feedforward import ACTIVATIONS


class Pooler(nn.Module):
    """act(W h) of the first token, as BERT (tanh) and DistilBERT's classifier (relu) do it."""

    def __init__(self, hidden_size: int, act: str) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.act = ACTIVATIONS[act]

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, T, E] -> [B, E]."""
        return self.act(self.dense(hidden[:, 0]))


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


POOLINGS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "mean": mean_pool,
    "cls": first_token,
    "max": max_pool,
}
