"""The stage as a whole: results, refusals, resumes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bertctl import signals
from bertctl.artifacts.manifest import verify
from bertctl.artifacts.tensors import load_tensors
from bertctl.distill.run import compare, run
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError, Stopped
from bertctl.heads.model import Model
from bertctl.metrics.classification import classification_metrics
from bertctl.pretrain import held_out
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.run import run as pretrain
from bertctl.recipe.load import build_recipe
from bertctl.text.tokenizer import Tokenizer
from bertctl.variants.hf import load_model, save_model

CHILD = """
import sys
from pathlib import Path
from bertctl.distill.config import DistillSection
from bertctl.distill.run import run
run(DistillSection.model_validate_json(sys.argv[1]), out=Path(sys.argv[2]), seed=3)
"""


@pytest.fixture(scope="module")
def whole(on_pairs, tmp_path_factory):
    """An uninterrupted run on pairs, and its result."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, run(on_pairs({"save_every_steps": 10, "evaluate_every_steps": 20}), out=out, seed=3)


@pytest.fixture(scope="module")
def narrow(for_task, tmp_path_factory):
    """An uninterrupted run for a task, with a student that is narrower and so needs a projection."""
    out = tmp_path_factory.mktemp("narrow") / "run"
    return out, run(for_task({"save_every_steps": 10}, **NARROW), out=out, seed=3)


NARROW = {"student": {"hidden_size": 16}, "weights": {"hidden_cosine": 0.5}}


def test_on_pairs_the_result_says_what_was_won_and_what_was_lost(whole, inputs):
    out, result = whole
    assert json.loads((out / "result.json").read_text()) == result
    teacher, student = (load_model(Path(folder)).model for folder in (f"{inputs['teacher']}/model", out / "model"))
    for who, model in (("teacher", teacher), ("student", student)):
        assert result[f"parameters_{who}"] == sum(p.numel() for p in model.parameters())
    assert (student.config.num_hidden_layers, result["layer_map"]) == (2, [1, 4])
    assert student.head_outputs == {"masked_lm": 0, "sentence_pair": 2}
    assert result["metric"] == "mlm_accuracy"
    assert result["teacher"]["value"] > 0.5  # guessing gives an eighth
    assert result["teacher"]["low"] < result["teacher"]["value"] < result["teacher"]["high"]
    assert result["retained"] == pytest.approx(result["student"]["value"] / result["teacher"]["value"])
    assert result["retained"] > 0.8
    assert result["speedup"] > 1.0
    assert (result["speed"]["batch"], result["speed"]["tokens"], result["steps"]) == (
        29,
        24,
        40,
    )  # all that is held out


def test_the_teachers_score_is_the_one_that_its_own_pretraining_found(whole, inputs):
    _, result = whole
    own = json.loads((Path(inputs["teacher"]) / "result.json").read_text())
    assert result["teacher"]["value"] == pytest.approx(own["mlm_accuracy"], abs=1e-9)
    assert result["metrics"]["teacher"]["mlm_loss"]["value"] == pytest.approx(own["mlm_loss"], abs=1e-6)


