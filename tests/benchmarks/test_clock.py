"""The clock of long comparisons, with a clock that the test turns."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def turned(monkeypatch):
    """(clock module, a place whose `now` is the processor time)."""
    import clock

    place = SimpleNamespace(now=100.0)
    monkeypatch.setattr(clock.time, "process_time", lambda: place.now)
    return clock, place


def test_only_steps_are_on_the_clock(turned):
    clock, place = turned

    def fit(objective, batches, *, runtime):
        for number in range(1, 5):
            place.now += 2.0
            yield SimpleNamespace(number=number, loss=10.0 - number)

    seen = []

    def look(objective, runtime, last):
        place.now += 1000.0
        seen.append((objective, runtime, last))
        return {"wikitext": 5.0}

    kept = clock.Clock(look, (2, 4))
    for _ in kept.around(fit)("the model", None, runtime="cpu"):
        place.now += 50.0  # what the stage does between steps
    assert kept.times == [2.0, 4.0, 6.0, 8.0]
    assert kept.seconds == 8.0
    assert kept.points == [
        {"step": 2, "seconds": 4.0, "train_loss": 8.0, "wikitext": 5.0},
        {"step": 4, "seconds": 8.0, "train_loss": 6.0, "wikitext": 5.0},
    ]
    assert seen == [("the model", "cpu", False), ("the model", "cpu", True)]


def test_a_part_is_done_once(turned, tmp_path):
    clock, place = turned
    done = []

    def work():
        place.now += 3.5
        done.append(1)
        return {"loss": 4.5}

    path = tmp_path / "bert" / "part.json"
    assert clock.part(path, "working", work) == {"loss": 4.5, "processor_seconds": 3.5}
    assert clock.part(path, "working", work)["loss"] == 4.5
    assert done == [1]
    assert [file.name for file in path.parent.iterdir()] == ["part.json"]


def test_a_part_that_fails_leaves_nothing(turned, tmp_path):
    clock, _ = turned
    with pytest.raises(ZeroDivisionError):
        clock.part(tmp_path / "part.json", "working", lambda: {"x": 1 / 0})
    assert list(tmp_path.iterdir()) == []


def test_held_out_lines_by_step(turned, tmp_path):
    clock, _ = turned
    lines = '{"step": 1, "loss": 9}\n{"step": 2, "split": "held_out", "mlm_loss": 7}\n'
    (tmp_path / "metrics.jsonl").write_text(lines)
    assert clock.held_out_lines(tmp_path) == {2: {"step": 2, "split": "held_out", "mlm_loss": 7}}
