"""One number out of several runs that differ in their seed only."""

import statistics
from collections.abc import Sequence
from typing import Any


def over_seeds(values: Sequence[float | None]) -> dict[str, Any]:
    """mean and std (sample standard deviation, n - 1) of the defined values, all values in order, and runs.

    std is None for fewer than two defined values, mean for none: one run says nothing about the spread.
    """
    defined = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(defined) if defined else None,
        "std": statistics.stdev(defined) if len(defined) > 1 else None,
        "values": list(values),
        "runs": len(values),
    }
