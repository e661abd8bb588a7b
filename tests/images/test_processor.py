"""Numbers of images against transformers' own processor, and its file in both directions."""

import json

import numpy as np
import pytest
from PIL import Image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.images.files import ImageFile
from bertctl.images.processor import NAME, ImageProcessor


def config(channels=3, size=24):
    return EncoderConfig(
        vocab_size=0,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        type_vocab_size=0,
        position="grid",
        image_size=size,
        patch_size=8,
        num_channels=channels,
    )


@pytest.fixture
def picture(tmp_path):
    """A picture of another shape than the encoder reads."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 31, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3},
        {"do_normalize": False, "resample": 0},
        {"do_rescale": False, "do_normalize": False},
        {"size": {"height": 16, "width": 32}},
    ],
    ids=lambda fields: "+".join(fields) or "-",
)
def test_numbers_are_those_of_transformers_and_so_is_the_file(fields, picture, tmp_path):
    theirs = ViTImageProcessorPil(**({"size": {"height": 24, "width": 24}} | fields))
    theirs.save_pretrained(tmp_path)
    ours = ImageProcessor.load(tmp_path, config())
    mine = ours.pixels(ImageFile("a.png", picture))
    with Image.open(picture) as image:
        expected = theirs(images=image, return_tensors="np")["pixel_values"][0]
    assert mine.dtype == np.float32
    np.testing.assert_allclose(mine, expected, atol=1e-6)

    (tmp_path / "again").mkdir()
    ours.save(tmp_path / "again")
    assert ImageProcessor.load(tmp_path / "again", config()) == ours
    again = ViTImageProcessorPil.from_pretrained(tmp_path / "again")
    with Image.open(picture) as image:
        np.testing.assert_allclose(again(images=image, return_tensors="np")["pixel_values"][0], expected, atol=1e-6)


def test_without_a_file_images_are_read_as_vit_was_trained(picture, tmp_path):
    grey = ImageProcessor.load(tmp_path, config(channels=1))
    assert (grey.height, grey.image_mean, grey.image_std) == (24, (0.5,), (0.5,))
    found = grey.pixels(ImageFile("a.png", picture))
    assert found.shape == (1, 24, 24)
    assert -1 <= found.min() < found.max() <= 1
    assert ImageProcessor.of(config()).hash != grey.hash


def test_older_files_give_one_number_for_both_sides_and_all_channels(tmp_path):
    (tmp_path / NAME).write_text(json.dumps({"size": 32, "image_mean": 0.25, "image_std": [0.5, 0.5, 0.5]}))
    found = ImageProcessor.load(tmp_path, config(channels=1))
    assert (found.height, found.width, found.image_mean, found.image_std) == (32, 32, (0.25,), (0.5,))


def test_everything_that_would_make_other_numbers_is_refused_at_once(tmp_path):
    fields = {"do_center_crop": True, "size": {"shortest_edge": 256}, "resample": 9, "image_mean": [0.1, 0.2]}
    (tmp_path / NAME).write_text(json.dumps(fields | {"do_resize": False}))
    with pytest.raises(BertctlError) as caught:
        ImageProcessor.load(tmp_path, config())
    assert [problem.split(": ", 1)[1].split(" ")[0] for problem in caught.value.problems] == [
        "do_center_crop",
        "do_resize",
        "size",
        "resample",
        "image_mean",
    ]


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / NAME).write_text(content)
    with pytest.raises(BertctlError, match="cannot be read"):
        ImageProcessor.load(tmp_path, config())
