"""The race to the Trainer's loss: who is trained for how long, and what counts as reached."""

import pytest

from bertctl.variants.config import encoder_config


def row(seconds, loss):
    return {"seconds": seconds, "held_out": {"value": loss}, "wikitext": {"value": loss + 1}}


@pytest.fixture
def race(tmp_path):
    import time_to_quality

    return time_to_quality.Race(tmp_path, "mini", 120.0)


def test_both_sides_have_an_encoder_of_one_size():
    import quality_trainer
    import time_to_quality

    for size in time_to_quality.OURS:
        section = time_to_quality.load(f"pretrain.encoder.size={size}").pretrain
        config = encoder_config(section.encoder, vocab_size=100, pad_token_id=0)
        theirs = quality_trainer.model({"size": size}, 100)
        ours = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size)
        fields = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
        assert ours == tuple(getattr(theirs.config, name) for name in fields)
        assert section.training.batch_size == quality_trainer.BATCH


def test_reached_is_the_shortest_run_at_or_below_the_mark():
    import time_to_quality

    best = row(100.0, 4.0)
    ours = [row(20.0, 4.5), row(50.0, 3.5), row(30.0, 4.0)]
    found = time_to_quality.reached(ours, best)
    assert found["seconds"] == 30.0
    assert found["time_ratio"] == 0.3
    assert time_to_quality.reached(ours[:1], best) is None


@pytest.mark.parametrize(
    ("losses", "turns_expected", "reached"),
    [
        ((5.0, 4.5, 4.2, 4.0, 3.9, 3.8), "totot", True),
        ((6.5, 5.5, 5.0, 4.6, 4.4, 4.2), "tootooot", True),
        ((6.5, 5.5, 5.0, 4.9, 4.8, 4.7), "tootoooot", False),
    ],
)
def test_larger_shares_only_as_far_as_needed(race, monkeypatch, losses, turns_expected, reached):
    """The Trainer's losses are 6.0, 4.5 and 6.0: after each, ours goes on until it is as good as the best of them."""
    import time_to_quality

    turns, said = [], dict(zip(time_to_quality.SHARES, losses, strict=True))

    def theirs(self, rate):
        turns.append("t")
        return row(120.0, 4.5 if rate == 1e-3 else 6.0) | {"rate": rate}

    def ours(self, share):
        turns.append("o")
        return row(120.0 * share, said[share]) | {"share": share}

    monkeypatch.setattr(time_to_quality.Race, "theirs", theirs)
    monkeypatch.setattr(time_to_quality.Race, "ours", ours)
    found = race.run()
    assert "".join(turns) == turns_expected
    assert found["best"]["rate"] == 1e-3
    assert (found["reached"] is not None) is reached
    assert [ours["share"] for ours in found["ours"]] == list(time_to_quality.SHARES[: turns.count("o")])


def test_steps_come_from_the_measured_pace(race, monkeypatch):
    import time_to_quality

    asked = []

    def train_ours(self, folder, steps):
        from clock import Clock

        asked.append(("ours", steps))
        return Clock(times=[0.5 * number for number in range(1, steps + 1)])

    def train_theirs(self, folder, steps, rate):
        asked.append(("theirs", steps))
        return [2.0 * number for number in range(1, steps + 1)]

    monkeypatch.setattr(time_to_quality.Race, "train_ours", train_ours)
    monkeypatch.setattr(time_to_quality.Race, "train_theirs", train_theirs)
    monkeypatch.setattr(time_to_quality.Race, "scores", lambda self, model: {"model": str(model)})
    assert race.ours(0.25)["seconds"] == 30.0
    assert race.theirs(1e-3)["seconds"] == 120.0
    assert asked == [("ours", 20), ("ours", 60), ("theirs", 20), ("theirs", 60)]
    assert race.ours(0.25)["steps"] == 60
    assert len(asked) == 4


def test_a_trainer_that_fails_ends_the_race(race, tmp_path, monkeypatch):
    import time_to_quality

    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('no such size')")
    monkeypatch.setattr(time_to_quality, "TRAINER", script)
    with pytest.raises(SystemExit, match="no such size"):
        race.train_theirs(tmp_path, 2, 1e-3)


def test_the_last_line_of_the_trainer_is_its_times(race, tmp_path, monkeypatch):
    import time_to_quality

    script = tmp_path / "works.py"
    script.write_text("import json, sys\nprint('noise')\nprint([json.loads(sys.argv[1])['steps'] * 1.5])")
    monkeypatch.setattr(time_to_quality, "TRAINER", script)
    assert race.train_theirs(tmp_path, 2, 1e-3) == [3.0]


def test_the_table_names_every_run(race):
    import time_to_quality

    def scored(loss, **more):
        text = {"value": loss, "low": loss - 0.1, "high": loss + 0.1}
        return {"steps": 7, "seconds": 60.0, "held_out": text, "wikitext": text} | more

    best = scored(4.0, rate=5e-4)
    ours = [scored(4.5, share=1 / 6), scored(3.9, share=1 / 3, seconds=40.0)]
    found = {"theirs": [best], "ours": ours, "best": best, "reached": time_to_quality.reached(ours, best)}
    told = time_to_quality.table({"mini": found})
    assert "Trainer, rate 0.0005 | 7 | 60 | 4.000 (3.900 to 4.100)" in told
    assert "reached in 0.67 of the time" in told
