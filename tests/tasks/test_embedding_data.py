"""Pairs, triplets, scored pairs and BEIR folders: which file holds what, and everything that is wrong with one."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding_data import PairExample, QueryExample, as_queries, input_example, read_file, scored
from bertctl.tasks.splits import test_data as read_test_data
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS

TASK = TASKS["embedding"]


def read(path: Path, text: str, **data) -> tuple[list[PairExample], list[str]]:
    path.write_text(text, encoding="utf-8")
    problems: list[str] = []
    return read_file(path, DataSection(**data), True, problems), problems


def test_pairs_by_their_usual_names_or_by_position(tmp_path):
    csv = 'id,query,passage\n1,who,"Ann, of course"\n2,where,\n'
    pairs, problems = read(tmp_path / "a.csv", csv)
    assert problems == []
    assert [(e.anchor, e.positive, e.score) for e in pairs] == [("who", "Ann, of course", None), ("where", "", None)]
    assert pairs[1].place() == f"{tmp_path / 'a.csv'}:3"
    swapped, _ = read(tmp_path / "a.tsv", "who\tAnn\tBob\n", columns={"text": 2, "text_pair": 1, "negatives": (3,)})
    assert [(e.anchor, e.positive, e.negatives) for e in swapped] == [("Ann", "who", ("Bob",))]


def test_triplets_and_lists(tmp_path):
    rows = [
        {"query": "q", "pos": ["a", "b"], "neg": ["c", "d"]},
        {"query": "r", "pos": "e", "neg": None},
    ]
    found, problems = read(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    assert problems == []
    expected = [("q", "a", ("c", "d")), ("q", "b", ("c", "d")), ("r", "e", ())]
    assert [(e.anchor, e.positive, e.negatives) for e in found] == expected
    columns = "anchor\tpositive\tnegative_1\tnegative_2\nx\ty\tz\tw\n"
    assert read(tmp_path / "n.tsv", columns)[0][0].negatives == ("z", "w")


def test_scored_pairs_with_and_without_names(tmp_path):
    named, _ = read(tmp_path / "n.csv", "sentence1,sentence2,score\na,b,2.5\nc,d,0\n")
    bare, _ = read(tmp_path / "b.csv", 'a,b,2.5\n"c",d,0\n')
    for found in (named, bare):
        assert [(e.anchor, e.positive, e.score) for e in found] == [("a", "b", 2.5), ("c", "d", 0.0)]
    by_hand = {"columns": {"text": 2, "text_pair": 3, "label": 1}}
    assert read(tmp_path / "c.csv", "5,a,b\n", **by_hand)[0][0].score == 5.0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("two.csv", "one,two\na,b\n", "two.csv:1: got the columns 'one', 'two', expected one of anchor, query"),
        (
            "a.csv",
            "premise,hypothesis,label\na,b,0\n",
            "a.csv:1: got two texts and the column 'label', expected a score",
        ),
        ("a.csv", "query,passage,score\na,b,high\n", "a.csv:2: got 'high' in the column 'score', expected a finite"),
        ("a.csv", "query,pos,neg,score\na,b,c,1\n", "a.csv:1: got the score 'score' and the negative 'neg'"),
        ("a.jsonl", '{"query": 1, "pos": "a"}', "a.jsonl:1: got a number in the column 'query', expected text"),
        ("a.jsonl", '{"query": "a", "pos": []}', "a.jsonl:1: got no text in the column 'pos', expected at least one"),
        ("a.jsonl", '{"query": "a", "pos": ["b", 3]}', "a.jsonl:1: got a number in the column 'pos', expected text"),
        ("a.tsv", "query\tpassage\na\tb\tc\n", "a.tsv:2: got 3 columns, expected 2 as in line 1"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, name, text, message):
    problems = read(tmp_path / name, text)[1]
    assert len(problems) == 1 + name.count("two")
    assert message in problems[0]


def test_any_two_texts_that_are_named_belong_together_whatever_label_they_have(tmp_path):
    text = "premise,hypothesis,label\na,b,0\n"
    assert read(tmp_path / "a.csv", text, columns={"text": "premise", "text_pair": "hypothesis"})[0][0].score is None
    assert read(tmp_path / "a.csv", text, columns={"label": "label"})[0][0].score == 0.0


@given(cells=st.lists(st.tuples(*[st.text(max_size=8)] * 3), min_size=1, max_size=5))
def test_any_text_is_read_as_it_is_or_refused(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    rows = [json.dumps(dict(zip(("query", "pos", "neg"), row, strict=True))) for row in cells]
    found, problems = read(path, "\n".join(rows))
    assert problems == []
    assert [(e.anchor, e.positive, *e.negatives) for e in found] == [
        tuple(text.encode("utf-8", "replace").decode() for text in row) for row in cells
    ]


def test_pairs_are_scored_as_queries_over_all_of_their_texts():
    """Anchors q, r, q; c is both a positive and a negative, and r is a candidate of its own."""
    pairs = [
        PairExample("q", "a", "f:1", ("c", "d")),
        PairExample("r", "c", "f:2", ("r",)),
        PairExample("q", "b", "f:3", ("a",)),
    ]
    first, second, third = as_queries(pairs)
    assert dict(zip(first.corpus.ids, first.corpus.texts, strict=True)) == {
        "f:1:1": "a",
        "f:1:2": "c",
        "f:1:3": "d",
        "f:2:2": "r",
        "f:3:1": "b",
    }
    assert first.grades == third.grades == {"f:1:1": 1.0, "f:3:1": 1.0}
    assert (second.grades, second.left_out) == ({"f:1:2": 1.0}, {"f:2:2"})
    assert first.triplets == (("f:1:1", "f:1:2"), ("f:1:1", "f:1:3"))
    assert third.triplets == ()  # its negative is a positive of the same anchor
    twice = as_queries([pairs[0], pairs[0]])
    assert [query.id for query in twice] == ["f:1", "f:1#2"]


def beir(folder: Path, **changes: str) -> Path:
    files = {
        "corpus.jsonl": '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "title": "", "text": "two"}\n'
        '{"_id": "q1", "text": "three"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n',
        "train.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td2\t2\n",
        "test.tsv": "query-id\tcorpus-id\tscore\nq2\td1\t1\n",
    }
    (folder / "qrels").mkdir(exist_ok=True)
    for name, text in (files | changes).items():
        place = folder if name.endswith("jsonl") else folder / "qrels"
        (place / name).write_text(text)
    return folder


def test_a_beir_folder(tmp_path):
    data = DataSection(path=beir(tmp_path), dev_share=0.5)
    splits = training_data(TASK, data, seed=0)
    assert {name: len(examples) for name, examples in splits.items()} == {"train": 1, "dev": 1, "test": 1}
    pairs = sorted([*splits.train, *splits.dev], key=lambda pair: pair.anchor)
    assert [(p.anchor, p.positive, p.negatives) for p in pairs] == [("first", "T one", ("two",)), ("second", "two", ())]
    assert pairs[1].place() == f"{tmp_path / 'qrels' / 'train.tsv'}:4"
    [query] = splits.test
    assert (query.id, query.text, query.grades) == ("q2", "second", {"d1": 1.0})
    assert query.corpus.texts == ("T one", "two", "three")
    assert (query.place(), query.place(3)) == (
        f"{tmp_path / 'qrels' / 'test.tsv'}:2",
        f"{tmp_path / 'corpus.jsonl'}:3",
    )
    [held_out] = scored(splits.dev)
    assert isinstance(held_out, QueryExample)
    assert held_out.corpus is query.corpus
    assert read_test_data(TASK, data, labels=[], seed=0)[0] == "test"
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(BertctlError, match="expected files named train, dev"):
        training_data(TASK, data, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"test.tsv": "query-id\tcorpus-id\tscore\nq2\td9\t1\n"},
            "test.tsv:2: got 'd9', expected an _id of corpus.jsonl",
        ),
        ({"test.tsv": "query-id\tcorpus-id\tscore\nq9\td1\t1\n"}, "test.tsv:2: got 'q9', expected an _id of queries"),
        ({"test.tsv": "query-id\tcorpus-id\tscore\nq2\td1\tyes\n"}, "test.tsv:2: got 'yes' in the column 'score'"),
        ({"test.tsv": "q2\td1\t1\nq1\td1\t1\n"}, "test.tsv:1: got the columns 'q2', 'd1', '1', expected query-id"),
        (
            {"queries.jsonl": '{"_id": "q1", "text": "x"}\n{"_id": "q1", "text": "y"}\n'},
            "queries.jsonl:2: got the _id 'q1' again",
        ),
        (
            {"corpus.jsonl": '{"_id": 1, "text": "x"}\n'},
            "corpus.jsonl:1: got a number in the column '_id', expected text",
        ),
    ],
)
def test_what_is_wrong_with_a_beir_folder(tmp_path, changes, message):
    with pytest.raises(BertctlError) as raised:
        training_data(TASK, DataSection(path=beir(tmp_path, **changes)), seed=0)
    assert any(message in problem for problem in raised.value.problems)


def test_kinds_must_not_be_mixed(tmp_path):
    (tmp_path / "train.csv").write_text("anchor,positive,negative\na,b,c\nd,e,f\n")
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    splits = training_data(TASK, DataSection(path=tmp_path), seed=0)  # learnt from triplets, chosen by scores
    assert (TASK.metric_of(splits.dev), TASK.metric_of(scored(splits.train))) == ("spearman", "ndcg@10")
    (tmp_path / "test.csv").write_text("anchor,positive\na,b\n")
    with pytest.raises(BertctlError, match=r"test.csv:2: got pairs or queries, expected scored pairs as in dev"):
        training_data(TASK, DataSection(path=tmp_path), seed=0)


def test_inputs_of_predict():
    assert input_example("some text", DataSection(), "in:1") == PairExample("some text", None, "in:1")
    assert input_example({"text": "a", "id": 3}, DataSection(), "in:2").positive is None
    assert input_example({"query": "a", "passage": "b"}, DataSection(), "in:3").positive == "b"
    with pytest.raises(BertctlError, match=r"in:4: got an object with 'x', expected one of text, query"):
        input_example({"x": "a"}, DataSection(), "in:4")
