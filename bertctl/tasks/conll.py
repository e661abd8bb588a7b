"""Sentences in columns: CoNLL files, parted by tabs or blanks as the file has them, and CoNLL-U.

CRLF and a missing final line end read the same as LF; `-DOCSTART-` lines are document marks and no sentences. Words
stand in the first column and tags in the last, unless the recipe says otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertctl import console, signals
from bertctl.tasks.config import Column, DataSection
from bertctl.tasks.tables import lines_of, read_text
from bertctl.tasks.task import TokenExample
from bertctl.tasks.values import clean_text

DOCUMENT_MARK = "-DOCSTART-"
BLANKS = " \t"
CONLLU_COLUMNS = {"form": 2, "lemma": 3, "upos": 4, "xpos": 5, "deprel": 8}
CONLLU_WIDTH = 10
SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(\S.*?)\s*")


@dataclass
class Layout:
    """Where things stand in a line: `separator` None means runs of blanks; columns count from 0, tags may be absent."""

    separator: str | None
    width: int
    words: int
    tags: int | None
    first_line: int

    def cells(self, line: str) -> list[str]:
        """The columns of a line."""
        return line.split("\t") if self.separator else [cell for cell in line.split(" ") if cell]


def read_conll(
    path: Path, data: DataSection, labelled: bool, problems: list[str], *, last_is_meant: bool
) -> list[TokenExample]:
    """The sentences of a CoNLL file. `last_is_meant`: whether the last of more than two columns is what the task tags.

    Errors: BertctlError if the file cannot be decoded; what is wrong in it goes to `problems`.
    """
    lines = lines_of(read_text(path))
    layout = _layout(path, lines, data, labelled, problems, last_is_meant)
    if layout is None:
        return []
    sentences = [_sentence(path, block, layout, problems) for block in _blocks(lines)]
    found = [sentence for sentence in sentences if sentence is not None]
    if len(found) == 1 and sum(" " in word.strip() for word in found[0].words) > len(found[0].words) / 2:
        problems.append(f"{path}:{found[0].lines[0]}: got a whole text in a line, expected one word and its tag a line")
    elif len(found) == 1 and len(found[0].words) > 1:
        console.warn(f"{path}: no blank line parts sentences, so this is 1 sentence of {len(found[0].words)} words")
    return found


def _layout(
    path: Path, lines: list[str], data: DataSection, labelled: bool, problems: list[str], last_is_meant: bool
) -> Layout | None:
    first = next(((number, line) for number, line in enumerate(lines, 1) if not _is_border(line)), None)
    if first is None:
        problems.append(f"{path}:1: got no sentence, expected a word and its tag a line")
        return None
    number, line = first
    layout = Layout("\t" if "\t" in line else None, 0, 0, None, number)
    layout.width = len(layout.cells(line))
    words = _position(data.columns.tokens, 0, layout.width)
    last = layout.width - 1 if layout.width > 1 else None
    tags = _position(data.columns.tags, last, layout.width) if labelled else None
    if labelled and (layout.width == 1 or _is_running_text(lines, layout)):
        got = "one column" if layout.width == 1 else "running text, of as many words a line as it has"
        problems.append(f"{path}:{number}: got {got}, expected a word and its tag a line, parted by a tab or blanks")
        return None
    if words is None or (labelled and (tags is None or tags == words)):
        problems.append(
            f"{path}:{number}: got {layout.width} columns parted by tabs or blanks, expected a word and its tag; "
            "`data.columns.tokens` and `data.columns.tags` name their positions"
        )
        return None
    if labelled and data.columns.tags is None and layout.width > 2 and not last_is_meant:
        problems.append(
            f"{path}:{number}: got {layout.width} columns, expected `columns.tags` to say which one is meant"
        )
        return None
    layout.words, layout.tags = words, tags
    return layout


def _is_running_text(lines: Sequence[str], layout: Layout) -> bool:
    """Whether most lines have another number of columns than the first one: sentences, and no columns at all."""
    widths = [len(layout.cells(line)) for line in lines if not _is_border(line)]
    return layout.separator is None and sum(width != layout.width for width in widths) > len(widths) / 2


def _position(wanted: Column | None, usual: int | None, width: int) -> int | None:
    """A column as a place from 0; None if there is no such column."""
    if wanted is None:
        return usual
    return wanted - 1 if isinstance(wanted, int) and wanted <= width else None


def _is_border(line: str) -> bool:
    return not line.strip(BLANKS) or line.split("\t", 1)[0].split(" ", 1)[0] == DOCUMENT_MARK


def _blocks(lines: list[str]) -> Iterator[list[tuple[int, str]]]:
    """Runs of lines between blank lines and document marks, with their numbers."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if not _is_border(line):
            block.append((number, line))
        elif block:
            signals.check("reading labelled data")
            yield block
            block = []


