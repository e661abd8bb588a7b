"""More rows for the word embeddings: for tokens that were added to the vocabulary, and up to a round number.

Shapes: V rows, E width of the embeddings, W tokens of the vocabulary, n new ones.
"""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from bertctl.heads.model import Model

WORDS, BIAS = "encoder.embeddings.word.weight", "heads.masked_lm.bias"
NEVER = -1e4  # a logit whose probability is 0 in any precision, with gradient 0; -inf would make NaN of 0 x -inf


def rounded_up(vocab_size: int, multiple: int) -> int:
    """The rows for a vocabulary, a multiple of `multiple`."""
    return -(-vocab_size // multiple) * multiple


def extended(model: Model, pieces: Sequence[Sequence[int]], *, used: int, rows: int) -> Model:
    """The model with `rows` rows, of which the first `used` are as before and the next n = len(pieces) start as the
    means of the rows `pieces[i]`, in the output bias too; the others are `never_predicted`.

    Errors: ValueError if that many do not fit.
    """
    if used + len(pieces) > rows or used > model.config.vocab_size:
        raise ValueError(f"got {rows} rows for {used} tokens of {model.config.vocab_size} and {len(pieces)} new ones")
    config = dataclasses.replace(model.config, vocab_size=rows)
    larger = Model(config, model.head_outputs, pooler=model.pooler is not None, drawn=False)
    state = model.state_dict()
    for name in (WORDS, BIAS):
        if name in state:
            state[name] = _grown(state[name], pieces, used, rows)
    larger.load_state_dict(state)
    never_predicted(larger, used + len(pieces))
    return larger


def _grown(old: Tensor, pieces: Sequence[Sequence[int]], used: int, rows: int) -> Tensor:
    means = [old[torch.tensor(ids)].mean(dim=0) for ids in pieces]
    known = torch.stack([*old[:used], *means])
    return torch.cat([known, known.new_zeros(rows - len(known), *old.shape[1:])])


def never_predicted(model: Model, vocab_size: int) -> None:
    """Make the rows behind the W tokens of the vocabulary zero, with a bias that leaves them no probability and no
    gradient, so that training keeps them so. They are plain weights, and mean the same in any other library."""
    with torch.no_grad():
        model.get_parameter(WORDS)[vocab_size:] = 0
        if "masked_lm" in model.heads:
            model.get_parameter(BIAS)[vocab_size:] = NEVER
