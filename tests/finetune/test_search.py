"""Searching over keys: the points, what is refused, and that test is scored once."""

import json

import pytest

from bertctl.errors import BertctlError, NonFinite
from bertctl.finetune import run as stage
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run
from bertctl.finetune.search import draw, read_row, sections_of
from bertctl.finetune.search_config import SearchSection
from bertctl.recipe.load import build_recipe

LR = {"key": "training.optimizer.lr", "low": 1e-5, "high": 1e-3, "scale": "log"}
BATCH = {"key": "training.batch_size", "values": [8, 16]}


def searching(**keys):
    return build_recipe(keys, SearchSection)


def section(**keys):
    return build_recipe({"task": "classification", **keys}, FinetuneSection)


def test_a_grid_is_every_combination():
    points = list(draw(searching(method="grid", over=[BATCH, {"key": "dropout", "values": [0.0, 0.1, None]}]), 0))
    assert len(points) == 6
    assert points[0] == {"training.batch_size": 8, "dropout": 0.0}
    assert points[-1] == {"training.batch_size": 16, "dropout": None}


def test_random_points_lie_in_their_ranges_evenly_over_logarithms_and_go_by_seed():
    points = list(draw(searching(runs=200, over=[LR, BATCH]), 3))
    rates = [point["training.optimizer.lr"] for point in points]
    assert len(points) == 200
    assert all(1e-5 <= rate <= 1e-3 for rate in rates)
    assert 75 <= sum(rate < 1e-4 for rate in rates) <= 125  # half of them, by the logarithm
    assert {point["training.batch_size"] for point in points} == {8, 16}
    assert points == list(draw(searching(runs=200, over=[LR, BATCH]), 3))
    assert points[:5] == list(draw(searching(runs=5, over=[LR, BATCH]), 3))
    assert points[:5] != list(draw(searching(runs=5, over=[LR, BATCH]), 4))


def test_no_point_comes_twice_and_used_up_values_end_the_search():
    assert sorted(point["training.batch_size"] for point in draw(searching(runs=9, over=[BATCH]), 0)) == [8, 16]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"over": []}, "over"),
        ({"over": [{"key": "dropout"}]}, "dropout: give `values`, or `low` and `high`"),
        ({"over": [{"key": "dropout", "values": [0.1], "low": 0, "high": 1}]}, "give `values`, or"),
        ({"over": [{"key": "dropout", "low": 0.3, "high": 0.1}]}, "expected low below high"),
        ({"over": [{"key": "dropout", "low": 0.0, "high": 0.1, "scale": "log"}]}, "numbers above 0"),
        ({"over": [BATCH, BATCH]}, "each key may stand there once"),
        ({"over": [LR], "method": "grid"}, "a grid is made of listed `values`"),
    ],
)
def test_searches_that_are_refused(keys, problem):
    with pytest.raises(BertctlError, match=problem):
        searching(**keys)


def test_a_list_is_not_called_too_short_because_an_item_of_it_is_wrong():
    with pytest.raises(BertctlError) as caught:
        searching(over=[{"key": "dropout"}])
    assert len(caught.value.problems) == 1


def test_a_grid_larger_than_its_budget_is_refused_with_both_numbers():
    with pytest.raises(BertctlError, match=r"runs: got 1, but the grid has 2 points; expected at least 2"):
        searching(method="grid", runs=1, over=[BATCH])


def problems_of(*over):
    with pytest.raises(BertctlError) as caught:
        section(search={"over": list(over)})
    return list(caught.value.problems)


def test_every_wrong_key_and_value_is_named_with_its_place_when_the_recipe_is_read():
    assert problems_of(
        {"key": "training.batch_sise", "values": [8, 16]},
        {"key": "dropout", "values": [0.1, 1.5, "abc"]},
        {"key": "seeds", "values": [1, 2]},
        {"key": "training.optimizer.lr", "low": 1e-5, "high": 1e31, "scale": "log"},
        {"key": "training.batch_size", "low": 8, "high": 64},
        {"key": "patience", "low": 0.5, "high": 3},
        {"key": "thresholds.each", "values": [1]},
    ) == [
        "command line: search.over.0.key: training.batch_sise: unknown key; did you mean `batch_size`?",
        "command line: search.over.1.values.1: dropout: got 1.5, expected less than 1",
        "command line: search.over.1.values.2: dropout: got `abc`, expected a number",
        "command line: search.over.2.key: seeds cannot be searched over; expected another key of the section",
        "command line: search.over.3.high: training.optimizer.lr: got 1e+31, expected less than 1e+30",
        "command line: search.over.4.low: training.batch_size: a range gives fractions; expected whole numbers, "
        "listed in `values`",
        "command line: search.over.5.low: patience: a range gives fractions; expected whole numbers, "
        "listed in `values`",
        "command line: search.over.6.values.0: thresholds is one value and has no key `each`",
    ]


