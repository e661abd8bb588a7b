"""Images as they are stored: a file, or bytes in a table; opened with Pillow, which is an optional extra.

What cannot be read is found before anything is trained: every image is decoded once, in threads, and each that fails
is a problem of its own.
"""

import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertctl import signals
from bertctl.console import Progress
from bertctl.errors import BertctlError

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
DEEP_MODES = ("I", "F")  # and I;16, I;16B, ...: turned into 8 bits they would be cut off at 255, not scaled
LONGEST_REASON = 100  # characters of a library's message
AT_ONCE = 1024  # images checked between two looks at signals


@dataclass(frozen=True, slots=True)
class ImageFile:
    """One image: the file `path`, or the bytes `data`; `where` is what messages call it."""

    where: str
    path: Path | None = None
    data: bytes | None = None

    def read(self) -> bytes:
        """Its bytes, still encoded. Errors: BertctlError if there is no such file."""
        if self.data is not None:
            return self.data
        try:
            return Path(str(self.path)).read_bytes()
        except OSError as error:
            raise BertctlError(f"{self.where}: cannot be read: {error.strerror or error}") from None


def is_image(path: Path) -> bool:
    """Whether a name ends like that of an image, and is no hidden file."""
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def pillow() -> Any:
    """Pillow's module `Image`. Errors: BertctlError if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise BertctlError("images need Pillow, which is not installed", hint="pip install 'bertctl[images]'") from None
    return Image


def decode(raw: bytes, where: str, channels: int) -> "Image":
    """An image of 8 bits in 1 (grey) or 3 (RGB) channels, turned as its camera noted; of several frames the first.

    Errors: BertctlError for bytes that are no image, that end too early, or that have more than 8 bits.
    """
    image_module = pillow()
    from PIL import ImageOps

    try:
        with image_module.open(io.BytesIO(raw)) as image:
            if image.mode.split(";")[0] in DEEP_MODES:
                raise BertctlError(f"{where}: got an image of mode {image.mode}, expected 8 bits a channel")
            return ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    except image_module.UnidentifiedImageError:
        reason = "in a format that is not known" if raw else "in an empty file"
    except (OSError, ValueError, SyntaxError, EOFError, image_module.DecompressionBombError) as error:
        reason = str(error)[:LONGEST_REASON] or type(error).__name__
    raise BertctlError(f"{where}: got no image that can be read ({reason})")


def check_images(files: Sequence[ImageFile], problems: list[str]) -> list[str]:
    """SHA-256 of each file, hexadecimal; a problem for each that is missing or broken. Errors: Stopped."""
    pillow()
    digests: list[str] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, Progress("checking images", "images", len(files)) as progress:
        for begin in range(0, len(files), AT_ONCE):
            signals.check("checking images")
            for digest, problem in pool.map(_check, files[begin : begin + AT_ONCE]):
                digests.append(digest)
                problems.extend([problem] if problem is not None else [])
            progress.update(len(digests))
    return digests


def _check(file: ImageFile) -> tuple[str, str | None]:
    """(digest, what is wrong)."""
    try:
        raw = file.read()
        decode(raw, file.where, 3)
    except BertctlError as error:
        return "", error.problems[0]
    return hashlib.sha256(raw).hexdigest(), None
