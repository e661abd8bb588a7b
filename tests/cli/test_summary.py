from types import SimpleNamespace

from bertctl.cli.plan import Job
from bertctl.cli.summary import lines_of, summarise


def job(stage, name=None, own_name=None):
    return Job(stage, name, SimpleNamespace(name=own_name), None)


def test_results_stand_under_their_stage_or_under_their_name():
    rows = [
        (job("pretrain"), 1),
        (job("finetune", "ner"), 2),
        (job("distill", "ner"), 3),
        (job("probe", "mine", "mine"), 4),
    ]
    assert summarise(rows, 1.23456) == {
        "seconds": 1.23,
        "pretrain": 1,
        "finetune": {"ner": 2},
        "distill": 3,
        "probe": {"mine": 4},
    }
    assert summarise([(job("evaluate", "a"), 1), (job("evaluate", "b"), 2)], 0)["evaluate"] == {"a": 1, "b": 2}


def test_the_table_has_words_for_numbers():
    result = {
        "parameters": 4_400_000,
        "mlm_loss": 4.71832,
        "from_scratch": {"value": 0.71, "low": 0.68, "high": 0.74},
        "pretrained": {"value": None, "reason": "one class"},
        "phases": {"128": {"train": {"examples": 2000}, "held_out": {"examples": 30}, "masking": {}}},
        "layers": [{"layer": 0, "accuracy": 0.5, "selectivity": 0.25}],
        "internal": 3,
    }
    assert list(lines_of(result)) == [
        "parameters 4,400,000",
        "held-out MLM loss 4.718",
        "from scratch 0.710 (0.680 to 0.740)",
        "pretrained undefined (one class)",
        "phase 128: examples train 2,000, held_out 30",
        "layer 0: accuracy 0.500, selectivity 0.250",
    ]


def test_what_all_seeds_gave_stands_behind_the_chosen_one():
    one = {"value": 0.5, "low": 0.25, "high": 0.75, "mean": 0.5, "std": 0.0, "seeds": [{"value": 0.5}]}
    assert list(lines_of({"pretrained": one})) == ["pretrained 0.500 (0.250 to 0.750)"]
    several = one | {"mean": 0.45, "std": 0.0707, "seeds": [{"value": 0.5}, {"value": 0.4}]}
    assert list(lines_of({"pretrained": several})) == [
        "pretrained 0.500 (0.250 to 0.750), mean of 2 seeds 0.450 ± 0.071"
    ]
