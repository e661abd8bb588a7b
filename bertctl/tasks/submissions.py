"""What any other system predicted, read as this task's own predictions, so that they are scored by the same rules.

Answers go by id where the examples have ids and the file names them (see matching.py), and otherwise in the order of
the examples, of which there must then be as many. A file that `evaluate` or `predict` wrote is one of these.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.errors import BertctlError, raise_problems
from bertctl.tasks.config import DataSection
from bertctl.tasks.matching import Said, matched
from bertctl.tasks.questions import IDS as QUESTION_IDS
from bertctl.tasks.tables import Table, format_of, json_kind, parse_json, read_table, read_text
from bertctl.tasks.task import Prediction
from bertctl.tasks.values import IDS, clean_text, id_in, is_number

ROUNDED = 0.02  # how far from 1 probabilities may be that were written with few digits


@dataclass(frozen=True)
class Records:
    """A submission of one record an example: JSONL, CSV, TSV, Parquet, or one JSON object of id -> answer."""

    columns: tuple[str, ...]
    """The usual names of the column with the answer, the one that this task writes first."""
    prediction: Callable[[Any, Mapping[str, Any], Any, DataSection], Prediction]
    """(answer, whole record, example, data) -> prediction. Errors: ValueError: got ..., expected ..."""
    absent: Callable[[Any], Prediction | None] = lambda _: None
    """Example -> what counts as its prediction if the file has none; None: it must have one."""

    def __call__(self, path: Path, examples: Sequence[Any], data: DataSection, problems: list[str]) -> list[Prediction]:
        """One prediction an example, in the order of the examples."""
        table = read_records(path, self.columns[0], problems)
        column = table.column(None, self.columns)
        if not table.rows or column is None:
            if table.rows:
                have = ", ".join(map(repr, table.columns))
                problems.append(f"{path}: got the columns {have}, expected one of {', '.join(self.columns)}")
            return []
        name = table.column(None, (*QUESTION_IDS, *IDS))
        said = [Said(id_in(row, name), table.place(line), (line, row)) for line, row in table.rows]
        must = any(self.absent(example) is None for example in examples)
        rows = matched(str(path), said, examples, problems, all_known=must and takes_all(data), all_said=must)
        found = []
        for example, row in zip(examples, rows, strict=False):
            if row is not None:
                found.append(self._made(table.place(row[0]), row[1], column, example, data, problems))
            else:
                found.append(self.absent(example) or {})  # {}: among the problems
        return found

    def _made(
        self, place: str, row: Mapping[str, Any], column: str, example: Any, data: DataSection, problems: list[str]
    ) -> Prediction:
        try:
            return self.prediction(row.get(column), row, example, data)
        except ValueError as error:
            problems.append(f"{place}: {error} (column {column!r})")
            return {}


def read_records(path: Path, answer: str, problems: list[str]) -> Table:
    """The records of a file; those of one JSON object of id -> answer have the columns id and `answer`."""
    kind = format_of(path, "auto", otherwise="jsonl")
    if path.suffix.lower() == ".json":
        text = read_text(path)
        try:
            value = parse_json(text)
        except (ValueError, RecursionError):
            value = None  # maybe one object a line
        if isinstance(value, dict) and len(value) > 0 and "id" not in value:
            rows = [(1, {"id": key, answer: one}) for key, one in value.items()]
            return Table(str(path), ["id", answer], rows)
    if kind in ("conll", "conllu"):
        problems.append(f"{path}: got columns of words, expected one answer an example")
        return Table(str(path), [], [])
    return read_table(path, kind, header=True, problems=problems)


def takes_all(data: DataSection) -> bool:
    """Whether every example of the data is scored, and not some that were drawn."""
    return all(getattr(data, f"{split}_examples") is None for split in ("train", "dev", "test"))


def label(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """{"label"}, with "probabilities" of all labels if the record has them. Errors: ValueError."""
    shares = shares_of(row)
    total = sum(shares.get("probabilities", {"": 1.0}).values())
    if abs(total - 1) > ROUNDED:
        raise ValueError(f"got `probabilities` that sum to {total:.4g}, expected those of all labels, which sum to 1")
    return {"label": name_of(value, data)} | shares


def labels(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """{"labels"}, with "probabilities" if the record has them."""
    if isinstance(value, str) and data.label_separator is not None:
        value = [part.strip() for part in value.split(data.label_separator) if part.strip()]
    if not isinstance(value, list):
        raise ValueError(f"got {json_kind(value)}, expected a list of labels")
    return {"labels": list(dict.fromkeys(name_of(one, data) for one in value))} | shares_of(row)


def number(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """{"value"}."""
    return {"value": number_in(value)}


def choice(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """{"choice"}: a number from 0 among the choices of the example."""
    found, most = number_in(value), len(example.choices)
    if found != int(found) or not 0 <= found < most:
        raise ValueError(f"got {value!r}, expected a choice from 0 to {most - 1}")
    return {"choice": int(found)}


def answer(value: Any, row: Mapping[str, Any], example: Any, data: DataSection) -> Prediction:
    """{"id", "answer"}; "" says that there is none."""
    if not isinstance(value, str):
        raise ValueError(f"got {json_kind(value)} for the question {example.id}, expected text")
    return {"id": example.id, "answer": clean_text(value)} | doubt_of(row)


def doubt_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a record of our own says of no answer: `null_difference`, and the best answer among `n_best`. Errors:
    ValueError if it has the first without the second."""
    if row.get("null_difference") is None:
        return {}
    listed = row.get("n_best")
    spoken = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    kept = [one for one in spoken if one.get("start") is not None and isinstance(one.get("text"), str)]
    if not kept:
        raise ValueError("got `null_difference` and no answer in `n_best`, expected both as predictions.jsonl has them")
    best = {"text": clean_text(kept[0]["text"]), "start": kept[0]["start"]}
    return {"null_difference": number_in(row["null_difference"]), "n_best": [best]}


