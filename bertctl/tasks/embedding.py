"""Vectors of texts: how examples become model inputs, and how good the vectors are.

Scored pairs are judged by the correlation of cosine and score, queries by the ranking of their corpus by cosine.
Shapes: N texts, E numbers in a vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bertctl.metrics.ranking import ranked, ranking_metrics
from bertctl.metrics.regression import regression_metrics
from bertctl.metrics.rows import Metric, share
from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding_data import PairExample, QueryExample
from bertctl.tasks.embedding_section import EmbeddingSection
from bertctl.tasks.regression import spread
from bertctl.tasks.submissions import Records, number_in
from bertctl.tasks.tables import json_kind
from bertctl.tasks.task import Features, Limits, Prediction, TextExample
from bertctl.tasks.text_windows import encode_windows
from bertctl.tasks.texts import encode_texts
from bertctl.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bertctl.tasks.task import MakeObjective

SCORED, RANKED = "spearman", "ndcg@10"
DEEPEST = 100  # documents of a ranking that are kept
DECIMALS = 8  # float32 has no more
QUERIES_AT_ONCE = 256
SAME = 6  # decimals to which cosines are the same when a run is looked at that may say the same of everything
TINY = 1e-12
Input = tuple[int, int, str, float | None]
"""(example, role, text, score)."""


def labels(examples: Sequence[Any]) -> list[str]:
    """Vectors have no labels."""
    return []


def outputs(label_names: Sequence[str]) -> int:
    """As wide as the encoder."""
    return 0


def metric_of(examples: Sequence[Any]) -> str:
    """What picks the best checkpoint: Spearman's correlation of scored pairs, else nDCG@10."""
    return SCORED if any(isinstance(one, PairExample) and one.score is not None for one in examples) else RANKED


def objective(section: EmbeddingSection, examples: Sequence[PairExample]) -> "MakeObjective":
    """What makes the objective of a model. Errors: BertctlError if the loss does not fit the training examples."""
    from bertctl.tasks.embedding_objective import objective_for

    return objective_for(section, examples)


def encode(
    examples: Sequence[PairExample | QueryExample], tokenizer: Tokenizer, label_names: Sequence[str], limits: Limits
) -> list[Features]:
    """[CLS] text [SEP] of every text; `role` 0: the anchor or query, 1: the positive or second text, 2, 3, ...: the
    negatives. The texts of a corpus have the roles 1, 2, ... and stand once, with the first query that asks it.

    A text in windows has several inputs of one role.
    """
    inputs = list(_inputs(examples, limits))
    texts = [TextExample(text, None, None, "") for _, _, text, _ in inputs]
    features = (
        encode_windows(texts, tokenizer, limits)
        if limits.windows
        else encode_texts(texts, tokenizer, limits.max_length)
    )
    found = []
    for feature in features:
        example, role, _, score = inputs[feature.example]
        found.append(replace(feature, example=example, role=role, labels=score))
    return found


def _inputs(examples: Sequence[PairExample | QueryExample], limits: Limits) -> Iterator[Input]:
    asked: set[int] = set()
    for place, example in enumerate(examples):
        if isinstance(example, QueryExample):
            yield place, 0, limits.query_prefix + example.text, None
            if id(example.corpus) not in asked:
                asked.add(id(example.corpus))
                for number, text in enumerate(example.corpus.texts):
                    yield place, 1 + number, limits.passage_prefix + text, None
        else:
            yield place, 0, limits.query_prefix + example.anchor, example.score
            prefix = limits.passage_prefix if example.score is None else limits.query_prefix  # neither text asks
            for number, text in enumerate(
                [*([] if example.positive is None else [example.positive]), *example.negatives]
            ):
                yield place, 1 + number, prefix + text, example.score


def predictions(
    examples: Sequence[PairExample | QueryExample],
    features: Sequence[Features],
    logits: Sequence[np.ndarray],
    label_names: Sequence[str],
    settings: Mapping[str, Any],
) -> list[Prediction]:
    """Of a pair its "cosine", of a text alone its "embedding" (of length 1), of a query its "id", the best of its
    corpus as a "ranking" with "cosines", and the two cosines of each of its "triplets". Shapes: logits [E] each."""
    vectors = text_vectors(features, logits)
    found: list[Prediction] = [{} for _ in examples]
    for place, example in enumerate(examples):
        if isinstance(example, PairExample):
            found[place] = _of_pair(vectors, place, example)
    for queries in _by_corpus(examples):
        corpus = queries[0][1].corpus
        documents = np.stack([vectors[queries[0][0], 1 + number] for number in range(len(corpus.texts))])
        number_of = {name: number for number, name in enumerate(corpus.ids)}
        for begin in range(0, len(queries), QUERIES_AT_ONCE):
            part = queries[begin : begin + QUERIES_AT_ONCE]
            cosines = np.stack([vectors[place, 0] for place, _ in part]) @ documents.T
            for (place, query), row in zip(part, cosines, strict=True):
                found[place] = _of_query(query, row, number_of)
    return found


