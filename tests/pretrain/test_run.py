"""The stage: a checkpoint to continue from, gradient checkpointing, accumulation, and what it refuses."""

import json
import os
import shutil
import subprocess
import sys

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


def test_held_out_scores_are_told_while_it_runs(section, tmp_path, capsys):
    result = run(section(training={**TRAINING, "evaluate_every_steps": 8}), out=tmp_path / "run", seed=1)
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("held out, step ")]
    assert [line.split(":")[0] for line in told] == ["held out, step 8", "held out, step 12"]
    assert f": MLM loss {result['mlm_loss']:.3f} nats, MLM accuracy {result['mlm_accuracy']:.3f}, " in told[1]
    assert f"sentence pair accuracy {result['sentence_pair_accuracy']:.3f}" in told[1]


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
        ({"phases": [{"name": "middle", "share": 1.0}]}, "phases: got 'middle', expected one of short"),
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
def test_a_signal_while_scoring_saves_the_step_and_the_resumed_run_is_the_same(call, section, tmp_path, stop_at):
    made = section(training={**TRAINING, "evaluate_every_steps": 6})
    run(made, out=tmp_path / "whole", seed=1)
    stop_at(held_out, "score_rows", call)
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


REPLACED = {"name": "replaced_token", "generator_width": 0.5}
ELECTRA = {"name": "electra", "size": "small", "hidden_size": 16, "embedding_size": 8, "num_hidden_layers": 2}
ELECTRA |= {"num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module")
def electra(section, tmp_path_factory):
    out = tmp_path_factory.mktemp("electra") / "run"
    made = section(encoder=ELECTRA, objective=REPLACED, training={**TRAINING, "evaluate_every_steps": 6})
    return out, run(made, out=out, seed=1), made


def test_replaced_tokens_leave_a_model_and_its_generator(electra):
    out, result, _ = electra
    assert verify(out, kind="pretrain")
    model, generator = load_model(out / "model").model, load_model(out / "generator").model
    assert verify(out / "generator", kind="model")
    assert (dict(model.head_outputs), dict(generator.head_outputs)) == ({"replaced_token": 1}, {"masked_lm": 0})
    assert generator.config.hidden_size == 8
    assert torch.equal(model.encoder.embeddings.word.weight, generator.encoder.embeddings.word.weight)
    architectures = [
        json.loads((out / name / "config.json").read_text())["architectures"] for name in ("model", "generator")
    ]
    assert architectures == [["ElectraForPreTraining"], ["ElectraForMaskedLM"]]
    assert result["parameters"] == sum(p.numel() for p in model.parameters())
    assert result["parameters_generator"] == sum(p.numel() for p in generator.parameters())
    assert result["mlm_loss"] < result["unigram_entropy"] + 1
    assert 0 < result["replaced_token_share"] < 0.2


def test_a_stopped_run_on_replaced_tokens_ends_with_the_same_bytes(electra, tmp_path, stop_at):
    stop_at(held_out, "score_rows")
    with pytest.raises(Stopped):
        run(electra[2], out=tmp_path / "run", seed=1)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")] == ["step-6"]
    signals.clear()
    result = run(electra[2], out=tmp_path / "run", seed=1, resume=True)
    for name in ("model", "generator"):
        hashes = [sha256_file(out / name / "model.safetensors") for out in (electra[0], tmp_path / "run")]
        assert hashes[0] == hashes[1]
    clock = ("seconds", "tokens_per_second")
    assert {k: v for k, v in result.items() if k not in clock} == {
        k: v for k, v in electra[1].items() if k not in clock
    }


def test_going_on_with_both_models(electra, section, tmp_path):
    training = {**TRAINING, "steps": 1, "optimizer": {"lr": 1e-12}}
    objective = REPLACED | {"generator_from": str(electra[0] / "generator")}
    run(section(init_from=str(electra[0]), objective=objective, training=training), out=tmp_path / "more", seed=2)
    for name in ("model", "generator"):
        before, after = (load_model(out / name).model.state_dict() for out in (electra[0], tmp_path / "more"))
        assert all(torch.allclose(before[key], after[key], atol=1e-6) for key in before)


def test_a_stopped_run_with_disentangled_words_ends_with_the_same_bytes(section, tmp_path, stop_at):
    objective = REPLACED | {"embedding_sharing": "disentangled"}
    made = section(encoder=ELECTRA, objective=objective, training={**TRAINING, "evaluate_every_steps": 6})
    run(made, out=tmp_path / "whole", seed=1)
    stop_at(held_out, "score_rows")
    with pytest.raises(Stopped):
        run(made, out=tmp_path / "run", seed=1)
    signals.clear()
    run(made, out=tmp_path / "run", seed=1, resume=True)
    words = []
    for name in ("model", "generator"):
        hashes = [sha256_file(tmp_path / out / name / "model.safetensors") for out in ("whole", "run")]
        assert hashes[0] == hashes[1]
        words.append(load_model(tmp_path / "run" / name).model.encoder.embeddings.word.weight)
    assert not torch.equal(*words)
    more = {**objective, "generator_from": str(tmp_path / "run" / "generator")}
    training = {**TRAINING, "steps": 1, "optimizer": {"lr": 1e-12}}
    run(section(init_from=str(tmp_path / "run"), objective=more, training=training), out=tmp_path / "more", seed=2)
    again = load_model(tmp_path / "more" / "model").model.encoder.embeddings.word.weight
    torch.testing.assert_close(again, words[0], atol=1e-6, rtol=0)


def test_a_generator_with_other_embeddings_is_refused(electra, section, tmp_path):
    objective = REPLACED | {"generator_from": str(electra[0] / "generator")}
    with pytest.raises(BertctlError, match=r"generator_from: got word embeddings of shape \[60, 8\]"):
        run(section(encoder=ELECTRA | {"embedding_size": 12}, objective=objective), out=tmp_path / "run", seed=2)


def test_any_family_learns_replaced_tokens_and_says_what_it_is(section, tmp_path):
    run(section(objective=REPLACED, training={**TRAINING, "steps": 2}), out=tmp_path / "run", seed=1)
    assert json.loads((tmp_path / "run" / "model" / "config.json").read_text())["model_type"] == "bertctl"
    assert json.loads((tmp_path / "run" / "generator" / "config.json").read_text())["model_type"] == "bertctl"
    assert load_model(tmp_path / "run" / "model", {"sequence": 2}).model.config.pooler_act == "tanh"


CHILD = """
import sys
from pathlib import Path
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.run import run
run(PretrainSection.model_validate_json(sys.argv[1]), out=Path(sys.argv[2]), seed=3)
"""


def test_two_ranks_train_the_two_models_that_one_trains(section, tmp_path):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # each rank has dropout of its own
    made = section(encoder=ELECTRA | still, objective=REPLACED, training={**TRAINING, "steps": 6})
    (tmp_path / "child.py").write_text(CHILD)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*launch, str(tmp_path / "child.py"), made.model_dump_json(), str(tmp_path / "two")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    one = run(made, out=tmp_path / "one", seed=3)
    two = json.loads((tmp_path / "two" / "result.json").read_text())
    for key in ("mlm_loss", "replaced_token_loss", "replaced_token_accuracy", "masked_tokens"):
        assert two[key] == pytest.approx(one[key], rel=1e-4), key
    for name in ("model", "generator"):
        mine, theirs = (load_model(tmp_path / out / name).model.state_dict() for out in ("one", "two"))
        assert all(torch.allclose(mine[key], theirs[key], atol=1e-5) for key in mine)
