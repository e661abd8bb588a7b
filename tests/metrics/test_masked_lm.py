"""Masked-token metrics are sums over tokens, not means of examples."""

import math

import numpy as np
import pytest

from bertctl.metrics.masked_lm import masked_lm_metrics


def test_tokens_count_and_not_examples() -> None:
    found = masked_lm_metrics(np.array([10.0, 200.0]), np.array([5, 20]), np.array([10, 100]))
    assert found["loss"].point() == pytest.approx(210 / 110)
    assert found["perplexity"].point() == pytest.approx(math.exp(210 / 110))
    assert found["accuracy"].point() == pytest.approx(25 / 110)


def test_nothing_masked_is_undefined() -> None:
    summary = masked_lm_metrics(np.zeros(3), np.zeros(3), np.zeros(3))["perplexity"].summary()
    assert summary["value"] is None
    assert summary["reason"] == "no token was masked"
