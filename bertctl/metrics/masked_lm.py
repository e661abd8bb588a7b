"""Loss, perplexity and accuracy of masked-token prediction, from one row an example: summed loss, hits, targets; and
the entropy that a loss is compared with."""

import numpy as np

from bertctl.metrics.rows import Metric

NO_TARGETS = "no token was masked"


def masked_lm_metrics(loss_sums: np.ndarray, hits: np.ndarray, targets: np.ndarray) -> dict[str, Metric]:
    """loss (nats a masked token), perplexity and accuracy. Shapes: [N] each, summed over the targets of an example."""
    rows = np.stack([np.asarray(values, dtype=np.float64) for values in (loss_sums, hits, targets)], axis=1)
    return {
        "loss": Metric("loss", rows, lambda sums: sums[..., 0] / sums[..., 2], NO_TARGETS),
        "perplexity": Metric("perplexity", rows, lambda sums: np.exp(sums[..., 0] / sums[..., 2]), NO_TARGETS),
        "accuracy": Metric("accuracy", rows, lambda sums: sums[..., 1] / sums[..., 2], NO_TARGETS),
    }


def entropy(counts: np.ndarray) -> float:
    """Entropy in nats of how often each token occurs: the loss of a model that knows nothing else. Shapes: [V]."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
