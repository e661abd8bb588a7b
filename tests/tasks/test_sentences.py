"""Sentences from records with lists, from any file, and from lines that are to be predicted."""

import json
from pathlib import Path

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks import sentences
from bertctl.tasks.config import DataSection
from bertctl.tasks.sentences import ENTITIES, PARTS_OF_SPEECH
from bertctl.tasks.task import TokenExample


def read(
    path: Path, *rows: object, tags: sentences.Kind = ENTITIES, **data: object
) -> tuple[list[TokenExample], list[str]]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems: list[str] = []
    return sentences.read_file(path, DataSection(**data), True, problems, tags=tags), problems


@pytest.mark.parametrize(
    ("row", "tags"),
    [
        ({"tokens": ["a", "b"], "tags": ["O", "B-X"]}, ENTITIES),
        ({"words": ["a", "b"], "ner_tags": ["O", "B-X"], "pos_tags": ["N", "V"]}, ENTITIES),
        ({"tokens": ["a", "b"], "upos": ["O", "B-X"], "tags": ["N", "V"]}, PARTS_OF_SPEECH),
    ],
)
def test_lists_by_their_usual_names(tmp_path: Path, row: object, tags: sentences.Kind) -> None:
    examples, problems = read(tmp_path / "t.jsonl", row, tags=tags)
    assert problems == []
    assert examples == [TokenExample(("a", "b"), ("O", "B-X"), f"{tmp_path}/t.jsonl", (1, 1))]


def test_numbers_get_the_names_that_the_recipe_gives(tmp_path: Path) -> None:
    examples, _ = read(tmp_path / "t.jsonl", {"tokens": ["a", "b"], "ner_tags": [0, 1]}, label_names=("O", "B-X"))
    assert examples[0].tags == ("O", "B-X")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"tokens": ["a"], "tags": ["O", "O"]}, ":1: got 2 tags in the column 'tags', expected 1, one a word"),
        ({"tokens": "a b", "tags": ["O"]}, ":1: got text in the column 'tokens', expected a list of words"),
        ({"tokens": ["a", ""], "tags": ["O", "O"]}, ":1: got an empty word"),
        ({"tokens": ["a", 5], "tags": ["O", "O"]}, ":1: got a number"),
        ({"tokens": ["a"], "tags": [None]}, ":1: got null in the column 'tags', expected a label"),
        ({"tokens": ["a"], "tags": "O"}, ":1: got text in the column 'tags', expected 1, one a word"),
        ({"tokens": ["a", "b"], "tags": ["O", 1]}, ":1: got an integer in the column 'tags'"),
        ({"tokens": ["a"]}, ":1: got the columns 'tokens', expected one of ner_tags"),
        ({"text": "a", "tags": ["O"]}, ":1: got the columns 'text', 'tags', expected one of tokens"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, row: object, problem: str) -> None:
    _, problems = read(tmp_path / "t.jsonl", row)
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.conll", "a\tN\n"),
        ("t.tsv", "a\tN\n"),
        ("t.annotated", "a N\n"),
        ("t.txt", "# text = a\n1\ta\ta\tN\t_\t_\t0\troot\t_\t_\n"),
        ("t.conllu", "1\ta\ta\tN\t_\t_\t0\troot\t_\t_\n"),
    ],
)
def test_formats_go_by_ending_and_content(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    problems: list[str] = []
    (example,) = sentences.read_file(path, DataSection(), True, problems, tags=PARTS_OF_SPEECH)
    assert problems == []
    assert (example.words, example.tags) == (("a",), ("N",))


@pytest.mark.parametrize("record", ["a  b\u3000c", {"tokens": ["a", "b", "c"]}, {"text": "a b c"}])
def test_inputs_of_predict(record: object) -> None:
    example = sentences.input_example(record, DataSection(), "stdin:1")
    assert (example.words, example.tags, example.place()) == (("a", "b", "c"), None, "stdin:1")


def test_a_blank_input_has_no_words_and_a_wrong_one_is_refused() -> None:
    assert sentences.input_example(" ", DataSection(), "stdin:1").words == ()
    with pytest.raises(BertctlError, match=r"stdin:2: got an object with 'x'"):
        sentences.input_example({"x": 1}, DataSection(), "stdin:2")


def test_records_without_lists_are_no_matter_of_naming_columns(tmp_path: Path) -> None:
    assert read(tmp_path / "t.jsonl", {"text": "a b", "label": "x"}) == (
        [],
        [
            f"{tmp_path / 't.jsonl'}:1: got the columns 'text', 'label' and no list in any of them, expected a list of "
            "words and a list of tags, one a word"
        ],
    )