def test_the_log_has_every_loss_and_the_held_out_score(whole):
    lines = [json.loads(line) for line in (whole[0] / "metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if line["split"] == "train"]
    names = ("soft_targets", "hidden_cosine", "mlm", "sentence_pair")
    weights = dict(zip(names, (5.0, 1.0, 2.0, 1.0), strict=True))
    for line in train:
        assert line["loss"] == pytest.approx(sum(weights[name] * line[f"loss_{name}"] for name in names))
    assert train[-1]["loss_soft_targets"] < train[0]["loss_soft_targets"]
    assert [line["step"] for line in lines if line["split"] == "held_out"] == [20, 40]


def test_the_students_config_says_where_it_comes_from(whole):
    noted = json.loads((whole[0] / "model" / "config.json").read_text())["bertctl"]
    assert (noted["stage"], noted["layer_map"]) == ("distill", [1, 4])
    verify(whole[0] / "model", kind="model")


def test_killed_on_pairs_it_resumes_to_the_same_bytes(whole, on_pairs, tmp_path, model_hash):
    section = on_pairs({"save_every_steps": 10, "evaluate_every_steps": 20})
    assert_resumes(section, "before manifest step-30", whole, tmp_path / "run", model_hash)


def test_killed_for_a_task_it_resumes_to_the_same_bytes(narrow, for_task, tmp_path, model_hash):
    section = for_task({"save_every_steps": 10}, **NARROW)
    assert_resumes(section, "before manifest model", narrow, tmp_path / "run", model_hash)


def assert_resumes(section, point, whole, out, model_hash):
    child = [sys.executable, "-c", CHILD, section.model_dump_json(), str(out)]
    environment = os.environ | {"BERTCTL_TEST_DIE_AT": point}
    killed = subprocess.run(child, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    result = run(section, out=out, seed=3, resume=True)
    assert model_hash(out) == model_hash(whole[0])
    assert result["student"] == whole[1]["student"]


def test_a_task_whose_training_was_finished_when_the_run_was_stopped_keeps_its_student(
    narrow, for_task, tmp_path, model_hash, monkeypatch
):
    out, section = tmp_path / "run", for_task({"save_every_steps": 10}, **NARROW)
    monkeypatch.setattr("bertctl.distill.run.measure_speedup", interrupted)
    with pytest.raises(Stopped):
        run(section, out=out, seed=3)
    monkeypatch.undo()
    signals.clear()
    result = run(section, out=out, seed=3, resume=True)
    assert model_hash(out) == model_hash(narrow[0])
    assert result["student"] == narrow[1]["student"]
    again = run(section, out=out, seed=3, resume=True)
    assert again == result


def interrupted(*positional, **named):
    signals.request(signal.SIGTERM)
    signals.check("measuring speed")


def test_a_signal_saves_the_step_and_the_resumed_run_has_the_same_bytes(whole, on_pairs, tmp_path, model_hash, stop_at):
    out, section = tmp_path / "run", on_pairs({"save_every_steps": 10, "evaluate_every_steps": 20})
    stop_at(held_out, "score_rows")
    with pytest.raises(Stopped) as stopped:
        run(section, out=out, seed=3)
    assert stopped.value.exit_status == 143
    assert (out / "checkpoints" / "step-20").is_dir()
    signals.clear()
    run(section, out=out, seed=3, resume=True)
    assert model_hash(out) == model_hash(whole[0])


def test_micro_batches_change_nothing_but_rounding(whole, on_pairs, tmp_path):
    training = {"save_every_steps": 10, "evaluate_every_steps": 20, "micro_batch_size": 4}
    result = run(on_pairs(training), out=tmp_path / "run", seed=3)
    assert result["student"]["value"] == pytest.approx(whole[1]["student"]["value"], abs=0.03)


@pytest.mark.parametrize("weights", [NARROW["weights"], {"soft_targets": 0.0, "mlm": 0.0, "hidden_cosine": 1.0}])
def test_two_ranks_train_the_student_that_one_trains(weights, on_pairs, tmp_path):
    section = on_pairs({"steps": 10}, **(NARROW | {"weights": weights}))
    child = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "child.py")]
    (tmp_path / "child.py").write_text(CHILD)
    two, one = tmp_path / "two", tmp_path / "one"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*child, section.model_dump_json(), str(two)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    run(section, out=one, seed=3)
    weights = [load_tensors(out / "model" / "model.safetensors") for out in (one, two)]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-5), name


def test_a_resume_with_other_weights_is_refused(whole, on_pairs):
    section = on_pairs({"save_every_steps": 10, "evaluate_every_steps": 20}, weights={"mlm": 3.0})
    with pytest.raises(BertctlError, match=r"weights\.mlm: 2\.0 -> 3\.0"):
        run(section, out=whole[0], seed=3, resume=True)


