"""The learning curve: nested parts of the training data, and a row for each."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from bertctl.errors import BertctlError
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.curve import parts
from bertctl.finetune.run import run
from bertctl.recipe.load import build_recipe
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Splits, TextExample


def section(**more):
    return build_recipe({"task": "classification", **more}, FinetuneSection)


def test_parts_are_nested_with_the_labels_in_their_shares():
    train = [TextExample(f"t{n}", None, "rare" if n % 10 == 0 else "often", f"f:{n}") for n in range(100)]
    dev = [TextExample("d", None, "rare", "d:1")]
    given = SimpleNamespace(
        task=TASKS["classification"],
        section=section(train_fraction=[1.0, 0.1, 0.3]),
        splits=Splits(train, dev, []),
        seed=4,
    )
    found = parts(given)
    assert [share for share, _ in found] == [0.1, 0.3, 1.0]
    assert [trial.name for _, trial in found] == ["fraction-0.1", "fraction-0.3", "fraction-1"]
    small, middle, whole = (trial.splits.train for _, trial in found)
    assert Counter(e.label for e in small) == {"often": 9, "rare": 1}
    assert Counter(e.label for e in middle) == {"often": 27, "rare": 3}
    assert {e.where for e in small} < {e.where for e in middle}
    assert whole == train
    assert all(trial.splits.dev == dev for _, trial in found)
    assert all(trial.section.from_scratch and not trial.section.train_fraction for _, trial in found)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"train_fraction": [0.1, 0.1]}, "each share may stand there once"),
        ({"train_fraction": [0.0]}, "train_fraction"),
        ({"train_fraction": [1.5]}, "train_fraction"),
        ({"train_fraction": [0.5], "folds": 3}, "give folds or train_fraction, not both"),
        ({"folds": 1}, "folds"),
    ],
)
def test_recipes_that_are_refused(keys, problem):
    with pytest.raises(BertctlError, match=problem):
        section(**keys)


def test_a_row_for_each_share_and_the_result_of_the_largest(make_section, tmp_path):
    result = run(make_section(8, train_fraction=[0.02, 1.0]), out=tmp_path / "out", seed=1)
    assert [(row["fraction"], row["train_examples"]) for row in result["curve"]] == [(0.02, 6), (1.0, 320)]
    for row in result["curve"]:
        for name in ("majority_baseline", "bag_of_words", "pretrained", "from_scratch"):
            assert row[name]["low"] <= row[name]["value"] <= row[name]["high"]
    last = result["curve"][-1]
    assert (last["pretrained"], last["bag_of_words"]) == (result["pretrained"], result["bag_of_words"])
    assert result["labels"] == ["neg", "pos"]
    assert result["train_examples"] == 320
    kept = tmp_path / "out/runs/fraction-1/model/model.safetensors"
    assert kept.read_bytes() == (tmp_path / "out/model/model.safetensors").read_bytes()
    stored = json.loads((tmp_path / "out/runs/fraction-0.02/result.json").read_text())
    assert stored["pretrained"] == result["curve"][0]["pretrained"]
