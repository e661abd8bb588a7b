"""The comparison at equal time: its recipe holds for every encoder, and its parts fit each other."""

import json
from pathlib import Path

import pytest

from bertctl.heads.model import Model
from bertctl.variants.config import encoder_config


@pytest.fixture
def comparison(tmp_path):
    import equal_time

    return equal_time.Comparison(tmp_path, 10.0, 2)


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
        assert section.training.evaluate_every_steps == 6
        assert section.training.optimizer.lr == 0.001
        assert seed == 1
        out.mkdir(parents=True)
        lines = [{"step": step, "split": "held_out", "mlm_loss": step / 10} for step in clock.at]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        clock.points += [{"step": step, "seconds": step / 4, "wikitext": {"value": 6.0}} for step in clock.at]
        clock.times += [10.0]
        return {"steps": 40, "parameters": 7, "mlm_loss": 4.0, "replaced_token_loss": 0.2, "seconds": 99.0}

    monkeypatch.setattr(equal_time, "timed_stage", stage)
    found = comparison.pretrain("BERT", tmp_path / "run", 0.001, 0.25)
    assert [point["step"] for point in found["points"]] == [6, 12, 18, 24, 30, 36, 40]
    assert found["points"][-1] == {"step": 40, "seconds": 10.0, "wikitext": {"value": 6.0}, "mlm_loss": 4.0}
    assert found["seconds"] == 10.0
    assert found["parameters"] == 7
    assert found["score"] == pytest.approx(14.0)


def test_the_better_rate_is_fine_tuned(comparison, monkeypatch):
    trained, tuned = [], []

    def pretrain(self, name, folder, rate, seconds_a_step):
        trained.append((folder.name, rate, seconds_a_step))
        return {"rate": rate, "score": {5e-4: 6.0, 2e-3: 5.0}[rate]}

    def finetune(self, number, model, folder):
        tuned.append(model.parent.name)
        return {"number": number}

    kind = type(comparison)
    monkeypatch.setattr(kind, "speed", lambda self, name, folder: {"seconds_a_step": 0.25})
    monkeypatch.setattr(kind, "pretrain", pretrain)
    monkeypatch.setattr(kind, "finetune", finetune)
    found = comparison.run("BERT")
    assert trained == [("run-0.0005", 5e-4, 0.25), ("run-0.002", 2e-3, 0.25)]
    assert tuned == ["run-0.002"] * 2
    assert (found["sst2"]["number"], found["wikigold"]["number"]) == (0, 1)
    assert found["pretrain"]["rate"] == 2e-3
    assert comparison.run("BERT") == found
    assert len(trained) == 2


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
