"""Speed by a fake clock."""

import pytest
import torch

from bertctl.distill.speed import WARM_UP_ROUNDS, measure_speedup, median_ratio, passes_for, timed_rounds
from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.training.runtime import Runtime


def test_both_run_in_turn_and_the_first_rounds_do_not_count():
    now, calls = [0.0], []

    def work(name: str, seconds: list[float]):
        def run() -> None:
            calls.append(name)
            now[0] += seconds.pop(0)

        return run

    slow, fast = work("A", [9.0, 9.0, 4.0, 6.0, 50.0]), work("B", [9.0, 1.0, 2.0, 2.0, 10.0])
    pairs = timed_rounds(slow, fast, rounds=3, clock=lambda: now[0])
    assert calls == ["A", "B"] * (WARM_UP_ROUNDS + 3)
    assert pairs == [(4.0, 2.0), (6.0, 2.0), (50.0, 10.0)]
    assert median_ratio(pairs) == 3.0  # of 2, 3 and 5; one slow moment of the machine does not move it


def test_quick_models_are_passed_through_several_times():
    assert [passes_for(seconds) for seconds in (0.0, 0.001, 0.01, 0.03, 5.0)] == [50, 30, 3, 1, 1]


def test_a_clock_that_stands_still_gives_zero():
    assert median_ratio(timed_rounds(lambda: None, lambda: None, rounds=3, clock=lambda: 1.0)) == 0.0


def test_the_result_says_which_batch_was_measured():
    sizes = {"vocab_size": 30, "num_attention_heads": 2, "intermediate_size": 64}
    teacher = Model(EncoderConfig(hidden_size=64, num_hidden_layers=8, **sizes), {"masked_lm": 0}).train()
    student = Model(EncoderConfig(hidden_size=64, num_hidden_layers=1, **sizes), {"masked_lm": 0})
    batch = {"input_ids": torch.ones(4, 40, dtype=torch.long)}
    found = measure_speedup(teacher, student, batch, Runtime(torch.device("cpu"), torch.float32))
    assert (found["speed"]["batch"], found["speed"]["tokens"]) == (4, 40)
    assert found["speedup"] > 1.0
    ratio = found["speed"]["student_examples_per_second"] / found["speed"]["teacher_examples_per_second"]
    assert ratio == pytest.approx(found["speedup"], rel=0.5)
