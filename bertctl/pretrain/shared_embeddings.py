"""What a generator and the encoder that it feeds have in common.

`shared`: one table of words, segments and learned positions, with the norm after them, learns from both losses
(ELECTRA, arXiv:2003.10555, section 3.2). `disentangled`: the two losses pull words in opposite directions, so the
encoder reads the generator's words without teaching them, plus a table of its own (DeBERTa-v3, arXiv:2111.09543,
section 3.3).
Shapes: B batch, T tokens, V vocabulary, E width of the embeddings.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertctl.encoder.positions import LearnedPosition
from bertctl.heads.model import Model


def share(generator: Model, model: Model) -> None:
    """Give the generator the model's tables of words, segments and learned positions, and the norm after them."""
    for part in ("word", "segment", "norm"):
        setattr(generator.encoder.embeddings, part, getattr(model.encoder.embeddings, part))
    theirs, ours = generator.encoder.position, model.encoder.position
    if isinstance(theirs, LearnedPosition) and isinstance(ours, LearnedPosition):
        theirs.table = ours.table


def disentangle(generator: Model, model: Model) -> None:
    """Put the generator's words, without a gradient to them, and the difference to the model's own in place of these:
    the model computes what it did."""
    embeddings = model.encoder.embeddings
    words = WordsOnTop(generator.encoder.embeddings.word, embeddings.word.weight.detach())
    embeddings.word = words  # no nn.Embedding, but called and read like one


class WordsOnTop(nn.Module):
    """Word embeddings that are those of another model plus an own table, which alone is trained here."""

    def __init__(self, base: nn.Embedding, words: Tensor) -> None:
        super().__init__()
        self._base = (base,)  # in a tuple: it is the other model's, which trains and saves it
        self.own = nn.Parameter(words - base.weight.detach())

    @property
    def weight(self) -> Tensor:
        """[V, E]."""
        return self._base[0].weight.detach() + self.own

    def forward(self, input_ids: Tensor) -> Tensor:
        """[B, T] ids -> [B, T, E]."""
        return F.embedding(input_ids, self._base[0].weight.detach()) + F.embedding(input_ids, self.own)


@torch.no_grad()
def settle(model: Model) -> Model:
    """The model with one plain table of words again, as it is saved; it no longer follows its generator."""
    embeddings = model.encoder.embeddings
    if isinstance(getattr(embeddings, "word", None), WordsOnTop):  # an encoder of images has no words
        embeddings.word = nn.Embedding.from_pretrained(embeddings.word.weight, freeze=False)
    return model


SHARINGS: dict[str, Callable[[Model, Model], None]] = {"shared": share, "disentangled": disentangle}
