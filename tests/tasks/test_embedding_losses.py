"""Losses of vectors: numbers worked out by hand, and sentence-transformers on random vectors."""

import math

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as theirs
from torch import Tensor

from bertctl.tasks.embedding_losses import (
    cosent,
    cosine_mse,
    cosines,
    in_batch_negatives,
    no_negatives,
    paired_cosines,
    text_ids,
    triplet,
)

# Unit vectors at 0, 60 and 90 degrees: cosines 1, 1/2 and 0.
EAST, SIXTY, NORTH = [1.0, 0.0], [0.5, math.sqrt(0.75)], [0.0, 1.0]


def random(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(seed))


def contrast(anchors: Tensor, positives: Tensor, negatives: Tensor, ids: list[list[int]], temperature: float) -> Tensor:
    """The loss of one rank; `ids` of anchors, positives and negatives."""
    a, p, n = (torch.tensor(numbers, dtype=torch.int64) for numbers in ids)
    own = torch.arange(len(a))
    excluded = no_negatives(a, a, p, torch.cat([p, n]), own)
    return in_batch_negatives(anchors, torch.cat([positives, negatives]), own, excluded, temperature=temperature)


def test_in_batch_negatives_by_hand():
    anchors, positives = torch.tensor([EAST, NORTH]), torch.tensor([SIXTY, NORTH]) * 3  # lengths do not matter
    # cosines: east with sixty 1/2, with north 0; north with sixty sqrt(3)/2, with north 1
    first = math.log(math.exp(1.0) + math.exp(0.0)) - 1.0
    second = math.log(math.exp(math.sqrt(3.0)) + math.exp(2.0)) - 2.0
    found = contrast(anchors, positives, torch.zeros(0, 2), [[1, 2], [3, 4], []], 0.5)
    assert float(found) == pytest.approx(first + second, abs=1e-6)


def test_a_hard_negative_counts_against_every_anchor_by_hand():
    anchors, positives = torch.tensor([EAST, NORTH]), torch.tensor([EAST, NORTH])
    found = contrast(anchors, positives, torch.tensor([SIXTY]), [[1, 2], [3, 4], [5]], 1.0)
    first = math.log(math.e + 1 + math.exp(0.5)) - 1
    second = math.log(math.e + 1 + math.exp(math.sqrt(0.75))) - 1
    assert float(found) == pytest.approx(first + second, abs=1e-6)


@pytest.mark.parametrize("negatives", [0, 5])
def test_in_batch_negatives_equal_sentence_transformers(negatives):
    anchors, positives, hard = random(5, 1), random(5, 2), random(negatives, 3)
    ids = [list(range(5)), list(range(5, 10)), list(range(10, 10 + negatives))]
    columns = [anchors, positives, hard] if negatives else [anchors, positives]
    expected = theirs.MultipleNegativesRankingLoss(None, scale=20.0).compute_loss_from_embeddings(columns, None)
    assert float(contrast(anchors, positives, hard, ids, 0.05)) / 5 == pytest.approx(float(expected), rel=1e-5)


def test_both_directions_equal_sentence_transformers():
    anchors, positives = random(7, 1), random(7, 2)
    nothing, ids = torch.zeros(0, 6), [list(range(7)), list(range(7, 14)), []]
    forth = contrast(anchors, positives, nothing, ids, 0.05)
    back = contrast(positives, anchors, nothing, [ids[1], ids[0], []], 0.05)
    loss = theirs.MultipleNegativesRankingLoss(
        None, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    )
    expected = loss.compute_loss_from_embeddings([anchors, positives], None)
    assert float(forth + back) / 14 == pytest.approx(float(expected), rel=1e-5)


def test_equal_texts_are_no_negatives():
    """Anchors q r q s t, positives a b c a q, hard negatives b d a for the first three."""
    a, p, n = torch.tensor([1, 2, 1, 3, 4]), torch.tensor([10, 11, 12, 10, 1]), torch.tensor([11, 13, 10])
    found = no_negatives(a, a, p, torch.cat([p, n]), torch.arange(5))
    columns = ["a", "b", "c", "a'", "q", "-b", "-d", "-a"]
    left_out = [[name for name, out in zip(columns, row, strict=True) if out] for row in found.tolist()]
    assert left_out == [
        ["c", "a'", "q", "-a"],  # q: c is a positive of the other q
        ["-b"],  # r
        ["a", "a'", "q", "-a"],  # q again, whose own positive is c
        ["a", "-a"],  # s
        [],  # t, whose positive q is like nothing else here
    ]


