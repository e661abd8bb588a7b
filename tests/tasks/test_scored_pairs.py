"""The forms in which the STS benchmark goes round."""

from pathlib import Path

import pytest

from bertctl.tasks import regression
from bertctl.tasks.config import DataSection

ROWS = [('A man, "Bob", sings.', "A man sings.", 4.25), ("A dog.", "A cat.", 0.0)]
GLUE = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    '0\tmain\tf\t2012\t1\tnone\tnone\tA man, "Bob", sings.\tA man sings.\t4.250\n'
    "1\tmain\tf\t2012\t2\tnone\tnone\tA dog.\tA cat.\t0.000\n"
)
ORIGINAL = (
    'main-captions\tMSRvid\t2012test\t0001\t4.250\tA man, "Bob", sings.\tA man sings.\n'
    "main-news\tf\t2016\t2\t0.000\tA dog.\tA cat.\thttp://x\tlicence\n"
)


def read(path: Path, content: str, **data: object) -> tuple[list[tuple], list[str]]:
    path.write_text(content, newline="")
    problems: list[str] = []
    examples = regression.read_file(path, DataSection(**data), True, problems)
    return [(e.text, e.pair, e.label) for e in examples], problems


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("three.csv", '"A man, ""Bob"", sings.",A man sings.,4.25\r\nA dog.,A cat.,0.0\r\n'),
        ("three.tsv", 'A man, "Bob", sings.\tA man sings.\t4.25\nA dog.\tA cat.\t0.0\n'),
        ("glue.tsv", GLUE),
        ("sts-train.csv", ORIGINAL),
        ("sts-train.tsv", ORIGINAL),
    ],
)
def test_every_form_gives_the_same_pairs(tmp_path: Path, name: str, content: str) -> None:
    assert read(tmp_path / name, content) == (ROWS, [])


def test_a_row_of_the_original_that_is_too_short_is_named(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "sts.csv", ORIGINAL + "main\tf\t2016\n")
    assert [problem.split("sts.csv")[1] for problem in problems] == [":3: got 3 columns, expected at least 7"]


def test_a_broken_row_of_three_columns_is_named(tmp_path: Path) -> None:
    _, problems = read(tmp_path / "t.csv", "a,b,1.0\nc,d\n")
    assert [problem.split("t.csv")[1] for problem in problems] == [":2: got 2 columns, expected 3 as in line 1"]


@pytest.mark.parametrize("data", [{"header": True}, {"format": "jsonl"}])
def test_what_the_recipe_says_goes_before_any_guess(tmp_path: Path, data: dict) -> None:
    rows, problems = read(tmp_path / "t.csv", "a,b,1.0\nc,d,2.0\n", **data)
    assert rows == []
    assert problems
