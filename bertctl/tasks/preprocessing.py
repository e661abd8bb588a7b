"""What turns examples into an encoder's inputs: the tokenizer in its folder, or for images the processor."""

from pathlib import Path
from typing import Any

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.images.processor import ImageProcessor
from bertctl.tasks.task import Task
from bertctl.text.tokenizer import Tokenizer


def preprocessor(folder: Path, config: EncoderConfig) -> Any:
    """A `Tokenizer`, or the `ImageProcessor` of an encoder that reads images. Errors: BertctlError if its files are
    missing or not understood."""
    return ImageProcessor.load(folder, config) if config.image_size else Tokenizer.load(folder)


def refuse_other_inputs(task: Task, config: EncoderConfig, source: str | Path) -> None:
    """Errors: BertctlError if the task is about images and the encoder reads texts, or the other way round."""
    kinds = {True: "images", False: "texts"}
    reads = bool(config.image_size)
    if reads != task.images:
        raise BertctlError(f"{source}: reads {kinds[reads]}, and {task.name} is about {kinds[task.images]}")
