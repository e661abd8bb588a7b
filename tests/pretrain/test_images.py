"""Pretraining on images: masks, the loss against transformers, whole runs on scikit-learn's digits, and refusals."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from bertctl import signals
from bertctl.errors import BertctlError, Stopped
from bertctl.pretrain import run as stage
from bertctl.pretrain.config import PretrainSection
from bertctl.pretrain.images import hide, image_batches, open_images
from bertctl.pretrain.masked_image import MaskedImageObjective
from bertctl.recipe.load import build_recipe
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import load_model
from bertctl.variants.vit import VIT

ENCODER = {
    "name": "vit",
    "size": "tiny",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 8,
    "patch_size": 2,
    "num_channels": 1,
}
RUNTIME = Runtime(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def digits(write_digits, tmp_path_factory):
    """1,000 digits, half of them one folder deeper."""
    return write_digits(tmp_path_factory.mktemp("digits"), {"": range(0, 1000, 2), "more": range(1, 1000, 2)})


@pytest.fixture(scope="module")
def section(digits):
    def make(steps=20, training=None, objective=None, **more):
        settings = {"steps": steps, "batch_size": 32, "precision": "float32", "optimizer": {"lr": 4e-3}}
        tree = {
            "images": {"path": str(digits), "held_out_fraction": 0.1},
            "encoder": ENCODER,
            "objective": {"name": "masked_image", "mask_patch_size": 2} | (objective or {}),
            "training": settings | (training or {}),
        }
        return build_recipe(tree | more, PretrainSection)

    return make


@pytest.mark.parametrize(("squares", "patches", "ratio"), [((7, 7), 2, 0.6), ((4, 4), 1, 0.5), ((1, 2), 3, 0.99)])
def test_squares_are_hidden_whole_as_many_as_asked_for_and_anew_in_every_epoch(squares, patches, ratio):
    ids = np.arange(50)
    settings = {"squares": squares, "patches": patches, "ratio": ratio, "seed": 3}
    hidden = hide(ids, np.zeros(50, dtype=np.int64), **settings)
    count = min(math.ceil(ratio * squares[0] * squares[1]), squares[0] * squares[1] - 1)
    assert (hidden.sum(axis=1) == count * patches**2).all()
    parts = hidden.reshape(50, squares[0], patches, squares[1], patches)
    assert (parts == parts[:, :, :1, :, :1]).all()
    again = hide(ids[::-1], np.zeros(50, dtype=np.int64), **settings)[::-1]
    assert np.array_equal(hidden, again), "a mask belongs to an image, not to a place in a batch"
    if count > 1:
        assert not np.array_equal(hidden, hide(ids, np.ones(50, dtype=np.int64), **settings))
        share = hidden.reshape(50, -1).mean(axis=0)
        assert abs(share - hidden.mean()).max() < 5 * math.sqrt(0.25 / 50), "no place is hidden more often than others"


def test_the_loss_is_that_of_transformers_and_of_any_micro_batches(section, tmp_path):
    made = section()
    data = open_images(made)
    torch.manual_seed(0)
    fields = VIT.to_hf(data.config) | {"initializer_range": 0.2}
    theirs = transformers.ViTForMaskedImageModeling(transformers.ViTConfig(**fields)).eval()
    torch.nn.init.normal_(theirs.vit.embeddings.mask_token, std=0.5)
    theirs.save_pretrained(tmp_path)
    objective = MaskedImageObjective(load_model(tmp_path).model).eval()
    batches = image_batches(made, data, steps=4, seed=1, runtime=RUNTIME)
    (whole,) = batches(2)
    assert whole["pixel_values"].shape == (32, 1, 8, 8)
    assert int(whole["tokens"]) == 32 * 17
    with torch.no_grad():
        loss = objective(whole)["masked_image"] / objective.counts(whole)["masked_image"]
        expected = theirs(whole["pixel_values"], bool_masked_pos=whole["bool_masked_pos"]).loss
        rows = objective.rows(whole, RUNTIME).sum(axis=0)
        parts = replace(batches, micro_batch_size=5)(2)
        sums = [
            sum(objective(part)["masked_image"] for part in parts),
            sum(objective.counts(p)["masked_image"] for p in parts),
        ]
        alone = objective.rows(whole, RUNTIME)[3]
    assert len(parts) == 7
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert rows[0] / rows[2] == pytest.approx(loss.item(), rel=1e-5)
    assert (sums[0] / sums[1]).item() == pytest.approx(loss.item(), rel=1e-5)
    pixels, mask = whole["pixel_values"][3, 0].numpy(), objective.hidden_pixels(whole)[3, 0].numpy()
    by_hand = np.abs(pixels[~mask].mean() - pixels)[mask].sum()
    assert alone[1] == pytest.approx(by_hand, rel=1e-5)


@pytest.fixture(scope="module")
def pretrained(section, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "digits"
    return out, stage.run(section(steps=300), out=out, seed=0)


def test_hidden_patches_are_drawn_better_than_by_any_mean(pretrained, section):
    out, result = pretrained
    data = open_images(section())
    train, held_out = (
        np.stack(reader.pixels(np.arange(len(reader)))) for reader in (data.train["images"], data.held_out)
    )
    mean_image = np.abs(train.mean(axis=0) - held_out).mean()
    assert result["masked_pixel_loss"] < 0.96 * mean_image  # measured: 0.353 and 0.381
    assert result["masked_pixel_loss"] < 0.8 * result["visible_mean_loss"]
    assert result["plateau"] is False
    assert result["train_examples"] == len(train) == 1000 - len(held_out)
    assert 50 < len(held_out) < 150
    assert result["examples"] == len(held_out)
    assert result["masked_pixels"] == len(held_out) * 10 * 4  # 10 of 16 squares of 2 x 2
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["masked_pixel_loss"] == result["masked_pixel_loss"]


def test_the_model_is_one_of_transformers_and_a_start_for_both_heads(pretrained, digits, section, tmp_path):
    out, _ = pretrained
    model = transformers.AutoModelForMaskedImageModeling.from_pretrained(out / "model")
    assert model.config.encoder_stride == 2
    loaded = load_model(out / "model", {"image": 10})
    assert {name.split(".")[1] for name in loaded.new_tensors} == {"image"}
    result = stage.run(section(steps=2, init_from=str(out)), out=tmp_path / "on", seed=0)
    assert result["masked_pixel_loss"] < 0.9 * result["visible_mean_loss"]


def test_a_stopped_and_resumed_run_is_the_same_to_the_bit(section, tmp_path, stop_at):
    made = section(steps=12, training={"save_every_steps": 4, "evaluate_every_steps": 6, "keep_checkpoints": 2})
    whole = stage.run(made, out=tmp_path / "whole", seed=1)
    lines = stop_at(stage, "step_line", 7)
    often = made.model_copy(update={"training": made.training.model_copy(update={"log_every_steps": 1})})
    with pytest.raises(Stopped):
        stage.run(often, out=tmp_path / "parts", seed=1)
    signals.clear()
    assert [step.number for step, _ in lines] == [1, 2, 3, 4, 5, 6, 7]
    parts = stage.run(often, out=tmp_path / "parts", seed=1, resume=True)
    timed = {"seconds", "tokens_per_second"}
    assert {k: v for k, v in parts.items() if k not in timed} == {k: v for k, v in whole.items() if k not in timed}
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_equal_images_are_on_one_side_and_names_do_not_matter(section, tmp_path):
    for name, shade in (("a", 1), ("b", 2), ("c", 2), ("d", 3)):
        Image.new("L", (8, 8), shade).save(tmp_path / f"{name}.png")
    first = open_images(section(images={"path": str(tmp_path), "held_out_fraction": 0.5}))
    readers = (first.train["images"], first.held_out)
    sides = [{pixels.tobytes() for pixels in reader.pixels(np.arange(len(reader)))} for reader in readers]
    (tmp_path / "a.png").rename(tmp_path / "z.png")
    second = open_images(section(images={"path": str(tmp_path), "held_out_fraction": 0.5}))
    assert first.hashes == second.hashes
    assert sides[0].isdisjoint(sides[1])
    assert sum(map(len, readers)) == 4


def test_what_is_wrong_with_the_images_is_said_at_once(section, tmp_path):
    with pytest.raises(BertctlError, match="no such folder"):
        open_images(section(images={"path": str(tmp_path / "no")}))
    with pytest.raises(BertctlError, match="got no images"):
        open_images(section(images={"path": str(tmp_path)}))
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(b"no image")
    with pytest.raises(BertctlError) as caught:
        open_images(section(images={"path": str(tmp_path)}))
    assert len(caught.value.problems) == 2
    for name in ("a", "b"):
        Image.new("L", (8, 8), 5).save(tmp_path / f"{name}.png")
    with pytest.raises(BertctlError, match="got 1 different images"):
        open_images(section(images={"path": str(tmp_path)}))
    with pytest.raises(BertctlError, match="mask_patch_size: got 3"):
        open_images(section(objective={"mask_patch_size": 3}))
    with pytest.raises(BertctlError, match=r"pretrain\.images: not given"):
        open_images(section(images=None))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"encoder": {"name": "vit"}}, "masked_lm needs another encoder"),
        ({"objective": {"name": "masked_image"}}, "masked_image needs another encoder"),
        ({"images": {"path": "x"}}, "`images` belongs to the objective masked_image"),
        ({"objective": {"name": "masked_image"}, "init_from": "x", "resize": True}, "`resize` is not for encoders"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(tree, message):
    with pytest.raises(BertctlError, match=message):
        build_recipe(tree, PretrainSection)
