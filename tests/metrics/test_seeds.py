"""Mean and spread over seeds."""

import numpy as np
import pytest

from bertctl.metrics.seeds import over_seeds


def test_sample_standard_deviation() -> None:
    values = [0.5, 0.6, 0.8]
    found = over_seeds(values)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert found["values"] == values
    assert found["runs"] == 3


def test_one_run_has_no_spread_and_undefined_runs_are_left_out() -> None:
    assert over_seeds([0.5]) == {"mean": 0.5, "std": None, "values": [0.5], "runs": 1}
    assert over_seeds([None, 0.5]) == {"mean": 0.5, "std": None, "values": [None, 0.5], "runs": 2}
    assert over_seeds([None])["mean"] is None