def test_for_a_task_the_student_keeps_what_the_teacher_knows(narrow):
    out, result = narrow
    assert (result["metric"], result["task"], result["scored_split"]) == ("accuracy", "classification", "test")
    assert result["teacher"]["value"] > 0.9
    assert result["retained"] > 0.9
    assert result["layer_map"] is None
    assert "encoder.embeddings.word.weight" in result["projected_tensors"]
    loaded = load_model(out / "model")
    assert loaded.labels == ["neg", "pos"]
    assert loaded.model.config.hidden_size == 16
    assert loaded.extra["task"] == "classification"
    assert not any("projection" in name for name in loaded.unused_tensors)


def test_the_teacher_of_a_task_is_scored_as_fine_tuning_scored_it(narrow, inputs):
    own = json.loads((Path(inputs["classifier"]) / "result.json").read_text())
    assert narrow[1]["teacher"]["value"] == own["pretrained"]["value"]


def test_token_labels_and_a_checkpoint_as_student(inputs, for_task, whole, tmp_path):
    """The way of two steps: distil on text, then for the task."""
    tagger = {"task": "ner", "data": {"path": inputs["sentences"]}}
    section = for_task(teacher=make_tagger(inputs, tmp_path), student=str(whole[0]), **tagger)
    result = run(section, out=tmp_path / "run", seed=0)
    assert (result["metric"], result["task"]) == ("f1", "ner")
    assert result["student_from"] == f"checkpoint {whole[0]}"
    assert result["retained"] > 0.9


def make_tagger(inputs, folder) -> str:
    from bertctl.finetune.config import FinetuneSection
    from bertctl.finetune.run import run as finetune

    settings = {"steps": 60, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
    tree = {"task": "ner", "model": inputs["teacher"], "data": {"path": inputs["sentences"]}, "training": settings}
    finetune(build_recipe(tree, FinetuneSection), out=folder / "tagger", seed=0)
    return str(folder / "tagger")


def other_teacher(inputs, folder: Path, words: list[str] | None = None, heads=None) -> str:
    """A random model with the pairs' vocabulary, or with another."""
    tokenizer = Tokenizer.load(Path(inputs["tokens"]))
    if words is not None:
        tokenizer = Tokenizer(words, lowercase=tokenizer.lowercase, strip_accents=tokenizer.strip_accents)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, max_position_embeddings=32, **sizes)
    torch.manual_seed(0)
    folder.mkdir()
    save_model(folder, Model(config, {"masked_lm": 0} if heads is None else heads), tokenizer)
    return str(folder)


def test_another_vocabulary_is_refused_before_anything_is_written(inputs, on_pairs, tmp_path):
    words = list(Tokenizer.load(Path(inputs["tokens"])).tokens)
    words[-1], words[-2] = words[-2], words[-1]
    section = on_pairs(teacher=other_teacher(inputs, tmp_path / "teacher", words))
    with pytest.raises(BertctlError, match=r"in 2 of \d+ ids") as caught:
        run(section, out=tmp_path / "run", seed=0)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_a_teacher_without_the_head_is_refused(inputs, on_pairs, for_task, tmp_path):
    bare = other_teacher(inputs, tmp_path / "bare", heads={})
    with pytest.raises(BertctlError, match="has no masked-LM head"):
        run(on_pairs(teacher=bare), out=tmp_path / "run", seed=0)
    with pytest.raises(BertctlError, match="has no sequence head with named labels"):
        run(for_task(teacher=bare), out=tmp_path / "run", seed=0)


def test_a_label_that_the_teacher_does_not_know_is_refused(inputs, for_task, tmp_path):
    (tmp_path / "data").mkdir()
    for split in ("train", "dev", "test"):
        text = (Path(inputs["texts"]) / f"{split}.tsv").read_text().replace("\tneg", "\tnegative")
        (tmp_path / "data" / f"{split}.tsv").write_text(text)
    lines = (tmp_path / "data/train.tsv").read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.endswith("\tnegative"))
    said = rf"train.tsv:{first}: got the label 'negative' \(\d+ times: lines {first}, "
    with pytest.raises(BertctlError, match=said):
        run(for_task(data={"path": str(tmp_path / "data")}), out=tmp_path / "run", seed=0)


