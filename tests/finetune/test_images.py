"""A small ViT learns scikit-learn's digits from nothing; its checkpoint is scored, asked, and read by transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from bertctl.artifacts.tensors import load_tensors
from bertctl.encoder.encoder import Encoder
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run as evaluate
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run
from bertctl.finetune.states import remember
from bertctl.heads.model import Model
from bertctl.images.processor import ImageProcessor
from bertctl.recipe.load import build_recipe
from bertctl.tasks.batches import TrainingBatches, collate
from bertctl.tasks.config import DataSection
from bertctl.tasks.losses import CROSS_ENTROPY, PLAIN
from bertctl.tasks.task import Features
from bertctl.training.runtime import Runtime
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.hf import load_model, save_model
from tests.finetune.opened import open_data

RUNTIME = Runtime(torch.device("cpu"), torch.float32)
DIGITS = load_digits()
PARTS = dict(
    zip(("train", "dev", "test"), np.split(np.random.default_rng(0).permutation(1797), [1200, 1400]), strict=True)
)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.fixture(scope="module")
def digits(write_digits, tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"), PARTS)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A ViT with fresh weights for images of 8 x 8."""
    section = EncoderSection(name="vit", size="tiny", image_size=8, patch_size=4, num_channels=1, **SIZES)
    config = encoder_config(section, vocab_size=0, pad_token_id=0)
    folder = tmp_path_factory.mktemp("fresh")
    torch.manual_seed(0)
    save_model(folder, Model(config, {}), ImageProcessor.of(config))
    return folder


def section(model, data, **more):
    training = {"epochs": 15, "batch_size": 32, "optimizer": {"lr": 6e-3}, "precision": "float32"} | more.pop(
        "training", {}
    )
    tree = {
        "task": "image_classification",
        "model": str(model),
        "data": data if isinstance(data, dict) else {"path": str(data)},
        "training": training,
    }
    return build_recipe(tree | more, FinetuneSection)


