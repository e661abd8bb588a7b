"""The corpus for more than one reading: what cannot be read again is kept on disk while it is read first."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bertctl import signals
from bertctl.artifacts.folder import environment_faults
from bertctl.console import Progress
from bertctl.text.config import CorpusSection
from bertctl.text.corpus import Position, can_be_read_again, read_corpus, size_of
from bertctl.text.corpus_files import Document
from bertctl.tokenize.encode import Tally


class Documents:
    """Iterate as often as needed. A spool beside the output has no name, so nothing is left behind however we end."""

    def __init__(self, corpus: CorpusSection, *, readings: int, folder: Path) -> None:
        self.corpus, self.folder = corpus, folder
        self.spools = readings > 1 and not can_be_read_again(corpus)
        self.spool: IO[str] | None = None
        self.size = size_of(corpus)
        self.position = Position()
        self.text_bytes: int | None = None
        """Of all documents, once they were read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.spool is not None:
            self.spool.close()

    def __iter__(self) -> Iterator[Document]:
        self.position = Position()
        if not self.spools:
            return read_corpus(self.corpus, self.position)
        return self._spooled() if self.spool is not None else self._spooling()

    def counted(self, label: str, tally: Tally) -> Iterator[Document]:
        """All documents, counted while they pass; what is left is known of files, and of everything the second time."""
        with Progress(label, "bytes", self.size or self.text_bytes) as progress:
            for document in self:
                tally.read(document.text)
                reached = self.position.bytes if self.size else tally.bytes
                progress.update(reached, f"{tally.documents_read:,} documents")
                yield document
        self.text_bytes = tally.bytes

    def _spooling(self) -> Iterator[Document]:
        with environment_faults(self.folder):
            self.spool = tempfile.TemporaryFile("w+", encoding="utf-8", dir=self.folder)  # noqa: SIM115 - see __exit__
        for document in read_corpus(self.corpus):
            with environment_faults(self.folder):
                self.spool.write(json.dumps([document.text, document.where]) + "\n")
            yield document

    def _spooled(self) -> Iterator[Document]:
        assert self.spool is not None
        self.spool.seek(0)
        for line in self.spool:
            signals.check("reading the corpus")
            yield Document(*json.loads(line))
