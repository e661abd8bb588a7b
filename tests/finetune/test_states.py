"""A frozen encoder's outputs, kept on disk: the same ones, found by input, and gone in the end."""

import json

import numpy as np
import pytest
import torch

from bertctl import signals
from bertctl.artifacts.tensors import load_tensors
from bertctl.encoder.encoder import Encoder
from bertctl.errors import Stopped
from bertctl.finetune import states
from bertctl.finetune.run import run
from bertctl.finetune.states import forget, remember
from bertctl.tasks.batches import collate
from bertctl.tasks.config import DataSection
from bertctl.tasks.table import TASKS
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import load_model
from tests.finetune.opened import open_data

RUNTIME = Runtime(torch.device("cpu"), torch.float32)
FROZEN = {"freeze": "encoder"}


@pytest.fixture(scope="module")
def opened(encoder, texts, sentences):
    """Task name -> its data."""
    tokenizer = Tokenizer.load(encoder)
    return {
        name: open_data(name, DataSection(path=path), tokenizer)
        for name, path in (("classification", texts), ("ner", sentences))
    }


@pytest.mark.parametrize(
    ("task", "pooling"),
    [("classification", "cls"), ("classification", "mean"), ("classification", "max"), ("ner", "cls")],
)
def test_logits_are_those_of_the_encoder_in_batches_of_any_make_up(task, pooling, opened, encoder, tmp_path):
    data, head = opened[task], TASKS[task].head
    model = load_model(encoder, {head: 3}, pooling=pooling).model.eval()
    kept = remember(model, data, tmp_path, 7, RUNTIME)
    mixed = [*data.train[5::40], data.dev[0].features[3]]
    batch = collate(mixed, model, 0)
    arguments = batch["input_ids"], batch.get("attention_mask"), batch["token_type_ids"]
    with torch.inference_mode():
        alone = model.logits(head, model(*arguments))
        model.recall = kept
        recalled = model.logits(head, model(*arguments))
    real = batch["attention_mask"] if task == "ner" else torch.ones(len(mixed), dtype=torch.bool)
    assert torch.allclose(recalled[real], alone[real], atol=1e-5)
    rows = load_tensors(next(tmp_path.rglob("states.safetensors")))["states"]
    unique = {(tuple(f.input_ids), tuple(f.token_type_ids)) for f in [*data.train, *data.dev[0].features]}
    assert len(rows) == (sum(len(ids) for ids, _ in unique) if task == "ner" else len(unique))
    forget(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_input_that_is_not_there_is_computed(opened, encoder, tmp_path):
    data = opened["classification"]
    model = load_model(encoder, {"sequence": 2}).model
    kept = remember(model, data, tmp_path, 16, RUNTIME)
    known = torch.tensor([data.train[0].input_ids])
    assert kept(known, None, None) is not None
    assert kept(known.flip(1), None, None) is None
    assert kept(known, None, torch.ones_like(known)) is None  # another segment is another input


def test_a_rank_without_an_example_has_rows_of_padding_only(opened, encoder, tmp_path):
    model = load_model(encoder, {"sequence": 2}).model
    kept = remember(model, opened["classification"], tmp_path, 16, RUNTIME)
    ids = torch.full((1, 8), 5)
    output = kept(ids, torch.zeros(1, 8, dtype=torch.bool), torch.zeros_like(ids))
    assert torch.equal(output.last_hidden_state, torch.zeros(1, 1, 32))


def test_they_are_read_again_only_for_the_same_encoder_and_inputs(opened, encoder, tmp_path, monkeypatch):
    computed = []
    plain = states.compute
    monkeypatch.setattr(states, "compute", lambda *rest: computed.append(1) or plain(*rest))
    model = load_model(encoder, {"sequence": 2}).model
    first = remember(model, opened["classification"], tmp_path, 16, RUNTIME)
    again = remember(model, opened["classification"], tmp_path, 16, RUNTIME)
    assert len(computed) == 1
    assert np.array_equal(first.parts[0], again.parts[0])
    with torch.no_grad():
        model.encoder.layers[0].attention.query.weight[0, 0] += 1e-3
    remember(model, opened["classification"], tmp_path, 16, RUNTIME)
    assert len(computed) == 2


def test_without_room_the_encoder_runs_every_time_and_it_is_said(opened, encoder, tmp_path, monkeypatch, capsys):
    model = load_model(encoder, {"sequence": 2}).model
    usage = states.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(states.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    assert remember(model, opened["classification"], tmp_path, 16, RUNTIME) is None
    assert "computed again every epoch" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def predictions(out):
    [path] = out.glob("runs/*/predictions-test.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("task", ["classification", "ner"])
def test_a_frozen_encoder_gives_the_same_scores_with_and_without_them(
    task, make_section, texts, sentences, tmp_path, monkeypatch
):
    runs = []
    plain = Encoder.forward
    monkeypatch.setattr(
        Encoder, "forward", lambda self, ids, *more, **named: runs.append(len(ids)) or plain(self, ids, *more, **named)
    )
    found, rows = {}, {}
    for keep in (True, False):
        data = {"path": str(texts if task == "classification" else sentences)}
        section = make_section(steps=50, task=task, data=data, dropout=0.3, strategy=FROZEN | {"keep_states": keep})
        runs.clear()
        found[keep] = run(section, out=tmp_path / str(keep), seed=0)
        rows[keep] = sum(runs)
        assert not (tmp_path / str(keep) / "states").exists()
    metric = found[True]["metric"]
    assert found[True]["pretrained"]["value"] == found[False]["pretrained"]["value"]
    assert [run["dev"] for run in found[True]["pretrained"]["seeds"]] == [
        run["dev"] for run in found[False]["pretrained"]["seeds"]
    ], metric
    # once each for the states; then the finished model scores test, and dev for the settings found there
    assert rows[True] <= sum(found[True][f"{split}_examples"] for split in ("train", "dev", "dev", "test"))
    assert rows[False] > 2 * rows[True]


def test_only_the_head_moves(make_section, encoder, tmp_path):
    out = tmp_path / "run"
    result = run(make_section(steps=20, strategy=FROZEN, dropout=0.5), out=out, seed=0)
    before, after = load_tensors(encoder / "model.safetensors"), load_tensors(out / "model" / "model.safetensors")
    same = {name for name in after if name in before and torch.equal(after[name], before[name])}
    assert {name for name in after if name not in same} == {
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
        "classifier.weight",
        "classifier.bias",
    }
    assert [row["group"] for row in result["parameter_groups"] if not row["frozen"]] == ["head"]


def test_a_signal_while_they_are_computed_leaves_nothing_half(make_section, tmp_path, stop_at, model_hash):
    section = make_section(steps=10, strategy=FROZEN)
    stop_at(states, "collate", 3)
    with pytest.raises(Stopped):
        run(section, out=tmp_path / "run", seed=0)
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and "states" in str(path.parent)]
    signals.clear()
    run(section, out=tmp_path / "run", seed=0, resume=True)
    run(section, out=tmp_path / "whole", seed=0)
    assert model_hash(tmp_path / "run") == model_hash(tmp_path / "whole")