@pytest.fixture(scope="module")
def tuned(digits, fresh, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "digits"
    return out, run(section(fresh, digits), out=out, seed=0)


def test_digits_are_learnt_almost_as_well_as_by_logistic_regression(tuned):
    pixels = DIGITS.data / 16
    linear = LogisticRegression(max_iter=1000).fit(pixels[PARTS["train"]], DIGITS.target[PARTS["train"]])
    reference = linear.score(pixels[PARTS["test"]], DIGITS.target[PARTS["test"]])
    result = tuned[1]
    assert reference > 0.96
    assert result["pretrained"]["value"] > reference - 0.04  # measured: 0.972 and 0.982
    assert result["majority_baseline"]["value"] < 0.15
    assert (result["train_examples"], result["test_examples"], result["labels"]) == (1200, 397, list("0123456789"))
    assert "bag_of_words" not in result


def test_scores_and_answers_of_the_checkpoint_are_those_of_training(tuned, digits, tmp_path):
    out, result = tuned
    found = evaluate(EvaluateSection(model=str(out), data={"path": digits}), out=tmp_path / "e", seed=0)
    assert (found["task"], found["split"]) == ("image_classification", "test")
    assert found["metrics"]["accuracy"]["value"] == result["metrics"]["accuracy"]["value"]
    assert found["metrics"]["macro_f1"]["value"] == pytest.approx(result["metrics"]["macro_f1"]["value"])
    wrong = round((1 - found["metrics"]["accuracy"]["value"]) * 397)
    assert len(found["costliest_errors"]) == min(20, wrong)
    assert all(error["image"].endswith(".png") for error in found["costliest_errors"])
    paths = sorted((digits / "test").rglob("*.png"))
    rows = list(predict(out, [f"{path}\n" for path in paths]))
    right = np.mean([row["label"] == path.parent.name for row, path in zip(rows, paths, strict=True)])
    assert right == result["metrics"]["accuracy"]["value"]
    with pytest.raises(BertctlError, match=r"<stdin>:2: no\.png: cannot be read"):
        list(predict(out, [f"{paths[0]}\n", "no.png\n"]))


@torch.no_grad()
def test_the_checkpoint_says_the_same_in_transformers(tuned, digits):
    out, _ = tuned
    model = transformers.AutoModelForImageClassification.from_pretrained(out / "model").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(out / "model", use_fast=False)
    assert [model.config.id2label[n] for n in range(10)] == list("0123456789")
    assert processor.size == {"height": 8, "width": 8}
    assert json.loads((out / "model" / "preprocessor_config.json").read_text())["image_mean"] == [0.5]
    path = min((digits / "test" / "3").glob("*.png"))
    pixels = (np.asarray(Image.open(path), dtype=np.float32) / 255 - 0.5) / 0.5
    theirs = model(torch.from_numpy(pixels)[None, None]).logits.softmax(dim=-1)[0]
    temperature = load_model(out / "model").extra.get("settings", {}).get("temperature", 1.0)
    row = next(predict(out, [str(path)]))
    shares = torch.tensor([row["probabilities"][name] for name in "0123456789"])
    torch.testing.assert_close((theirs.log() / temperature).softmax(dim=-1), shares, atol=1e-4, rtol=1e-3)


def test_a_frozen_encoder_stays_and_a_run_can_be_repeated(fresh, digits, tmp_path, model_hash):
    small = {"path": str(digits), "train_examples": 60, "dev_examples": 20, "test_examples": 20}
    for name in ("a", "b"):
        frozen = section(fresh, small, strategy={"freeze": "encoder"}, training={"epochs": 2}, dropout=0.0)
        run(frozen, out=tmp_path / name, seed=1)
    assert model_hash(tmp_path / "a") == model_hash(tmp_path / "b")
    before, after = load_model(fresh), load_model(tmp_path / "a" / "model")
    pairs = zip(before.model.encoder.parameters(), after.model.encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("pooling", ["cls", "mean", "attention"])
def test_what_a_frozen_encoder_says_of_an_image_is_kept_and_found_by_its_pixels(pooling, fresh, digits, tmp_path):
    small = DataSection(path=digits, train_examples=40, dev_examples=10)
    model = load_model(fresh, {"image": 10}, pooling=pooling).model.eval()
    processor = ImageProcessor.load(fresh, model.config)
    data = open_data("image_classification", small, processor, max_length=5)
    kept = remember(model, data, tmp_path, 7, RUNTIME)
    batch = collate([*data.train[5::7], data.dev[0].features[3]], model, 0)
    with torch.inference_mode():
        alone = model.logits("image", model(batch["pixel_values"]))
        model.recall = kept
        assert torch.allclose(model.logits("image", model(batch["pixel_values"])), alone, atol=1e-5)
        assert kept(batch["pixel_values"] + 0.01, None, None) is None
        nothing = kept(batch["pixel_values"], torch.zeros(len(alone), 5, dtype=torch.bool), None)
    assert not nothing.last_hidden_state.any()
    rows = load_tensors(next(tmp_path.rglob("states.safetensors")))["states"]
    assert rows.shape == (50 * (5 if pooling == "attention" else 1), 32)


def test_a_frozen_encoder_reads_each_image_once_and_scores_are_the_same(fresh, digits, tmp_path, monkeypatch):
    plain, read, found = Encoder.forward, [], {}
    monkeypatch.setattr(
        Encoder,
        "forward",
        lambda self, images, *more, **named: read.append(len(images)) or plain(self, images, *more, **named),
    )
    small = {"path": str(digits), "train_examples": 60, "dev_examples": 20, "test_examples": 20}
    for keep in (True, False):
        read.clear()
        frozen = section(fresh, small, strategy={"freeze": "encoder", "keep_states": keep}, training={"epochs": 4})
        found[keep] = run(frozen, out=tmp_path / str(keep), seed=1)["pretrained"]["seeds"], sum(read)
    assert [row["dev"] for row in found[True][0]] == [row["dev"] for row in found[False][0]]
    assert found[True][1] == 60 + 20 + 20 + 20, (
        "train and dev for the states; then the finished model scores dev and test"
    )
    assert found[False][1] == 4 * (60 + 20) + 20 + 20


def test_texts_and_images_are_not_taken_for_each_other(fresh, encoder, digits, texts, tmp_path):
    with pytest.raises(BertctlError, match="reads images, and classification is about texts"):
        run(section(fresh, texts, task="classification"), out=tmp_path / "a", seed=0)
    with pytest.raises(BertctlError, match="reads texts, and image_classification is about images"):
        run(section(encoder, digits), out=tmp_path / "b", seed=0)
    with pytest.raises(BertctlError, match="labels can be predicted, not embeddings"):
        list(predict(fresh, ["a"]))
    with pytest.raises(BertctlError, match="reads images"):
        evaluate(EvaluateSection(model=str(fresh), task="embedding", data={"path": texts}), out=tmp_path / "c", seed=0)


def test_a_rank_without_an_image_has_a_batch_that_counts_nothing(fresh):
    """Two ranks, and a last batch of one: the second rank must keep step."""
    model = load_model(fresh, {"image": 2}).model
    features = [Features([], [], n % 2, n, 0, pixels=lambda: np.ones((1, 8, 8), dtype=np.float32)) for n in range(3)]
    counted = []
    for rank in range(2):
        runtime = Runtime(torch.device("cpu"), torch.float32, rank, 2)
        batches = TrainingBatches(features, model, 0, 2, None, 0, runtime)
        for step in (1, 2):
            (batch,) = batches(step)
            counted.append((int(CROSS_ENTROPY.count(batch, PLAIN)), int(batch["tokens"])))
    assert sorted(counted) == [(0, 0), (1, 5), (1, 5), (1, 5)]
