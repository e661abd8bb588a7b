"""Batches of like length, and logits that do not depend on how examples were batched."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.tasks.batches import TrainingBatches, collate
from bertctl.tasks.predicting import feature_logits
from bertctl.tasks.task import IGNORED, Features
from bertctl.training.runtime import Runtime

CPU = Runtime(torch.device("cpu"), torch.float32)
CONFIG = EncoderConfig(
    vocab_size=200,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=60,
)


@pytest.fixture(scope="module")
def features() -> list[Features]:
    """83 inputs of 3 to 60 ids; the first id after 0 tells which one it is."""
    lengths = np.random.default_rng(0).integers(3, 61, 83)
    return [Features([0, i + 1, *[5] * (n - 2)], [0] * n, i % 3, i, n) for i, n in enumerate(lengths.tolist())]


def batches(features, **changes) -> TrainingBatches:
    settings = {"batch_size": 8, "micro_batch_size": None, "seed": 4, "runtime": CPU} | changes
    return TrainingBatches(features, Model(CONFIG, {"sequence": 3}), 0, **settings)


def ids_of(step: list) -> list[int]:
    return [int(row[1]) - 1 for batch in step for row in batch["input_ids"]]


def test_every_epoch_holds_every_feature_once_in_another_order(features):
    made = batches(features)
    epochs = [[ids_of(made(11 * epoch + step)) for step in range(1, 12)] for epoch in range(2)]
    for epoch in epochs:
        assert sorted(i for step in epoch for i in step) == list(range(83))
    assert epochs[0] != epochs[1]


def test_a_step_is_a_function_of_its_number(features):
    assert ids_of(batches(features)(17)) == ids_of(batches(features)(17))
    assert ids_of(batches(features)(17)) != ids_of(batches(features, seed=5)(17))


def test_lengths_in_a_batch_are_alike(features):
    made = batches(features)
    steps = [made(step) for step in range(1, 12)]
    computed = sum(batch["input_ids"].numel() for step in steps for batch in step)
    real = sum(len(f.input_ids) for f in features)
    assert computed < 1.2 * real  # rounding up to 8 included; batches in random order would compute 1.6 times as much


@pytest.mark.parametrize("micro", [None, 1, 3])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_a_step_and_keep_step(features, micro, world_size):
    one = batches(features)
    ranks = [
        batches(features, micro_batch_size=micro, runtime=replace(CPU, rank=r, world_size=world_size))
        for r in range(world_size)
    ]
    for step in range(1, 12):
        shares = [rank(step) for rank in ranks]
        assert len({len(share) for share in shares}) == 1
        labelled = [
            int(row[1]) - 1
            for share in shares
            for batch in share
            for row, label in zip(batch["input_ids"], batch["labels"], strict=True)
            if label != IGNORED
        ]
        assert sorted(labelled) == sorted(ids_of(one(step)))


def test_a_rank_without_an_example_has_neither_label_nor_token(features):
    made = batches(features[:10], runtime=replace(CPU, rank=2, world_size=3))
    short = [batch for step in (1, 2) for batch in made(step) if (batch["labels"] == IGNORED).all()]
    assert len(short) == 1  # one of the two batches has 2 examples
    assert int(short[0]["attention_mask"].sum()) == 0


def test_a_batch_is_never_wider_than_the_encoder_reads(features):
    model = Model(CONFIG, {"sequence": 3})
    assert collate([f for f in features if len(f.input_ids) == 60][:1], model, 0)["input_ids"].shape == (1, 60)
    assert (
        collate([f for f in features if len(f.input_ids) == 33][:1] or [features[0]], model, 0)["input_ids"].shape[1]
        % 8
        == 0
    )


@pytest.mark.parametrize("segments", [0, 1, 2])
def test_segments_are_there_for_a_teacher_whatever_the_student_knows(features, segments):
    model = Model(replace(CONFIG, type_vocab_size=segments), {"sequence": 3}).eval()
    pair = [replace(features[0], token_type_ids=[0, *[1] * (len(features[0].input_ids) - 1)])]
    batch = collate(pair, model, 0)
    assert batch["token_type_ids"][0, 1] == 1
    with_segments = model(batch["input_ids"], batch.get("attention_mask"), batch["token_type_ids"])
    without = model(batch["input_ids"], batch.get("attention_mask"))
    assert torch.equal(with_segments.last_hidden_state, without.last_hidden_state) == (segments < 2)


@pytest.mark.parametrize("head", ["sequence", "token"])
def test_logits_do_not_depend_on_the_batches(features, head):
    torch.manual_seed(1)
    model = Model(CONFIG, {head: 3})
    alone = feature_logits(model, head, features, pad_id=0, batch_size=1, runtime=CPU)
    for size in (7, 100):
        together = feature_logits(model, head, features, pad_id=0, batch_size=size, runtime=CPU)
        for one, other, f in zip(alone, together, features, strict=True):
            assert one.shape == other.shape == ((3,) if head == "sequence" else (len(f.input_ids), 3))
            np.testing.assert_allclose(one, other, atol=1e-5)
    backwards = feature_logits(model, head, features[::-1], pad_id=0, batch_size=7, runtime=CPU)[::-1]
    np.testing.assert_allclose(np.concatenate(backwards), np.concatenate(alone), atol=1e-5)


def test_numbers_that_differ_a_little_still_differ_when_the_encoder_computes_in_bf16(features):
    torch.manual_seed(1)
    model = Model(replace(CONFIG, initializer_range=0.3), {"sequence": 1})
    with torch.no_grad():
        model.heads["sequence"].output.weight.mul_(0.1)
        model.heads["sequence"].output.bias.fill_(3.2)  # where bf16 has a number every 1/64
    low = Runtime(torch.device("cpu"), torch.bfloat16)
    exact, rounded = (
        np.concatenate(feature_logits(model, "sequence", features, pad_id=0, batch_size=8, runtime=runtime))
        for runtime in (CPU, low)
    )
    assert len(torch.from_numpy(exact).bfloat16().unique()) < 20
    assert len(set(rounded.tolist())) > 60
    assert np.corrcoef(exact, rounded)[0, 1] > 0.99
