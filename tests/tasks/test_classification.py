"""Texts and pairs with one label: what is read, how it is encoded, and what comes out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from bertctl.errors import BertctlError
from bertctl.tasks import classification
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.task import Features, Limits, TextExample
from bertctl.tasks.texts import unlabelled_text
from bertctl.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d"], True, True)


def read(path: Path, content: str, *, labelled: bool = True, **columns: object) -> tuple[list[TextExample], list[str]]:
    path.write_text(content)
    problems: list[str] = []
    data = DataSection(columns=ColumnsSection(**columns))
    return classification.read_file(path, data, labelled, problems), problems


@pytest.mark.parametrize(
    ("text", "first", "pair", "label"),
    [
        ("sentence\tlabel\na \t1\n", "a ", None, "1"),
        ("index\tsentence1\tsentence2\tlabel\n7\ta\tb\tx\n", "a", "b", "x"),
        ("index\tquestion\tsentence\tlabel\n7\ta\tb\tx\n", "a", "b", "x"),
        ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\ta\tb\n", "a", "b", "1"),
        ("pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n1\ta\tb\tNEUTRAL\n", "a", "b", "NEUTRAL"),
        ("premise\tHypothesis\tLABEL\na\tb\tx\n", "a", "b", "x"),
    ],
)
def test_columns_by_their_usual_names(tmp_path: Path, text: str, first: str, pair: str | None, label: str) -> None:
    examples, problems = read(tmp_path / "t.tsv", text)
    assert problems == []
    name = "7" if text.startswith("index") else None
    assert examples == [TextExample(first, pair, label, f"{tmp_path}/t.tsv:2", name)]


def test_columns_by_position_mean_that_there_is_no_header(tmp_path: Path) -> None:
    examples, _ = read(tmp_path / "t.txt", "gj04\t1\t\tOur friends.\ngj04\t0\t*\tTheir.\n", text=4, label=2)
    assert [(e.text, e.label, e.where[-1]) for e in examples] == [("Our friends.", "1", "1"), ("Their.", "0", "2")]


def test_missing_columns_are_all_named_with_what_is_there(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "t.csv", "words,y" + "y" * 50 + "\na,b\n")
    assert len(problems) == 2
    assert "t.csv:1: got the columns 'words', 'y" in problems[0]
    assert "y...'" in problems[0]
    assert "`data.columns.text`" in problems[1]
    assert "`data.columns.label`" in problems[0]
    _, problems = read(tmp_path / "t.csv", "text,label\na,b\n", text_pair="other", label="none")
    assert "expected the column 'other'" in problems[-1]


def test_an_empty_text_is_kept_and_texts_need_no_label(tmp_path: Path) -> None:
    examples, problems = read(tmp_path / "t.csv", 'text\n""\nb\n', labelled=False)
    assert problems == []
    assert [(e.text, e.label) for e in examples] == [("", None), ("b", None)]


@pytest.mark.parametrize("labels", [["1", "2", "3"], ["0", "1", "-1"], ["3", "pos", "neg"]])
def test_labels_are_names_in_a_fixed_order(labels: list[str]) -> None:
    examples = [TextExample("x", None, label, "f:1") for label in labels]
    expected = {"1": ["1", "2", "3"], "0": ["-1", "0", "1"], "3": ["3", "neg", "pos"]}[labels[0]]
    assert classification.labels(examples) == classification.labels(examples[::-1]) == expected


def test_features_of_a_text_and_a_pair() -> None:
    examples = [
        TextExample("a bd", None, "y", "f:1"),
        TextExample("a", "b c", "x", "f:2"),
        TextExample("", None, None, ""),
    ]
    one, two, none = classification.encode(examples, TOKENIZER, ["x", "y"], Limits(16))
    assert (one.input_ids, one.token_type_ids, one.labels) == ([2, 5, 6, 8, 3], [0] * 5, 1)
    assert (two.input_ids, two.token_type_ids, two.labels) == ([2, 5, 3, 6, 7, 3], [0, 0, 0, 1, 1, 1], 0)
    assert (none.input_ids, none.labels, none.pieces) == ([2, 3], None, 0)
    assert [feature.example for feature in (one, two, none)] == [0, 1, 2]


@pytest.mark.parametrize(("words", "kept"), [(601, 510), (510, 510), (3, 3)])
def test_a_cut_text_is_counted(words: int, kept: int) -> None:
    example = TextExample("a " * (words - 1) + "b", None, None, "f:1")
    (feature,) = classification.encode([example], TOKENIZER, [], Limits(512))
    assert (feature.pieces, feature.cut, len(feature.input_ids)) == (words, words - kept, kept + 2)


@pytest.mark.parametrize(("first", "second", "kept"), [(9, 2, (5, 2)), (2, 9, (2, 5)), (9, 9, (4, 3)), (3, 4, (3, 4))])
def test_of_a_pair_the_longer_text_is_cut(first: int, second: int, kept: tuple[int, int]) -> None:
    example = TextExample("a " * first, "b " * second, None, "f:1")
    (feature,) = classification.encode([example], TOKENIZER, [], Limits(10))
    assert (feature.input_ids.count(5), feature.input_ids.count(6)) == kept


def test_no_room_at_all_is_refused() -> None:
    with pytest.raises(BertctlError, match="use a longer max_length"):
        classification.encode([TextExample("a", "b", None, "f:1")], TOKENIZER, [], Limits(4))


def test_the_temperature_makes_probabilities_mean_what_they_say_and_changes_no_label() -> None:
    generator = np.random.default_rng(0)
    true = generator.normal(size=(400, 3))
    names = ["x", "y", "z"]
    examples = [TextExample("t", None, names[generator.choice(3, p=softmax(row))], "") for row in true]
    features = [Features([], [], None, place, 1) for place in range(400)]
    logits = list(4 * true)  # four times as sure as is right
    settings = classification.tune(examples, features, logits, names)
    assert settings["temperature"] == pytest.approx(4.0, rel=0.15)
    before, after = (classification.predictions(examples, features, logits, names, s) for s in ({}, settings))
    assert [row["label"] for row in before] == [row["label"] for row in after]
    expected = softmax(logits[0] / settings["temperature"])
    assert list(after[0]["probabilities"].values()) == pytest.approx(list(expected), abs=1e-9)
    cold, warm = (
        -np.log([row["probabilities"][example.label] for row, example in zip(rows, examples, strict=True)]).mean()
        for rows in (before, after)
    )
    assert warm < cold - 0.1


def test_dev_data_without_a_mistake_have_no_temperature() -> None:
    examples = [TextExample("t", None, label, "") for label in "xy"]
    features = [Features([], [], None, place, 1) for place in (0, 1)]
    assert classification.tune(examples, features, [np.array([2.0, 0.0]), np.array([0.0, 1.0])], ["x", "y"]) == {}
    assert classification.tune([], [], [], ["x", "y"]) == {}


def test_predictions_are_names_with_probabilities() -> None:
    logits = [np.array([1.0, 3.0, -1000.0], dtype=np.float32), np.array([900.0, 0.0, 0.0], dtype=np.float32)]
    examples, features = [TextExample("x", None, None, "")] * 2, [Features([], [], None, place, 1) for place in (0, 1)]
    rows = classification.predictions(examples, features, logits, ["1", "2", "3"], {})
    assert [row["label"] for row in rows] == ["2", "1"]
    for row, values in zip(rows, logits, strict=True):
        assert list(row["probabilities"].values()) == pytest.approx(softmax(values.astype(float)))
        assert row["probability"] == max(row["probabilities"].values())


def test_scores_match_labels_by_name() -> None:
    examples = [TextExample("x", None, label, "f:1") for label in ["b", "a", "b", "b"]]
    predicted = [{"label": label} for label in ["b", "b", "b", "a"]]
    scores = classification.score(examples, predicted, ["a", "b"])
    assert scores["accuracy"].point() == 0.5
    assert [row["support"] for row in classification.details(examples, predicted, ["a", "b"])["per_class"]] == [1, 3]
    assert classification.majority(examples, examples, []) == ("b", [{"label": "b"}] * 4)


@pytest.mark.parametrize(
    ("record", "text", "pair"),
    [
        ("plain text", "plain text", None),
        ({"sentence1": "a", "sentence2": "b"}, "a", "b"),
        ({"text": "a", "label": "ignored"}, "a", None),
    ],
)
def test_inputs_of_predict(record: object, text: str, pair: str | None) -> None:
    assert unlabelled_text(record, DataSection(), "stdin:1") == TextExample(text, pair, None, "stdin:1")


@pytest.mark.parametrize(
    ("record", "problem"), [({}, "got an object with nothing"), ({"text": 5}, "got a number"), ({"a": "b"}, "'a'")]
)
def test_inputs_of_predict_that_are_none(record: object, problem: str) -> None:
    with pytest.raises(BertctlError, match=problem) as caught:
        unlabelled_text(record, DataSection(), "stdin:4")
    assert caught.value.problems[0].startswith("stdin:4: ")


def test_named_columns_of_the_recipe_hold_for_predict_but_not_for_plain_lines() -> None:
    data = DataSection(columns=ColumnsSection(text="body"))
    read: Callable = unlabelled_text
    assert read({"body": "a", "text": "b"}, data, "f:1").text == "a"
    assert read("line", data, "f:1").text == "line"
