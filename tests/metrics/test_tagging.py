"""Entities and their F1 against seqeval, and against what the CoNLL script says of hand-made cases."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.scheme import IOB2, IOBES

from bertctl.metrics.tagging import entities, ill_formed, per_type, split_tag, tagging_metrics

# seqeval warns where it says 0 for an undefined score, and where a tag is no entity of its scheme
pytestmark = pytest.mark.filterwarnings("ignore")
BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIOES = [*BIO, "E-PER", "S-PER", "E-LOC", "S-LOC"]


def paired(tags: list[str]) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    tag = st.sampled_from(tags)
    return st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=8), min_size=1, max_size=6)


def unzipped(sentences: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[g for g, _ in s] for s in sentences], [[p for _, p in s] for s in sentences]


def point(gold: list[list[str]], predicted: list[list[str]], name: str, scheme: str) -> float:
    return tagging_metrics(gold, predicted, scheme=scheme)[name].point() or 0.0  # seqeval says 0 where we say None


@settings(max_examples=150, deadline=None)
@given(paired(BIOES))
def test_conlleval_equals_seqeval_default(sentences: list[list[tuple[str, str]]]) -> None:
    gold, predicted = unzipped(sentences)
    for name, reference in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
        assert point(gold, predicted, f"{name}_conlleval", "BIOES") == pytest.approx(
            reference(gold, predicted), abs=1e-9
        )
    assert point(gold, predicted, "token_accuracy", "BIOES") == pytest.approx(accuracy_score(gold, predicted), abs=1e-9)


@pytest.mark.parametrize(("scheme", "tags", "reference"), [("BIO", BIO, IOB2), ("BIOES", BIOES, IOBES)])
def test_strict_equals_seqeval_strict(scheme: str, tags: list[str], reference: type) -> None:
    @settings(max_examples=120, deadline=None)
    @given(paired(tags))
    def check(sentences: list[list[tuple[str, str]]]) -> None:
        gold, predicted = unzipped(sentences)
        expected = f1_score(gold, predicted, mode="strict", scheme=reference)
        assert point(gold, predicted, "f1", scheme) == pytest.approx(expected, abs=1e-9)

    check()


def test_types_equal_seqeval() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-creative-work", "I-creative-work"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["B-creative-work", "I-creative-work"]]
    report = classification_report(gold, predicted, output_dict=True)
    table = per_type(gold, predicted, scheme="BIO", mode="conlleval")
    assert [row["label"] for row in table] == ["LOC", "PER", "creative-work"]
    for row in table:
        reference = report[row["label"]]
        assert (row["f1"], row["support"]) == (pytest.approx(reference["f1-score"]), reference["support"])


def test_lenient_and_strict_differ_where_an_entity_starts_with_i() -> None:
    found = tagging_metrics([["B-Phone", "I-Phone"]], [["I-Phone", "I-Phone"]], scheme="BIO")
    assert found["f1_conlleval"].point() == 1.0
    assert found["f1"].point() == 0.0
    assert found["f1"].note == "entities, BIO tags, strict"
    assert found["f1_conlleval"].note == "entities, BIO tags, conlleval"


def test_a_gold_type_that_is_never_predicted_counts_as_missed() -> None:
    gold, predicted = [["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]]
    found = tagging_metrics(gold, predicted, scheme="BIO")
    assert found["precision"].point() == 1.0
    assert found["recall"].point() == 0.5
    assert found["f1"].point() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("scheme", "tags", "strict", "conlleval"),
    [
        ("IOB1", "I-A I-A B-A O I-B I-A", [(0, 2), (2, 3), (4, 5), (5, 6)], [(0, 2), (2, 3), (4, 5), (5, 6)]),
        ("IOB1", "O B-A I-A", [], [(1, 3)]),
        ("BIO", "B-A I-B I-B O I-A B-A B-A", [(0, 1), (5, 6), (6, 7)], [(0, 1), (1, 3), (4, 5), (5, 6), (6, 7)]),
        ("BIOES", "B-A I-A E-A S-A B-A O E-A I-A", [(0, 3), (3, 4)], [(0, 3), (3, 4), (4, 5), (6, 7), (7, 8)]),
        ("BIOES", "B-A L-A U-A", [(0, 2), (2, 3)], [(0, 2), (2, 3)]),
        ("IO", "I-A I-A I-B O I-B", [(0, 2), (2, 3), (4, 5)], [(0, 2), (2, 3), (4, 5)]),
        ("none", "A A O B-x", [(0, 1), (1, 2), (3, 4)], [(0, 1), (1, 2), (3, 4)]),
    ],
)
def test_entities_by_hand(
    scheme: str, tags: str, strict: list[tuple[int, int]], conlleval: list[tuple[int, int]]
) -> None:
    for mode, expected in (("strict", strict), ("conlleval", conlleval)):
        assert [(a, b) for _, a, b in entities(tags.split(), scheme=scheme, mode=mode)] == expected


def test_types_keep_their_hyphens_and_bare_tags_their_names() -> None:
    assert split_tag("B-creative-work", "BIO") == ("B", "creative-work")
    assert [kind for kind, _, _ in entities(["B-x", "O"], scheme="none", mode="strict")] == ["B-x"]


def test_ill_formed_starts_are_found() -> None:
    assert ill_formed(["O", "I-A", "I-A", "B-A", "I-B"], "BIO") == [1, 4]
    assert ill_formed(["O", "I-A", "I-A", "B-A", "I-B"], "IOB1") == []


def test_no_entities_anywhere_is_undefined() -> None:
    summary = tagging_metrics([["O", "O"]], [["O", "O"]], scheme="BIO")["f1"].summary()
    assert summary["value"] is None
    assert "no entities" in summary["reason"]


def test_unequal_lengths_and_unknown_schemes_are_errors() -> None:
    with pytest.raises(ValueError):
        tagging_metrics([["O", "O"]], [["O"]], scheme="BIO")
    with pytest.raises(ValueError, match="scheme"):
        entities(["O"], scheme="IOB9", mode="strict")
