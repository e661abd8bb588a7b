"""Loss, perplexity and accuracy of masked-token prediction, from one row an example: summed loss, hits, targets."""

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
