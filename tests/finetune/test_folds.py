"""Cross-validation: who is in which fold, and what comes of it."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from bertctl.errors import BertctlError, Stopped
from bertctl.finetune import run as stage
from bertctl.finetune.folds import fold, fold_of_each
from bertctl.finetune.run import run
from bertctl.tasks.config import DataSection
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Splits, TextExample

TASK = TASKS["classification"]


def project(folds, seed=0):
    section = SimpleNamespace(folds=folds, data=DataSection(dev_share=0.2), model_copy=lambda update: update)
    return SimpleNamespace(task=TASK, section=section, seed=seed, splits=Splits([], [], []))


def examples(**counts):
    return [TextExample(f"{label} {n}", None, label, f"{label}:{n}") for label in counts for n in range(counts[label])]


def test_each_fold_has_every_label_in_its_share_by_seed():
    given = examples(often=70, seldom=20, rare=10)
    member = fold_of_each(project(5), given)
    for number in range(5):
        found = Counter(e.label for e, own in zip(given, member, strict=True) if own == number)
        assert found == {"often": 14, "seldom": 4, "rare": 2}
    assert member == fold_of_each(project(5), given)
    assert member != fold_of_each(project(5, seed=1), given)


def test_equal_texts_are_in_one_fold():
    given = examples(a=10, b=10)
    again = [TextExample(e.text.upper().replace(" ", "  "), None, e.label, "x") for e in given]
    member = fold_of_each(project(4), given + again)
    assert member[:20] == member[20:]
    assert set(member) == {0, 1, 2, 3}


def test_a_trial_tests_on_its_fold_and_trains_and_picks_on_the_others():
    given = examples(a=20, b=20)
    member = fold_of_each(project(4), given)
    trial = fold(project(4), given, member, 2)
    assert trial.name == "fold-3"
    assert trial.section == {"folds": None}
    assert trial.splits.test == [e for e, own in zip(given, member, strict=True) if own == 2]
    assert (len(trial.splits.train), len(trial.splits.dev), len(trial.splits.test)) == (24, 6, 10)
    parts = [*trial.splits.train, *trial.splits.dev, *trial.splits.test]
    assert sorted(e.where for e in parts) == sorted(e.where for e in given)


def test_too_few_texts_are_refused():
    with pytest.raises(BertctlError, match="got 6 different texts, expected at least 2 for each of 4 folds"):
        fold_of_each(project(4), examples(a=3, b=3))


@pytest.fixture(scope="module")
def small(texts, tmp_path_factory):
    """60 labelled texts in one file."""
    folder = tmp_path_factory.mktemp("small")
    lines = (texts / "train.tsv").read_text().splitlines()[:61]
    (folder / "data.tsv").write_text("\n".join(lines) + "\n")
    return folder / "data.tsv"


def test_every_example_is_scored_once(make_section, small, tmp_path):
    section = make_section(8, data={"path": str(small)}, folds=3, from_scratch=True)
    result = run(section, out=tmp_path / "out", seed=5)
    gold = [line.split("\t")[1] for line in small.read_text().splitlines()[1:]]
    for variant in ("pretrained", "from_scratch"):
        lines = (tmp_path / "out" / f"predictions-{variant}.jsonl").read_text().splitlines()
        said = [json.loads(line)["label"] for line in lines]
        found = result[variant]
        assert found["value"] == pytest.approx(sum(map(str.__eq__, gold, said)) / 60)
        assert found["low"] <= found["value"] <= found["high"]
        assert found["examples"] == 60 == sum(one["examples"] for one in found["folds"])
        weighted = sum(one["value"] * one["examples"] for one in found["folds"]) / 60
        assert found["value"] == pytest.approx(weighted)
        assert found["mean"] == pytest.approx(sum(one["value"] for one in found["folds"]) / 3)
    assert result["majority_baseline"]["mean"] == pytest.approx(max(Counter(gold).values()) / 60, abs=0.02)
    assert result["bag_of_words"]["std"] is not None
    assert sum(row["support"] for row in result["per_class"]) == 60
    kept = tmp_path / "out/runs" / f"fold-{result['chosen_fold']}" / "model/model.safetensors"
    assert kept.read_bytes() == (tmp_path / "out/model/model.safetensors").read_bytes()
    assert json.loads((tmp_path / "out/result.json").read_text()) == result
    assert run(section, out=tmp_path / "out", seed=5, resume=True) == result


def test_stopped_between_folds_it_goes_on_where_it_was(make_section, small, tmp_path, monkeypatch):
    section = make_section(4, data={"path": str(small)}, folds=3, baselines=False)
    whole = run(section, out=tmp_path / "whole", seed=5)
    plain, done = stage.fine_tune, []

    def stopping(*arguments, **options):
        if len(done) == 2:
            raise Stopped(15, "stopped")
        done.append(plain(*arguments, **options))
        return done[-1]

    monkeypatch.setattr(stage, "fine_tune", stopping)
    with pytest.raises(Stopped):
        run(section, out=tmp_path / "out", seed=5)
    monkeypatch.undo()
    trained = []
    monkeypatch.setattr(stage, "say_start", lambda *rest: trained.append(rest[1]))
    resumed = run(section, out=tmp_path / "out", seed=5, resume=True)
    assert len(trained) == 1
    assert resumed["pretrained"] == whole["pretrained"]
    with pytest.raises(BertctlError, match="folds: 3 -> 4"):
        run(section.model_copy(update={"folds": 4}), out=tmp_path / "out", seed=5, resume=True)
