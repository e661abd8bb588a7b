"""What vectors of texts are trained by: pure functions, summed over examples.

Shapes: B anchors of this rank, N anchors of all ranks, C candidates, E width. Equal numbers in `..._ids` mean equal
texts: a text is never pushed away from itself, so such candidates are no negatives.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every row of `first` with every row of `second`, float32. Shapes: [B, E], [C, E] -> [B, C]."""
    return F.normalize(first.float(), dim=-1) @ F.normalize(second.float(), dim=-1).T


def paired_cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of each row of `first` with that row of `second`, float32. Shapes: [B, E] each -> [B]."""
    return (F.normalize(first.float(), dim=-1) * F.normalize(second.float(), dim=-1)).sum(-1)


def no_negatives(
    anchor_ids: Tensor, all_anchor_ids: Tensor, all_positive_ids: Tensor, candidate_ids: Tensor, own: Tensor
) -> Tensor:
    """Which candidates do not count against an anchor [B, C]: those with its own text, and those with the text of a
    positive of this anchor, whether it is given here or, for an anchor of the same text, in another place.

    `own` [B] is the column of each anchor's own positive, which stays. Shapes: anchor_ids [B]; all_anchor_ids and
    all_positive_ids [N], pair by pair; candidate_ids [C].
    """
    same_anchor = anchor_ids[:, None] == all_anchor_ids
    holds_positive = all_positive_ids[:, None] == candidate_ids
    known = (same_anchor.float() @ holds_positive.float()) > 0
    known |= anchor_ids[:, None] == candidate_ids
    return known.scatter(1, own[:, None], value=False)


def in_batch_negatives(
    anchors: Tensor, candidates: Tensor, own: Tensor, excluded: Tensor, *, temperature: float
) -> Tensor:
    """Sum over anchors of -log softmax(cosine / temperature) at their own candidate, all others being negatives.

    Shapes: anchors [B, E], candidates [C, E], own [B] a column each, excluded [B, C] from `no_negatives`.
    Source: arXiv:1705.00652, section 4.4, with the temperature of arXiv:2002.05709.
    """
    scores = cosines(anchors, candidates) / temperature
    return F.cross_entropy(scores.masked_fill(excluded, float("-inf")), own, reduction="sum")


def triplet(anchors: Tensor, positives: Tensor, negatives: Tensor, kept: Tensor, *, margin: float) -> Tensor:
    """Sum of max(0, margin + cosine to the negative - cosine to the positive) over the triplets that are kept.

    Shapes: [B, E] each, kept [B] bool. Source: arXiv:1503.03832, with the cosine distance in place of the Euclidean.
    """
    nearer = margin + paired_cosines(anchors, negatives) - paired_cosines(anchors, positives)
    return (nearer.relu() * kept).sum()


def cosent(found: Tensor, wanted: Tensor, *, temperature: float) -> Tensor:
    """log(1 + sum of exp((c_j - c_i) / temperature)) over all i, j with wanted_i > wanted_j: pairs of texts that are
    more alike should have the higher cosine, whatever the scale of the scores is. One number for the whole batch.

    Shapes: found [N] cosines, wanted [N] scores. Source: Huang et al., CoSENT, IEEE/ACM TASLP 32, 2024.
    """
    differences = (found[None, :] - found[:, None]) / temperature
    in_order = wanted[:, None] > wanted[None, :]
    terms = differences.masked_fill(~in_order, float("-inf")).flatten()
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(0)


def cosine_mse(found: Tensor, wanted: Tensor) -> Tensor:
    """Sum of squared differences of cosine and score. Shapes: [B] each. Source: Sentence-BERT, arXiv:1908.10084."""
    return (found - wanted).square().sum()


def text_ids(input_ids: Tensor, real: Tensor) -> Tensor:
    """A number a row [R] int64 that is the same for equal inputs, whatever they are padded to: what the encoder cannot
    tell apart is one text. A polynomial in an odd base modulo 2^64; two of a million texts collide once in 10^7 cases.

    Shapes: input_ids [R, T], real [R, T] true where a token is no padding.
    """
    base = torch.tensor(0x9E3779B97F4A7C15 - (1 << 64), device=input_ids.device)
    powers = base.expand(input_ids.shape[1]).cumprod(0)
    mixed = (input_ids + 1) * 0x5851F42D4C957F2D
    mixed = mixed ^ (mixed >> 29)
    return (mixed * powers * real).sum(1)
