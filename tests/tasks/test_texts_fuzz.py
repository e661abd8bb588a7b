"""Any text in any column: every row is read or named as a problem, never both and never with a traceback."""

import contextlib
import csv
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Limits
from bertctl.text.tokenizer import Tokenizer

FUZZ = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROWS = st.lists(st.tuples(st.text(max_size=12), st.text(max_size=6)), min_size=1, max_size=5)
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"], True, True)
TASKS_OF_TEXTS = ["classification", "multi_label", "regression"]


def read(task: str, path: Path, data: DataSection) -> tuple[list, list[str]]:
    problems: list[str] = []
    return TASKS[task].read_file(path, data, True, problems), problems


def as_csv(rows: list[tuple[str, str]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([("text", "label"), *rows])
    return out.getvalue()


@pytest.mark.parametrize("task", TASKS_OF_TEXTS)
@given(rows=ROWS)
@example(rows=[("", "1"), ("\u2028", "2"), ('"', "nan")])
@example(rows=[("a\r\nb", " 1e3 "), ("\x00", "1_0")])
@FUZZ
def test_csv(task: str, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(as_csv(rows), encoding="utf-8", newline="")
    data = DataSection(header=True, label_separator="|", columns=ColumnsSection(text="text", label="label"))
    examples, problems = read(task, path, data)
    assert all(problem.startswith(f"{path}:") for problem in problems)
    if not problems:
        assert [example.text for example in examples] == [text for text, _ in rows]
        features = TASKS[task].encode(examples, TOKENIZER, TASKS[task].labels(examples), Limits(8, 2, windows=True))
        assert sorted({feature.example for feature in features}) == list(range(len(rows)))


JSON_CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.lists(st.text(max_size=3), max_size=3))


@given(cells=st.lists(JSON_CELLS, min_size=1, max_size=5))
@example(cells=[10**400, -(10**400), 5e-324, 3e38, 3.5e38])
@FUZZ
def test_json_numbers_are_read_and_everything_else_is_named(cells: list, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    kept = [cell for cell in cells if not isinstance(cell, float) or math.isfinite(cell)]
    numbers = [cell for cell in kept if type(cell) in (int, float) and -3.4e38 <= cell <= 3.4e38]
    path.write_text("".join(json.dumps({"text": "a", "score": cell}) + "\n" for cell in kept) or "\n")
    examples, problems = read("regression", path, DataSection())
    assert len(problems) == max(len(kept) - len(numbers), not kept)
    assert {float(cell) for cell in numbers} <= {example.label for example in examples}
    assert all(len(problem) < 300 for problem in problems)


@given(rows=st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=3, unique=True), min_size=1, max_size=5))
@FUZZ
def test_json_lists_of_labels_come_back(rows: list[list[str]], tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": "a", "labels": row}) + "\n" for row in rows))
    examples, problems = read("multi_label", path, DataSection())
    if not problems:  # two halves of a surrogate pair are both U+FFFD, so that a name may come twice
        assert [len(example.label) for example in examples] == [len(row) for row in rows]
        assert TASKS["multi_label"].labels(examples) == TASKS["multi_label"].labels(list(reversed(examples)))


@pytest.mark.parametrize("task", TASKS_OF_TEXTS)
@given(content=st.binary(max_size=60), ending=st.sampled_from(["csv", "tsv", "jsonl", "txt", "parquet"]))
@FUZZ
def test_any_bytes_are_data_or_a_message(task: str, content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    with contextlib.suppress(BertctlError):
        training_data(TASKS[task], DataSection(path=path), seed=0)
