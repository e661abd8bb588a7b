"""`bertctl describe` on recipes and checkpoints."""

import json

import pytest

from bertctl.cli.app import main
from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.variants.hf import save_model

TINY = EncoderConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=20,
)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["describe", *map(str, arguments)])
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


def test_a_recipe_is_described_at_its_own_batch_and_length(capsys):
    code, out, _ = call(capsys, "base", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["parameters_in_all"] == 110_106_428
    assert (found["batch_size"], found["precision"]) == (32, "bf16")
    assert found["tensors"]["encoder.layers.11.feed_forward.up.weight"] == [3072, 768]


def test_set_changes_the_recipe_and_options_come_after_it(capsys):
    options = ["--set", "pretrain.encoder.num_hidden_layers=3", "--tokens", 64, "--batch-size", 2, "--json"]
    found = json.loads(call(capsys, "base", *options)[1])
    assert (found["config"]["num_hidden_layers"], found["model_type"]) == (3, "bert")
    assert (found["tokens"], found["batch_size"]) == (64, 2)


def test_a_checkpoint_is_described_with_its_heads_and_each_layer_once(capsys, tmp_path):
    save_model(tmp_path, Model(TINY, {"token": 3}), None)
    code, out, _ = call(capsys, tmp_path)
    assert code == 0
    assert "heads.token.output.weight" in out
    assert "encoder.layers.0.attention.query.weight" in out
    assert "encoder.layers.1.attention.query.weight" not in out
    total = sum(p.numel() for p in Model(TINY, {"token": 3}).parameters())
    assert f"parameters: {total:,} (embeddings " in out
    assert "\nsaved as: bert\n" in out
    assert "at 20 tokens" in out  # no more than the encoder reads


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["base", "--tokens", "513"], "--tokens: got 513, but the encoder reads at most 512"),
        (["base", "--precision", "fp16"], "--precision: got `fp16`, expected float32 or bf16"),
        (["finetune/ner"], "finetune/ner: no section `pretrain`"),
        (["."], "config.json"),
        ([".", "--set", "seed=1"], "--set: got seed=1, but . is no recipe"),
    ],
)
def test_what_cannot_be_described_is_refused(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("recipe", "count"), [("roberta", 124_697_433), ("albert", 11_813_810), ("electra", 13_549_057)]
)
def test_shipped_recipes_are_as_large_as_the_published_models(recipe, count, capsys):
    assert json.loads(call(capsys, recipe, "--batch-size", 1, "--tokens", 8, "--json")[1])["parameters_in_all"] == count


def test_replaced_tokens_describe_the_encoder_that_stays(capsys):
    options = ["--set", "pretrain.encoder.name=electra", "--set", "pretrain.encoder.size=small"]
    found = json.loads(call(capsys, "base", *options, "--set", "pretrain.objective.name=replaced_token", "--json")[1])
    assert found["heads"] == {"replaced_token": 1}
    assert found["parameters_in_all"] == 13_549_057


def test_a_recipe_says_what_fresh_weights_are_drawn_from(capsys):
    keys = ["--set", "pretrain.encoder.initializer=depth_scaled", "--set", "pretrain.encoder.num_hidden_layers=8"]
    out = call(capsys, "base", *keys, "--set", "pretrain.encoder.norm_place=pre")[1]
    lines = {line.split()[0]: line.split(None, 1)[1] for line in out.splitlines() if line}
    assert "\nsaved as: bertctl, which transformers cannot load\n" in out
    assert lines["encoder.layers.0.attention.query.weight"] == "768 x 768     normal, std 0.02"
    assert lines["encoder.layers.0.attention.output.weight"] == "768 x 768     normal, std 0.005"  # 0.02 / sqrt(16)
    assert lines["encoder.layers.0.attention.output.bias"].split() == ["768", "0"]
    assert lines["encoder.embeddings.norm.weight"].split() == ["768", "1"]