def text_vectors(features: Sequence[Features], logits: Sequence[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    """(example, role) -> vector of length 1 [E] float32; of a text in windows the mean of their vectors first."""
    sums: dict[tuple[int, int], np.ndarray] = {}
    for feature, row in zip(features, logits, strict=True):
        name = feature.example, feature.role
        sums[name] = sums[name] + row if name in sums else row.astype(np.float64)
    return {name: (row / max(float(np.linalg.norm(row)), TINY)).astype(np.float32) for name, row in sums.items()}


def _of_pair(vectors: Mapping[tuple[int, int], np.ndarray], place: int, example: PairExample) -> Prediction:
    anchor = vectors[place, 0]
    if example.positive is None:
        return {"embedding": anchor.astype(np.float64).round(DECIMALS).tolist()}
    return {"cosine": _cosine(anchor @ vectors[place, 1])}


def _of_query(example: QueryExample, cosines: np.ndarray, number_of: Mapping[str, int]) -> Prediction:
    """The best documents by cosine, equal ones as `ranked` orders them; those that are the query itself left out."""
    triplets = [[_cosine(cosines[number_of[name]]) for name in pair] for pair in example.triplets]
    for name in example.left_out & number_of.keys():
        cosines[number_of[name]] = -np.inf
    last = max(0, len(cosines) - DEEPEST)
    candidates = np.flatnonzero(cosines >= np.partition(cosines, last)[last])
    ids = example.corpus.ids
    ranking = ranked({ids[i]: float(cosines[i]) for i in candidates if np.isfinite(cosines[i])}, DEEPEST)
    found = {"id": example.id, "ranking": ranking, "cosines": [_cosine(cosines[number_of[name]]) for name in ranking]}
    return found | ({"triplets": triplets} if triplets else {})


def _cosine(value: Any) -> float:
    return round(float(value), DECIMALS)


def _by_corpus(examples: Sequence[Any]) -> list[list[tuple[int, QueryExample]]]:
    """The queries with their places, those that ask one corpus together."""
    found: dict[int, list[tuple[int, QueryExample]]] = {}
    for place, example in enumerate(examples):
        if isinstance(example, QueryExample):
            found.setdefault(id(example.corpus), []).append((place, example))
    return list(found.values())


def majority(train: Sequence[Any], examples: Sequence[Any], label_names: Sequence[str]) -> None:
    """There is no answer that would always be given."""


def said(prediction: Prediction) -> list[Any]:
    """The best document (None if there is none), or the cosine to a few decimals."""
    if "ranking" in prediction:
        return prediction["ranking"][:1] or [None]
    return [round(prediction["cosine"], SAME)] if "cosine" in prediction else []


def score(
    examples: Sequence[PairExample | QueryExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Metric]:
    """spearman and pearson of scored pairs; ndcg@10, mrr@10, recall, map and p@1 of queries, and triplet_accuracy where
    texts are given as wrong."""
    if metric_of(examples) == SCORED:
        found = regression_metrics(
            np.array([example.score for example in examples if isinstance(example, PairExample)], dtype=np.float64),
            np.array([row["cosine"] for row in predicted], dtype=np.float64),
        )
        return {name: found[name] for name in ("spearman", "pearson")}
    rankings = {row["id"]: row["ranking"] for row in predicted}
    found = ranking_metrics(rankings, {one.id: one.grades for one in examples if isinstance(one, QueryExample)})
    if any("triplets" in row for row in predicted):
        right = [[positive > negative for positive, negative in row.get("triplets", [])] for row in predicted]
        sums = np.array([[sum(one), len(one)] for one in right], dtype=np.float64)
        found["triplet_accuracy"] = Metric("triplet_accuracy", sums, share, "there are no triplets")
    return found


def details(
    examples: Sequence[PairExample | QueryExample], predicted: Sequence[Prediction], label_names: Sequence[str]
) -> dict[str, Any]:
    """Of scored pairs smallest, mean and largest score and cosine; of queries how many there are, for how many
    documents."""
    scores = [example.score for example in examples if isinstance(example, PairExample) and example.score is not None]
    if scores:
        return {"numbers": {"gold": spread(scores), "predicted": spread([row["cosine"] for row in predicted])}}
    documents = sum(len(queries[0][1].corpus.texts) for queries in _by_corpus(examples))
    return {"queries": len(examples), "documents": documents}


def submitted(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """What another system says: document ids, best first, or a number. Errors: ValueError: got ..., expected ..."""
    if not isinstance(example, QueryExample):
        return {"cosine": number_in(value)}
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value) or len(set(value)) < len(value):
        raise ValueError(f"got {json_kind(value)}, expected a list of distinct document ids")
    return {"id": example.id, "ranking": value}


def not_submitted(example: Any) -> Prediction | None:
    """A query that a file passes over; a pair needs a number."""
    return {"id": example.id, "ranking": []} if isinstance(example, QueryExample) else None


SUBMISSION = Records(("ranking", "cosine", "score", "similarity", "prediction"), submitted, not_submitted)
