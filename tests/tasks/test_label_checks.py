"""Everything that is wrong with labelled data comes in one round: cells, labels, files."""

from pathlib import Path

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import test_data as evaluation_data
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS


def problems_of(folder: Path, task: str, files: dict[str, str], **data: object) -> list[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(BertctlError) as caught:
        training_data(TASKS[task], DataSection(**{"path": folder, **data}), seed=0)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


def test_an_empty_cell_does_not_hide_unknown_labels(tmp_path: Path) -> None:
    files = {
        "train.csv": "text,label\na,x\nb,y\nc,\n",
        "dev.csv": "text,label\na,x\nb,\nc,z\nd,z\n",
        "test.csv": "text,label\na,w\nb,x,x\n",
    }
    assert problems_of(tmp_path, "classification", files) == [
        "train.csv:4: got an empty cell in the column 'label', expected a label",
        "dev.csv:3: got an empty cell in the column 'label', expected a label",
        "test.csv:3: got 3 columns, expected 2 as in line 1",
        "dev.csv:4: got the label 'z' (2 times: lines 4, 5), which train does not have; expected one of x, y",
        "test.csv:2: got the label 'w', which train does not have; expected one of x, y",
    ]


def test_a_missing_file_does_not_hide_what_is_wrong_in_the_others(tmp_path: Path) -> None:
    files = {"train.csv": "text,label\na,x\nb,y\n", "dev.csv": "text,label\na,z\n"}
    assert problems_of(tmp_path, "classification", files, test="none.csv") == [
        "none.csv: no such file, expected labelled data",
        "dev.csv:2: got the label 'z', which train does not have; expected one of x, y",
    ]


def test_a_label_that_only_an_unsound_record_has_is_known_all_the_same(tmp_path: Path) -> None:
    files = {
        "train.jsonl": '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n{"text": 3, "label": "z"}\n',
        "dev.jsonl": '{"text": "a", "label": "z"}\n',
    }
    assert problems_of(tmp_path, "classification", files) == [
        "train.jsonl:3: got a number in the column 'text', expected text"
    ]


def test_without_a_column_of_labels_no_label_is_unknown(tmp_path: Path) -> None:
    files = {"train.csv": "text,y\na,x\nb,y\n", "dev.csv": "text,label\na,z\n"}
    (problem,) = problems_of(tmp_path, "classification", files)
    assert problem.startswith("train.csv:1: got the columns 'text', 'y', expected one of label")


def test_tags_that_break_the_scheme_stand_beside_lines_that_break_the_columns(tmp_path: Path) -> None:
    files = {
        "train.txt": "Ann B-PER\nsaw O\n\nBob\n\nLee B-PER\nRoy I-LOC\n",
        "dev.txt": "Ann B-PER\nsaw O\n\nRome B-ORG\n",
    }
    found = problems_of(tmp_path, "ner", files)
    assert [problem.split(",")[0] for problem in found] == [
        "train.txt:4: got 1 columns",
        "train.txt:7: got 'I-LOC' after 'B-PER'",
        "dev.txt:4: got the label 'B-ORG'",
    ]


def test_one_number_in_a_file_that_is_otherwise_wrong_is_no_constant(tmp_path: Path) -> None:
    files = {"train.csv": "text,score\na,1\nb,x\nc,y\n", "dev.csv": "text,score\na,2\n"}
    found = problems_of(tmp_path, "regression", files)
    assert [problem.split(" in ")[0] for problem in found] == ["train.csv:3: got 'x'", "train.csv:4: got 'y'"]


def test_evaluation_says_all_at_once_too(tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("text,label\na,x\nb,\nc,z\n")
    with pytest.raises(BertctlError) as caught:
        evaluation_data(TASKS["classification"], DataSection(path=path), labels=["x", "y"], seed=0)
    assert [problem.removeprefix(f"{path}:")[:14] for problem in caught.value.problems] == [
        "3: got an empt",
        "4: got the lab",
    ]


def test_a_thousand_empty_cells_are_one_problem(tmp_path: Path) -> None:
    rows = "".join(f"t{n},\n" for n in range(1000))
    found = problems_of(tmp_path, "classification", {"train.csv": "text,label\na,x\nb,y\n" + rows})
    assert found == [
        "train.csv:4: got an empty cell in the column 'label', expected a label (1,000 times: lines 4, 5, 6, 7, 8, 9, "
        "10, 11, 12, 13, ...)"
    ]
