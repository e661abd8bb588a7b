"""The stage: a checkpoint to continue from, gradient checkpointing, accumulation, and what it refuses."""

import json
import shutil
import signal

import pytest
import torch

from bertctl import signals
from bertctl.artifacts.manifest import sha256_file, verify
from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.run import run as build_pairs
from bertctl.errors import BertctlError, Stopped
from bertctl.pretrain import held_out
from bertctl.pretrain.run import run
from bertctl.recipe.load import build_recipe
from bertctl.variants.hf import load_model

TRAINING = {"steps": 12, "batch_size": 8, "optimizer": {"lr": 3e-3}, "precision": "float32", "log_every_steps": 4}


@pytest.fixture(autouse=True)
def _no_signal():
    signals.clear()


@pytest.fixture(scope="module")
def finished(section, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return out, run(section(training=TRAINING), out=out, seed=1)


def weights(out):
    return load_model(out / "model").model.state_dict()


def test_what_a_run_leaves_behind(finished):
    out, result = finished
    assert verify(out, kind="pretrain")
    assert verify(out / "model", kind="model")
    assert json.loads((out / "result.json").read_text()) == result
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["split"]) for line in lines] == [
        (4, "train"),
        (8, "train"),
        (12, "train"),
        (12, "held_out"),
    ]
    assert result["mlm_loss"] < result["unigram_entropy"] + 1
    assert set(load_model(out / "model").model.head_outputs) == {"masked_lm", "sentence_pair"}


def test_going_on_from_a_checkpoint(finished, section, tmp_path):
    out, _ = finished
    more = section(init_from=str(out), training={**TRAINING, "steps": 1, "optimizer": {"lr": 1e-12}})
    run(more, out=tmp_path / "more", seed=2)
    before, after = weights(out), weights(tmp_path / "more")
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_a_larger_encoder_starts_where_the_smaller_one_stood(finished, section, tmp_path):
    out, first = finished
    small = load_model(out / "model").model.config
    wide = {"hidden_size": 2 * small.hidden_size, "num_attention_heads": 2 * small.num_attention_heads}
    wide |= {"intermediate_size": 2 * small.intermediate_size, "max_position_embeddings": 60}
    plain = section(init_from=str(out), training={**TRAINING, "steps": 1, "optimizer": {"lr": 1e-12}})
    encoder = plain.encoder.model_copy(update=wide)
    result = run(plain.model_copy(update={"resize": True, "encoder": encoder}), out=tmp_path / "large", seed=1)
    assert result["mlm_loss"] == pytest.approx(first["mlm_loss"], abs=1e-4)
    assert len(weights(tmp_path / "large")["encoder.position.table.weight"]) == 60


def test_where_a_checkpoint_lies_leaves_no_trace(finished, section, tmp_path):
    manifests = []
    for place in (finished[0], shutil.copytree(finished[0], tmp_path / "copy")):
        out = tmp_path / f"from-{place.name}"
        run(section(init_from=str(place), training={**TRAINING, "steps": 1}), out=out, seed=2)
        manifests.append((out / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    assert str(tmp_path).encode() not in manifests[1]


@pytest.mark.parametrize("change", [{"gradient_checkpointing": True}, {"micro_batch_size": 3}])
def test_savings_of_memory_change_nothing_but_rounding(change, section, tmp_path):
    ends = []
    for number, training in enumerate((TRAINING, TRAINING | change)):
        encoder = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        encoder |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        made = section(training=training | {"steps": 4}).model_dump(mode="json") | {"encoder": encoder}
        del made["pairs"]
        run(section(**made), out=tmp_path / str(number), seed=1)
        ends.append(weights(tmp_path / str(number)))
    assert all(torch.allclose(ends[0][name], ends[1][name], atol=2e-5) for name in ends[0])


def test_two_runs_have_the_same_bytes_and_another_seed_has_not(finished, section, tmp_path):
    hashes = []
    for seed in (1, 2):
        run(section(training=TRAINING), out=tmp_path / str(seed), seed=seed)
        hashes.append(sha256_file(tmp_path / str(seed) / "model" / "model.safetensors"))
    assert hashes[0] == sha256_file(finished[0] / "model" / "model.safetensors") != hashes[1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"encoder": {"size": "tiny", "max_position_embeddings": 16}}, "reads 16 tokens, the longest example has"),
        ({"encoder": {"size": "tinny"}}, "did you mean 'tiny'"),
        ({"phases": [{"name": "middle", "share": 1.0}]}, "examples-middle-train"),
        ({"pairs": "tests"}, "expected the manifest of a finished bertctl folder"),
        ({"phases": [{"name": "short", "share": 0.5}] * 2}, "'short' twice"),
        ({"init_from": "nowhere/at/all"}, "nowhere/at/all"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(fields, words, section, tmp_path):
    with pytest.raises(BertctlError) as caught:
        run(section(**fields), out=tmp_path / "run", seed=0)
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("call", [1, 2])  # in the middle, and after the last step
def test_a_signal_while_scoring_saves_the_step_and_the_resumed_run_is_the_same(call, section, tmp_path, monkeypatch):
    made = section(training={**TRAINING, "evaluate_every_steps": 6})
    run(made, out=tmp_path / "whole", seed=1)
    plain, calls = held_out.score_rows, []

    def interrupted(*positional, **named):
        calls.append(None)
        if len(calls) == call:
            signals.request(signal.SIGTERM)
        return plain(*positional, **named)

    monkeypatch.setattr(held_out, "score_rows", interrupted)
    with pytest.raises(Stopped) as stopped:
        run(made, out=tmp_path / "run", seed=1)
    assert stopped.value.exit_status == 143
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")] == [f"step-{6 * call}"]
    signals.clear()
    run(made, out=tmp_path / "run", seed=1, resume=True)
    hashes, logs = [], []
    for out in (tmp_path / "whole", tmp_path / "run"):
        hashes.append(sha256_file(out / "model" / "model.safetensors"))
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        logs.append([{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines])
    assert hashes[0] == hashes[1]
    assert logs[0] == logs[1]


def test_an_encoder_that_reads_just_the_longest_example_reads_its_batch(section, pairs, tmp_path):
    tree = {"tokens": str(pairs.parent / "tokens"), "sequence_length": 21, "held_out_fraction": 0.2}  # rounded up: 24
    build_pairs(build_recipe(tree, BuildPairsSection), out=tmp_path / "pairs", seed=0)
    encoder = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    made = section(training={**TRAINING, "steps": 2}, encoder={**encoder, "max_position_embeddings": 21})
    made = made.model_copy(update={"pairs": tmp_path / "pairs", "tokens": pairs.parent / "tokens"})
    assert run(made, out=tmp_path / "run", seed=1)["steps"] == 2
