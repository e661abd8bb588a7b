"""How well documents are ranked for queries: nDCG, MRR, recall, MAP and precision at a cut, one row a query.

A ranking is a list of document ids, best first; judgements (qrels) give documents a grade, and a grade above 0 means
relevant. Documents with equal scores are ordered by their ids, from the last in code point order to the first, as
trec_eval does. A judged query without ranking scores 0; a query without relevant document cannot be ranked well or
badly and is left out; rankings of queries that are not judged are left out too.
Source: trec_eval (ndcg_cut, recip_rank, recall, map_cut, P), which BEIR (arXiv:2104.08663) uses; Jarvelin and
Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bertctl.metrics.rows import Metric, mean_metric

Grades = Mapping[str, float]
"""Document id -> grade."""
NO_QUERY = "no query has a relevant document"
CUTS = (("ndcg", 10), ("mrr", 10), ("recall", 10), ("recall", 100), ("map", 100), ("p", 1))


def ranked(scores: Mapping[str, float], limit: int | None = None) -> list[str]:
    """Document ids by falling score, equal scores by falling id; the first `limit` of them."""
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)[:limit]


def ranking_metrics(
    rankings: Mapping[str, Sequence[str]],
    qrels: Mapping[str, Grades],
    cuts: Sequence[tuple[str, int]] = CUTS,
) -> dict[str, Metric]:
    """`ndcg@10`, `mrr@10`, `recall@10`, `recall@100`, `map@100` and `p@1`, or the (name, cut) pairs of `cuts`.

    rankings: query id -> document ids, best first, at least as many as the widest cut where there are so many. The
    rows stand in the order of qrels. Errors: ValueError on an unknown name, a cut below 1, a document ranked twice.
    """
    names = dict.fromkeys(name for name, _ in cuts)
    if any(name not in MEASURES for name in names) or any(cut < 1 for _, cut in cuts):
        raise ValueError(f"got the cuts {cuts}, expected names of {', '.join(MEASURES)} with a depth from 1")
    for query, documents in rankings.items():
        if len(set(documents)) != len(documents):
            raise ValueError(f"query {query}: a document is ranked twice")
    judged = np.array([any(grade > 0 for grade in grades.values()) for grades in qrels.values()], dtype=bool)
    left_out = int((~judged).sum())
    note = f"{left_out} of {len(judged)} queries have no relevant document and are left out" if left_out else ""
    found = {}
    for name, cut in cuts:
        scores = query_scores(rankings, qrels, MEASURES[name], cut)
        found[f"{name}@{cut}"] = mean_metric(f"{name}@{cut}", scores, NO_QUERY, note, chosen=judged)
    return found


def query_scores(
    rankings: Mapping[str, Sequence[str]],
    qrels: Mapping[str, Grades],
    measure: Callable[[Sequence[float], Sequence[float], int], float],
    cut: int,
) -> np.ndarray:
    """The score of every query of qrels, in its order; 0 where no document is relevant. Shapes: [N]."""
    scores = np.zeros(len(qrels))
    for place, (query, grades) in enumerate(qrels.items()):
        ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
        if ideal:
            gains = [max(grades.get(document, 0), 0) for document in rankings.get(query, ())]
            scores[place] = measure(gains, ideal, cut)
    return scores


def ndcg(gains: Sequence[float], ideal: Sequence[float], cut: int) -> float:
    """Gain discounted by log2(rank + 1) of the first `cut`, over that of the best order.

    gains: grade of every ranked document, 0 if it is not judged; ideal: the grades above 0, highest first.
    """
    return _discounted(gains[:cut]) / _discounted(ideal[:cut])


def reciprocal_rank(gains: Sequence[float], ideal: Sequence[float], cut: int) -> float:
    """1 over the rank of the first relevant document, 0 if there is none among the first `cut`."""
    return next((1 / rank for rank, gain in enumerate(gains[:cut], 1) if gain > 0), 0.0)


def recall(gains: Sequence[float], ideal: Sequence[float], cut: int) -> float:
    """Relevant documents among the first `cut`, over all relevant ones."""
    return sum(gain > 0 for gain in gains[:cut]) / len(ideal)


def average_precision(gains: Sequence[float], ideal: Sequence[float], cut: int) -> float:
    """Mean over all relevant documents of the precision at their rank, 0 for those not among the first `cut`."""
    hits = [rank for rank, gain in enumerate(gains[:cut], 1) if gain > 0]
    return sum(number / rank for number, rank in enumerate(hits, 1)) / len(ideal)


def precision(gains: Sequence[float], ideal: Sequence[float], cut: int) -> float:
    """Relevant documents among the first `cut`, over `cut`, even if fewer are ranked."""
    return sum(gain > 0 for gain in gains[:cut]) / cut


MEASURES: dict[str, Callable[[Sequence[float], Sequence[float], int], float]] = {
    "ndcg": ndcg,
    "mrr": reciprocal_rank,
    "recall": recall,
    "map": average_precision,
    "p": precision,
}


def _discounted(gains: Sequence[float]) -> float:
    return float(sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains, 1)))
