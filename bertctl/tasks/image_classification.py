"""Classification of images: one label each, from a head on the class token. Labels, predictions and scores are those of
texts; what is read and how it becomes numbers is here.

A folder holds {train,dev,test}/<label>/<image>, or <label>/<image> alone, or images beside metadata.csv, .jsonl or
.parquet with the columns of a table: `file`, or `image` as `datasets` writes it, and `label`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertctl.console import note
from bertctl.errors import raise_problems
from bertctl.images.files import ImageFile, check_images, is_image
from bertctl.images.processor import ImageProcessor
from bertctl.tasks.classification import LABELS
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import split_of
from bertctl.tasks.tables import ENDINGS, TABLE_FORMATS, Table, format_of, json_kind, read_table
from bertctl.tasks.task import WHOLE, Features, Limits
from bertctl.tasks.texts import find_column, has_header
from bertctl.tasks.values import LabelReader

IMAGES = ("image", "file", "file_name", "filename", "path", "image_path", "img")
METADATA = "metadata"  # what the table of a folder is called, as `datasets` calls it


@dataclass(frozen=True, slots=True)
class ImageExample:
    """An image with its label, None where nothing is known."""

    image: ImageFile
    label: str | None
    where: str
    """The file, or `file:line` of the record."""
    digest: str = ""
    """SHA-256 of its bytes: the same image has the same."""

    def place(self) -> str:
        """Where it stands."""
        return self.where


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[ImageExample]:
    """The examples of a CSV, TSV, JSONL or Parquet file; files that it names are looked for from its folder."""
    kind = format_of(path, data.format, otherwise="csv")
    return read_rows(read_table(path, kind, header=has_header(data), problems=problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[ImageExample]:
    """The examples of a table; problems if a column is missing, an image broken or a label no label."""
    if not table.rows:
        return []
    column = find_column(table, "image", data.columns.image, IMAGES, problems)
    label = find_column(table, "label", data.columns.label, LABELS, problems) if labelled else None
    reader = LabelReader(data.label_names or table.class_names.get(label or "", []), problems)
    if column is None or (labelled and label is None):
        return []
    found = []
    for line, row in table.rows:
        place = table.place(line)
        image = image_of(row.get(column), place, Path(table.where).parent, problems)
        name = None if label is None else reader.name(row.get(label), place, label)
        found += [] if image is None else [ImageExample(image, name, place)]
    return checked(found, problems)


def image_of(cell: Any, place: str, folder: Path, problems: list[str]) -> ImageFile | None:
    """An image by the name of its file, or as `datasets` writes it: {"bytes", "path"}."""
    if isinstance(cell, Mapping) and isinstance(cell.get("bytes"), bytes):
        return ImageFile(place, data=cell["bytes"])
    if isinstance(cell, bytes):
        return ImageFile(place, data=cell)
    name = cell.get("path") if isinstance(cell, Mapping) else cell
    if isinstance(name, str) and name.strip() and "\0" not in name:
        return ImageFile(f"{place}: {name}", folder / name)
    problems.append(f"{place}: got {'an empty cell' if name == '' else json_kind(cell)}, expected an image or its file")
    return None


def read_folder(folder: Path, data: DataSection, problems: list[str]) -> dict[str, list[ImageExample]] | None:
    """The splits of a folder of images; of one without splits everything, as `WHOLE`. None for a folder of tables named
    after splits."""
    entries = sorted(folder.iterdir())
    if any(path.is_file() and split_of(path) and path.suffix.lower() in ENDINGS for path in entries):
        return None
    parts = [(split_of(path), path) for path in entries if path.is_dir() and _holds_images(path)]
    if not any(split for split, _ in parts):
        found = _read_part(folder, data, problems) if _holds_images(folder) else []
        return {WHOLE: found} if found or problems else None
    splits: dict[str, list[ImageExample]] = {}
    for split, path in parts:
        if split is None or split in splits:
            problems.append(f"{path}: got a folder {'for no split' if split is None else f'for {split} again'}")
        else:
            splits[split] = _read_part(path, data, problems)
    return splits


def _holds_images(folder: Path) -> bool:
    return any(is_image(path) for path in folder.rglob("*")) or _metadata(folder) is not None


def _metadata(folder: Path) -> Path | None:
    tables = [path for path in folder.glob(f"{METADATA}.*") if ENDINGS.get(path.suffix.lower()) in TABLE_FORMATS]
    return min(tables, default=None)


def _read_part(folder: Path, data: DataSection, problems: list[str]) -> list[ImageExample]:
    """The images of one folder: those that its table names, or all, labelled by the folders they are in."""
    metadata = _metadata(folder)
    if metadata is not None:
        return read_file(metadata, data, True, problems)
    reader, found, other = LabelReader(data.label_names, problems), [], 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        steps = path.relative_to(folder).parts
        if not is_image(path) or len(steps) == 1:
            other += 1
            continue
        name = reader.name(steps[0], str(path), "folder")
        found.append(ImageExample(ImageFile(str(path), path), name, str(path)))
    if other:
        note(f"{folder}: {other:,} files are no images in a folder named after their label; they are left out")
    return checked(found, problems)


def checked(examples: Sequence[ImageExample], problems: list[str]) -> list[ImageExample]:
    """The examples with their digests; a problem for each image that cannot be read."""
    digests = check_images([example.image for example in examples], problems)
    return [ImageExample(e.image, e.label, e.where, digest) for e, digest in zip(examples, digests, strict=True)]


def image_input(record: str | Mapping[str, Any], data: DataSection, where: str) -> ImageExample:
    """The name of a file, or an object with the columns of a table, as an example without label. Errors: BertctlError
    if it is no name."""
    columns = {IMAGES[1]: record.strip()} if isinstance(record, str) else dict(record)
    problems: list[str] = []
    column = find_column(Table(where, list(columns), []), "image", data.columns.image, IMAGES, problems)
    image = None if column is None else image_of(columns[column], where, Path(), problems)
    raise_problems(problems)
    assert image is not None  # else there was a problem
    return ImageExample(image, None, where)


def key(example: ImageExample) -> tuple[str, ...]:
    """What tells equal images: the digest of their bytes."""
    return (example.digest,)


def encode(
    examples: Sequence[ImageExample], processor: ImageProcessor, label_names: Sequence[str], limits: Limits
) -> list[Features]:
    """One feature an example; its pixels are read whenever a batch needs them, so that no more than a batch is held."""
    number = {name: place for place, name in enumerate(label_names)}
    return [
        Features(
            [],
            [],
            None if example.label is None else number[example.label],
            place,
            pieces=0,
            pixels=partial(processor.pixels, example.image),
        )
        for place, example in enumerate(examples)
    ]


def shown(example: ImageExample) -> dict[str, Any]:
    """What a report shows of an example besides its place."""
    return {"image": example.image.where}