def _sentence(path: Path, block: list[tuple[int, str]], layout: Layout, problems: list[str]) -> TokenExample | None:
    words, tags, sound = [], [], True
    for number, line in block:
        cells = layout.cells(line)
        if len(cells) != layout.width:
            expected = (
                f"{layout.width}, parted by {'tabs' if layout.separator else 'blanks'} as in line {layout.first_line}"
            )
            problems.append(f"{path}:{number}: got {len(cells)} columns, expected {expected}")
        elif not cells[layout.words].strip():
            problems.append(f"{path}:{number}: got an empty word, expected a word and its tag")
        elif layout.tags is not None and not cells[layout.tags].strip():
            problems.append(f"{path}:{number}: got an empty tag, expected a word and its tag")
        else:
            words.append(clean_text(cells[layout.words]))
            tags.append(cells[layout.tags].strip() if layout.tags is not None else "")
            continue
        sound = False
    if not sound:
        return None
    return TokenExample(
        tuple(words), None if layout.tags is None else tuple(tags), str(path), tuple(n for n, _ in block)
    )


def read_conllu(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[TokenExample]:
    """The sentences of a CoNLL-U file with UPOS, or the column that the recipe names; multiword tokens (`1-2`) and
    empty nodes (`8.1`) carry no tag of their own and are skipped. Problems and errors: as `read_conll`.
    """
    column = data.columns.tags or "upos"
    place = column if isinstance(column, int) else CONLLU_COLUMNS.get(column.lower(), 0)
    if not 1 <= place <= CONLLU_WIDTH:
        problems.append(f"columns.tags: got {column!r}, expected one of {', '.join(CONLLU_COLUMNS)} or a position")
        return []
    layout = Layout("\t", CONLLU_WIDTH, CONLLU_COLUMNS["form"] - 1, place - 1 if labelled else None, 1)
    examples = []
    for block in _blocks(lines_of(read_text(path))):
        rows = [(number, line) for number, line in block if not line.startswith("#")]
        rows = [(number, line) for number, line in rows if line.split("\t", 1)[0].isdecimal() or line.count("\t") != 9]
        sentence = _sentence(path, rows, layout, problems) if rows else None
        if sentence is not None:
            examples.append(replace(sentence, id=_sentence_id(block)))
    if not examples and not problems:
        problems.append(f"{path}:1: got no sentence, expected ten columns as in CoNLL-U")
    return examples


def _sentence_id(block: list[tuple[int, str]]) -> str | None:
    """What the comment `# sent_id = ...` says."""
    said = (SENTENCE_ID.fullmatch(line) for _, line in block if line.startswith("#"))
    return next((clean_text(match[1]) for match in said if match), None)


def looks_like_conllu(path: Path) -> bool:
    """Whether the first line that is no comment has the ten columns of CoNLL-U and counts from 1."""
    lines = lines_of(read_text(path))
    first = next((line for line in lines if line.strip() and not line.startswith("# ")), "")
    return first.count("\t") == CONLLU_WIDTH - 1 and first.startswith(("1\t", "1-"))