def no_answer_at_all(example: Any) -> Prediction:
    """A question that a file passes over: wrong, whatever its answer is."""
    return {"id": example.id, "answer": None}


def with_no_answer(predictions: Sequence[Prediction], path: Path, threshold: float) -> list[Prediction]:
    """Answers with `no_answer_probability`, from a JSON object of id -> number. One above `threshold` becomes "", and
    `answer_if_any` is what it was. Errors: BertctlError naming every id that has no number."""
    text = read_text(path)
    try:
        found = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise BertctlError(f"{path}: got bad JSON ({error}), expected an object of id -> number") from None
    if not isinstance(found, dict):
        raise BertctlError(f"{path}: got {json_kind(found)}, expected an object of id -> number")
    rows, problems = [], []
    for row in predictions:
        try:
            sure = number_in(found.get(row["id"]))
        except ValueError as error:
            problems.append(f"{path}: the id {row['id']!r}: {error}")
            continue
        said = "" if row["answer"] is not None and sure > threshold else row["answer"]
        rows.append(row | {"answer": said, "answer_if_any": row["answer"], "no_answer_probability": sure})
    raise_problems(problems)
    return rows


def name_of(value: Any, data: DataSection) -> str:
    """A label as the data spell it. Errors: ValueError."""
    if value is None or value == "" or not isinstance(value, (str, bool, int)):
        raise ValueError(f"got {'an empty cell' if value == '' else json_kind(value)}, expected a label")
    if isinstance(value, bool):
        return "true" if value else "false"
    text, names = clean_text(str(value)), data.label_names
    return names[int(text)] if text.isascii() and text.isdecimal() and int(text) < len(names) else text


def number_in(value: Any) -> float:
    """A finite number, or its digits. Errors: ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    if isinstance(value, str) and is_number(value):
        return float(value)
    raise ValueError(f"got {value if isinstance(value, (int, float)) else json_kind(value)}, expected a finite number")


def shares_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """{"probabilities": {name: p}} of a record that has them. Errors: ValueError if they are none."""
    shares = row.get("probabilities")
    if shares is None:
        return {}
    if not isinstance(shares, dict) or not all(0 <= number_in(share) <= 1 for share in shares.values()):
        raise ValueError("got other `probabilities`, expected an object of label -> number from 0 to 1")
    return {"probabilities": {clean_text(name): number_in(share) for name, share in shares.items()}}


LABEL = Records(("label", "prediction", "predicted", "class"), label)
LABELS = Records(("labels", "prediction", "predictions", "predicted"), labels)
NUMBER = Records(("value", "score", "prediction", "predicted", "label"), number)
CHOICE = Records(("choice", "prediction", "predicted", "label"), choice)
ANSWER = Records(("answer", "prediction_text", "prediction", "text"), answer, absent=no_answer_at_all)
