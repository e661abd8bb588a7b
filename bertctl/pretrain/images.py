"""What pretraining on images reads: their files, a part of them held out, and which patches are hidden.

Masks are a pure function of (seed, epoch, image), as those of tokens are. Images are numbered in the order of their
digests, so that the same images make the same run whatever their files are called. Shapes: B batch, P patches.
"""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError, raise_problems
from bertctl.images.files import ImageFile, check_images, is_image
from bertctl.images.processor import ImageProcessor
from bertctl.pretrain.batches import HELD_OUT_EPOCH
from bertctl.pretrain.config import MaskedImageObjectiveSection, PretrainSection
from bertctl.pretrain.masking import Flags, Ids, uniform_draws
from bertctl.tasks.batches import image_arrays
from bertctl.tasks.image_classification import IMAGES, image_of
from bertctl.tasks.tables import read_table
from bertctl.training.batching import Batch, rank_share, step_examples, to_tensors
from bertctl.training.runtime import Runtime
from bertctl.variants.config import encoder_config, read_encoder_config


@dataclass(frozen=True)
class ImageReader:
    """Images as numbers, read when they are asked for."""

    files: tuple[ImageFile, ...]
    processor: ImageProcessor

    def __len__(self) -> int:
        return len(self.files)

    def lengths(self, ids: Ids) -> NDArray[np.int64]:
        """All are as long."""
        return np.zeros(len(ids), dtype=np.int64)

    def pixels(self, ids: Ids) -> list[NDArray[np.float32]]:
        """[channels, height, width] each. Errors: BertctlError for a file that broke since it was checked."""
        return [self.processor.pixels(self.files[i]) for i in ids]


@dataclass(frozen=True)
class ImageData:
    """As `PretrainingData`; `tokenizer` is the processor, which is saved with the model."""

    tokenizer: ImageProcessor
    config: EncoderConfig
    train: dict[str, ImageReader]
    held_out: ImageReader
    hashes: dict[str, str]


def open_images(section: PretrainSection) -> ImageData:
    """Find, check and part the images that the section names. Errors: BertctlError with every image that is broken."""
    if section.images is None:
        raise BertctlError("pretrain.images: not given", hint="add `--set pretrain.images.path=FOLDER`")
    if section.init_from is None:
        config = encoder_config(section.encoder, vocab_size=0, pad_token_id=0)
        processor = ImageProcessor.of(config)
    else:
        folder = resolve_model(section.init_from)
        config = read_encoder_config(folder, read_config(folder))[1]
        if not config.image_size:
            raise BertctlError(f"{folder}: reads texts, and the objective masked_image is about images")
        processor = ImageProcessor.load(folder, config)
    refuse_uneven(section.objective, processor, config.patch_size)
    files, problems = find_images(section.images.path), list[str]()
    digests = check_images(files, problems)
    raise_problems(problems)
    ordered = sorted(zip(digests, files, strict=True), key=lambda pair: (pair[0], pair[1].where))
    held = held_out([digest for digest, _ in ordered], section.images.held_out_fraction)
    sides = [tuple(file for (_, file), out in zip(ordered, held, strict=True) if out is side) for side in (False, True)]
    if not all(sides):
        raise BertctlError(f"{section.images.path}: got {len(set(digests))} different images, expected two or more")
    hashes = {"images": hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest(), "vocabulary": processor.hash}
    train, rest = (ImageReader(side, processor) for side in sides)
    return ImageData(processor, config, {"images": train}, rest, hashes)


def find_images(path: Path) -> list[ImageFile]:
    """All images below a folder, those in Parquet files among them, or in one such file. Errors: BertctlError if there
    are none."""
    if not path.exists():
        raise BertctlError(f"{path}: no such folder, expected images")
    found, problems = [], list[str]()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if is_image(file) and file.is_file():
            found.append(ImageFile(str(file), file))
        elif file.suffix.lower() == ".parquet":
            table = read_table(file, "parquet", header=True, problems=problems)
            column = table.column(None, IMAGES)
            if column is None:
                problems.append(f"{file}: got no column of images, expected one of {', '.join(IMAGES)}")
                continue
            cells = [(table.place(line), row.get(column)) for line, row in table.rows]
            found += [image for place, cell in cells if (image := image_of(cell, place, file.parent, problems))]
    raise_problems(problems)
    if not found:
        raise BertctlError(f"{path}: got no images, expected files such as .png and .jpg, or .parquet")
    return found


