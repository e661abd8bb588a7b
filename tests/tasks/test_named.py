"""Data sets of the `datasets` library, from a local folder: names of classes, hidden labels, splits."""

from pathlib import Path

import datasets
import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS

SENTIMENT = datasets.Features(
    {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
)
TAGGED = datasets.Features(
    {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-X"])),
    }
)


def save(folder: Path, features: datasets.Features, **splits: dict[str, list]) -> str:
    made = {name: datasets.Dataset.from_dict(rows, features=features) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(str(folder))
    return str(folder)


def test_class_names_are_labels_and_a_hidden_test_split_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"sentence": ["None", "b", "c"], "label": [0, 1, 1]}
    hidden = {"sentence": ["d"], "label": [-1]}
    name = save(tmp_path / "d", SENTIMENT, train=rows, validation=rows, test=hidden)
    splits = training_data(TASKS["classification"], DataSection(name=name), seed=0)
    assert [(e.text, e.label) for e in splits.train] == [("None", "neg"), ("b", "pos"), ("c", "pos")]
    assert (len(splits.dev), splits.test) == (3, [])
    assert splits.train[0].where == f"{name}:train:1"
    assert "every label is hidden (-1)" in capsys.readouterr().err


def test_hidden_numbers_are_left_out_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the test split of STS-B in GLUE."""
    names = {"sentence1": "string", "sentence2": "string", "label": "float32"}
    features = datasets.Features({name: datasets.Value(kind) for name, kind in names.items()})
    rows = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0.5, -1.0]}
    hidden = {"sentence1": ["a"], "sentence2": ["c"], "label": [-1.0]}
    name = save(tmp_path / "d", features, train=rows, validation=rows, test=hidden)
    splits = training_data(TASKS["regression"], DataSection(name=name), seed=0)
    assert [(e.text, e.pair, e.label) for e in splits.train] == [("a", "c", 0.5), ("b", "d", -1.0)]
    assert splits.test == []
    assert "every label is hidden (-1)" in capsys.readouterr().err


def test_lists_of_class_labels_are_tags(tmp_path: Path) -> None:
    rows = {"tokens": [["a", "b"]], "ner_tags": [[1, 0]]}
    name = save(tmp_path / "d", TAGGED, train=rows, validation=rows)
    splits = training_data(TASKS["ner"], DataSection(name=name), seed=0)
    assert splits.train[0].tags == ("B-X", "O")


def test_splits_by_name_and_those_that_are_not_there(tmp_path: Path) -> None:
    rows = {"sentence": ["a", "b"], "label": [0, 1]}
    name = save(tmp_path / "d", SENTIMENT, train=rows, validation_matched=rows)
    splits = training_data(TASKS["classification"], DataSection(name=name, dev="validation_matched"), seed=0)
    assert len(splits.dev) == 2
    with pytest.raises(BertctlError, match="got no split 'dev', expected one of train, validation_matched"):
        training_data(TASKS["classification"], DataSection(name=name, dev="dev"), seed=0)


def test_a_data_set_that_is_not_there_says_what_it_would_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\nat all")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(BertctlError, match="data set some/set: cannot be opened: ConnectionError") as caught:
        training_data(TASKS["classification"], DataSection(name="some/set"), seed=0)
    assert "needs a network" in (caught.value.hint or "")
