"""From examples to scores: inputs, rankings worked out by hand, correlations of scipy, and what other systems said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from bertctl.errors import BertctlError
from bertctl.tasks.audit import refuse_truncation, truncation, windows_read
from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding import encode, predictions, score, text_vectors
from bertctl.tasks.embedding_data import Corpus, PairExample, QueryExample, as_queries
from bertctl.tasks.embedding_objective import objective_for
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.tasks.predicting import encode_chunks, joined
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features, Limits
from bertctl.text.tokenizer import Tokenizer

TASK = TASKS["embedding"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "query", "doc", ":"]
TOKENIZER = Tokenizer(PIECES, True, True)
CORPUS = Corpus(("d1", "d2", "d3"), ("a b", "c", "d e"), ("corpus:1", "corpus:2", "corpus:3"))


def text_of(feature: Features) -> str:
    return " ".join(PIECES[i] for i in feature.input_ids[1:-1])


def query(name: str, text: str, **more) -> QueryExample:
    return QueryExample(name, text, more.pop("grades", {"d1": 1.0}), CORPUS, f"qrels:{name}", **more)


def test_roles_and_prefixes():
    limits = Limits(16, query_prefix="query: ", passage_prefix="doc: ")
    examples = [PairExample("a", "b", "f:1", ("c", "d")), PairExample("a", "b", "f:2", score=2.0)]
    found = [(f.example, f.role, text_of(f), f.labels) for f in encode(examples, TOKENIZER, [], limits)]
    assert found == [
        (0, 0, "query : a", None),
        (0, 1, "doc : b", None),
        (0, 2, "doc : c", None),
        (0, 3, "doc : d", None),
        (1, 0, "query : a", 2.0),
        (1, 1, "query : b", 2.0),
    ]


def test_a_corpus_is_encoded_once():
    other = replace(query("q3", "e"), corpus=Corpus(("x",), ("a",), ("other:1",)))
    features = encode([query("q1", "a"), query("q2", "b"), other], TOKENIZER, [], Limits(16))
    assert [(f.example, f.role, text_of(f)) for f in features] == [
        (0, 0, "a"),
        (0, 1, "a b"),
        (0, 2, "c"),
        (0, 3, "d e"),
        (1, 0, "b"),
        (2, 0, "e"),
        (2, 1, "a"),
    ]
    many = [query(f"q{i}", "a") for i in range(3000)]  # more than are encoded at a time for other tasks
    assert len(joined(list(encode_chunks(TASK, many, TOKENIZER, [], Limits(16)))).features) == 3003


def test_what_is_cut_is_counted_by_text_and_named_where_it_stands():
    examples = [query("q1", "a b c d")]
    features = encode(examples, TOKENIZER, [], Limits(3))
    assert truncation(features) == {"truncated": 3, "examples": 4, "pieces": 9, "pieces_kept": 4}
    with pytest.raises(BertctlError) as raised:
        refuse_truncation(examples, features, 3)
    assert [problem.partition(": ")[0] for problem in raised.value.problems] == ["qrels:q1", "corpus:1", "corpus:3"]
    windows = encode(examples, TOKENIZER, [], Limits(4, 1, windows=True))
    assert windows_read(windows) == {"texts_in_windows": 1, "windows": 6}
    assert [text_of(f) for f in windows if f.role == 0] == ["a b", "b c", "c d"]


def test_a_text_in_windows_is_the_mean_of_its_vectors():
    features = [Features([], [], None, 0, 0, role=role) for role in (0, 0, 1)]
    found = text_vectors(features, [np.array([3.0, 0.0]), np.array([0.0, 4.0]), np.array([0.0, 0.0])])
    np.testing.assert_allclose(found[0, 0], [0.6, 0.8], atol=1e-7)
    assert found[0, 1].tolist() == [0.0, 0.0]


def vectors(examples, **rows: list[float]) -> list[np.ndarray]:
    """Logits by the first word of a text."""
    return [np.array(rows[text_of(f).split()[0]]) for f in encode(examples, TOKENIZER, [], Limits(16))]


def test_rankings_by_hand():
    """The query is nearest to d2, then d1 and d3 alike; of equal ones the last id comes first, as trec_eval has it."""
    examples = [query("q1", "b"), query("d1", "b", grades={"d3": 2.0, "d2": 1.0}, left_out=frozenset({"d1"}))]
    features = encode(examples, TOKENIZER, [], Limits(16))
    logits = vectors(examples, b=[2.0, 0.0], a=[1.0, 1.0], c=[5.0, 1.0], d=[1.0, -1.0])
    first, second = predictions(examples, features, logits, [], {})
    assert (first["id"], first["ranking"]) == ("q1", ["d2", "d3", "d1"])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(first["cosines"], [5 / np.sqrt(26), half, half], atol=1e-6)
    assert second["ranking"] == ["d2", "d3"]
    found = {name: metric.point() for name, metric in score(examples, [first, second], []).items()}
    ideal = 2 + 1 / np.log2(3)
    assert found["ndcg@10"] == pytest.approx((1 / np.log2(4) + (1 + 2 / np.log2(3)) / ideal) / 2)
    assert found["mrr@10"] == pytest.approx((1 / 3 + 1) / 2)
    assert found["map@100"] == pytest.approx((1 / 3 + 1) / 2)
    assert (found["recall@10"], found["p@1"]) == (1.0, 0.5)


def test_only_the_best_of_a_large_corpus_are_kept_and_they_are_the_best():
    generator = np.random.default_rng(0)
    names = tuple(f"d{i:03}" for i in range(500))
    corpus = Corpus(names, ("a",) * 500, names)
    example = QueryExample("q", "b", {"d007": 1.0}, corpus, "q:1")
    rows = generator.normal(size=(501, 4)).round(1)  # some equal ones
    features = encode([example], TOKENIZER, [], Limits(16))
    [found] = predictions([example], features, list(rows), [], {})
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    cosines = unit[1:] @ unit[0]
    expected = sorted(range(500), key=lambda i: (cosines[i], names[i]), reverse=True)[:100]
    assert found["ranking"] == [names[i] for i in expected]


def test_triplet_accuracy_by_hand():
    pairs = [PairExample("a", "b", "f:1", ("c", "d")), PairExample("e", "b", "f:2", ("d",))]
    examples = as_queries(pairs)
    features = encode(examples, TOKENIZER, [], Limits(16))
    logits = vectors(examples, a=[1.0, 0.0], e=[0.0, 1.0], b=[2.0, 1.0], c=[1.0, 0.0], d=[0.0, 1.0])
    found = predictions(examples, features, logits, [], {})
    assert len(found[0]["triplets"]) == 2
    metric = score(examples, found, [])["triplet_accuracy"]  # a: b beats d, not c; e: d beats b
    assert metric.point() == pytest.approx(1 / 3)


def test_correlations_equal_scipy():
    generator = np.random.default_rng(1)
    gold = generator.integers(0, 6, 40).astype(float)
    examples = [PairExample("a", "b", f"f:{i}", score=value) for i, value in enumerate(gold)]
    features = encode(examples, TOKENIZER, [], Limits(16))
    logits = list(generator.normal(size=(80, 5)))
    found = predictions(examples, features, logits, [], {})
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(logits[::2], logits[1::2], strict=True)]
    np.testing.assert_allclose([row["cosine"] for row in found], cosines, atol=1e-6)
    scores = {name: metric.point() for name, metric in score(examples, found, []).items()}
    said = [row["cosine"] for row in found]
    assert scores == pytest.approx(
        {"spearman": spearmanr(gold, said).statistic, "pearson": pearsonr(gold, said).statistic}, abs=1e-9
    )


def test_what_another_system_said(tmp_path):
    examples, path, problems = [query("q1", "b"), query("q2", "b")], tmp_path / "theirs.jsonl", []
    path.write_text(json.dumps({"id": "q2", "ranking": ["d3", "d1"]}) + "\n")
    found = TASK.submission(path, examples, DataSection(), problems)
    assert (problems, [row["ranking"] for row in found]) == ([], [[], ["d3", "d1"]])
    assert score(examples, found, [])["mrr@10"].point() == 0.25
    path.write_text(json.dumps({"id": "q2", "ranking": ["d3", "d3"]}) + "\n")
    TASK.submission(path, examples, DataSection(), problems)
    assert "theirs.jsonl:1: got a list, expected a list of distinct document ids" in problems[0]
    scored_path = tmp_path / "theirs.csv"
    scored_path.write_text("cosine\n0.5\n-1\n")
    pairs = [PairExample("a", "b", f"f:{i}", score=i) for i in (1.0, 2.0)]
    assert TASK.submission(scored_path, pairs, DataSection(), []) == [{"cosine": 0.5}, {"cosine": -1.0}]


@pytest.mark.parametrize(
    ("section", "kind", "message"),
    [
        ({"loss": "cosent"}, "pairs", "f:1: got pairs without a score, expected scored pairs for the loss cosent"),
        ({"loss": "in_batch_negatives"}, "scored", "f:1: got scored pairs, expected pairs that belong together"),
        ({"loss": "triplet"}, "pairs", "f:1: got no negatives, expected triplets"),
        ({"loss": "cosine_mse"}, "scored", "f:1: got the score 5, expected at most 1"),
        ({}, "pairs", None),
        ({}, "scored", None),
        ({"loss": "cosine_mse", "highest_score": 5.0}, "scored", None),
    ],
)
def test_the_loss_must_fit_the_data(section, kind, message):
    examples = [PairExample("a", "b", "f:1", score=5.0 if kind == "scored" else None)]
    if message is None:
        make = objective_for(EmbeddingSection(**section), examples)
        assert list(make(None, None, None).weights) == [
            section.get("loss", {"pairs": "in_batch_negatives"}.get(kind, "cosent"))
        ]
    else:
        with pytest.raises(BertctlError, match=message):
            objective_for(EmbeddingSection(**section), examples)
