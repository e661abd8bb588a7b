"""A text a file, in folders named after labels."""

from pathlib import Path

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS

TASK = TASKS["classification"]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


FILES = {
    "train/pos/1_9.txt": "good <br />\r\nfilm",
    "train/pos/2_8.txt": "fine\n",
    "train/neg/1_2.txt": "bad",
    "train/neg/2_2.txt": "",
    "train/unsup/1_0.txt": "who knows",
    "train/labeledBow.feat": "1 2:3",
    "test/pos/1_7.txt": "nice",
    "test/neg/1_1.txt": "poor",
    "README": "x",
}


def test_the_layout_of_imdb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    splits = TASK.read_folder(write(tmp_path, FILES), DataSection(), [])
    assert splits is not None
    assert [(e.text, e.label) for e in splits["train"]] == [
        ("bad", "neg"),
        ("", "neg"),
        ("good <br />\r\nfilm", "pos"),
        ("fine", "pos"),
    ]
    assert [(e.label, e.place()) for e in splits["test"]][1] == ("pos", f"{tmp_path}/test/pos/1_7.txt")
    assert "1 texts without a label are left out" in capsys.readouterr().err


def test_dev_is_held_out_and_labels_must_be_those_of_train(tmp_path: Path) -> None:
    many = {f"train/{label}/{n}.txt": f"{label} {n}" for label in ("pos", "neg") for n in range(20)}
    write(tmp_path, many | {"test/pos/1.txt": "x"})
    splits = training_data(TASK, DataSection(path=tmp_path), seed=1)
    assert [len(splits.train), len(splits.dev), len(splits.test)] == [36, 4, 1]
    write(tmp_path, {"test/mixed/1.txt": "y"})
    with pytest.raises(BertctlError, match=r"test/mixed/1.txt: got the label 'mixed'"):
        training_data(TASK, DataSection(path=tmp_path), seed=1)


def test_other_folders_are_read_as_ever(tmp_path: Path) -> None:
    write(tmp_path, {"train.csv": "text,label\na,x\nb,y\n", "dev.csv": "text,label\nc,x\n", "train/notes/a.md": "n"})
    assert len(training_data(TASK, DataSection(path=tmp_path), seed=1).train) == 2


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"train/pos/a.txt": "a", "training/neg/a.txt": "a"}, "got two folders for train"),
        ({"train/pos/a.txt": "a", "train/pos/b.txt": "b"}, "got only one class"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    with pytest.raises(BertctlError, match=problem):
        training_data(TASK, DataSection(path=write(tmp_path, files)), seed=0)


def test_a_file_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "train/pos/3_7.txt").write_bytes(b"caf\xe9")
    with pytest.raises(BertctlError, match=r"3_7.txt:1: got byte 0xe9"):
        training_data(TASK, DataSection(path=tmp_path), seed=0)
