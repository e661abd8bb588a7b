"""Orders and shares are permutations, pure functions of (seed, epoch, position); padding comes from lengths."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertctl.training.batching import (
    Prefetch,
    bucketed_epoch,
    mix,
    pad_batch,
    rank_share,
    shuffled,
    step_examples,
    to_tensors,
)


@given(st.integers(1, 3000), st.integers(0, 2**31), st.integers(0, 50))
def test_an_epoch_holds_every_example_once(count, seed, epoch):
    order = shuffled(np.arange(count), count, seed=seed, epoch=epoch)
    assert np.array_equal(np.sort(order), np.arange(count))


def test_orders_differ_by_seed_and_epoch_and_look_random():
    count = 10_000
    orders = [shuffled(np.arange(count), count, seed=s, epoch=e) for s, e in ((0, 0), (0, 1), (1, 0))]
    for order in orders:
        # uniform: the mean displacement of a random permutation is count / 3
        assert abs(np.abs(order - np.arange(count)).mean() / count - 1 / 3) < 0.01
        assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    assert all((a == b).mean() < 0.01 for a, b in ((orders[0], orders[1]), (orders[0], orders[2])))


def test_any_place_can_be_asked_for_alone():
    count = 4321
    whole = shuffled(np.arange(count), count, seed=9, epoch=2)
    some = np.array([0, 17, 4320, 99])
    assert np.array_equal(shuffled(some, count, seed=9, epoch=2), whole[some])


@given(st.integers(1, 60), st.integers(1, 25))
def test_steps_walk_through_epochs(count, batch_size):
    steps = -(-3 * count // batch_size)
    parts = [step_examples(step, batch_size, count, 5) for step in range(1, steps + 1)]
    epochs, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    for epoch in range(3):
        assert np.array_equal(np.sort(ids[epochs == epoch]), np.arange(count))


@given(st.lists(st.integers(1, 100), min_size=1, max_size=400), st.integers(1, 17), st.integers(0, 9))
def test_bucketed_batches_hold_every_example_once(lengths, batch_size, epoch):
    batches = bucketed_epoch(np.array(lengths), batch_size, seed=3, epoch=epoch, window=5)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(lengths)))
    assert sum(len(batch) != batch_size for batch in batches) <= 1


def test_buckets_save_padding():
    lengths = np.random.default_rng(0).integers(1, 128, 2000)
    wasted = [
        sum(lengths[b].max() * len(b) - lengths[b].sum() for b in batches) / lengths.sum()
        for batches in (
            bucketed_epoch(lengths, 16, seed=0, epoch=0),
            np.split(np.random.default_rng(1).permutation(2000), 125),
        )
    ]
    assert wasted[0] < 0.05 < 0.5 < wasted[1]


@given(st.integers(1, 64), st.integers(1, 4), st.one_of(st.none(), st.integers(1, 16)))
def test_ranks_share_a_step_without_loss(count, world_size, micro):
    count *= world_size
    ids = np.arange(count)
    shares = [rank_share(ids, rank=r, world_size=world_size, micro_batch_size=micro) for r in range(world_size)]
    assert len({len(share) for share in shares}) == 1
    parts = [ids[part] for share in shares for part in share]
    assert all(len(part) for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), ids)


def test_padding_is_made_from_lengths_not_from_values():
    arrays = pad_batch({"input_ids": [[0, 5, 0], [7]], "labels": [[1, 2, 3], [4]]}, {"labels": -100}, multiple=4)
    assert arrays["attention_mask"].tolist() == [[True, True, True, False], [True, False, False, False]]
    assert arrays["labels"].tolist() == [[1, 2, 3, -100], [4, -100, -100, -100]]
    assert "attention_mask" in to_tensors(arrays)
    assert "attention_mask" not in to_tensors(pad_batch({"input_ids": [[1, 2], [3, 4]]}, {}, multiple=2))


def test_mix_spreads():
    numbers = {mix(a, b) for a in range(100) for b in range(100)}
    assert len(numbers) == 10_000
    assert mix(1, 2) != mix(2, 1)
    assert all(0 <= number < 2**63 for number in numbers)
    bits = np.array([[number >> k & 1 for k in range(63)] for number in numbers]).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 0.03


def test_prefetch_gives_each_step_and_raises_the_errors_of_its_thread():
    made = []

    def make(step):
        made.append(step)
        if step == 3:
            raise KeyError("three")
        return [{"input_ids": torch.tensor([step])}]

    with Prefetch(make, 3) as batches:
        assert [int(batches(step)[0]["input_ids"]) for step in (1, 2)] == [1, 2]
        with pytest.raises(KeyError, match="three"):
            batches(3)
    assert made == [1, 2, 3]
    with pytest.raises(RuntimeError):  # the thread is gone
        batches(1)
