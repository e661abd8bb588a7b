"""Batches hold what the records say, little padding, every example once an epoch, and the same on any rank."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.run import run as build_pairs
from bertctl.errors import BertctlError
from bertctl.pretrain.data import make_batches, open_data, plan_phases
from bertctl.recipe.load import build_recipe
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run as tokenize
from bertctl.training.runtime import Runtime

CPU = torch.device("cpu")


@pytest.fixture
def batches(data, section):
    def make(*, rank=0, world_size=1, steps=40, **training):
        made = section(training={"batch_size": 8, **training})
        runtime = Runtime(CPU, torch.float32, rank, world_size)
        return make_batches(made, data, steps=steps, seed=5, runtime=runtime)

    return make


def test_rows_are_the_tokens_that_the_records_point_at(data):
    reader = data.train["long"]
    ids = np.arange(len(reader))
    rows, columns, shards = reader.rows(ids), reader.examples.columns, data.shards.shards
    for row in ids:
        expected, segments = [data.tokenizer.cls_id], [0]
        for segment, side in enumerate("ab"):
            part = shards[columns[f"{side}_shard"][row]].tokens[
                columns[f"{side}_start"][row] : columns[f"{side}_stop"][row]
            ]
            if len(part):
                expected += [*part.tolist(), data.tokenizer.sep_id]
                segments += [segment] * (len(part) + 1)
        real = rows.attention_mask[row]
        assert rows.input_ids[row][real].tolist() == expected
        assert rows.token_type_ids[row][real].tolist() == segments
        assert (rows.input_ids[row][~real] == data.tokenizer.pad_id).all()
        special = np.isin(rows.input_ids[row], list(data.tokenizer.special_ids)) & real
        assert np.array_equal(rows.special[row], special)
        assert len(expected) == reader.lengths()[row] <= 48


@pytest.mark.parametrize("second_segment", ["none", "sentence_order"])
def test_rows_of_another_family_stand_as_transformers_has_them(tmp_path, section, second_segment):
    """<s> A </s></s> B </s>: two separators, one token type, and no example longer than asked for."""
    lines = [f"{a} {b} ends" for a in ("one", "two", "three") for b in ("day", "night", "year")]
    (tmp_path / "c.txt").write_text("\n\n".join("\n".join(lines[i:] + lines[:i]) for i in range(9)))
    tree = {"corpus": {"files": [str(tmp_path / "c.txt")]}, "vocab_size": 280, "algorithm": "byte_bpe"}
    tokenize(build_recipe(tree, TokenizeSection), out=tmp_path / "tokens", seed=0)
    tree = {"tokens": str(tmp_path / "tokens"), "sequence_length": 24, "second_segment": second_segment}
    build_pairs(build_recipe(tree | {"held_out_fraction": 0.2}, BuildPairsSection), out=tmp_path / "pairs", seed=0)
    opened = open_data(section(pairs=str(tmp_path / "pairs")))
    reader, theirs = opened.train["24"], AutoTokenizer.from_pretrained(tmp_path / "tokens")
    rows = reader.rows(np.arange(len(reader)))
    assert rows.attention_mask.sum(axis=1).tolist() == reader.lengths().tolist()
    assert reader.longest <= 24
    for ids, real, special in zip(rows.input_ids, rows.attention_mask, rows.special, strict=True):
        text = [part for part in theirs.decode(ids[real]).removeprefix("<s>").split("</s>") if part]
        assert len(text) == (1 if second_segment == "none" else 2)
        assert ids[real].tolist() == theirs(*text)["input_ids"]
        assert np.array_equal(special & real, np.isin(ids, theirs.all_special_ids) & real)
    assert not rows.token_type_ids.any()


def test_an_epoch_of_steps_holds_every_example_once(batches):
    made = batches()
    phase = made.phases[0]
    count = len(phase.reader)
    drawn = [made.examples(phase, step) for step in range(1, 16 * (3 * count // (16 * 8) + 1) + 1)]
    epochs, ids = (np.concatenate(column) for column in zip(*drawn, strict=True))
    for epoch in range(2):
        assert np.array_equal(np.sort(ids[epochs == epoch]), np.arange(count))


def test_examples_of_like_length_come_together(batches):
    made = batches()
    lengths = made.phases[0].reader.lengths()
    dealt = [lengths[made.examples(made.phases[0], step)[1]] for step in range(1, 17)]
    drawn = np.random.default_rng(0).permutation(np.concatenate(dealt)).reshape(16, 8)
    wasted = [sum(part.max() * len(part) - part.sum() for part in parts) for parts in (dealt, drawn)]
    assert wasted[0] < wasted[1] / 2


@pytest.mark.parametrize("micro", [None, 1, 3])
def test_ranks_and_micro_batches_share_a_step(batches, micro):
    (whole,) = batches()(3)
    parts = [part for rank in (0, 1) for part in batches(rank=rank, world_size=2, micro_batch_size=micro)(3)]
    assert sum(len(part["input_ids"]) for part in parts) == 8
    assert sum(len(part["labels"]) for part in parts) == len(whole["labels"])

    def rows(batch):
        mask = batch.get("attention_mask", torch.ones_like(batch["input_ids"], dtype=torch.bool))
        return {tuple(ids[real].tolist()) for ids, real in zip(batch["input_ids"], mask, strict=True)}

    assert set().union(*map(rows, parts)) == rows(whole)


def test_labels_are_the_tokens_at_the_masked_positions(batches):
    made = batches()
    phase = made.phases[0]
    epochs, ids = made.examples(phase, 1)
    batch, rows = made.batch(phase.reader, ids, epochs), phase.reader.rows(ids)
    assert batch["labels"].tolist() == rows.input_ids.reshape(-1)[batch["masked_positions"].numpy()].tolist()
    changed = batch["input_ids"].numpy().reshape(-1) != rows.input_ids.reshape(-1)
    assert set(np.flatnonzero(changed)) <= set(batch["masked_positions"].tolist())
    assert batch["pair_labels"].tolist() == phase.reader.labels(ids).tolist()


def test_phases_share_the_steps(data, section, batches):
    made = section(phases=[{"name": "short", "share": 0.9}, {"name": "long", "share": 0.1}])
    planned = plan_phases(made.phases, data.train, 25)
    assert [(phase.first, phase.last) for phase in planned] == [(1, 22), (23, 25)]
    step = batches(steps=10)
    assert step(1)[0]["input_ids"].shape[1] <= 24
    assert max(step(n)[0]["input_ids"].shape[1] for n in range(6, 11)) > 24


def test_tokens_are_found_where_build_pairs_noted_them_and_checked(pairs, section):
    assert open_data(section()).hashes == open_data(section(tokens=str(pairs.parent / "tokens"))).hashes
    with pytest.raises(BertctlError, match=r"pretrain\.pairs: not given"):
        open_data(section().model_copy(update={"pairs": None}))


def test_a_batch_that_ranks_cannot_share_is_refused(batches):
    with pytest.raises(BertctlError, match="not a multiple of 3 ranks"):
        batches(world_size=3)
