"""Tags of names in docstrings: only what is sure, from the signature and the module's own names."""

import pytest

from bertctl.demo.entities import tag_words, tagged_sentences
from bertctl.demo.labels import Sizes
from bertctl.demo.sources import Definition, Module

MODULE = Module("rich", "rich.box", (), frozenset({"Box", "BoxError", "TreeBox"}), frozenset({"draw", "draw_all"}))
DEFINITION = Definition("f", "function", ("width", "max_width", "name"), "")


def tagged(sentence: str, *, starts_line: bool = False) -> list[tuple[str, str]] | None:
    found = tag_words(sentence, MODULE, DEFINITION, starts_line=starts_line)
    return None if found is None else list(zip(*found, strict=True))


def names(sentence: str, *, starts_line: bool = False) -> dict[str, str] | None:
    found = tagged(sentence, starts_line=starts_line)
    return None if found is None else {word: tag for word, tag in found if tag != "O"}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Draw the box with `width` columns.", {"width": "B-PARAMETER"}),
        ("At most max_width of them, never *name*.", {"max_width": "B-PARAMETER", "name": "B-PARAMETER"}),
        ("Raises ValueError or a BoxError.", {"ValueError": "B-EXCEPTION", "BoxError": "B-EXCEPTION"}),
        (
            "A TreeBox is made by draw_all and draw().",
            {"TreeBox": "B-CLASS", "draw_all": "B-FUNCTION", "draw": "B-FUNCTION"},
        ),
        ("It returns `True` and nothing else.", {}),
    ],
)
def test_what_is_sure_is_tagged(sentence: str, expected: dict[str, str]) -> None:
    assert names(sentence) == expected


@pytest.mark.parametrize(
    "sentence",
    ["The name of the thing.", "To draw a thing.", "A Box of things.", "Calls `unknown` things.", "See other.thing."],
)
def test_a_sentence_with_a_word_that_may_be_a_name_is_left_out(sentence: str) -> None:
    assert tagged(sentence) is None


def test_a_parameter_that_opens_a_line_needs_no_mark() -> None:
    assert names("name (int): How many.", starts_line=True) == {"name": "B-PARAMETER", "int": "B-CLASS"}
    assert tagged("name (int): How many.") is None


def test_a_dotted_name_is_one_entity_of_several_words() -> None:
    assert tagged("See `rich.box`.") == [
        ("See", "O"),
        ("rich", "B-MODULE"),
        (".", "I-MODULE"),
        ("box", "I-MODULE"),
        (".", "O"),
    ]


def test_marks_are_taken_away() -> None:
    assert [word for word, _ in tagged("Uses `width`, it's 3.5.") or []] == [
        "Uses",
        "width",
        ",",
        "it",
        "'",
        "s",
        "3.5",
        ".",
    ]


def test_examples_are_bio_and_hold_every_type() -> None:
    found = tagged_sentences(Sizes(120, 16, 16), 1)
    for examples in found.values():
        for _, words, tags in examples:
            assert 5 <= len(words) == len(tags) <= 40
            for before, tag in zip(("O", *tags), tags, strict=False):
                assert tag[0] != "I" or before[1:] == tag[1:]
    assert {tag[2:] for _, _, tags in found["train"] for tag in tags} >= {"CLASS", "EXCEPTION", "FUNCTION", "PARAMETER"}
