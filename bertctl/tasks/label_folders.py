"""Texts in folders named after their labels, as the IMDB reviews come: {train,test}/{pos,neg}/*.txt, a text a file.

Source of the layout: Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011, whose folder `unsup` holds
texts without a label.
"""

from pathlib import Path

from bertctl import signals
from bertctl.console import note
from bertctl.tasks.config import DataSection
from bertctl.tasks.splits import split_of
from bertctl.tasks.tables import read_text
from bertctl.tasks.task import TextExample

UNLABELLED = "unsup"


def read_folder(folder: Path, data: DataSection, problems: list[str]) -> dict[str, list[TextExample]] | None:
    """The splits of a folder of folders of texts; None for a folder without any `split/label/*.txt`.

    A text keeps everything that its file holds but a last line end. Errors: BertctlError for a file that is no UTF-8.
    """
    found: dict[str, list[TextExample]] = {}
    for path in sorted(folder.iterdir()):
        split = split_of(path) if path.is_dir() else None
        if split is not None and any(path.glob("*/*.txt")):
            problems.extend([f"{folder}: got two folders for {split}, expected one"] if split in found else [])
            found[split] = _texts(path)
    return found or None


def _texts(folder: Path) -> list[TextExample]:
    examples = []
    for label in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(label.glob("*.txt"))
        if label.name == UNLABELLED:
            note(f"{label}: {len(files):,} texts without a label are left out")
            continue
        for path in files:
            signals.check("reading labelled data")
            examples.append(TextExample(read_text(path).removesuffix("\n"), None, label.name, str(path)))
    return examples
