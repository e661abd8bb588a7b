"""Buckets of distances against the released code in transformers, and the bias against adding it up by hand."""

import math

import pytest
import torch
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.relative import BucketedBias, Disentangled

AWAY = torch.arange(-1000, 1001)


def config(buckets, farthest, kind):
    return EncoderConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        hidden_dropout_prob=0.0,
        relative_position=kind,
        relative_buckets=buckets,
        relative_max_distance=farthest,
    )


@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (4, 3), (64, 1000)])
def test_buckets_of_t5(buckets, farthest):
    bias = BucketedBias(config(buckets, farthest, "bucketed"))
    assert torch.equal(bias.bucket(AWAY), MPNetEncoder.relative_position_bucket(AWAY, buckets, farthest))


@pytest.mark.parametrize(("buckets", "farthest"), [(256, 512), (8, 20), (4, 64)])
def test_buckets_of_deberta(buckets, farthest):
    theirs = make_log_bucket_position(-AWAY, buckets, farthest).long() + buckets  # query minus key
    bias = Disentangled(config(buckets, farthest, "disentangled"))
    assert torch.equal(bias.bucket(AWAY), theirs.clamp(0, 2 * buckets - 1))


def test_disentangled_scores_are_sums_of_products():
    """Equation 3 of arXiv:2006.03654 for one pair of tokens after another."""
    torch.manual_seed(0)
    bias = Disentangled(config(8, 20, "disentangled"))
    maps = [torch.randn(2, 8, 4), torch.randn(2, 8, 4)]
    q, k = torch.randn(2, 2, 6, 4)[None, 0], torch.randn(2, 6, 4)[None]
    score = bias(lambda x: x[:, None] @ maps[0], lambda x: x[:, None] @ maps[1])
    away = torch.arange(6)[None, :] - torch.arange(6)[:, None]
    got = score(q, k, away)
    vectors = bias.norm(bias.table.weight)
    for h, i, j in ((0, 0, 5), (1, 3, 1), (1, 4, 4)):
        row = bias.bucket(torch.tensor(j - i))
        of_query, of_key = vectors[row] @ maps[0][h], vectors[row] @ maps[1][h]
        expected = (q[0, h, i] @ of_key + k[0, h, j] @ of_query / math.sqrt(3)) / math.sqrt(4)
        assert got[0, h, i, j].item() == pytest.approx(expected.item(), rel=1e-4)
