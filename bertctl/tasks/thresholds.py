"""The thresholds on probabilities that maximise micro-F1, exactly, by looking at every place where it can change.

Micro-F1 is 2 hits / (predicted + gold) over all labels. Source for the search over several thresholds: Dinkelbach, On
nonlinear fractional programming, Management Science 13, 1967: the ratio is best where, for the best ratio r itself,
2 hits - r predicted is best, and that can be sought label by label. Shapes: N examples, C labels.
"""

import numpy as np

MOST_ROUNDS = 50  # the ratio grows at each and is one of finitely many; a handful is what it takes


def best_threshold(gold: np.ndarray, shares: np.ndarray) -> float:
    """The one for all labels: p >= threshold says yes. Shapes: gold [N, C] bool, shares [N, C] probabilities."""
    cuts, hits, said = _counts(gold.ravel(), shares.ravel())
    return float(cuts[np.argmax(2 * hits / np.maximum(said + gold.sum(), 1))])


def best_thresholds(gold: np.ndarray, shares: np.ndarray) -> list[float]:
    """One for each label, best together. Shapes: as `best_threshold`; returns C numbers."""
    tables = [_counts(gold[:, label], shares[:, label]) for label in range(gold.shape[1])]
    ratio, places = 0.0, [0] * len(tables)
    for _ in range(MOST_ROUNDS):
        places = [int(np.argmax(2 * hits - ratio * said)) for _, hits, said in tables]
        hits = sum(float(table[1][place]) for table, place in zip(tables, places, strict=True))
        said = sum(float(table[2][place]) for table, place in zip(tables, places, strict=True))
        better = 2 * hits / max(said + gold.sum(), 1)
        if better <= ratio:
            break
        ratio = better
    return [float(table[0][place]) for table, place in zip(tables, places, strict=True)]


def _counts(gold: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every threshold worth trying, with the hits and yeses it gives: halfway between neighbouring probabilities, and
    one above them all, which says no to everything. The one nearest to 1/2 comes first, so that it wins a tie."""
    values, place = np.unique(shares, return_inverse=True)
    cuts = np.append((np.append(0.0, values[:-1]) + values) / 2, (values[-1] + 1) / 2 if len(values) else 0.5)
    hits = np.bincount(place, weights=gold, minlength=len(values))[::-1].cumsum()[::-1]
    said = np.bincount(place, minlength=len(values))[::-1].cumsum()[::-1]
    order = np.argsort(np.abs(cuts - 0.5), kind="stable")
    return cuts[order], np.append(hits, 0)[order], np.append(said, 0)[order]
