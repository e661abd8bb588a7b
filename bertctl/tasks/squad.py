"""SQuAD files, version 1.1 and 2.0: JSON documents of articles, paragraphs and questions; predictions in their form.

Source: arXiv:1606.05250 and arXiv:1806.03822 (2.0: `is_impossible`). `plausible_answers` of questions without an answer
are no gold answers and are not read.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertctl.tasks.config import DataSection
from bertctl.tasks.questions import QuestionExample, answers_of, id_of, read_rows, repeated_ids
from bertctl.tasks.tables import format_of, json_kind, parse_json, read_table, read_text
from bertctl.tasks.task import Prediction
from bertctl.tasks.values import text_of

BEGINS = re.compile(r'\s*\{\s*"(?:data|version)"\s*:')


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[QuestionExample]:
    """The examples of a SQuAD, JSONL or Parquet file; whether JSON is a SQuAD document is told by its content."""
    kind = format_of(path, data.format, otherwise="jsonl")
    if kind not in ("jsonl", "parquet"):
        problems.append(f"{path}: got {kind}, expected questions as SQuAD JSON, JSONL or Parquet")
        return []
    if kind == "jsonl":
        text = read_text(path)
        try:
            document = parse_json(text)
        except (ValueError, RecursionError) as error:
            document = None
            if BEGINS.match(text):
                problems.append(f"{path}:{getattr(error, 'lineno', 1)}: got bad JSON ({error}), expected SQuAD JSON")
                return []
        if isinstance(document, dict) and "data" in document:
            return read_document(path, document, labelled, problems)
    return read_rows(read_table(path, kind, header=True, problems=problems), data, labelled, problems)


def read_document(path: Path, document: dict[str, Any], labelled: bool, problems: list[str]) -> list[QuestionExample]:
    """The examples of a SQuAD document; problems for everything in it that has another form."""
    examples = []
    for where, article in _objects(document, "data", str(path), problems):
        for place, paragraph in _objects(article, "paragraphs", where, problems):
            context = text_of(paragraph.get("context"), place, "context", problems)
            for spot, asked in _objects(paragraph, "qas", place, problems):
                examples.append(_question(path, spot, asked, context, labelled, problems))
    if not examples and not problems:
        problems.append(f"{path}: got no question, expected some")
    problems.extend(repeated_ids(examples))
    return examples


def _objects(
    parent: dict[str, Any], name: str, where: str, problems: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of the list `name`; a problem if it is no list of objects."""
    found = parent.get(name)
    if not isinstance(found, list):
        problems.append(f"{where}: got {json_kind(found)} as {name}, expected a list")
        return
    for number, item in enumerate(found):
        place = f"{where}: {name}[{number}]" if name == "data" else f"{where}.{name}[{number}]"
        if isinstance(item, dict):
            yield place, item
        else:
            problems.append(f"{place}: got {json_kind(item)}, expected an object")


def _question(
    path: Path, spot: str, asked: dict[str, Any], context: str, labelled: bool, problems: list[str]
) -> QuestionExample:
    number = id_of(asked.get("id"), spot, problems)
    place = f"{path}: question {number}" if number else spot
    question = text_of(asked.get("question"), place, "question", problems)
    answers = answers_of(asked.get("answers"), asked, place, problems) if labelled else None
    return QuestionExample(number, question, context, answers, place)


def files(examples: Sequence[QuestionExample], predictions: Sequence[Prediction]) -> Mapping[str, str]:
    """Predictions as SQuAD's own scripts read them, by file name: id -> answer text, and id -> how sure it is, from 0
    to 1, that there is none: the logistic function of `null_difference`, so a threshold on one is one on the other.
    """
    texts = {row["id"]: row["answer"] for row in predictions}
    shares = {row["id"]: logistic(row["null_difference"]) for row in predictions}
    named = {"squad-predictions.json": texts, "squad-no-answer.json": shares}
    return {name: json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n" for name, found in named.items()}


def logistic(difference: float | None) -> float:
    """1 / (1 + exp(-x)); 1 where no answer could be compared with none."""
    if difference is None:
        return 1.0
    return 1 / (1 + math.exp(-difference)) if difference >= 0 else math.exp(difference) / (1 + math.exp(difference))
