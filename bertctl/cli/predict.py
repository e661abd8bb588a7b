"""`bertctl predict`: no stage but a filter, so it has no recipe. Lines in, a JSON object a line out, in order."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TextIO

import typer

from bertctl import signals
from bertctl.artifacts.folder import environment_faults, whole_file
from bertctl.console import Progress, warn
from bertctl.errors import BertctlError
from bertctl.tasks.tables import ENDINGS


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A checkpoint, or a hub name.")],
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="Lines of text, or of JSONL.")] = "-",
    task: Annotated[str | None, typer.Option("--task", help="If not given, what the checkpoint is for.")] = None,
    output: Annotated[str, typer.Option("--output", help="auto, labels, masks or embeddings.")] = "auto",
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="Candidates for each [MASK].")] = 5,
    pooling: Annotated[
        str | None, typer.Option("--pooling", help="How an embedding is made of tokens: cls, mean or max.")
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--no-normalize", help="Whether embeddings have length 1.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Texts in one forward pass.")] = 32,
    max_length: Annotated[int | None, typer.Option("--max-length", min=3, help="Longest input in word pieces.")] = None,
    long_text: Annotated[
        str | None, typer.Option("--long-text", help="cut, refuse, or read in windows, what is longer.")
    ] = None,
    input_format: Annotated[str, typer.Option("--format", help="auto, text or jsonl.")] = "auto",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to a file, whole or not at all.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show where in the program an error came from.")] = False,
) -> None:
    """Lines or JSONL in, JSONL out: labels, candidates for each [MASK], or embeddings."""
    _check(
        ("--long-text", long_text or "cut", ("cut", "refuse", "windows")),
        ("--format", input_format, ("auto", "text", "jsonl")),
    )
    if input_format == "auto":
        _refuse_tables(file)
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise BertctlError(
            f"--out {out}: {'is a folder' if out.is_dir() else 'there is no such folder'}, expected a file"
        )
    signals.install()
    from bertctl.evaluate.predict import predict as answers  # imports torch

    where = "<stdin>" if file == "-" else file
    options: dict[str, Any] = {
        "task": task,
        "output": output,
        "top_k": top_k,
        "pooling": pooling,
        "format": input_format,
    }
    options |= {"normalize": normalize, "batch_size": batch_size, "max_length": max_length, "long_text": long_text}
    with _open(file) as source:
        rows = answers(model, _lines(source, where), where=where, **options)
        if out is None:
            _write(rows, sys.stdout)
        else:
            with whole_file(out) as temp, temp.open("w", encoding="utf-8") as target:
                _write(rows, target)


def _check(*choices: tuple[str, str, tuple[str, ...]]) -> None:
    """Errors: BertctlError for an option that is not one of its choices."""
    for option, value, known in choices:
        if value not in known:
            raise BertctlError(f"{option}: got `{value}`, expected {' or '.join(known)}")


def _refuse_tables(file: str) -> None:
    """Errors: BertctlError for a table, whose header and labels would be read as text."""
    kind = ENDINGS.get(Path(file).suffix.lower(), "jsonl")
    if kind != "jsonl":
        raise BertctlError(
            f'{file}: got {kind}, expected lines of text, or of JSON objects such as {{"text": ...}}',
            hint="bertctl evaluate scores labelled data; `--format text` takes every line as a text",
        )


def _open(file: str) -> Any:
    if file == "-":
        return nullcontext(signals.standard_input())
    path = Path(file)
    if not path.exists() or path.is_dir():
        raise BertctlError(f"{file}: {'is a folder' if path.is_dir() else 'no such file'}, expected a file or `-`")
    with environment_faults(path):
        return path.open("rb")


def _lines(source: BinaryIO, where: str) -> Iterator[str]:
    """Lines that end at LF only. Errors: BertctlError naming the line that is no UTF-8."""
    for number, line in enumerate(source, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"0x{line[error.start]:02x}"
            raise BertctlError(f"{where}:{number}:{error.start + 1}: got the byte {byte}, expected UTF-8") from None


def _write(rows: Iterator[dict[str, Any]], target: TextIO) -> None:
    """One line a row, with progress beside them where they do not go to a terminal themselves."""
    number = 0
    with nullcontext() if target.isatty() else Progress("predict", "texts") as progress:
        for number, row in enumerate(rows, 1):
            target.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            if progress is not None:
                progress.update(number)
    if not number:
        warn("the input holds no line, so nothing was predicted")
