"""Task metrics of a checkpoint: against scikit-learn, for any batch size, and what is refused before it runs."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.run import run
from bertctl.recipe.load import build_recipe

WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "dog",
    "ran",
    "old",
    "house",
    "ann",
    "saw",
    "bob",
    "rome",
    "long",
    "day",
    "good",
)


def section(**values) -> EvaluateSection:
    return build_recipe(values, EvaluateSection)


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """90 texts of 1 to 40 words with a label each."""
    generator = np.random.default_rng(0)
    rows = ["text\tlabel"]
    for _ in range(90):
        text = " ".join(generator.choice(WORDS, generator.integers(1, 40)))
        rows.append(f"{text}\t{generator.choice(['blue', 'green', 'red'])}")
    path = tmp_path_factory.mktemp("colours") / "test.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


def predictions(out):
    return [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("pairs", [True, False])
def test_single_texts_for_a_model_of_pairs_are_refused_and_the_other_way_round(make_model, colours, tmp_path, pairs):
    model = str(make_model({"sequence": 3}, ["blue", "green", "red"], {"task": "classification", "pairs": pairs}))
    both = tmp_path / "both.tsv"
    both.write_text("sentence1\tsentence2\tlabel\nthe cat\tsat\tred\nthe dog\tran\tblue\n")
    fits, other = (both, colours) if pairs else (colours, both)
    assert run(section(model=model, data={"path": str(fits)}), out=tmp_path / "out", seed=0)["examples"] > 1
    with pytest.raises(BertctlError) as caught:
        run(section(model=model, data={"path": str(other)}), out=tmp_path / "none", seed=0)
    words = ("one text", "pairs of texts") if pairs else ("two texts", "single texts")
    assert caught.value.problems == (f"{other}:2: got {words[0]}, but {model} was fine-tuned on {words[1]}",)
    columns = {"text": "text", "text_pair": "label"} if pairs else {"text": "sentence1"}
    assert f"--set evaluate.data.columns.{'text_pair' if pairs else 'text'}=COLUMN" in caught.value.hint
    data = {"path": str(other), "columns": columns}  # what the hint says is taken
    assert run(section(model=model, data=data), out=tmp_path / "hint", seed=0)["examples"] > 1


def test_metrics_are_those_of_scikit_learn_and_predictions_in_input_order(classifier, colours, tmp_path):
    out = tmp_path / "out"
    result = run(section(model=str(classifier), data={"path": str(colours)}), out=out, seed=0)
    rows = predictions(out)
    gold = [line.split("\t")[1] for line in colours.read_text().splitlines()[1:]]
    said = [row["label"] for row in rows]
    assert [row["gold"] for row in rows] == gold
    assert len(set(said)) > 1
    metrics = {name: found["value"] for name, found in result["metrics"].items()}
    assert metrics["accuracy"] == pytest.approx(accuracy_score(gold, said), abs=1e-9)
    assert metrics["macro_f1"] == pytest.approx(f1_score(gold, said, average="macro"), abs=1e-9)
    assert metrics["mcc"] == pytest.approx(matthews_corrcoef(gold, said), abs=1e-9)
    assert result["metrics"]["accuracy"]["low"] < metrics["accuracy"] < result["metrics"]["accuracy"]["high"]
    assert {row["label"]: row["support"] for row in result["per_class"]} == {
        name: gold.count(name) for name in set(gold)
    }
    assert result["task"] == "classification"
    assert result["split"] == "test"
    assert json.loads((out / "result.json").read_text()) == result


def test_the_batch_size_changes_nothing(classifier, colours, tmp_path):
    results = {}
    for size in (1, 7, 64):
        values = {"model": str(classifier), "data": {"path": str(colours)}, "batch_size": size}
        results[size] = run(section(**values), out=tmp_path / str(size), seed=0)
    assert results[1]["metrics"] == results[7]["metrics"] == results[64]["metrics"]
    one, many = (predictions(tmp_path / str(size)) for size in (1, 64))
    for a, b in zip(one, many, strict=True):
        assert a["label"] == b["label"]
        assert list(a["probabilities"].values()) == pytest.approx(list(b["probabilities"].values()), abs=1e-5)


def test_labels_go_by_name_and_not_by_order(make_model, classifier, colours, tmp_path):
    data = {"path": str(colours)}
    first = run(section(model=str(classifier), data=data), out=tmp_path / "a", seed=0)
    renamed = make_model({"sequence": 3}, ["green", "blue", "red"], {"task": "classification"})
    second = run(section(model=str(renamed), data=data), out=tmp_path / "b", seed=0)
    names = dict(zip(["red", "green", "blue"], ["green", "blue", "red"], strict=True))
    before, after = predictions(tmp_path / "a"), predictions(tmp_path / "b")
    assert [names[row["label"]] for row in before] == [row["label"] for row in after]
    assert first["metrics"]["accuracy"]["value"] != second["metrics"]["accuracy"]["value"]


@pytest.mark.parametrize("label", ["purple", "-1"])
def test_an_unknown_label_is_refused_before_the_model_runs(label, classifier, tmp_path, monkeypatch):
    path = tmp_path / "test.csv"
    path.write_text(f"text,label\na cat,red\na dog,{label}\n")
    monkeypatch.setattr("bertctl.evaluate.systems.predict_chunks", None)
    with pytest.raises(BertctlError, match=rf"{path}:3: got the label '{label}'.*expected one of red, green, blue"):
        run(section(model=str(classifier), data={"path": str(path)}), out=tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_words_longer_than_the_model_are_windowed_and_every_word_is_scored(tagger, tmp_path):
    lines = [f"{word} {tag}" for word, tag in zip(WORDS * 6, ["B-PER", "I-PER", "O"] * 32, strict=True)]
    path = tmp_path / "test.conll"
    path.write_text("\n".join(lines) + "\n")
    result = run(section(model=str(tagger), data={"path": str(path)}), out=tmp_path / "out", seed=0)
    [row] = predictions(tmp_path / "out")
    assert len(row["tags"]) == len(lines) == 96
    right = sum(tag == line.split()[1] for tag, line in zip(row["tags"], lines, strict=True))
    assert result["metrics"]["token_accuracy"]["value"] == pytest.approx(right / 96)
    assert result["truncated"] == 0


def test_a_cut_text_is_counted_and_may_be_refused(classifier, tmp_path, capsys):
    path = tmp_path / "test.tsv"
    path.write_text(f"text\tlabel\nthe cat\tred\n{'the ' * 60}\tblue\n")
    result = run(section(model=str(classifier), data={"path": str(path)}), out=tmp_path / "out", seed=0)
    assert result["truncated"] == 1
    assert "1 of 2 texts are longer than 48 word pieces" in capsys.readouterr().err
    refusing = section(model=str(classifier), data={"path": str(path), "long_text": "refuse"})
    with pytest.raises(BertctlError, match=rf"{path}:3: got 60 word pieces, expected at most 46"):
        run(refusing, out=tmp_path / "refused", seed=0)


def test_an_older_evaluation_is_replaced_and_nothing_else_is(classifier, colours, tmp_path):
    values = section(model=str(classifier), data={"path": str(colours)})
    run(values, out=tmp_path / "out", seed=0)
    assert run(values, out=tmp_path / "out", seed=0)["examples"] == 90
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(BertctlError, match="not empty"):
        run(values, out=other, seed=0)
    assert (other / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("kind", "task", "message"),
    [
        ("bare", None, "no head of a task"),
        ("bare", "ner", "has no token head"),
        ("masked", "classification", "has no sequence head"),
        ("classifier", "masked_lm", "has no masked-LM head"),
    ],
)
def test_a_checkpoint_that_cannot_do_the_task_is_refused(kind, task, message, request, colours, tmp_path):
    model = request.getfixturevalue(kind)
    with pytest.raises(BertctlError, match=message):
        run(section(model=str(model), task=task, data={"path": str(colours)}), out=tmp_path / "out", seed=0)


def test_a_token_head_that_does_not_say_its_task_needs_to_be_told(make_model, tmp_path):
    model = make_model({"token": 3}, ["O", "B-PER", "I-PER"])
    path = tmp_path / "test.conll"
    path.write_text("Ann B-PER\nsaw O\n")
    with pytest.raises(BertctlError, match="does not say for which task") as caught:
        run(section(model=str(model), data={"path": str(path)}), out=tmp_path / "out", seed=0)
    assert "--task ner or pos" in caught.value.hint
    told = section(model=str(model), task="ner", data={"path": str(path)})
    assert run(told, out=tmp_path / "out", seed=0)["scheme"] == "BIO"
