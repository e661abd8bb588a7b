"""The heads, and the table that names them.

Shapes: N rows, B batch, T tokens, E hidden size, V vocabulary, C labels.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout
from bertctl.encoder.feedforward import ACTIVATIONS
from bertctl.encoder.norms import build_norm
from bertctl.heads.masked_image import MaskedImageHead
from bertctl.heads.vocabulary_loss import vocabulary_loss


class MaskedLMHead(nn.Module):
    """norm(act(W h)), then scores against the word embeddings and a bias. Source: arXiv:1810.04805 and its released
    code, where the output matrix is the embedding matrix; so it is passed in and not stored twice."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_size or config.hidden_size
        self.transform = nn.Linear(config.hidden_size, width, bias=config.use_bias)
        self.act = ACTIVATIONS[config.hidden_act]
        self.norm = build_norm(config, width)
        self.bias = nn.Parameter(nn.init.zeros_(self.transform.weight.new_empty(config.vocab_size)))

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden [N, E] of the positions to predict, word_embeddings [V, E]; returns logits [N, V]."""
        return nn.functional.linear(self._query(hidden), word_embeddings, self.bias)

    def loss(self, hidden: Tensor, word_embeddings: Tensor, labels: Tensor) -> Tensor:
        """The summed cross-entropy of the logits for labels [N], which are never in memory all at once."""
        return vocabulary_loss(self._query(hidden), word_embeddings, self.bias, labels)

    def _query(self, hidden: Tensor) -> Tensor:
        """[N, E] -> [N, E], what is compared with the word embeddings."""
        return self.norm(self.act(self.transform(hidden)))


class Transform(nn.Module):
    """norm(act(W h)). Source: the prediction head of ModernBERT's released code, arXiv:2412.13663."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.use_bias)
        self.act = ACTIVATIONS[config.hidden_act]
        self.norm = build_norm(config, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., E] -> [..., E]."""
        return self.norm(self.act(self.dense(hidden)))


class LabelHead(nn.Module):
    """Dropout and one linear layer: for pooled vectors [B, E] or for every token [B, T, E]; after a `Transform` if the
    config has `label_transform`."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__()
        self.transform = Transform(config) if config.label_transform else nn.Identity()
        self.dropout: nn.Module = Dropout(config.hidden_dropout_prob)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., E] -> [..., C]."""
        return self.output(self.dropout(self.transform(hidden)))


class PlainHead(LabelHead):
    """As `LabelHead`, without dropout: BERT has none for sentence pairs and for the ends of an answer."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__(config, num_labels)
        self.dropout = nn.Identity()


class ReplacedTokenHead(nn.Module):
    """w . act(W h) for every token: was it replaced? Source: ELECTRA, arXiv:2003.10555, and its released code."""

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.act = ACTIVATIONS[config.hidden_act]
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., E] -> [..., 1]: logits of having been replaced."""
        return self.output(self.act(self.dense(hidden)))


class EmbeddingHead(nn.Module):
    """A text's vector: as pooled, or projected to `size`, with an activation in some models of other makers."""

    def __init__(self, config: EncoderConfig, size: int | None = None) -> None:
        super().__init__()
        self.output = nn.Linear(config.hidden_size, size) if size else nn.Identity()
        self.act = "identity"

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, E] -> [B, E] or [B, size]."""
        projected = self.output(hidden)
        return projected if self.act == "identity" else ACTIVATIONS[self.act](projected)


@dataclass(frozen=True)
class HeadKind:
    """What a head reads and which class it is; `reads` masked = the rows chosen for prediction, vector = a text as the
    pooling gives it, pooled = the same, for `cls` through a dense layer, patches = an image's, with their grid."""

    reads: Literal["masked", "pooled", "vector", "tokens", "patches"]
    build: type[nn.Module]


HEADS: dict[str, HeadKind] = {
    "masked_lm": HeadKind("masked", MaskedLMHead),
    "sentence_pair": HeadKind("pooled", PlainHead),
    "replaced_token": HeadKind("tokens", ReplacedTokenHead),
    "sequence": HeadKind("pooled", LabelHead),
    "token": HeadKind("tokens", LabelHead),
    "span": HeadKind("tokens", PlainHead),
    "choice": HeadKind("pooled", LabelHead),
    "embedding": HeadKind("vector", EmbeddingHead),
    "image": HeadKind("vector", PlainHead),
    "masked_image": HeadKind("patches", MaskedImageHead),
}
