"""Tag schemes are found from the data, and tags that fit none are named with their line."""

import pytest

from bertctl.tasks.config import DataSection
from bertctl.tasks.schemes import complete_labels, find_scheme, scheme_of_labels, settle
from bertctl.tasks.task import TokenExample


def example(tags: str) -> TokenExample:
    names = tuple(tags.split())
    return TokenExample(("w",) * len(names), names, "f", tuple(range(1, len(names) + 1)))


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["B-PER I-PER O", "B-LOC"], "BIO"),
        (["I-PER I-PER O", "I-LOC"], "IO"),
        (["I-PER I-PER B-PER O"], "IOB1"),
        (["B-PER E-PER O S-LOC"], "BIOES"),
        (["B-PER L-PER O U-LOC"], "BIOES"),
        (["PER O", "creative-work"], "none"),
        (["NN VBZ ."], "none"),
        (["O O"], "BIO"),
        (["B-PER O I-PER", "B-LOC I-LOC"], "BIO"),
    ],
)
def test_the_scheme_is_found(tags: list[str], scheme: str) -> None:
    assert find_scheme([line.split() for line in tags]) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "problem"),
    [
        ("B-PER PER", "auto", "f:2: got the tag 'PER', expected O, or a prefix of BIO (B, I) and a type"),
        ("B-PER X-PER", "auto", "f:2: got the tag 'X-PER'"),
        ("B-PER B-", "auto", "f:2: got the tag 'B-'"),
        ("B-PER B_LOC", "auto", "f:2: got the tag 'B_LOC'"),
        ("B-PER S-LOC", "BIO", "f:2: got the tag 'S-LOC'"),
        ("B-PER O I-PER", "auto", "f:3: got 'I-PER' after 'O', an entity that BIO does not write this way"),
        ("I-PER", "BIO", "f:1: got 'I-PER' after the start"),
        ("O B-PER", "IOB1", "f:2: got 'B-PER' after 'O', an entity that IOB1 does not"),
        ("B-PER I-PER E-LOC", "BIOES", "f:1: got 'B-PER' after the start"),
    ],
)
def test_tags_that_do_not_fit_are_named(tags: str, scheme: str, problem: str) -> None:
    problems: list[str] = []
    settle([example(tags)], DataSection(scheme=scheme), problems)
    assert problem in problems[0]


def test_ill_formed_tags_can_be_kept() -> None:
    problems: list[str] = []
    assert settle([example("B-PER O I-PER")], DataSection(ill_formed_tags="keep"), problems) == "BIO"
    assert problems == []


@pytest.mark.parametrize(
    ("tags", "scheme", "labels"),
    [
        ("B-PER O B-creative-work", "BIO", "O B-PER I-PER B-creative-work I-creative-work"),
        ("I-PER", "IO", "O I-PER"),
        ("S-PER", "BIOES", "O B-PER I-PER E-PER S-PER"),
        ("U-PER O", "BIOES", "O B-PER I-PER L-PER U-PER"),
        ("B-X PER", "none", "O B-X PER"),
    ],
)
def test_labels_are_completed_for_every_type(tags: str, scheme: str, labels: str) -> None:
    assert complete_labels(set(tags.split()), scheme) == labels.split()


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [("O B-A I-A", "BIO"), ("O I-A", "IO"), ("O B-A I-A L-A U-A", "BIOES"), ("O A", "none"), ("O", "none")],
)
def test_the_scheme_that_labels_can_write(labels: str, scheme: str) -> None:
    assert scheme_of_labels(labels.split()) == scheme
