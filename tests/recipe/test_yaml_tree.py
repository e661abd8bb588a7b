import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.recipe.yaml_scalars import resolve
from bertctl.recipe.yaml_tree import DEEPEST, Mark, YamlError, parse_yaml

PLAIN = {
    "5e-5": 5e-5,
    "1e-3": 1e-3,
    "1E-4": 1e-4,
    "3e5": 3e5,
    "1.0e4": 1e4,
    "-.5": -0.5,
    "6.": 6.0,
    "1_000": 1000,
    "-1_000_000": -1_000_000,
    "0": 0,
    "-0": 0,
    "0.5": 0.5,
    "0x1F": 31,
    "0o10": 8,
    "12:30:45": "12:30:45",
    "1:30": "1:30",
    "no": "no",
    "yes": "yes",
    "on": "on",
    "y": "y",
    "2026-11-29": "2026-11-29",
    "1__000": "1__000",
    "_1": "_1",
    "1.2.3": "1.2.3",
    "e5": "e5",
    "nan": "nan",
    "inf": "inf",
    "true": True,
    "FALSE": False,
    "tRUE": "tRUE",
    "~": None,
    "null": None,
    "": None,
}


@pytest.mark.parametrize(("text", "value"), PLAIN.items())
def test_plain_scalars_follow_the_core_schema(text, value):
    got = parse_yaml(f"key: {text}").tree["key"]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("text", ["010", "-007", "00", "0_1", ".inf", "-.INF", ".nan", "1e999", "9" * 5000])
def test_numbers_that_could_mislead_are_refused_at_their_place(text):
    document = parse_yaml(f"a: 1\nkey: {text}")
    assert [(p.mark, p.path) for p in document.problems] == [(Mark(2, 6), ("key",))]
    assert document.tree["key"] is None


def test_quotes_make_text_of_anything():
    assert parse_yaml("a: '010'\nb: \"no\"\nc: '1e-4'").tree == {"a": "010", "b": "no", "c": "1e-4"}


def test_marks_of_keys_and_values_count_from_one():
    document = parse_yaml("# é\na:\n  b: [1, {c: 2}]\n")
    assert document.keys["a", "b"] == Mark(3, 3)
    assert document.values["a", "b"] == Mark(3, 6)
    assert document.values["a", "b", 1, "c"] == Mark(3, 14)


@pytest.mark.parametrize(
    ("text", "mark", "word"),
    [
        ("", (1, 1), "empty"),
        ("# only a comment\n", (1, 1), "empty"),
        ("a: 1\n---\nb: 2\n", (2, 1), "second document"),
        ("a:\n\tb: 1", (2, 1), "tab"),
        ("a: [1", (1, 6), "no YAML"),
        ("a: 'x", (1, 6), "no YAML"),
        ("a: b: c", (1, 5), "no YAML"),
        ("a: \0", (1, 4), "NUL"),
        ("a: *x", (1, 4), "alias"),
        ("a: &a [*a]", (1, 8), "inside its own value"),
        ("a: &a {b: {c: *a}}", (1, 15), "inside its own value"),
        ("a: " + "[" * 5000, (1, DEEPEST + 3), "deep"),
        ("- " * 5000 + "x", (1, 2 * DEEPEST + 1), "deep"),
    ],
)
def test_text_that_is_no_recipe_is_refused_with_a_place(text, mark, word):
    with pytest.raises(YamlError, match=word) as caught:
        parse_yaml(text)
    assert caught.value.mark == Mark(*mark)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: 2\na: 3", 3, "already given in line 1"),
        ("x: {a: 1, a: 2}", 1, "already given"),
        ("a: !!python/object/apply:os.system [echo]", 1, "tag `!!python"),
        ("a: !!python/name:os.system", 1, "tag"),
        ("a: !mine 3", 1, "tag"),
        ("1: a", 1, "must be text"),
        ("null: a", 1, "must be text"),
        ("? [a]\n: b", 1, "must be text"),
        ("<<: {a: 1}", 1, "merge key"),
    ],
)
def test_what_yaml_allows_and_we_do_not(text, line, word):
    (problem,) = parse_yaml(text).problems
    assert problem.mark.line == line
    assert word in problem.message


def test_a_few_aliases_are_fine_and_a_bomb_is_not():
    assert parse_yaml("a: &x [1, 2]\nb: *x").tree == {"a": [1, 2], "b": [1, 2]}
    rows = ["a0: &a0 [" + "x," * 9 + "]"]
    rows += [f"a{n}: &a{n} [" + f"*a{n - 1}," * 9 + "]" for n in range(1, 10)]
    with pytest.raises(YamlError, match="aliases expand"):
        parse_yaml("\n".join(rows))
    chain = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100)]
    with pytest.raises(YamlError, match="aliases expand"):
        parse_yaml("\n".join(chain))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(min_size=1), TREES, min_size=1))
def test_json_is_read_as_json_readers_do(tree):
    text = json.dumps(tree)
    assert parse_yaml(text).tree == json.loads(text)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab0 1:-[]{},&*!|>'\"#\n\t%@\\.e_~?<\0\ufeff")) | st.text())
def test_any_text_gives_a_tree_or_a_place(text):
    try:
        marks = [problem.mark for problem in parse_yaml(text).problems]
    except YamlError as error:
        marks = [error.mark]
    lines = text.splitlines() or [""]
    assert all(1 <= mark.line <= len(lines) + 1 and mark.column >= 1 for mark in marks)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_every_float_that_python_writes_is_read_back(value):
    got = resolve(repr(value))
    assert isinstance(got, float)
    assert got == value
    assert math.copysign(1, got) == math.copysign(1, value)
