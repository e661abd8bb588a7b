"""Questions about a context whose answers stand in it: what an example is, and how a record becomes one.

Records have `question`, `context`, and `answers` as `datasets` writes them, {"text": [...], "answer_start": [...]}, or
as a list of {"text", "answer_start"}; an empty list says that the context holds no answer. `id` may be left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertctl.errors import raise_problems
from bertctl.tasks.config import DataSection
from bertctl.tasks.tables import Table, json_kind
from bertctl.tasks.texts import find_column
from bertctl.tasks.values import clean_text, text_of

QUESTIONS = ("question", "query")
CONTEXTS = ("context", "passage", "paragraph")
ANSWERS = ("answers", "answer")
IDS = ("id", "qid", "question_id")
FORM = 'expected {"text": [...], "answer_start": [...]} or a list of {"text", "answer_start"}'


@dataclass(frozen=True, slots=True)
class Answer:
    """A text and the code point of the context where it is said to begin."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context, with its gold answers: none if the context holds none; None if nothing is known."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None
    where: str
    """`file:line`, or in a SQuAD file `file: question id`."""
    may_have_none: bool = False
    """Whether some question of this data set has no answer, as in SQuAD 2.0."""

    def place(self) -> str:
        """Where it stands in the data."""
        return self.where


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[QuestionExample]:
    """The examples of a table; problems if a column is missing, a text is no text, answers have another form, or an id
    comes twice."""
    if not table.rows:
        return []
    wanted = data.columns
    question = find_column(table, "text", wanted.text, QUESTIONS, problems)
    context = find_column(table, "text_pair", wanted.text_pair, CONTEXTS, problems)
    answers = find_column(table, "label", wanted.label, ANSWERS, problems) if labelled else None
    if question is None or context is None or (labelled and answers is None):
        return []
    name = table.column(None, IDS)
    examples = []
    for line, row in table.rows:
        place = table.place(line)
        found = None if answers is None else answers_of(row.get(answers), row, place, problems)
        texts = [text_of(row.get(column), place, column, problems) for column in (question, context)]
        number = str(line) if name is None else id_of(row.get(name), place, problems)
        examples.append(QuestionExample(number, texts[0], texts[1], found, place))
    problems.extend(repeated_ids(examples))
    return examples


def id_of(value: Any, place: str, problems: list[str]) -> str:
    """An id as text; a problem if it is neither text nor a whole number."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return clean_text(str(value))
    problems.append(f"{place}: got {json_kind(value)} as the id of a question, expected text")
    return ""


def repeated_ids(examples: Sequence[QuestionExample]) -> list[str]:
    """A problem for each id that comes more than once: predictions are told apart by it."""
    counts = Counter(example.id for example in examples)
    seen: set[str] = set()
    problems = []
    for example in examples:
        if counts[example.id] > 1 and example.id in seen:
            problems.append(f"{example.where}: got the id {example.id!r} more than once, expected distinct ids")
        seen.add(example.id)
    return problems


def answers_of(value: Any, row: Mapping[str, Any], place: str, problems: list[str]) -> tuple[Answer, ...]:
    """The gold answers of a record, checked for form and against its `is_impossible`."""
    pairs = _pairs(value)
    if pairs is None:
        problems.append(f"{place}: got {json_kind(value)} as answers, {FORM}")
        return ()
    found = []
    for text, start in pairs:
        if not isinstance(text, str) or not text:
            got = "an empty text" if text == "" else json_kind(text)
            problems.append(f"{place}: got {got} as an answer, expected text (no answer is an empty list)")
        elif not isinstance(start, int) or isinstance(start, bool):
            problems.append(f"{place}: got {json_kind(start)} as answer_start, expected a whole number")
        else:
            found.append(Answer(clean_text(text), start))
    impossible = row.get("is_impossible")
    if isinstance(impossible, bool) and impossible != (not pairs):
        got = f"is_impossible {str(impossible).lower()} and {len(pairs)} answers"
        problems.append(f"{place}: got {got}, expected answers exactly if it is false")
    return tuple(found)


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """(text, start) of each answer; None if the value has another form."""
    if isinstance(value, list) and all(isinstance(answer, dict) for answer in value):
        return [(answer.get("text"), answer.get("answer_start")) for answer in value]
    if not isinstance(value, dict):
        return None
    texts, starts = value.get("text"), value.get("answer_start")
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        return None
    return list(zip(texts, starts, strict=True))


def finish(
    splits: Mapping[str, list[QuestionExample]], data: DataSection, problems: list[str]
) -> dict[str, list[QuestionExample]]:
    """Every example knows whether its data set has questions without an answer: 2.0 and 1.1 are told apart by that."""
    if not any(example.answers == () for examples in splits.values() for example in examples):
        return dict(splits)
    return {name: [replace(example, may_have_none=True) for example in split] for name, split in splits.items()}


def input_example(record: str | Mapping[str, Any], data: DataSection, where: str) -> QuestionExample:
    """An object with `question` and `context` as an example without answers. Errors: BertctlError for anything else."""
    problems: list[str] = []
    if isinstance(record, str):
        problems.append(
            f'{where}: got text, expected objects with a question and its context: {{"question", "context"}}'
        )
        found = []
    else:
        found = read_rows(Table.of_record(where, record), data, False, problems)
    raise_problems(problems)
    number = found[0].id if any(name in record for name in IDS) else where.rpartition(":")[2]  # of the line
    return replace(found[0], id=number)


def gold(example: QuestionExample) -> list[tuple[str, str]]:
    """(`start:text`, place) of each gold answer, ("", place) if there is none in the context."""
    found = [f"{answer.start}:{answer.text}" for answer in example.answers or ()]
    return [] if example.answers is None else [(answer, example.where) for answer in found or [""]]


def truth(example: QuestionExample) -> list[str]:
    """The texts of the gold answers."""
    return [answer.text for answer in example.answers or ()]


def key(example: QuestionExample) -> tuple[str, str]:
    """The question and its context."""
    return example.question, example.context