@pytest.mark.parametrize("missing", ["teacher", "pairs", "tokens"])
def test_an_input_that_is_not_given_is_named(missing, inputs, on_pairs, tmp_path):
    alone = shutil.copytree(inputs["pairs"], tmp_path / "alone" / "pairs")  # without the tokens beside them
    with pytest.raises(BertctlError, match=f"distill.{missing}: not given"):
        run(on_pairs(**{"pairs": str(alone), missing: None}), out=tmp_path / "run", seed=0)


def test_the_student_beats_the_same_encoder_trained_without_a_teacher(whole, inputs, tmp_path):
    """Same data, steps and rate, fresh weights."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    encoder = {**sizes, "max_position_embeddings": 32, "norm_place": "pre", "initializer_range": 0.1}
    training = {"steps": 40, "batch_size": 16, "optimizer": {"lr": 3e-3}, "precision": "float32"}
    tree = {"pairs": inputs["pairs"], "tokens": inputs["tokens"], "encoder": encoder, "training": training}
    alone = pretrain(build_recipe({**tree, "held_out_examples": 40}, PretrainSection), out=tmp_path / "run", seed=3)
    assert whole[1]["student"]["value"] > alone["mlm_accuracy"] + 0.1
    assert whole[1]["metrics"]["student"]["mlm_loss"]["value"] < alone["mlm_loss"]


def test_a_student_that_cannot_read_the_longest_input_is_refused(on_pairs, for_task, tmp_path):
    short = {"max_position_embeddings": 16}
    with pytest.raises(BertctlError, match="student: reads 16 tokens, the longest input has 24") as caught:
        run(on_pairs(student=short), out=tmp_path / "run", seed=0)
    assert caught.value.exit_code == 2
    assert "build_pairs.sequence_length" in str(caught.value.hint)
    with pytest.raises(BertctlError, match="student: reads 16 tokens, the longest input has 32"):
        run(for_task(student=short), out=tmp_path / "run", seed=0)
    assert not (tmp_path / "run").exists()


def test_the_tokens_that_the_pairs_were_built_from_need_no_name(on_pairs, tmp_path):
    assert run(on_pairs({"steps": 1}, tokens=None), out=tmp_path / "run", seed=0)["steps"] == 1


def test_a_student_with_fewer_shared_layers_is_not_called_as_large(on_pairs, tmp_path, capsys):
    shared = {"num_hidden_layers": 2, "layer_sharing": "all"}
    first = run(on_pairs({"steps": 1}, student=shared), out=tmp_path / "one", seed=0)
    result = run(on_pairs({"steps": 1}, teacher=str(tmp_path / "one"), student="half"), out=tmp_path / "two", seed=0)
    assert result["parameters_student"] == result["parameters_teacher"] == first["parameters_student"]
    assert "not smaller" not in capsys.readouterr().err


def test_a_student_that_is_not_smaller_is_told(on_pairs, tmp_path, capsys):
    result = run(on_pairs({"steps": 2}, student={"num_hidden_layers": 4}), out=tmp_path / "run", seed=0)
    assert "warning: the student is not smaller than the teacher" in capsys.readouterr().err
    assert result["parameters_student"] == result["parameters_teacher"]


def test_a_metric_that_is_undefined_or_negative_retains_nothing():
    gold, same, wrong = np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0])
    right, inverse, constant = (
        classification_metrics(*pair, 2) for pair in ((gold, same), (gold, wrong), (gold * 0, same))
    )
    assert compare("mcc", right, right)["retained"] == 1.0
    assert compare("mcc", inverse, right)["retained"] is None
    assert compare("mcc", constant, right)["retained"] is None
    assert compare("mcc", right, constant)["retained"] is None