def held_out(digests: list[str], fraction: float) -> list[bool]:
    """Whether each image is held out: by its digest, so that equal images are on one side, and at least the first."""
    return [int(digest[:12], 16) < fraction * 16**12 or digest == digests[0] for digest in digests]


def refuse_uneven(objective: object, processor: ImageProcessor, patch_size: int) -> None:
    """Errors: BertctlError if the squares that are hidden do not tile the image, or patches not the squares."""
    assert isinstance(objective, MaskedImageObjectiveSection)
    mask = objective.mask_patch_size
    if mask % patch_size or processor.height % mask or processor.width % mask:
        raise BertctlError(
            f"pretrain.objective.mask_patch_size: got {mask}, expected a multiple of the patch size {patch_size} that "
            f"divides {processor.height} x {processor.width} pixels"
        )


def hide(ids: Ids, epochs: Ids, *, squares: tuple[int, int], patches: int, ratio: float, seed: int) -> Flags:
    """[B, P]: `ratio` of an image's squares, rounded up but never all, drawn without replacement; each is `patches`
    patches wide and high. Source: SimMIM, arXiv:2111.09886, section 3.2, and its released code."""
    rows, columns = squares
    count = min(rows * columns - 1, math.ceil(ratio * rows * columns))
    order = np.argsort(uniform_draws(ids, epochs, rows * columns, seed=seed), axis=1, kind="stable")
    hidden = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(hidden, order[:, :count], True, axis=1)
    return hidden.reshape(-1, rows, columns).repeat(patches, axis=1).repeat(patches, axis=2).reshape(len(ids), -1)


@dataclass(frozen=True)
class ImageBatches:
    """The micro-batches of any step, for one rank: a pure function of the step."""

    reader: ImageReader
    batch_size: int
    micro_batch_size: int | None
    patch_size: int
    mask_patch_size: int
    mask_ratio: float
    seed: int
    runtime: Runtime

    def __call__(self, step: int) -> list[Batch]:
        """The micro-batches of `step`."""
        epochs, ids = step_examples(step, self.batch_size, len(self.reader), self.seed)
        rank, world_size = self.runtime.rank, self.runtime.world_size
        shares = rank_share(ids, rank=rank, world_size=world_size, micro_batch_size=self.micro_batch_size)
        return [self.batch(self.reader, ids[share], epochs[share]) for share in shares]

    def batch(self, reader: ImageReader, ids: Ids, epochs: Ids) -> Batch:
        """pixel_values [B, channels, height, width], bool_masked_pos [B, P], and `tokens`, their number."""
        processor, width = reader.processor, self.mask_patch_size
        squares = processor.height // width, processor.width // width
        patches = width // self.patch_size
        hidden = hide(ids, epochs, squares=squares, patches=patches, ratio=self.mask_ratio, seed=self.seed)
        return to_tensors(image_arrays(reader.pixels(ids), self.patch_size) | {"bool_masked_pos": hidden})

    def held_out(self, reader: ImageReader, ids: Ids) -> Batch:
        """Held-out images with masks that never change."""
        return self.batch(reader, ids, np.full_like(ids, HELD_OUT_EPOCH))


def image_batches(
    section: PretrainSection, data: ImageData, *, steps: int, seed: int, runtime: Runtime
) -> ImageBatches:
    """The micro-batches of every step. Errors: BertctlError if the batch does not divide among the ranks."""
    training, objective = section.training, section.objective
    assert isinstance(objective, MaskedImageObjectiveSection)
    if training.batch_size % runtime.world_size:
        raise BertctlError(f"training.batch_size {training.batch_size} is not a multiple of {runtime.world_size} ranks")
    return ImageBatches(
        data.train["images"],
        training.batch_size,
        training.micro_batch_size,
        data.config.patch_size,
        objective.mask_patch_size,
        objective.mask_ratio,
        seed,
        runtime,
    )
