"""A corpus as a stream of documents: one at a time, in the order given, with the place each came from.

Which files are meant is settled here; what is in a file is read by `corpus_files.py`.
"""

import contextlib
import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from bertctl import console, signals
from bertctl.errors import BertctlError, raise_problems
from bertctl.text import corpus_files
from bertctl.text.config import PYTHON_DOCS, CorpusSection
from bertctl.text.corpus_files import Document, Reading

STDIN = Path("-")
KNOWN_ENDINGS = (".txt", ".text", ".md", ".raw", ".jsonl", ".ndjson", ".parquet")


@dataclass
class Position:
    """How far a reading has come: bytes of its files, as they lie on the disk."""

    before: int = 0
    file: BinaryIO | None = None

    @property
    def bytes(self) -> int:
        """Those of files that were read, and of the one that is being read where the system can tell."""
        inside = 0
        if self.file is not None:
            with contextlib.suppress(OSError):
                inside = os.lseek(self.file.fileno(), 0, os.SEEK_CUR)
        return self.before + inside


def size_of(section: CorpusSection) -> int | None:
    """Bytes of a corpus's files, as they lie on the disk; None if it is not all files."""
    return sum(path.stat().st_size for path in corpus_paths(section.files)) if can_be_read_again(section) else None


def read_corpus(section: CorpusSection, position: Position | None = None) -> Iterator[Document]:
    """Every document of a corpus that has text in it; `position` moves along.

    Errors: BertctlError naming file and line (record, byte) for everything that cannot be read, at the end of the file
    or after 20 problems; and for a corpus without any document.
    """
    empty = True
    for document in _documents(section, position or Position()):
        signals.check("reading the corpus")
        if document.text and not document.text.isspace():
            empty = False
            yield document
    if empty:
        what = section.name or ", ".join(section.files)
        raise BertctlError(f"{what}: got no document with text in it, expected at least one")


def _documents(section: CorpusSection, position: Position) -> Iterator[Document]:
    if section.name == PYTHON_DOCS:
        from bertctl.demo.python_docs import documents

        return (
            Document(corpus_files.whole_characters(text, where, "replace", []), where) for where, text in documents()
        )
    if section.name is not None:
        return _named(section, section.name)
    return _of_files(section, position)


def _of_files(section: CorpusSection, position: Position) -> Iterator[Document]:
    reading = Reading(section.columns, section.document, section.errors)
    for path in corpus_paths(section.files):
        if path == STDIN:
            yield from corpus_files.read(signals.standard_input(), "<stdin>", section.format, reading)
        else:
            kind = corpus_files.format_of(path) if section.format == "auto" else section.format
            size = path.stat().st_size
            with corpus_files.open_decompressed(path) as file:
                position.file = None if kind == "parquet" else file  # which is read from its end
                yield from corpus_files.read(file, str(path), kind, reading)
                position.file, position.before = None, position.before + size


def can_be_read_again(section: CorpusSection) -> bool:
    """Whether a second reading costs only time: files on this machine, but no standard input, pipe or data set."""
    return section.name is None and all(path.is_file() for path in corpus_paths(section.files))


def corpus_paths(files: tuple[str, ...]) -> list[Path]:
    """The files meant by names, folders and patterns: each once, folders and patterns in sorted order.

    Errors: BertctlError listing every name that stands for no file.
    """
    paths: dict[Path, None] = {}
    problems = []
    for name in files:
        found = [STDIN] if name == str(STDIN) else _expand(name)
        paths |= dict.fromkeys(found)
        if not found:
            what = "a folder without files of a known kind" if Path(name).is_dir() else "no such file, folder or match"
            problems.append(f"{name}: {what}; expected text, JSONL or Parquet ({' '.join(KNOWN_ENDINGS)}, +.gz, +.zst)")
    raise_problems(problems)
    return list(paths)


def _expand(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return _known_files(path)
    if path.exists():  # a pipe or /dev/stdin too
        return [path]
    return [Path(match) for match in sorted(glob.glob(name, recursive=True)) if not Path(match).is_dir()]


def _known_files(folder: Path) -> list[Path]:
    """Files of a known kind below `folder`; the others are counted aloud, never read as text by accident."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _hidden(path.relative_to(folder))]
    known = [path for path in files if corpus_files.without_compression(path).endswith(KNOWN_ENDINGS)]
    if known and len(known) < len(files):
        other = next(path for path in files if path not in set(known))
        _tell_left_out(folder, len(files) - len(known), other.name)
    return known


@cache  # once a process: a corpus may be read twice
def _tell_left_out(folder: Path, count: int, example: str) -> None:
    console.note(f"{folder}: left out {count} file{'s' * (count > 1)} of other kinds, such as {example}")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _named(section: CorpusSection, name: str) -> Iterator[Document]:
    """A data set by hub name or local folder, streamed by the `datasets` library."""
    rows = _load_dataset(section, name)
    reading = Reading(section.columns, section.document, section.errors)
    for number, row in enumerate(rows):
        problems: list[str] = []
        text = corpus_files.record_text(row, f"{name}:{section.split}:{number}", reading, problems)
        raise_problems(problems)
        yield Document(text, f"{name}:{section.split}:{number}")


def _load_dataset(section: CorpusSection, name: str) -> Any:
    import datasets

    folder = Path(name)
    try:
        if (folder / "state.json").is_file():
            return datasets.load_from_disk(name)
        if (folder / "dataset_dict.json").is_file():
            return datasets.load_from_disk(name)[section.split]
        return datasets.load_dataset(name, section.subset, split=section.split, streaming=True)
    except Exception as error:  # the library raises many kinds for a name, split or network that is not there
        raise BertctlError(
            f"data set {name}: cannot be opened: {type(error).__name__}: {error}".splitlines()[0],
            hint="give a local folder, or check `subset` and `split`; a hub name needs a network or a filled cache",
        ) from error
