"""The stage from a checkpoint to a scored model: what it learns, what it writes, what it refuses."""

import json
import shutil
import statistics
from pathlib import Path

import pytest
import torch
import transformers

from bertctl.errors import BertctlError
from bertctl.finetune import start
from bertctl.finetune.config import FinetuneSection, FinetuneTrainingSection
from bertctl.finetune.data import tell
from bertctl.finetune.run import run
from bertctl.finetune.start import resolve_training
from bertctl.recipe.load import build_recipe
from bertctl.tasks.audit import audit
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Splits, TextExample
from bertctl.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def trained(make_section, tmp_path_factory):
    """Two seeds, from the checkpoint and from scratch: (folder, result)."""
    out = tmp_path_factory.mktemp("stage") / "classification"
    return out, run(make_section(steps=120, seeds=2, from_scratch=True), out=out, seed=7)


def test_it_beats_the_majority_class_and_says_by_how_much(trained):
    _, result = trained
    majority, pretrained = result["majority_baseline"], result["pretrained"]
    assert result["task"] == "classification"
    assert result["metric"] == "accuracy"
    assert result["scored_split"] == "test"
    assert majority["label"] == "pos"
    assert pretrained["low"] > majority["high"]
    assert pretrained["low"] <= pretrained["value"] <= pretrained["high"]
    assert result["test_examples"] == 60
    assert sum(row["support"] for row in result["per_class"]) == 60


def test_seeds_give_mean_and_spread_and_dev_picks_the_model(trained):
    _, result = trained
    for variant in ("pretrained", "from_scratch"):
        found = result[variant]
        values = [run["value"] for run in found["seeds"]]
        assert [run["seed"] for run in found["seeds"]] == [7, 8]
        assert found["mean"] == pytest.approx(statistics.fmean(values))
        assert found["std"] == pytest.approx(statistics.stdev(values))
    best = max(result["pretrained"]["seeds"], key=lambda run: run["dev"])
    assert result["pretrained"]["value"] == best["value"]
    assert result["chosen_seed"] == best["seed"]


def test_where_the_checkpoint_lies_leaves_no_trace(make_section, tmp_path):
    section = make_section(steps=2)
    manifests = []
    for place in (Path(section.model), shutil.copytree(section.model, tmp_path / "copy")):
        out = tmp_path / f"from-{place.name}"
        run(section.model_copy(update={"model": str(place)}), out=out, seed=7)
        manifests.append([path.read_bytes() for path in sorted(out.rglob("manifest.json"))])
    assert manifests[0] == manifests[1]
    assert str(tmp_path).encode() not in b"".join(manifests[1])


def test_the_model_loads_in_transformers_and_predicts_the_same(trained, texts):
    out, result = trained
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out / "model").eval()
    assert model.config.id2label == {0: "neg", 1: "pos"}
    tokenizer = Tokenizer.load(out / "model")
    rows = [line.split("\t")[0] for line in (texts / "test.tsv").read_text().splitlines()[1:]]
    path = out / "runs" / f"pretrained-seed{result['chosen_seed']}" / "predictions-test.jsonl"
    ours = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(ours) == len(rows)
    for text, row in zip(rows[:20], ours[:20], strict=True):
        ids = [tokenizer.cls_id, *tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep_id]
        with torch.inference_mode():
            shares = model(torch.tensor([ids])).logits.softmax(-1)[0]
        assert row["probabilities"]["pos"] == pytest.approx(float(shares[1]), abs=1e-5)


def test_the_result_is_on_disk_and_a_finished_run_is_kept(trained, make_section, capsys):
    out, result = trained
    assert json.loads((out / "result.json").read_text()) == result
    config = json.loads((out / "model" / "config.json").read_text())
    assert config["bertctl"]["task"] == "classification"
    assert not list(out.rglob("checkpoints/best"))
    again = run(make_section(steps=120, seeds=2, from_scratch=True), out=out, seed=7, resume=True)
    assert again == result
    assert "finished" in capsys.readouterr().err


def test_a_seed_among_several_is_the_run_of_that_seed_alone(trained, make_section, tmp_path, model_hash):
    out, _ = trained
    run(make_section(steps=120), out=tmp_path / "alone", seed=8)
    assert model_hash(tmp_path / "alone") == model_hash(out / "runs" / "pretrained-seed8")


def test_a_changed_setting_cannot_be_resumed(trained, make_section):
    out, _ = trained
    with pytest.raises(BertctlError, match=r"dropout.*0\.0 -> 0\.2"):
        run(make_section(steps=120, seeds=2, from_scratch=True, dropout=0.2), out=out, seed=7, resume=True)


def test_names_and_places_are_found(make_section, sentences, tmp_path):
    settings = {"optimizer": {"lr": 1e-2}, "evaluate_every_steps": 30}
    section = make_section(steps=240, task="ner", data={"path": str(sentences)}, training=settings)
    result = run(section, out=tmp_path / "ner", seed=0)
    assert result["metric"] == "f1"
    assert result["majority_baseline"]["value"] == 0.0
    assert result["pretrained"]["low"] > 0.8
    assert result["scheme"] == "BIO"
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "ner" / "model")
    assert set(model.config.id2label.values()) == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}