def test_values_that_only_go_together_may_be_searched_over():
    large, parts = (
        {"key": "training.batch_size", "values": [8, 16]},
        {"key": "training.micro_batch_size", "values": [4]},
    )
    training = {"batch_size": 32, "micro_batch_size": 32}
    assert section(training=training, search={"over": [large, parts]}).search is not None
    with pytest.raises(BertctlError, match="micro_batch_size 32 is above batch_size 8"):
        section(training=training, search={"over": [large]})


def test_what_is_searched_over_takes_the_place_of_what_excludes_it():
    epochs = {"key": "training.epochs", "values": [2, 3]}
    found = section(training={"steps": 10}, search={"method": "grid", "over": [epochs]})
    lengths = [one.training for one in sections_of(found, list(draw(found.search, 0)))]
    assert [(one.steps, one.epochs) for one in lengths] == [(None, 2), (None, 3)]


def test_values_that_do_not_go_together_are_refused_before_the_data_are_read(tmp_path, make_section, monkeypatch):
    monkeypatch.setattr(stage, "training_data", None)
    over = [{"key": key, "values": [0.0, 0.1]} for key in ("loss.label_smoothing", "loss.focal_gamma")]
    with pytest.raises(BertctlError, match="give label_smoothing or focal_gamma, not both"):
        run(make_section(5, search={"method": "grid", "over": over}), out=tmp_path / "out", seed=2)


def test_sections_have_the_values_and_train_once():
    wide = section(seeds=5, from_scratch=True, search={"over": [BATCH]})
    [one] = sections_of(wide, [{"training.batch_size": 8, "data.long_text": "windows"}])
    assert (one.training.batch_size, one.data.long_text) == (8, "windows")
    assert (one.seeds, one.from_scratch, one.baselines, one.search) == (1, False, False, None)


SEARCH = {"runs": 3, "over": [{"key": "training.optimizer.lr", "values": [1e-5, 3e-3, 1e-2]}]}


def test_dev_picks_and_the_test_set_is_scored_once(make_section, tmp_path, monkeypatch):
    scored, plain = [], stage.fine_tune

    def watching(section, splits, *rest, **options):
        scored.append(len(splits.test))
        return plain(section, splits, *rest, **options)

    monkeypatch.setattr(stage, "fine_tune", watching)
    section = make_section(10, search=SEARCH, seeds=2)
    result = run(section, out=tmp_path / "out", seed=2)
    assert scored == [0, 0, 0, 60]
    found = result["search"]
    assert (found["method"], found["runs"]) == ("random", 3)
    assert sorted(row["values"]["training.optimizer.lr"] for row in found["trials"]) == [1e-5, 3e-3, 1e-2]
    best = found["trials"][found["best"] - 1]
    assert best["dev"] == max(row["dev"] for row in found["trials"])
    assert found["values"] == best["values"]
    # the winner is trained again with the recipe's own seeds, the first of which gives what the trial gave
    assert len(result["pretrained"]["seeds"]) == 2
    assert result["pretrained"]["seeds"][0]["dev"] == best["dev"]
    assert result["scored_split"] == "test"
    assert sorted(path.name for path in (tmp_path / "out/runs").iterdir()) == ["winner"]
    assert json.loads((tmp_path / "out/result.json").read_text()) == result
    assert run(section, out=tmp_path / "out", seed=2, resume=True) == result


def test_resumed_it_keeps_finished_trials_and_refuses_other_ones(make_section, tmp_path, monkeypatch):
    plain, calls = stage.fine_tune, []

    def diverging(section, splits, *rest, **options):
        calls.append(section.training.optimizer.lr)
        if len(calls) == 1:
            raise NonFinite("the loss is nan")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(section, splits, *rest, **options)

    monkeypatch.setattr(stage, "fine_tune", diverging)
    section = make_section(5, search=SEARCH)
    with pytest.raises(KeyboardInterrupt):
        run(section, out=tmp_path / "out", seed=2)
    result = run(section, out=tmp_path / "out", seed=2, resume=True)
    assert len(calls) == 3 + 2  # the third trial once more, and the winner
    first, second, _ = result["search"]["trials"]
    assert first["dev"] is None
    assert first["problem"] == "the loss is nan"
    assert second["dev"] is not None
    assert result["search"]["best"] != 1


def test_if_every_trial_diverges_it_is_said(make_section, tmp_path, monkeypatch):
    def diverging(*rest, **options):
        raise NonFinite("the loss is nan")

    monkeypatch.setattr(stage, "fine_tune", diverging)
    with pytest.raises(BertctlError, match="none of 3 trials ended with a dev score"):
        run(make_section(5, search=SEARCH), out=tmp_path / "out", seed=2)


@pytest.mark.parametrize("content", ["", '{"row": {', "[]", '{"row": {}}'])
def test_a_damaged_trial_says_how_to_do_it_again(tmp_path, content):
    (tmp_path / "2.json").write_text(content)
    with pytest.raises(BertctlError, match=r"2\.json: damaged") as caught:
        read_row(tmp_path / "2.json")
    assert "--resume does this trial again" in caught.value.hint