def test_a_pair_is_no_negative_of_its_double():
    pair = random(1, 1).repeat(2, 1), random(1, 2).repeat(2, 1)
    assert float(contrast(*pair, torch.zeros(0, 6), [[1, 1], [2, 2], []], 0.1)) == 0.0
    taken_for_others = contrast(*pair, torch.zeros(0, 6), [[1, 2], [3, 4], []], 0.1)
    assert float(taken_for_others) == pytest.approx(2 * math.log(2), rel=1e-6)


def test_an_anchor_without_negatives_has_no_loss_and_no_gradient():
    anchors = random(2, 1).requires_grad_()
    loss = contrast(anchors, random(2, 2), torch.zeros(0, 6), [[1, 2], [3, 3], []], 0.05)
    loss.backward()
    assert loss.item() == 0.0
    assert float(anchors.grad.abs().max()) == 0.0


def test_triplet_by_hand_and_as_sentence_transformers():
    rows = [torch.tensor([row, row]) for row in (EAST, SIXTY, NORTH)]
    found = triplet(*rows, torch.tensor([True, False]), margin=0.7)  # 0.7 + 0 - 0.5
    assert float(found) == pytest.approx(0.2, abs=1e-6)
    columns = [random(9, seed) for seed in (1, 2, 3)]
    metric = theirs.TripletDistanceMetric.COSINE
    expected = theirs.TripletLoss(None, metric, triplet_margin=0.3).compute_loss_from_embeddings(columns, None)
    kept = torch.ones(9, dtype=torch.bool)
    assert float(triplet(*columns, kept, margin=0.3)) / 9 == pytest.approx(float(expected), rel=1e-5)


def test_cosent_by_hand_and_as_sentence_transformers():
    found, wanted = torch.tensor([0.5, 0.9, 0.1]), torch.tensor([3.0, 1.0, 3.0])
    by_hand = math.log(1 + math.exp((0.9 - 0.5) / 0.2) + math.exp((0.9 - 0.1) / 0.2))
    assert float(cosent(found, wanted, temperature=0.2)) == pytest.approx(by_hand, rel=1e-6)
    first, second = random(12, 1), random(12, 2)
    scores = torch.tensor([0, 1, 2, 5, 5, 4, 3, 3, 2.5, 1, 0, 5.0])
    expected = theirs.CoSENTLoss(None, scale=20.0).compute_loss_from_embeddings([first, second], scores)
    assert float(cosent(paired_cosines(first, second), scores, temperature=0.05)) == pytest.approx(
        float(expected), rel=1e-5
    )


def test_cosent_of_equal_scores_is_zero_with_a_zero_gradient():
    found = torch.tensor([0.5, 0.9]).requires_grad_()
    loss = cosent(found, torch.tensor([1.0, 1.0]), temperature=0.05)
    loss.backward()
    assert loss.item() == 0.0
    assert found.grad.tolist() == [0.0, 0.0]


def test_cosine_mse_as_sentence_transformers():
    assert float(cosine_mse(torch.tensor([0.5, -1.0]), torch.tensor([0.0, 1.0]))) == pytest.approx(4.25)
    first, second, scores = random(8, 1), random(8, 2), torch.linspace(0, 1, 8)
    expected = theirs.CosineSimilarityLoss(None).compute_loss_from_embeddings([first, second], scores)
    assert float(cosine_mse(paired_cosines(first, second), scores)) / 8 == pytest.approx(float(expected), rel=1e-5)
    assert torch.allclose(cosines(first, second).diagonal(), paired_cosines(first, second), atol=1e-6)


def test_text_ids_know_texts_and_not_padding():
    rows = torch.tensor([[2, 7, 8, 3, 0, 0], [2, 8, 7, 3, 0, 0], [2, 7, 8, 3, 3, 0], [2, 7, 8, 3, 9, 9]])
    real = torch.arange(6) < torch.tensor([[4], [4], [5], [4]])
    ids = text_ids(rows, real)
    assert ids[0] == ids[3]
    assert len(set(ids.tolist())) == 3
    assert torch.equal(text_ids(rows[:, :5], real[:, :5]), ids)
    many = torch.randint(0, 300, (20_000, 3), generator=torch.Generator().manual_seed(0))
    distinct = len({tuple(row) for row in many.tolist()})
    assert len(set(text_ids(many, torch.ones_like(many, dtype=torch.bool)).tolist())) == distinct