def test_without_test_data_dev_is_scored_and_called_so(make_section, texts, tmp_path, capsys):
    data = {"train": str(texts / "train.tsv"), "dev": str(texts / "dev.tsv")}
    result = run(make_section(steps=4, data=data), out=tmp_path / "x", seed=0)
    assert result["scored_split"] == "dev"
    assert "of dev, which also picked the weights" in capsys.readouterr().err


def test_patience_stops_early(make_section, tmp_path):
    settings = {"optimizer": {"lr": 1e-12}, "evaluate_every_steps": 2}
    result = run(make_section(steps=40, patience=3, training=settings), out=tmp_path / "x", seed=0)
    [only] = result["pretrained"]["seeds"]
    assert only["steps"] == 8  # the first evaluation is the best, three more are no better
    assert only["best_step"] == 2
    assert only["degenerate"] is True


def test_an_unknown_label_is_refused_before_anything_is_written(make_section, texts, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("text\tlabel\nfine film\tpos\nthe song\tmixed\n")
    data = {"train": str(texts / "train.tsv"), "dev": str(dev)}
    with pytest.raises(BertctlError, match=rf"{dev}:3: got the label 'mixed'"):
        run(make_section(data=data), out=tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_one_class_is_refused(make_section, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,pos\nb,pos\nc,pos\n")
    with pytest.raises(BertctlError, match=r"only one class \('pos', 3 times\)"):
        run(make_section(data={"path": str(path)}), out=tmp_path / "out", seed=0)


def test_numbers_from_one_are_classes_by_name(make_section, tmp_path):
    rows = [f"{word} film,{label}" for label, word in ((1, "fine"), (2, "dull"), (3, "poor")) for _ in range(4)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    result = run(make_section(steps=2, data={"path": str(tmp_path)}), out=tmp_path / "out", seed=0)
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert result["labels"] == ["1", "2", "3"]
    assert config["id2label"] == {"0": "1", "1": "2", "2": "3"}


def test_labels_of_a_model_that_knows_the_task_keep_their_order(make_section, encoder, texts, tmp_path):
    from bertctl.variants.hf import load_model, save_model

    known = load_model(encoder, {"sequence": 2}).model
    known.heads["sequence"].output.bias.data[:] = torch.tensor([5.0, -5.0])
    folder = tmp_path / "known"
    folder.mkdir()
    save_model(folder, known, Tokenizer.load(encoder), labels=["pos", "neg"])
    section = make_section(steps=1, model=str(folder), training={"optimizer": {"lr": 1e-12}})
    result = run(section, out=tmp_path / "out", seed=0)
    assert result["labels"] == ["pos", "neg"]
    says = {row["label"]: row["predicted"] for row in result["per_class"]}
    assert says == {"pos": 60, "neg": 0}  # the head that it had, with its bias, was kept


def test_a_longer_input_than_the_encoder_reads_is_refused(make_section, tmp_path):
    with pytest.raises(BertctlError, match="max_length: got 64, but the encoder reads at most 40"):
        run(make_section(max_length=64, data={"path": "no such folder"}), out=tmp_path / "out", seed=0)


def test_texts_with_two_labels_are_named_with_both_lines(capsys):
    rows = [TextExample("a film", None, "x", "t.csv:2"), TextExample("A  Film", None, "y", "t.csv:9")]
    tell(TASKS["classification"], audit(TASKS["classification"], Splits(rows, [], [])), {}, ["x", "y"], 64)
    assert "1 texts occur with different labels, such as t.csv:2 and t.csv:9\n" in capsys.readouterr().err


def test_cut_texts_are_counted(make_section, tmp_path, capsys):
    rows = [f"{'the ' * 60}{word} film\t{label}" for label, word in (("a", "fine"), ("b", "dull")) for _ in range(3)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\nshort\ta\n" + "\n".join(rows) + "\n")
    result = run(make_section(steps=1, data={"path": str(tmp_path)}), out=tmp_path / "out", seed=0)
    assert result["truncated"] == {"train": 6, "dev": 6}
    assert "6 of 7 texts are longer than 40 word pieces" in capsys.readouterr().err


def test_the_default_rate_and_length_follow_the_encoder_and_the_data():
    def resolved(examples: int, width: int, **more):
        made = resolve_training(build_recipe(more, FinetuneTrainingSection), examples, width)
        return made.steps, made.optimizer.lr

    assert resolved(67_349, 768) == (3 * 2105, 5e-5)
    assert resolved(1_000, 256) == (500, pytest.approx(1.5e-4))  # 500 steps are 15.6 epochs of 32
    assert resolved(100, 32) == (80, 1e-3)  # 20 epochs at most
    assert resolved(1_000, 256, epochs=2, optimizer={"lr": 0.5}) == (64, 0.5)


def test_hub_names_without_a_network_say_what_is_needed(monkeypatch, tmp_path):
    def offline(name):
        raise BertctlError(f"{name}: no such folder here, and the hub could not be reached")

    monkeypatch.setattr(start, "resolve_model", offline)
    tree = {"task": "ner", "model": "org/model", "data": {"name": "org/names"}}
    with pytest.raises(BertctlError) as caught:
        run(build_recipe(tree, FinetuneSection), out=tmp_path / "out", seed=0)
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["org/model", "data set org/names"]
    assert "--model DIR --data DIR" in caught.value.hint
