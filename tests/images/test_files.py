"""Images as files: what is read, and what is wrong with those that are not."""

import builtins
import contextlib
import hashlib
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bertctl.errors import BertctlError
from bertctl.images.files import ImageFile, check_images, decode

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_colours_and_shades_are_what_was_written():
    colours = encoded(Image.fromarray(PIXELS))
    assert np.array_equal(np.asarray(decode(colours, "x", 3)), PIXELS)
    red, green, blue = PIXELS.astype(float).transpose(2, 0, 1)
    grey = np.asarray(decode(colours, "x", 1)).astype(float)
    assert np.abs(grey - (0.299 * red + 0.587 * green + 0.114 * blue)).max() <= 1  # ITU-R BT.601
    shades = encoded(Image.fromarray(PIXELS[:, :, 0]))
    assert np.array_equal(np.asarray(decode(shades, "x", 3)), np.repeat(PIXELS[:, :, :1], 3, axis=2))


def test_a_picture_taken_sideways_is_turned():
    notes = Image.Exif()
    notes[0x0112] = 6  # orientation: the top of what was seen is on the right
    turned = np.asarray(decode(encoded(Image.fromarray(PIXELS), exif=notes), "x", 3))
    assert np.array_equal(turned, np.rot90(PIXELS, k=-1))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "in an empty file"),
        (b"not an image", "in a format that is not known"),
        (encoded(Image.fromarray(PIXELS))[:80], "got no image that can be read"),
        (encoded(Image.fromarray(PIXELS), "JPEG")[:-40], "truncated"),
        (encoded(Image.fromarray(PIXELS[:, :, 0].astype(np.uint16) * 257)), "mode I;16"),
        (encoded(Image.fromarray(PIXELS[:, :, 0].astype(np.float32)), "TIFF"), "mode F"),
    ],
)
def test_what_is_no_image_of_8_bits_is_refused(raw, message):
    with pytest.raises(BertctlError, match=message) as caught:
        decode(raw, "pictures/a.png", 3)
    assert str(caught.value).startswith("pictures/a.png: ")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's own about tags of TIFF
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "WEBP"]), st.data())
def test_any_damage_is_a_problem_or_another_image_and_never_a_traceback(kind, data):
    raw = bytearray(encoded(Image.fromarray(PIXELS), kind))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    with contextlib.suppress(BertctlError):
        assert decode(bytes(raw), "x", 3).mode == "RGB"


def test_every_broken_file_is_named_at_once(tmp_path):
    good = encoded(Image.fromarray(PIXELS))
    (tmp_path / "good.png").write_bytes(good)
    (tmp_path / "cut.png").write_bytes(good[:90])
    (tmp_path / "text.png").write_text("hello")
    files = [ImageFile(str(tmp_path / name), tmp_path / name) for name in ("cut.png", "good.png", "text.png", "no.png")]
    problems = []
    digests = check_images([*files, ImageFile("table:7", data=b"")], problems)
    assert digests[1] == hashlib.sha256(good).hexdigest()
    assert [problem.split(":")[0].rpartition("/")[2] for problem in problems] == [
        "cut.png",
        "text.png",
        "no.png",
        "table",
    ]


def test_without_pillow_the_message_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(BertctlError, match="need Pillow") as caught:
        check_images([], [])
    assert caught.value.hint == "pip install 'bertctl[images]'"
