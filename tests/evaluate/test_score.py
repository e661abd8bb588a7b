"""Two checkpoints, a checkpoint and a file, two files: scored on the same examples, compared, and refused."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss

from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run
from bertctl.recipe.load import build_recipe


def section(**values):
    return build_recipe({"randomisation_rounds": 200, "bootstrap_samples": 200, **values}, EvaluateSection)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    generator = np.random.default_rng(0)
    words = ["the", "cat", "sat", "on", "mat", "dog", "ran", "old", "house", "saw", "rome", "long", "day", "good"]
    rows = ["text\tlabel"]
    for _ in range(60):
        text = " ".join(generator.choice(words, generator.integers(1, 20)))
        rows.append(f"{text}\t{generator.choice(['blue', 'green', 'red'])}")
    path = tmp_path_factory.mktemp("colours") / "test.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def other(make_model):
    """The classifier with its labels in another order: other weights for each."""
    return make_model({"sequence": 3}, ["green", "blue", "red"], {"task": "classification"})


@pytest.fixture(scope="module")
def both(classifier, other, colours, tmp_path_factory):
    out = tmp_path_factory.mktemp("both") / "out"
    values = {"model": str(classifier), "against": str(other), "data": {"path": str(colours)}}
    return run(section(**values), out=out, seed=0), out


def test_two_checkpoints_are_scored_as_each_alone(both, classifier, other, colours, tmp_path):
    result, out = both
    for model, found, file in (
        (classifier, result, "predictions.jsonl"),
        (other, result["against"], "predictions-against.jsonl"),
    ):
        alone = run(section(model=str(model), data={"path": str(colours)}), out=tmp_path / model.name, seed=0)
        assert found["model"] == str(model)
        assert {k: v["value"] for k, v in found["metrics"].items()} == pytest.approx(
            {k: v["value"] for k, v in alone["metrics"].items()}
        )
        assert rows_of(out / file) == rows_of(tmp_path / model.name / "predictions.jsonl")
    assert result["labels"] == ["red", "green", "blue"]


def test_the_difference_is_that_of_the_scores_and_its_interval_holds_it(both):
    result, out = both
    gold = [row["gold"] for row in rows_of(out / "predictions.jsonl")]
    scores = [
        accuracy_score(gold, [row["label"] for row in rows_of(out / file)])
        for file in ("predictions.jsonl", "predictions-against.jsonl")
    ]
    found = result["comparison"]["accuracy"]
    assert (found["first"], found["second"]) == pytest.approx(tuple(scores))
    assert found["difference"] == pytest.approx(scores[0] - scores[1])
    assert found["low"] <= found["difference"] <= found["high"]
    assert 1 / 201 <= found["p_value"] <= 1
    assert list(result["comparison"]) == list(result["metrics"])


def test_calibration_and_confusion_are_those_of_scikit_learn(both):
    result, out = both
    rows, labels = rows_of(out / "predictions.jsonl"), result["labels"]
    gold, said = [row["gold"] for row in rows], [row["label"] for row in rows]
    assert result["confusion"]["counts"] == confusion_matrix(gold, said, labels=labels).tolist()
    shares = np.array([[row["probabilities"][name] for name in sorted(labels)] for row in rows])
    assert result["calibration"]["nll"]["value"] == pytest.approx(log_loss(gold, shares, labels=sorted(labels)))
    worst = result["costliest_errors"]
    assert len(worst) == 20
    assert worst == sorted(worst, key=lambda row: -row["loss"])
    assert all(row["gold"] != row["predicted"] for row in worst)


def test_the_temperature_of_a_checkpoint_is_used_by_evaluate_and_predict(make_model, both, colours, tmp_path):
    warm = make_model(
        {"sequence": 3}, ["red", "green", "blue"], {"task": "classification", "settings": {"temperature": 3}}
    )
    found = run(section(model=str(warm), data={"path": str(colours)}), out=tmp_path / "out", seed=0)
    result, out = both
    assert found["metrics"] == result["metrics"]
    assert found["calibration"]["nll"]["value"] != result["calibration"]["nll"]["value"]
    texts = [line.split("\t")[0] for line in colours.read_text().splitlines()[1:]]
    predicted = list(predict(warm, texts, format="text"))
    mine, cold = (rows_of(folder / "predictions.jsonl") for folder in (tmp_path / "out", out))
    for row, plain, said in zip(mine, cold, predicted, strict=True):
        raised = np.array(list(plain["probabilities"].values())) ** (1 / 3)
        assert list(row["probabilities"].values()) == pytest.approx(list(raised / raised.sum()), abs=1e-5)
        assert said["probabilities"] == pytest.approx(row["probabilities"], abs=1e-5)


def test_a_file_of_its_own_predictions_scores_as_the_model(both, classifier, colours, tmp_path):
    result, out = both
    file = out / "predictions.jsonl"
    values = {"task": "classification", "data": {"path": str(colours)}}
    alone = run(section(**values, predictions=[str(file)]), out=tmp_path / "alone", seed=0)
    first = result["metrics"]["macro_f1"]["value"]
    assert alone["metrics"]["macro_f1"]["value"] == pytest.approx(first)
    assert alone["calibration"]["nll"]["value"] == pytest.approx(result["calibration"]["nll"]["value"])
    assert (alone["predictions"], alone["missing_predictions"]) == (str(file), 0)
    pair = run(section(**values, model=str(classifier), predictions=[str(file)]), out=tmp_path / "pair", seed=0)
    assert (pair["model"], pair["against"]["predictions"]) == (str(classifier), str(file))
    assert pair["comparison"]["accuracy"]["difference"] == 0
    assert pair["comparison"]["accuracy"]["p_value"] == 1


SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "Ann met Bob in Rome.",
                    "qas": [
                        {"id": "a", "question": "who?", "answers": [{"text": "Ann", "answer_start": 0}]},
                        {"id": "b", "question": "where?", "answers": [{"text": "in Rome", "answer_start": 12}]},
                        {"id": "c", "question": "when?", "answers": [], "is_impossible": True},
                        {"id": "d", "question": "why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture
def questions(tmp_path):
    for name, value in (
        ("gold.json", SQUAD),
        ("one.json", {"a": "the Ann", "b": "Rome", "c": "", "d": "Bob"}),
        ("two.json", {"a": "Ann", "b": "in Rome", "c": "", "d": ""}),
        ("na.json", {"a": 0.1, "b": 0.2, "c": 0.9, "d": 0.8}),
    ):
        (tmp_path / name).write_text(json.dumps(value))
    return tmp_path


def test_beside_a_model_the_task_of_a_file_is_that_of_the_model(both, classifier, masked, colours, tmp_path):
    result, out = both
    values = {"data": {"path": str(colours)}, "predictions": [str(out / "predictions-against.jsonl")]}
    found = run(section(model=str(classifier), **values), out=tmp_path / "out", seed=0)
    assert found["task"] == "classification"
    assert found["comparison"] == result["comparison"]
    with pytest.raises(BertctlError, match="predicts masked tokens, which no file of predictions"):
        run(section(model=str(masked), **values), out=tmp_path / "masked", seed=0)


def test_answers_of_other_systems(questions):
    values = {"task": "qa", "data": {"path": str(questions / "gold.json")}}
    one, two = str(questions / "one.json"), str(questions / "two.json")
    found = run(section(**values, predictions=[one, two]), out=questions / "pair", seed=0)
    metrics = {name: metric["value"] for name, metric in found["metrics"].items()}
    assert (metrics["exact"], metrics["f1"]) == pytest.approx((2 / 4, (1 + 2 / 3 + 1) / 4))
    assert (metrics["has_answer_f1"], metrics["no_answer_f1"]) == pytest.approx(((1 + 2 / 3) / 2, 1 / 2))
    assert found["against"]["metrics"]["f1"]["value"] == 1
    assert found["comparison"]["f1"]["difference"] == pytest.approx(-(1 / 3 + 1) / 4)
    sure = {"predictions": [one], "no_answer_probabilities": [str(questions / "na.json")]}
    best = run(section(**values, **sure), out=questions / "best", seed=0)["metrics"]
    assert best["f1"]["value"] == metrics["f1"]
    assert best["best_f1"]["value"] == pytest.approx((1 + 2 / 3 + 2) / 4)
    cut = run(section(**values, **sure, no_answer_threshold=0.5), out=questions / "cut", seed=0)["metrics"]
    assert cut["f1"]["value"] == pytest.approx((1 + 2 / 3 + 2) / 4)


def test_a_missing_answer_counts_0_and_is_told(questions, capsys):
    (questions / "few.json").write_text('{"a": "Ann"}')
    values = {"task": "qa", "data": {"path": str(questions / "gold.json")}}
    found = run(section(**values, predictions=[str(questions / "few.json")]), out=questions / "few", seed=0)
    assert found["metrics"]["exact"]["value"] == 1 / 4
    assert found["missing_predictions"] == 3
    assert "3 of 4 examples have no prediction" in capsys.readouterr().err


def test_labels_of_other_data_are_refused_and_strange_ones_told(colours, tmp_path, capsys):
    path = tmp_path / "p.tsv"
    values = {"task": "classification", "data": {"path": str(colours)}, "predictions": [str(path)]}
    path.write_text("label\n" + "1\n" * 60)
    with pytest.raises(BertctlError, match="got the labels 1, expected some of blue, green, red"):
        run(section(**values), out=tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()
    path.write_text("label\n" + "red\n" * 59 + "pink\n")
    found = run(section(**values), out=tmp_path / "out", seed=0)
    assert "says pink, which no example is labelled with" in capsys.readouterr().err
    assert found["confusion"]["labels"] == ["blue", "green", "pink", "red"]


def test_masked_lm_of_two_checkpoints_is_compared_on_the_same_masks(make_model, masked, minilm, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text(
        "\n\n".join(f"the {a} cat sat on the {b} mat" for a in ("old", "dog", "good") for b in ("one", "two"))
    )
    other = make_model({"masked_lm": 0}, scale=0.1)
    values = {"model": str(masked), "data": {"path": str(text)}}
    found = run(section(**values, against=str(other)), out=tmp_path / "out", seed=0)
    alone = run(section(**values), out=tmp_path / "alone", seed=0)
    assert found["metrics"] == alone["metrics"]
    one, two = found["metrics"]["loss"]["value"], found["against"]["metrics"]["loss"]["value"]
    assert found["comparison"]["loss"]["difference"] == pytest.approx(one - two)
    assert one != two


def test_checkpoints_that_do_not_compare_are_refused(make_model, masked, classifier, minilm, colours, tmp_path):
    text = {"path": str(colours)}
    with pytest.raises(BertctlError, match="has no masked-LM head"):
        run(section(model=str(masked), against=str(classifier), data=text), out=tmp_path / "a", seed=0)
    fewer = make_model({"sequence": 2}, ["red", "green"], {"task": "classification"})
    with pytest.raises(BertctlError, match=f"got the label 'blue' .*which {fewer} does not have"):
        run(section(model=str(classifier), against=str(fewer), data=text), out=tmp_path / "b", seed=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "a", "against": "b", "predictions": ["c"]}, "got 3 systems"),
        ({"predictions": ["c"]}, "got `predictions` and no `task`"),
        ({"predictions": ["c"], "task": "masked_lm"}, "got `predictions` and no `task`"),
        ({"model": "a", "predictions": ["c"], "task": "masked_lm"}, "got `predictions` and no `task`"),
        ({"task": "qa", "predictions": ["c", "d"], "no_answer_probabilities": ["e"]}, "one file for each"),
    ],
)
def test_what_a_recipe_may_not_ask(values, message):
    with pytest.raises(BertctlError, match=message):
        section(**values)


def test_files_that_are_not_there_or_belong_elsewhere(colours, questions, tmp_path):
    values = {"task": "classification", "data": {"path": str(colours)}}
    with pytest.raises(BertctlError, match=r"none\.tsv: got no such file, expected a file of predictions"):
        run(section(**values, predictions=["none.tsv"]), out=tmp_path / "o", seed=0)
    sure = {"predictions": [str(colours)], "no_answer_probabilities": [str(questions / "na.json")]}
    with pytest.raises(BertctlError, match="belong to questions"):
        run(section(**values, **sure), out=tmp_path / "o", seed=0)
    with pytest.raises(BertctlError, match=r"evaluate\.model: not given"):
        run(section(**values, against="x"), out=tmp_path / "o", seed=0)
