"""Runs with a strategy: what moves and when, stopped and resumed to the same bytes, and ordinary models in the end."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
import torch
import transformers

from bertctl import signals
from bertctl.artifacts.tensors import load_tensors
from bertctl.errors import BertctlError, Stopped
from bertctl.finetune import train
from bertctl.finetune.config import FinetuneTrainingSection
from bertctl.finetune.run import run
from bertctl.finetune.start import resolve_training
from bertctl.finetune.strategy_config import EVERYTHING, StrategySection
from bertctl.recipe.load import build_recipe
from bertctl.text.tokenizer import Tokenizer

STRATEGIES = {
    "unfreeze": {"unfreeze_every": 7, "layer_decay": 0.8, "head_lr": 5e-3},
    "lora": {"lora": {"rank": 4, "projections": ["query", "value", "up"], "dropout": 0.1}},
    "reinit": {"reinit_layers": 1, "freeze": 1},
    "frozen": {"freeze": "encoder"},
}


def section_of(make_section, name, **more):
    training = {"evaluate_every_steps": 10, "save_every_steps": 5}
    return make_section(steps=30, dropout=0.1, strategy=STRATEGIES[name], training=training, **more)


def stop_at(step, monkeypatch):
    """A signal that arrives during step number `step`."""
    plain = train.step_line

    def line(at, speed):
        if at.number == step:
            signals.request(signal.SIGTERM)
        return plain(at, speed)

    monkeypatch.setattr(train, "step_line", line)


@pytest.mark.parametrize(
    ("name", "step"), [("unfreeze", 7), ("unfreeze", 18), ("lora", 12), ("reinit", 12), ("frozen", 12)]
)
def test_stopped_and_resumed_it_ends_with_the_same_bytes(name, step, make_section, tmp_path, monkeypatch, model_hash):
    section = section_of(make_section, name)
    section = section.model_copy(update={"training": section.training.model_copy(update={"log_every_steps": 1})})
    whole = run(section, out=tmp_path / "whole", seed=3)
    stop_at(step, monkeypatch)
    with pytest.raises(Stopped):
        run(section, out=tmp_path / "run", seed=3)
    monkeypatch.undo()
    signals.clear()
    resumed = run(section, out=tmp_path / "run", seed=3, resume=True)
    assert model_hash(tmp_path / "run") == model_hash(tmp_path / "whole")
    assert resumed["pretrained"]["value"] == whole["pretrained"]["value"]
    assert resumed["parameter_groups"] == whole["parameter_groups"]


def test_layers_move_from_the_step_on_at_which_they_unfreeze(make_section, encoder, tmp_path):
    """Two layers, a new group every 7 steps: head from step 1, layer 2 from 8, layer 1 from 15, embeddings from 22."""
    settings = {"evaluate_every_steps": 7, "save_every_steps": 7, "keep_checkpoints": 10}
    section = make_section(steps=28, strategy={"unfreeze_every": 7}, training=settings)
    run(section, out=tmp_path / "run", seed=0)
    [checkpoints] = (tmp_path / "run" / "runs").glob("*/checkpoints")
    names = {
        "head": "model.heads.sequence.output.weight",
        "layer 2": "model.encoder.layers.1.feed_forward.up.weight",
        "layer 1": "model.encoder.layers.0.feed_forward.up.weight",
        "embeddings": "model.encoder.embeddings.word.weight",
    }
    at = {step: load_tensors(checkpoints / f"step-{step}" / "model.safetensors") for step in (7, 14, 21, 28)}
    moved = {
        (earlier, later): {
            group for group, name in names.items() if not torch.equal(at[earlier][name], at[later][name])
        }
        for earlier, later in ((7, 14), (14, 21), (21, 28))
    }
    assert moved == {
        (7, 14): {"head", "layer 2"},
        (14, 21): {"head", "layer 2", "layer 1"},
        (21, 28): {"head", "layer 2", "layer 1", "embeddings"},
    }
    base = load_tensors(encoder / "model.safetensors")
    assert torch.equal(at[7][names["layer 2"]], base["bert.encoder.layer.1.intermediate.dense.weight"])


RANK = """
import sys
from pathlib import Path
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run
run(FinetuneSection.model_validate_json(sys.argv[2]), out=Path(sys.argv[1]), seed=3)
"""


@pytest.mark.parametrize(
    ("steps", "strategy"), [(9, {"unfreeze_every": 3}), (3, STRATEGIES["frozen"])], ids=["gradual", "frozen"]
)
def test_two_ranks_end_with_the_weights_of_one(steps, strategy, make_section, tmp_path):
    """Where a layer joins, gradients of more parameters are exchanged; a frozen encoder's outputs come in two files."""
    section = make_section(steps=steps, strategy=strategy)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RANK, str(tmp_path / "two"), section.model_dump_json()]
    ranks = [
        subprocess.Popen(command, env=os.environ | place | {"RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE)
        for rank in ("0", "1")
    ]
    told = [rank.communicate(timeout=300)[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told
    run(section, out=tmp_path / "one", seed=3)
    one, two = (load_tensors(tmp_path / who / "model" / "model.safetensors") for who in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], atol=2e-5, rtol=0)


def test_a_lora_model_is_an_ordinary_one_and_learns(make_section, texts, encoder, tmp_path):
    section = make_section(steps=120, strategy=STRATEGIES["lora"], training={"optimizer": {"lr": 1e-2}})
    result = run(section, out=tmp_path / "run", seed=0)
    assert result["pretrained"]["low"] > result["majority_baseline"]["value"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "model").eval()
    tokenizer, temperature = Tokenizer.load(tmp_path / "run" / "model"), result["settings"]["temperature"]
    [path] = (tmp_path / "run" / "runs").glob("*/predictions-test.jsonl")
    ours = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [line.split("\t")[0] for line in (texts / "test.tsv").read_text().splitlines()[1:]]
    for text, row in zip(rows[:10], ours[:10], strict=True):
        ids = [tokenizer.cls_id, *tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep_id]
        with torch.inference_mode():
            shares = (model(torch.tensor([ids])).logits / temperature).softmax(-1)[0]
        assert row["probabilities"]["pos"] == pytest.approx(float(shares[1]), abs=1e-5)
    before, after = (
        load_tensors(encoder / "model.safetensors"),
        load_tensors(tmp_path / "run" / "model" / "model.safetensors"),
    )
    moved = {name for name in after if name in before and not torch.equal(after[name], before[name])}
    parts = ("attention.self.query.weight", "attention.self.value.weight", "intermediate.dense.weight")
    assert moved == {f"bert.encoder.layer.{layer}.{part}" for layer in (0, 1) for part in parts}


def test_the_table_is_in_the_result_of_the_run_and_printed_once(make_section, tmp_path, capsys):
    result = run(make_section(steps=2, seeds=2, strategy={"layer_decay": 0.5}), out=tmp_path / "run", seed=0)
    assert {row["group"]: row["lr"] for row in result["parameter_groups"]} == pytest.approx(
        {"embeddings": 3e-3 / 8, "layer 1": 3e-3 / 4, "layer 2": 3e-3 / 2, "head": 3e-3}
    )
    stored = json.loads((tmp_path / "run" / "runs" / "pretrained-seed1" / "result.json").read_text())
    assert stored["parameter_groups"] == result["parameter_groups"]
    shown = capsys.readouterr().err
    assert shown.count("group       ") == 1


def test_fresh_weights_are_all_trained(make_section, tmp_path):
    section = make_section(steps=2, from_scratch=True, strategy={"freeze": "encoder"})
    run(section, out=tmp_path / "run", seed=0)
    stored = json.loads((tmp_path / "run" / "runs" / "from_scratch-seed0" / "result.json").read_text())
    assert not any(row["frozen"] for row in stored["parameter_groups"])


def test_another_strategy_cannot_be_resumed(make_section, tmp_path):
    run(make_section(steps=2, strategy={"layer_decay": 0.5}), out=tmp_path / "run", seed=0)
    with pytest.raises(BertctlError, match=r"strategy\.layer_decay: 0\.5 -> 0\.6"):
        run(make_section(steps=2, strategy={"layer_decay": 0.6}), out=tmp_path / "run", seed=0, resume=True)


def test_too_many_layers_are_refused_before_anything_is_written(make_section, tmp_path):
    with pytest.raises(BertctlError, match="got 3, but the encoder has 2 layers"):
        run(make_section(strategy={"freeze": 3}), out=tmp_path / "run", seed=0)
    assert not (tmp_path / "run").exists()


def test_what_is_trained_decides_the_default_rate():
    def rate(width, strategy):
        section = build_recipe({}, FinetuneTrainingSection)
        return resolve_training(section, 1000, width, strategy).optimizer.lr

    assert rate(768, EVERYTHING) == 5e-5
    assert rate(768, StrategySection(layer_decay=0.9)) == 5e-5
    assert rate(768, build_recipe({"lora": {}}, StrategySection)) == pytest.approx(5e-4)
    assert rate(768, StrategySection(freeze="encoder")) == pytest.approx(5e-4)
    assert rate(128, StrategySection(freeze="encoder")) == 1e-3


def test_class_weights_move_what_is_said(make_section, tmp_path):
    """A class that counts next to nothing is not predicted after a few steps."""
    found = {}
    for name in ("neg", "pos"):
        loss = {"class_weights": {name: 0.001}}
        result = run(make_section(steps=10, loss=loss), out=tmp_path / name, seed=0)
        found[name] = {row["label"]: row["predicted"] for row in result["per_class"]}
    assert found == {"neg": {"neg": 0, "pos": 60}, "pos": {"neg": 60, "pos": 0}}
