"""The comparison at equal time: its recipe holds for every encoder, and its parts fit each other."""

import json
from pathlib import Path

import pytest

from bertctl.heads.model import Model
from bertctl.variants.config import encoder_config


@pytest.fixture
def comparison(tmp_path):
    import equal_time

    return equal_time.Comparison(tmp_path, 10.0, 0.1, 2)


def sections(comparison):
    import equal_time

    return {name: comparison.recipe(*keys).pretrain for name, keys in equal_time.ENCODERS.items()}


def test_the_encoders_are_equally_deep_and_wide(comparison):
    configs = {
        name: encoder_config(section.encoder, vocab_size=8192, pad_token_id=0)
        for name, section in sections(comparison).items()
    }
    assert {(c.num_hidden_layers, c.hidden_size, c.num_attention_heads) for c in configs.values()} == {(4, 128, 2)}
    assert {(c.hidden_dropout_prob, c.attention_probs_dropout_prob) for c in configs.values()} == {(0.0, 0.0)}
    layers = {name: sum(p.numel() for p in Model(c, {}).encoder.layers[0].parameters()) for name, c in configs.items()}
    assert max(layers.values()) < 1.01 * min(layers.values())
    assert configs["BERT"].norm_place == "post"
    assert configs["BERT"].position == "learned"
    modern = configs["ModernBERT"]
    assert (modern.norm_place, modern.position, modern.feed_forward) == ("pre", "rotary", "glu")
    assert modern.attention == ("full", "local", "local")
    assert configs["ALBERT"].layer_sharing == "all"


def test_they_learn_from_the_same_rows_in_the_same_way(comparison):
    found = sections(comparison)
    assert len({section.training.model_dump_json() for section in found.values()}) == 1
    objectives = {name: section.objective.name for name, section in found.items()}
    assert objectives.pop("ELECTRA") == "replaced_token"
    assert set(objectives.values()) == {"masked_lm"}


def test_steps_come_from_the_budget_and_points_from_both_measurements(comparison, tmp_path, monkeypatch):
    import equal_time

    def stage(section, *, out, seed, clock):
        assert section.training.steps == 40
        assert section.training.evaluate_every_steps == 5
        assert section.training.optimizer.lr == 0.001
        assert seed == 1
        out.mkdir(parents=True)
        lines = [{"step": step, "split": "held_out", "mlm_loss": step / 10} for step in clock.at]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        clock.points += [{"step": step, "seconds": step / 4, "wikitext": {"value": 6.0}} for step in clock.at]
        clock.times += [10.0]
        return {"steps": 40, "parameters": 7}

    monkeypatch.setattr(equal_time, "timed_stage", stage)
    found = comparison.pretrain("BERT", tmp_path / "run", 0.001, 0.25)
    assert [point["step"] for point in found["points"]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert found["points"][-1] == {"step": 40, "seconds": 10.0, "wikitext": {"value": 6.0}, "mlm_loss": 4.0}
    assert found["seconds"] == 10.0
    assert found["parameters"] == 7


def test_the_best_rate_of_the_trials_is_trained(comparison, monkeypatch):
    losses = {5e-4: 6.0, 1e-3: 5.0, 2e-3: 5.5}
    trained = []

    def trial(self, name, folder, rate, seconds_a_step):
        return {"rate": rate, "steps": 10 if rate == 1e-3 else 20, "loss": losses[rate], "seconds_a_step": rate * 1000}

    def pretrain(self, name, folder, rate, seconds_a_step):
        trained.append((rate, seconds_a_step))
        return {"rate": rate}

    kind = type(comparison)
    monkeypatch.setattr(kind, "speed", lambda self, name, folder: {"seconds_a_step": 1.0})
    monkeypatch.setattr(kind, "trial", trial)
    monkeypatch.setattr(kind, "pretrain", pretrain)
    monkeypatch.setattr(kind, "finetune", lambda self, number, model, folder: {"number": number})
    found = comparison.run("BERT")
    assert trained == [(1e-3, pytest.approx((20 * 0.5 + 10 * 1.0 + 20 * 2.0) / 50))]
    assert found["sst2"]["number"] == 0
    assert found["wikigold"]["number"] == 1
    assert comparison.run("BERT") == found
    assert len(trained) == 1


def test_the_search_fits_its_section(comparison, tmp_path, monkeypatch):
    from bertctl.finetune import run as stage

    asked = []

    def run(section, *, out, seed):
        asked.append(section)
        Path(out).mkdir(parents=True)
        return {"metric": "f1", "pretrained": {}, "search": {}, "labels": []}

    monkeypatch.setattr(stage, "run", run)
    found = comparison.finetune(1, tmp_path / "model", tmp_path / "task")
    assert found == {"metric": "f1", "pretrained": {}, "search": {}}
    [section] = asked
    assert section.task == "ner"
    assert section.seeds == 2
    assert section.data.path == tmp_path / "wikigold"
    [key] = section.search.over
    assert key.key == "training.optimizer.lr"
    assert len(key.values) == 3
