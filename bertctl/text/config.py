"""The recipe section that names a corpus: files in one of three formats, or a data set by name."""

from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section

Format = Literal["auto", "text", "jsonl", "parquet"]
Boundary = Literal["blank_line", "line", "file"]
Errors = Literal["strict", "replace"]
PYTHON_DOCS = "python_docs"


class CorpusSection(Section):
    """Where text comes from. Give `files` or `name`, not both."""

    exclusive = (("files", "name"),)

    files: tuple[str, ...] = ()
    """Files, folders (read with their subfolders), patterns such as `data/*.txt.gz`, or `-` for standard input."""
    name: str | None = None
    """`python_docs` (the text that Python itself carries), a data set of the Hugging Face hub, or a folder of one."""
    subset: str | None = None
    """Configuration of a hub data set, as in `wikimedia/wikipedia` with `20231101.en`."""
    split: str = "train"
    """Split of a named data set."""
    columns: tuple[str, ...] = Field(default=("text",), min_length=1)
    """Fields of a record that hold its text; several are put together with a line break between them."""
    format: Format = "auto"
    """Format of all files; `auto` goes by the ending (.jsonl, .ndjson, .parquet; anything else is plain text)."""
    document: Boundary = "blank_line"
    """Where a document ends in plain text. A record of JSONL or Parquet always is one document."""
    errors: Errors = "strict"
    """Bytes that are not UTF-8: `strict` stops and names the place, `replace` puts U+FFFD there."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if not self.files and not self.name:
            raise ValueError("give one of `files` and `name`")
        if self.subset and self.name in (None, PYTHON_DOCS):
            raise ValueError("`subset` belongs to a data set of the hub")
        return self
