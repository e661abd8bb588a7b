"""Speed: counts over seconds of steps only, by one function that a fake clock drives."""

import pytest

from bertctl.console import Progress, duration, throughput
from bertctl.training.loop import Step
from bertctl.training.meter import Meter


def step(tokens, seconds):
    return Step(1, {}, 0.0, 0.0, 0.0, tokens, seconds)


def test_laps_and_the_whole():
    meter = Meter()
    meter.add(step(100, 2.0))
    meter.add(step(300, 2.0))
    assert meter.lap() == 100.0
    meter.add(step(50, 1.0))
    assert meter.lap() == 50.0
    assert meter.lap() == 0.0
    assert meter.overall() == 90.0


def test_no_time_is_no_speed():
    assert throughput(5, 0.0) == 0.0
    assert throughput(5, -1.0) == 0.0


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0s"), (75, "1m15s"), (3600 * 26 + 60, "26h01m"), (-3, "0s")])
def test_durations_are_words(seconds, words):
    assert duration(seconds) == words


def test_progress_counts_only_what_this_process_did():
    now = [100.0]
    progress = Progress("train", "steps", 50, start=30, clock=lambda: now[0])
    now[0] = 110.0
    progress.update(40, "loss 1.0")
    assert progress.line(now[0]) == "train  40/50 steps  1.0 steps/s, 10s left  loss 1.0"
