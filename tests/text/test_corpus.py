"""Which files a corpus means, named data sets, and a corpus without text."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from datasets import Dataset
from pydantic import ValidationError

from bertctl.errors import BertctlError
from bertctl.text.config import CorpusSection
from bertctl.text.corpus import can_be_read_again, corpus_paths, read_corpus


def section(**values):
    return CorpusSection.model_validate_json(json.dumps(values))


def texts(**values):
    return [document.text for document in read_corpus(section(**values))]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in {"b.txt": "b", "a.txt": "a", "sub/c.md": "c", "d.png": "no", ".hidden.txt": "no"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "e.jsonl").write_text('{"text": "e"}\n')
    return tmp_path


def test_folders_patterns_and_names_give_each_file_once_in_order(folder, capsys):
    assert texts(files=[str(folder)]) == ["a", "b", "e", "c"]
    assert "left out 1 file of other kinds, such as d.png" in capsys.readouterr().err
    assert texts(files=[f"{folder}/b.txt", f"{folder}/*.txt", f"{folder}/a.txt"]) == ["b", "a"]
    assert texts(files=[f"{folder}/**/*.md"]) == ["c"]


def test_every_name_that_stands_for_no_file_is_listed(folder):
    (folder / "empty").mkdir()
    with pytest.raises(BertctlError) as caught:
        corpus_paths((f"{folder}/a.txt", f"{folder}/nowhere.txt", f"{folder}/*.tsv", f"{folder}/empty"))
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        f"{folder}/nowhere.txt",
        f"{folder}/*.tsv",
        f"{folder}/empty",
    ]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"text": "from a pipe"}\n')))
    assert texts(files=["-"], format="jsonl") == ["from a pipe"]
    assert not can_be_read_again(section(files=["-"]))


@pytest.mark.parametrize("content", ["", "\n\n\n", " \t\u00a0\u3000\n"])
def test_a_corpus_without_text_is_refused(tmp_path, content):
    (tmp_path / "c.txt").write_text(content)
    with pytest.raises(BertctlError, match="no document with text"):
        texts(files=[str(tmp_path / "c.txt")])


def test_a_data_set_on_disk_in_both_of_its_forms(tmp_path):
    data = Dataset.from_dict({"body": ["one", "two"]})
    data.save_to_disk(tmp_path / "arrow")
    (tmp_path / "files").mkdir()
    data.to_parquet(tmp_path / "files" / "train.parquet")
    for name in ("arrow", "files"):
        assert texts(name=str(tmp_path / name), columns=["body"]) == ["one", "two"]
        assert not can_be_read_again(section(name=str(tmp_path / name)))
    with pytest.raises(BertctlError, match="no 'text', expected it among body"):
        texts(name=str(tmp_path / "arrow"))


def test_a_data_set_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BertctlError, match="cannot be opened") as caught:
        texts(name=str(tmp_path / "nowhere"))
    assert len(caught.value.problems) == 1
    assert "\n" not in caught.value.problems[0]


@pytest.mark.parametrize(
    "values", [{}, {"files": ["a"], "name": "b"}, {"files": ["a"], "subset": "x"}, {"columns": []}]
)
def test_sections_that_contradict_themselves(values):
    with pytest.raises(ValidationError):
        section(**values)
