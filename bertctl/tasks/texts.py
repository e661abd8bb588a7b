"""One text or a pair of texts: the columns that hold them, and their word pieces between [CLS] and [SEP]."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertctl.errors import BertctlError, raise_problems
from bertctl.tasks.config import Column, DataSection
from bertctl.tasks.tables import Table
from bertctl.tasks.task import Features, TextExample
from bertctl.tasks.values import IDS, id_in, text_of
from bertctl.text.tokenizer import Tokenizer

PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("#1 String", "#2 String"),
    ("sentence_A", "sentence_B"),
    ("text", "text_pair"),
    ("text1", "text2"),
)
LONGEST_NAME = 40  # characters shown of a column name, which is a whole text if there is no header
TEXTS = ("sentence", "text", "sentence1", "review", "content", "question")


def has_header(data: DataSection) -> bool:
    """As the recipe says, else unless a column is named by its position."""
    by_position = any(isinstance(value, int) for value in data.columns.all())
    return not by_position if data.header is None else data.header


def find_texts(table: Table, data: DataSection, problems: list[str]) -> tuple[str | None, str | None]:
    """Names of the columns of the text and its pair: as the recipe names them, else by their usual names."""
    wanted = data.columns
    if wanted.text is None and wanted.text_pair is None:
        for pair in PAIRS:
            first, second = (table.column(None, [name]) for name in pair)
            if first is not None and second is not None:
                return first, second
    text = find_column(table, "text", wanted.text, TEXTS, problems)
    if wanted.text_pair is None:
        return text, None
    return text, find_column(table, "text_pair", wanted.text_pair, (), problems)


def find_column(
    table: Table, what: str, wanted: Column | None, usual: Sequence[str], problems: list[str]
) -> str | None:
    """The name of one column; a problem that lists what is there, if it is not, and of a file also how to name it."""
    found = table.column(wanted, usual)
    if found is None:
        expected = f"the column {wanted!r}" if wanted is not None else f"one of {', '.join(usual)}"
        have = ", ".join(
            repr(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}...") for name in table.columns
        )
        how = f" for `{what}`; set `data.columns.{what}` to a name, or to a position if there is no header"
        got = f"the columns {have}" if table.numbered else f"an object with {have or 'nothing'}"
        problems.append(f"{table.place(1)}: got {got}, expected {expected}{how if table.numbered else ''}")
    return found


def texts_of(
    row: dict[str, Any], text: str, pair: str | None, place: str, problems: list[str]
) -> tuple[str, str | None]:
    """The text of a row and its pair."""
    first = text_of(row.get(text), place, text, problems)
    return first, None if pair is None else text_of(row.get(pair), place, pair, problems)


def read_texts(
    table: Table, data: DataSection, problems: list[str], answer: Callable[[dict[str, Any], str], Any]
) -> list[TextExample]:
    """The examples of a table; `answer`: (row, place) -> what the row is labelled with. Problems if a column is missing
    or a text is no text."""
    text, pair = find_texts(table, data, problems) if table.rows else (None, None)
    if text is None:
        return []
    examples, name = [], table.column(None, IDS)
    for line, row in table.rows:
        place = table.place(line)
        both = texts_of(row, text, pair, place, problems)
        examples.append(TextExample(*both, answer(row, place), place, id_in(row, name)))
    return examples


def unlabelled_text(record: str | Mapping[str, Any], data: DataSection, where: str) -> TextExample:
    """A line of text, or an object with the columns of the task, as an example without label."""
    columns = {"text": record} if isinstance(record, str) else dict(record)
    data = DataSection() if isinstance(record, str) else data
    problems: list[str] = []
    found = read_texts(Table.of_record(where, columns), data, problems, lambda row, place: None)
    raise_problems(problems)
    return found[0]


def segments(example: TextExample) -> tuple[str, ...]:
    """The text, or both texts of a pair."""
    return (example.text,) if example.pair is None else (example.text, example.pair)


def pairs_in(examples: Sequence[Any]) -> bool | None:
    """Whether these are pairs of texts, or single ones; None if they are some of both, or no whole texts."""
    found = {example.pair is not None for example in examples if isinstance(example, TextExample)}
    return found.pop() if len(found) == 1 else None


def other_texts(examples: Sequence[Any], pairs: bool | None, reader: str) -> list[str]:
    """The first single text where `reader` has `pairs`, or pair where it has single texts, as a problem."""
    texts = [example for example in examples if isinstance(example, TextExample)] if isinstance(pairs, bool) else []
    other = next((example for example in texts if (example.pair is not None) is not pairs), None)
    got, has = ("one text", "pairs of texts") if pairs else ("two texts", "single texts")
    return [] if other is None else [f"{other.where}: got {got}, but {reader} {has}"]


def other_than(train: Sequence[Any], examples: Sequence[Any]) -> list[str]:
    """The same where train has the one and dev or test the other."""
    return other_texts(examples, pairs_in(train), "train has")


def refuse_other_texts(
    examples: Sequence[Any], noted: Mapping[str, Any], source: str, stage: str | None = None
) -> None:
    """Errors: BertctlError for a single text where the checkpoint `source` was fine-tuned on pairs, as `noted` in it,
    or a pair where it was on single texts: it would answer, and mean nothing by it. `stage`: whose recipe names the
    columns; None where records are read one by one."""
    pairs = noted.get("pairs")
    columns = ("text_pair=COLUMN  (names the second text)", "text=COLUMN  (reads this one alone)")
    records = ('one object a line, such as {"text": "...", "text_pair": "..."}', "leave out the second text")
    hint = f"--set {stage}.data.columns.{columns[not pairs]}" if stage else records[not pairs]
    raise_problems(other_texts(examples, pairs, f"{source} was fine-tuned on"), hint=hint)


def encode_texts(examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int) -> list[Features]:
    """[CLS] text [SEP] or [CLS] text [SEP] pair [SEP], or as the tokenizer has it; a feature an example, labels None.

    What is too long is cut at its end and counted, of a pair the longer text first, as BERT does.
    """
    ids = iter(tokenizer.encode_ids([text for example in examples for text in segments(example)]))
    features = []
    for place, example in enumerate(examples):
        parts = [next(ids).tolist() for _ in segments(example)]
        pieces = sum(map(len, parts))
        parts = fit(parts, max_length - tokenizer.special_count(len(parts)))
        features.append(Features(*framed(parts, tokenizer), None, place, pieces, pieces - sum(map(len, parts))))
    return features


def framed(parts: Sequence[Sequence[int]], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """(input_ids, token_type_ids) of one or two texts with the tokenizer's special tokens around them."""
    joined = tokenizer.join(*parts)
    return joined.ids, joined.token_type_ids


def fit(parts: list[list[int]], room: int) -> list[list[int]]:
    """One or two texts cut at their ends to `room` pieces together, as if piece by piece, and each time from the longer
    one (of equals, the second).

    Errors: BertctlError if not even one piece of each fits.
    """
    if room < len(parts):
        raise BertctlError(f"got room for {room} word pieces, expected at least {len(parts)}; use a longer max_length")
    if len(parts) == 1:
        return [parts[0][:room]]
    first, second = parts
    kept = min(len(first), max(room - len(second), (room + 1) // 2))
    return [first[:kept], second[: room - kept]]
