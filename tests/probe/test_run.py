"""The whole stage on a tiny model with random weights, and what is refused before it runs."""

import json
import math

import pytest
import torch

from bertctl import signals
from bertctl.artifacts.manifest import verify
from bertctl.errors import BertctlError, Stopped
from bertctl.probe import run as stage
from bertctl.probe.config import ProbeSection
from bertctl.probe.run import run
from bertctl.recipe.load import build_recipe
from bertctl.variants.hf import load_model, save_model


def section(checkpoint, data, **values) -> ProbeSection:
    values = {"task": "pos", "model": str(checkpoint), "data": {"path": str(data)}, "iterations": 40, **values}
    return build_recipe(values, ProbeSection)


@pytest.fixture(scope="module")
def done(checkpoint, sentences, tmp_path_factory):
    out = tmp_path_factory.mktemp("probe") / "pos"
    return run(section(checkpoint, sentences), out=out, seed=0), out


def test_a_random_model_still_shows_its_words(done, sentences):
    """Each word has one tag: its own embedding gives it away, and random blocks wash that out bit by bit."""
    result, _ = done
    assert [row["layer"] for row in result["layers"]] == [0, 1, 2]
    for row in result["layers"]:
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["accuracy"] > result["majority_baseline"] + 0.2
        assert row["selectivity"] == pytest.approx(row["accuracy"] - row["control_accuracy"])
        assert 1 <= row["effective_rank"] <= 32
        assert -1 <= row["mean_cosine"] <= 1
    assert result["layers"][0]["accuracy"] == 1
    assert result["best_layer"] == 0
    assert result["majority_baseline"] < 0.5
    assert result["labels"] == ["ADJ", "DET", "NOUN", "VERB"]
    assert result["seen_in_train"] == 1
    gold = (sentences / "test.conll").read_text().split("\n")
    assert result["words"]["test"] == sum(bool(line) for line in gold)


def test_attention_is_told_for_blocks_and_not_for_the_embeddings(done):
    result, _ = done
    assert result["layers"][0]["attention_entropy"] is None
    assert [block["layer"] for block in result["attention_entropy_per_head"]] == [1, 2]
    for block, row in zip(result["attention_entropy_per_head"], result["layers"][1:], strict=True):
        assert len(block["nats"]) == 4
        assert row["attention_entropy"] == pytest.approx(sum(block["nats"]) / 4)
        assert 0 < row["attention_entropy"] < math.log(24)
        assert all(0 < share <= 1 for share in block["normalised"])


def test_the_folder_is_whole_and_holds_the_result_only(done):
    result, out = done
    assert json.loads((out / "result.json").read_text()) == result
    assert verify(out, kind="probe").inputs.keys() == {"vocabulary"}
    assert {path.name for path in out.iterdir()} == {"result.json", "manifest.json"}


def test_the_same_seed_gives_the_same_result_in_memory_and_on_disk(done, checkpoint, sentences, tmp_path, monkeypatch):
    result, _ = done
    monkeypatch.setattr(stage, "MEGABYTE", 1)  # so that one of them is too little
    again = run(section(checkpoint, sentences, memory_megabytes=1), out=tmp_path / "again", seed=0)
    assert {**again, "seconds": 0} == {**result, "seconds": 0}
    other = run(section(checkpoint, sentences, memory_megabytes=1), out=tmp_path / "again", seed=1)  # replaces it
    assert [row["control_accuracy"] for row in other["layers"]] != [row["control_accuracy"] for row in result["layers"]]


def test_some_layers_without_the_control_task(done, checkpoint, sentences, tmp_path):
    result, _ = done
    some = run(section(checkpoint, sentences, layers=[2], control=False), out=tmp_path / "some", seed=0)
    (row,) = some["layers"]
    assert row["control_accuracy"] is None
    assert row["selectivity"] is None
    same = ("accuracy", "low", "high", "mean_cosine", "effective_rank", "attention_entropy")
    assert {key: row[key] for key in same} == {key: result["layers"][2][key] for key in same}
    assert some["best_layer"] == 2
    assert some["control"] is None


def test_texts_have_a_control_label_each(checkpoint, tmp_path):
    rows = [f"the {animal} ran {i}\t{animal}" for i in range(30) for animal in ("cat", "dog")]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    result = run(section(checkpoint, tmp_path / "train.tsv", task="classification"), out=tmp_path / "out", seed=0)
    assert result["split"] == "dev"
    assert result["control"] == "text"
    assert result["seen_in_train"] == 0
    assert result["layers"][0]["accuracy"] == 1


@pytest.mark.parametrize("layers", [[3], [0, 7]])
def test_a_layer_that_the_model_does_not_have(checkpoint, sentences, tmp_path, layers):
    with pytest.raises(BertctlError, match=r"probe\.layers: got .*, expected 0 .* to 2 ") as caught:
        run(section(checkpoint, sentences, layers=layers), out=tmp_path / "out", seed=0)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", [[-1], [], ["last"], "last"])
def test_layers_that_no_model_has_are_refused_with_the_recipe(checkpoint, sentences, layers):
    with pytest.raises(BertctlError, match="layers"):
        section(checkpoint, sentences, layers=layers)


def test_minus_one_is_explained(checkpoint, sentences):
    with pytest.raises(BertctlError, match=r"got -1, expected layers from 0 \(the embeddings\) to L"):
        section(checkpoint, sentences, layers=[0, -1])


@pytest.mark.parametrize(("field", "value"), [("model", None), ("max_length", 25)])
def test_what_else_is_refused(checkpoint, sentences, tmp_path, field, value):
    with pytest.raises(BertctlError, match=f"probe.{field}: "):
        run(section(checkpoint, sentences, **{field: value}), out=tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_a_signal_ends_it_and_nothing_is_left(checkpoint, sentences, tmp_path):
    signals.request(15)
    with pytest.raises(Stopped):
        run(section(checkpoint, sentences), out=tmp_path / "out", seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_is_kept(checkpoint, sentences, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(BertctlError, match="not empty"):
        run(section(checkpoint, sentences), out=tmp_path, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_state_that_is_the_same_everywhere_is_no_nan(checkpoint, sentences, tmp_path, tokenizer):
    """A dead encoder: every number is there, undefined ones are null, and the JSON is strict."""
    model = load_model(checkpoint).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    (tmp_path / "dead").mkdir()
    save_model(tmp_path / "dead", model, tokenizer)
    result = run(section(tmp_path / "dead", sentences), out=tmp_path / "out", seed=0)
    last = result["layers"][2]
    assert last["accuracy"] == pytest.approx(result["majority_baseline"])
    assert last["mean_cosine"] is None
    assert last["effective_rank"] is None
    assert last["attention_entropy_normalised"] == pytest.approx(1, abs=1e-6)
