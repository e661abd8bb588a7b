"""Layers of a ViT on scikit-learn's digits: states and attention are transformers', probes scikit-learn's."""

import hashlib

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.images.processor import ImageProcessor
from bertctl.probe.config import ProbeSection
from bertctl.probe.control import control_labels
from bertctl.probe.run import run
from bertctl.probe.words import read_words
from bertctl.recipe.load import build_recipe
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.hf import save_model

TASK = TASKS["image_classification"]
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
SPLITS = {"train": range(200), "dev": range(200, 260), "test": range(260, 360)}


@pytest.fixture(scope="module")
def digits(write_digits, tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"), SPLITS)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """2 blocks of 24 with random weights, 4 x 4 patches of 2 pixels."""
    section = EncoderSection(
        name="vit", size="tiny", image_size=8, patch_size=2, num_channels=1, initializer_range=0.3, **SIZES
    )
    config, folder = encoder_config(section, vocab_size=0, pad_token_id=0), tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    save_model(folder, Model(config, {"image": 10}), ImageProcessor.of(config), labels=list("0123456789"))
    return folder


def section(model, data, **more):
    tree = {"task": TASK.name, "model": str(model), "data": {"path": str(data)}, "strengths": [0.01], "iterations": 500}
    return build_recipe(tree | more, ProbeSection)


@pytest.fixture(scope="module")
def theirs(vit, digits):
    """Of train and test: hidden states [layers][N, T, E] and attentions [blocks][N, H, T, T], and the labels."""
    model = transformers.ViTModel.from_pretrained(vit, add_pooling_layer=False, attn_implementation="eager").eval()
    found = {}
    for split in ("train", "test"):
        paths = sorted((digits / split).rglob("*.png"))
        shades = np.stack([np.asarray(Image.open(path), dtype=np.float32) for path in paths])
        pixels = torch.from_numpy((shades / 255 - 0.5) / 0.5).unsqueeze(1)
        with torch.no_grad():
            output = model(pixels, output_hidden_states=True, output_attentions=True)
        states = [*output.hidden_states[:-1], output.last_hidden_state]  # the last one behind the final norm
        found[split] = states, output.attentions, np.array([int(path.parent.name) for path in paths])
    return found


@pytest.fixture(scope="module")
def done(vit, digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("done")
    return {
        pooling: run(section(vit, digits, pooling=pooling), out=folder / pooling, seed=0) for pooling in ("mean", "cls")
    }


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_accuracies_are_those_of_logistic_regression_on_the_states_of_transformers(pooling, done, theirs):
    (train, _, labels), (test, _, gold) = theirs["train"], theirs["test"]
    for row in done[pooling]["layers"]:
        a, b = (
            (part[row["layer"]].mean(dim=1) if pooling == "mean" else part[row["layer"]][:, 0]).double().numpy()
            for part in (train, test)
        )
        scaler = StandardScaler().fit(a)
        fitted = LogisticRegression(C=1 / (0.01 * len(labels)), max_iter=2000, tol=1e-8)
        fitted.fit(scaler.transform(a), labels)
        assert row["accuracy"] == pytest.approx(fitted.score(scaler.transform(b), gold), abs=0.011)  # one image of 100


def test_random_weights_read_digits_and_the_class_token_knows_nothing_before_the_first_block(done):
    mean, first = done["mean"], done["cls"]
    assert max(row["accuracy"] for row in mean["layers"]) > mean["majority_baseline"] + 0.4
    start = first["layers"][0]
    assert start["accuracy"] < 0.15, "one and the same answer for all"
    assert start["effective_rank"] == pytest.approx(1, abs=1e-3)
    assert start["mean_cosine"] == pytest.approx(1)
    assert first["layers"][2]["accuracy"] > first["majority_baseline"] + 0.2
    assert mean["labels"] == list("0123456789")
    assert mean["words"] == {"train": 200, "dev": 60, "test": 100}


def by_hand(weights, side=2, columns=4):
    """Mean distance in pixels from patch to patch, query by query and key by key: [H]."""
    found = []
    for head in weights.double().numpy().transpose(1, 0, 2, 3):
        values = []
        for image in head:
            for query in range(16):
                far = [
                    side * np.hypot(query // columns - key // columns, query % columns - key % columns)
                    for key in range(16)
                ]
                values.append(np.average(far, weights=image[1 + query, 1:]))
        found.append(np.mean(values))
    return found


def test_distances_entropies_and_maps_are_those_of_the_weights_of_transformers(done, theirs):
    result, attentions = done["mean"], theirs["test"][1]
    for block, weights in enumerate(attentions):
        far = result["attention_distance_per_head"][block]
        assert far["layer"] == block + 1
        assert far["pixels"] == pytest.approx(by_hand(weights), rel=1e-4)
        assert result["layers"][block + 1]["attention_distance"] == pytest.approx(np.mean(far["pixels"]))
        spread = -(weights * weights.log()).sum(dim=-1).mean(dim=(0, 2))
        assert result["attention_entropy_per_head"][block]["nats"] == pytest.approx(spread.tolist(), rel=1e-4)
        maps = np.array(result["class_token_attention"][block]["maps"])
        np.testing.assert_allclose(maps, weights[:, :, 0, 1:].mean(dim=0).reshape(3, 4, 4).numpy(), atol=1e-5)
    assert result["layers"][0]["attention_distance"] is None


def test_the_control_label_belongs_to_the_image_and_is_learnt_by_heart(done, digits, theirs, tmp_path):
    data = DataSection(path=digits)
    examples = training_data(TASK, data, seed=0).train
    words = read_words(
        TASK, examples, ImageProcessor(8, 8), list("0123456789"), data=data, max_length=9, most=999, seed=0
    )
    assert words.types == [hashlib.sha256(example.image.path.read_bytes()).hexdigest() for example in examples]
    states, _, labels = theirs["train"]
    drawn = control_labels(words.types, np.bincount(labels, minlength=10) / len(labels), 0)
    inputs = StandardScaler().fit_transform(states[2].mean(dim=1).double().numpy())
    fitted = LogisticRegression(C=1 / (0.01 * len(labels)), max_iter=2000, tol=1e-8).fit(inputs, drawn)
    row = done["mean"]["layers"][2]
    assert row["control_train_accuracy"] == pytest.approx(fitted.score(inputs, drawn), abs=0.011)
    assert row["control_train_accuracy"] > row["control_accuracy"] + 0.1, "of test nobody can know them"
    assert (done["mean"]["control"], done["mean"]["seen_in_train"]) == ("image", 0)


def test_a_text_is_read_by_its_first_token_too(checkpoint, tmp_path):
    rows = [f"{word} the old mat {n}\t{word}" for n in range(20) for word in ("cat", "dog")]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    made = section(checkpoint, tmp_path / "train.tsv", task="classification", pooling="cls")
    first, *_, last = run(made, out=tmp_path / "out", seed=0)["layers"]
    assert first["accuracy"] == pytest.approx(0.5)  # [CLS] before any attention
    assert last["accuracy"] == 1
    assert last["attention_distance"] is None


def test_texts_and_images_are_not_taken_for_each_other(vit, checkpoint, digits, sentences, tmp_path):
    with pytest.raises(BertctlError, match="reads images, and pos is about texts"):
        run(section(vit, sentences, task="pos"), out=tmp_path / "a", seed=0)
    with pytest.raises(BertctlError, match="reads texts, and image_classification is about images"):
        run(section(checkpoint, digits), out=tmp_path / "b", seed=0)
    with pytest.raises(BertctlError, match=r"probe\.pooling: got cls, but pos is about words"):
        run(section(checkpoint, sentences, task="pos", pooling="cls"), out=tmp_path / "c", seed=0)
    assert not list(tmp_path.iterdir())
