"""Any value in any column of any task: each record is an example or named as a problem, never a traceback."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Limits
from bertctl.text.tokenizer import Tokenizer

FUZZ = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"], True, True)
TEXT = st.text(max_size=8) | st.sampled_from(["a", "a b", "", "\u2028", "\ud800", "\x00", "a\u0301b"])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
WORDS = st.lists(TEXT, min_size=1, max_size=4)
ANSWERS = st.lists(st.fixed_dictionaries({"text": TEXT, "answer_start": st.integers(-2, 9)}), max_size=2)
# task -> the columns of a record, with what mostly stands there
COLUMNS = {
    "classification": {"text": TEXT, "label": TEXT},
    "multi_label": {"text": TEXT, "labels": st.lists(TEXT, max_size=3, unique=True)},
    "regression": {"sentence1": TEXT, "sentence2": TEXT, "score": st.floats(-9, 9)},
    "ner": {"tokens": WORDS, "ner_tags": st.lists(st.sampled_from(["O", "B-X", "I-X", "x"]), max_size=4)},
    "pos": {"tokens": WORDS, "upos": st.lists(TEXT, max_size=4)},
    "qa": {"question": TEXT, "context": TEXT, "answers": ANSWERS},
    "multiple_choice": {"context": TEXT, "choices": WORDS, "label": st.integers(0, 4)},
    "embedding": {"anchor": TEXT, "positive": TEXT, "negative": TEXT},
}


def records(task):
    """Lists of records of a task, in each of which any column may hold anything, be absent, or have an id beside."""
    cells = {name: usual | VALUE for name, usual in COLUMNS[task].items()}
    whole = st.fixed_dictionaries(cells, optional={"id": VALUE})
    some = st.fixed_dictionaries({}, optional=cells)
    return st.lists(whole | st.fixed_dictionaries(COLUMNS[task]) | some, min_size=1, max_size=5)


def write(path: Path, rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines_with_problems(path: Path, problems) -> set[int]:
    places = [re.match(re.escape(str(path)) + r":(\d+): ", problem) for problem in problems]
    assert all(places), problems
    return {int(match[1]) for match in places}


@pytest.mark.parametrize("task", list(COLUMNS))
def test_every_record_is_an_example_or_a_problem(task, tmp_path):
    path = tmp_path / "t.jsonl"

    @FUZZ
    @given(records(task))
    def check(rows):
        write(path, rows)
        problems: list[str] = []
        examples = TASKS[task].read_file(path, DataSection(), True, problems)
        json.dumps(problems, ensure_ascii=False).encode()
        wrong = lines_with_problems(path, problems)
        places = [example.place().removeprefix(str(path)).removeprefix(":") for example in examples]
        lost = set(range(1, len(rows) + 1)) - wrong - {int(place) for place in places if place}
        if examples or not problems:  # else a column is missing, which is said once
            assert len(lost) <= places.count("")  # a sentence without words stands at no line
        if not problems:
            finished = TASKS[task].finish({"train": examples}, DataSection(), problems)["train"]
            if not problems:
                features = TASKS[task].encode(finished, TOKENIZER, TASKS[task].labels(finished), Limits(12))
                read = {i for i, example in enumerate(finished) if getattr(example, "words", True)}  # else no words
                assert {feature.example for feature in features} == read

    check()


@pytest.mark.parametrize("task", list(COLUMNS))
def test_a_whole_data_set_of_anything_is_data_or_a_message(task, tmp_path):
    @FUZZ
    @given(records(task), records(task))
    def check(train, dev):
        write(tmp_path / "train.jsonl", train)
        write(tmp_path / "dev.jsonl", dev)
        with contextlib.suppress(BertctlError):
            splits = training_data(TASKS[task], DataSection(path=tmp_path), seed=0)
            assert len(splits.train) + splits.misfits.get("train", 0) >= len(train)

    check()


@pytest.mark.parametrize("task", ["ner", "pos", "qa", "multiple_choice", "embedding"])
def test_any_bytes_are_data_or_a_message(task, tmp_path):
    @FUZZ
    @given(
        st.binary(max_size=60), st.sampled_from(["csv", "tsv", "jsonl", "json", "conll", "conllu", "txt", "parquet"])
    )
    def check(content, ending):
        path = tmp_path / f"t.{ending}"
        path.write_bytes(content)
        with contextlib.suppress(BertctlError):
            training_data(TASKS[task], DataSection(path=path), seed=0)

    check()
