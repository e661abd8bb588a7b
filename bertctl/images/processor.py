"""From an image to the numbers that an encoder reads, as `preprocessor_config.json` says it: the part of a tokenizer.

The names in the file are those of transformers' `ViTImageProcessor`, and so are the numbers: resized in 8 bits by
Pillow, divided by 255, less the mean, over the standard deviation. Shapes: C channels.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError, raise_problems
from bertctl.images.files import ImageFile, decode

NAME = "preprocessor_config.json"
BILINEAR = 2  # Pillow's number, which the file holds
RESAMPLINGS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
HALF = 0.5  # mean and deviation of ViT's released models
UNKNOWN = ("do_center_crop", "do_pad", "do_reduce_labels")  # what would make other numbers of an image


@dataclass(frozen=True)
class ImageProcessor:
    """How images are read. `image_mean` and `image_std` have a number a channel, for pixels times `rescale_factor`."""

    height: int
    width: int
    image_mean: tuple[float, ...] = (HALF, HALF, HALF)
    image_std: tuple[float, ...] = (HALF, HALF, HALF)
    resample: int = BILINEAR
    rescale_factor: float = 1 / 255

    # what is asked of a tokenizer, too: nothing is padded, and there is no vocabulary
    pad_id = 0
    vocab_size = 0
    lowercase = False

    @classmethod
    def of(cls, config: EncoderConfig) -> "ImageProcessor":
        """ViT's own way, for images of the encoder's size and channels."""
        same = (HALF,) * config.num_channels
        return cls(config.image_size, config.image_size, same, same)

    @classmethod
    def load(cls, folder: Path, config: EncoderConfig) -> "ImageProcessor":
        """As the folder says, or ViT's own way if it says nothing. Errors: BertctlError with every key that is not
        understood."""
        try:
            fields = json.loads((folder / NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls.of(config)
        except (OSError, ValueError, RecursionError) as error:
            raise BertctlError(f"{folder / NAME}: cannot be read: {error}") from None
        return from_fields(fields if isinstance(fields, dict) else {}, config, str(folder / NAME))

    def save(self, folder: Path) -> None:
        """Write `preprocessor_config.json` for us and for transformers."""
        fields = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": self.height, "width": self.width},
            "resample": self.resample,
            "do_rescale": True,
            "rescale_factor": self.rescale_factor,
            "do_normalize": True,
            "image_mean": list(self.image_mean),
            "image_std": list(self.image_std),
            "do_convert_rgb": len(self.image_mean) == 3,
        }
        (folder / NAME).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")

    @property
    def hash(self) -> str:
        """SHA-256 of all settings."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def pixels(self, file: ImageFile) -> NDArray[np.float32]:
        """The image as numbers [C, height, width]. Errors: BertctlError if it cannot be read."""
        image = decode(file.read(), file.where, len(self.image_mean))
        if image.size != (self.width, self.height):
            image = image.resize((self.width, self.height), resample=self.resample)
        raw = np.atleast_3d(np.asarray(image, dtype=np.float32)).transpose(2, 0, 1) * np.float32(self.rescale_factor)
        mean, deviation = (np.array(v, dtype=np.float32)[:, None, None] for v in (self.image_mean, self.image_std))
        return (raw - mean) / deviation


def from_fields(fields: Mapping[str, Any], config: EncoderConfig, where: str) -> ImageProcessor:
    """What a `preprocessor_config.json` says. Errors: BertctlError with every key that is not understood."""
    problems = [f"{where}: {name} is true, which is not known here" for name in UNKNOWN if fields.get(name)]
    if not fields.get("do_resize", True):
        problems.append(f"{where}: do_resize is false, but images of any size have to become one size")
    height, width = _size(fields.get("size"), config, where, problems)
    resample = fields.get("resample", BILINEAR)
    if resample not in RESAMPLINGS:
        problems.append(f"{where}: resample is {resample!r}, expected a number from 0 to {max(RESAMPLINGS)}")
    rescale = fields.get("rescale_factor", 1 / 255) if fields.get("do_rescale", True) else 1.0
    mean, deviation = (
        _by_channel(name, fields, unit, config, where, problems) for name, unit in (("image_mean", 0), ("image_std", 1))
    )
    raise_problems(problems)
    return ImageProcessor(height, width, mean, deviation, resample, float(rescale))


def _size(size: Any, config: EncoderConfig, where: str, problems: list[str]) -> tuple[int, int]:
    """(height, width): written as both, as one number for both, or not at all."""
    if size is None:
        return config.image_size, config.image_size
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict) and set(size) == {"height", "width"} and min(size.values()) >= config.patch_size:
        return size["height"], size["width"]
    problems.append(f"{where}: size is {size!r}, expected a height and a width of at least {config.patch_size}")
    return 0, 0


def _by_channel(
    name: str, fields: Mapping[str, Any], unit: float, config: EncoderConfig, where: str, problems: list[str]
) -> tuple[float, ...]:
    """A number for each channel, written so or as one number; `unit` for each if nothing is normalised."""
    values = fields.get(name, HALF) if fields.get("do_normalize", True) else unit
    found = tuple(values) if isinstance(values, list) else (values,)
    if len(set(found)) == 1:
        found = found[:1] * config.num_channels
    if len(found) != config.num_channels or not all(isinstance(value, (int, float)) for value in found):
        problems.append(f"{where}: {name} is {values!r}, expected {config.num_channels} numbers, one a channel")
    return tuple(float(value) for value in found if isinstance(value, (int, float)))
