"""What vectors of texts are trained and tested on: pairs, triplets, scored pairs, and queries with a corpus.

Which of them a file holds is said by its columns: a score makes scored pairs, negatives make triplets.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertctl.errors import raise_problems
from bertctl.tasks.classification import LABELS
from bertctl.tasks.config import DataSection
from bertctl.tasks.scored_pairs import read_scored_table
from bertctl.tasks.tables import Table
from bertctl.tasks.texts import PAIRS, find_column
from bertctl.tasks.values import IDS, id_in, number_of, text_of

ANCHORED = (
    ("anchor", "positive"),
    ("query", "positive"),
    ("query", "pos"),
    ("question", "positive"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "answer"),
    ("question", "passage"),
    ("question", "answer"),
)
"""Names of two columns of which the second belongs to the first."""
ANCHORS = ("anchor", "query", "question", "sentence1", "text")
POSITIVES = ("positive", "pos", "passage", "document", "answer", "sentence2", "text_pair")
SCORES = ("score", "similarity_score", "similarity", "relatedness_score")
NEGATIVES = re.compile(r"(hard_)?neg(ative)?s?(_?\d+)?", re.IGNORECASE)
ALONE = ("text", "query", "anchor", "question", "sentence")
Cells = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts that are searched; `ids` are distinct. `places` say where each text stands."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A text for which a corpus is ranked. `grades`: document id -> how relevant it is; `left_out`: documents that are
    the query itself; `triplets`: (right, wrong) documents that stand in one record with it."""

    id: str
    text: str
    grades: Mapping[str, float]
    corpus: Corpus
    where: str
    left_out: frozenset[str] = frozenset()
    triplets: tuple[tuple[str, str], ...] = ()

    def place(self, role: int = 0) -> str:
        """`file:line` of the query, or of document `role` - 1."""
        return self.corpus.places[role - 1] if role else self.where


@dataclass(frozen=True, slots=True)
class PairExample:
    """A text with one that belongs to it and others that do not, or two texts with a score of how alike they are; for
    `predict` also a text alone. `query`: the judged query that a pair was drawn from; `id`: what the data call it."""

    anchor: str
    positive: str | None
    where: str
    negatives: tuple[str, ...] = ()
    score: float | None = None
    query: QueryExample | None = field(default=None, repr=False)
    id: str | None = None

    def place(self, role: int = 0) -> str:
        """`file:line` of the record."""
        return self.where


def read_file(path: Path, data: DataSection, labelled: bool, problems: list[str]) -> list[PairExample]:
    """The pairs of a CSV, TSV, JSONL or Parquet file, or of one of the forms of the STS benchmark."""
    return read_rows(read_scored_table(path, data, problems), data, labelled, problems)


def read_rows(table: Table, data: DataSection, labelled: bool, problems: list[str]) -> list[PairExample]:
    """The pairs of a table, several of a record whose positive is a list; problems if a column is missing, a text is
    no text or a score no number."""
    if not table.rows:
        return []
    first, second, generic = _pair_columns(table, data, problems)
    wrong = _negative_columns(table, data, problems)
    score = _score_column(table, data, problems, generic and not wrong) if second is not None else None
    if first is None or second is None or (score is not None and wrong):
        if score is not None and wrong:
            problems.append(f"{table.place(1)}: got the score {score!r} and the negative {wrong[0]!r}, expected one")
        return []
    examples, name = [], table.column(None, IDS)
    for line, row in table.rows:
        place = table.place(line)
        anchor = text_of(row.get(first), place, first, problems)
        negatives = tuple(text for column in wrong for text in _texts(row, column, place, problems))
        number = None if score is None else number_of(row.get(score), place, score, problems)
        positives = _texts(row, second, place, problems)
        if not positives:
            problems.append(f"{place}: got no text in the column {second!r}, expected at least one")
        for positive in positives:
            examples.append(PairExample(anchor, positive, place, negatives, number, id=id_in(row, name)))
    return examples


def _pair_columns(table: Table, data: DataSection, problems: list[str]) -> tuple[str | None, str | None, bool]:
    """(anchor, positive, whether they have the names of any two texts); as the recipe names them, else as usual."""
    wanted = data.columns
    if wanted.text is None and wanted.text_pair is None:
        for number, names in enumerate((*ANCHORED, *PAIRS)):
            first, second = (table.column(None, [name]) for name in names)
            if first is not None and second is not None:
                return first, second, number >= len(ANCHORED)
    first = find_column(table, "text", wanted.text, ANCHORS, problems)
    return first, find_column(table, "text_pair", wanted.text_pair, POSITIVES, problems), False


def _negative_columns(table: Table, data: DataSection, problems: list[str]) -> list[str]:
    if data.columns.negatives:
        named = [find_column(table, "negatives", column, (), problems) for column in data.columns.negatives]
        return [name for name in named if name is not None]
    return [name for name in table.columns if NEGATIVES.fullmatch(name)]


def _score_column(table: Table, data: DataSection, problems: list[str], labels_matter: bool) -> str | None:
    """The column of scores, if there is one. Any two texts with a label may be anything but pairs that belong together,
    and a label is no score unless the recipe says so."""
    if data.columns.label is not None:
        return find_column(table, "label", data.columns.label, (), problems)
    score = table.column(None, SCORES)
    label = table.column(None, LABELS)
    if score is None and label is not None and labels_matter:
        problems.append(
            f"{table.place(1)}: got two texts and the column {label!r}, expected a score: `columns.label: {label}` if "
            "that is one, `columns.text` and `columns.text_pair` if the two always belong together"
        )
    return score


def _texts(row: Cells, column: str, place: str, problems: list[str]) -> list[str]:
    """The texts of a cell: one, or a list of them; an absent cell of JSONL has none."""
    value = row.get(column)
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [text_of(one, place, column, problems) for one in values]


def input_example(record: str | Cells, data: DataSection, where: str) -> PairExample:
    """A line, or an object with one text or a pair, without score. Errors: BertctlError naming what is missing."""
    columns = {"text": record} if isinstance(record, str) else dict(record)
    table, problems = Table.of_record(where, columns), list[str]()
    first, second, _ = _pair_columns(table, data, list[str]())
    if first is None or second is None:
        first = find_column(table, "text", data.columns.text, ALONE, problems)
        second = None
    texts = [
        "" if column is None else text_of(columns.get(column), where, column, problems) for column in (first, second)
    ]
    raise_problems(problems)
    return PairExample(texts[0], None if second is None else texts[1], where)


def finish(splits: Mapping[str, list[Any]], data: DataSection, problems: list[str]) -> dict[str, list[Any]]:
    """All examples of a split are of one kind, and dev and test of the same; else one number could not say how good
    the vectors are. Train may be of another kind: triplets to learn from, scored pairs to choose by."""
    kinds = {}
    for split, examples in splits.items():
        found = {_kind(example): example for example in reversed(examples)}
        if len(found) > 1:
            (one, first), (other, second) = sorted(found.items())[:2]
            problems.append(f"{second.where}: got {other} after {one} ({first.where}), expected one kind in {split}")
        kinds[split] = next(iter(found), None)
    if kinds.get("dev") and kinds.get("test") and kinds["dev"] != kinds["test"]:
        problems.append(f"{splits['test'][0].where}: got {kinds['test']}, expected {kinds['dev']} as in dev")
    return dict(splits)


def _kind(example: PairExample | QueryExample) -> str:
    """What an example is judged by."""
    return "scored pairs" if isinstance(example, PairExample) and example.score is not None else "pairs or queries"


def scored(examples: Sequence[Any]) -> list[Any]:
    """Examples of dev or test as they are scored: a pair becomes a query for which the positives and negatives of all
    these pairs are ranked, or, if it was drawn from a judged query, that query with its corpus."""
    if not examples or not all(isinstance(example, PairExample) and example.score is None for example in examples):
        return list(examples)
    judged = {example.query.id: example.query for example in examples if example.query is not None}
    return list(judged.values()) if judged else as_queries(examples)


def as_queries(pairs: Sequence[PairExample]) -> list[QueryExample]:
    """One query a pair; equal texts are one candidate, whose id is where it stands first. Positives of an anchor that
    occurs in several pairs are right for all of them."""
    ids: dict[str, str] = {}
    right: dict[str, dict[str, float]] = {}
    for pair in pairs:
        for number, text in enumerate([pair.positive or "", *pair.negatives]):
            ids.setdefault(text, f"{pair.where}:{number + 1}")
        right.setdefault(pair.anchor, {})[ids[pair.positive or ""]] = 1.0
    corpus = Corpus(tuple(ids.values()), tuple(ids), tuple(ids.values()))
    queries, records = [], Counter[str]()
    for pair in pairs:
        records[pair.where] += 1
        name = pair.where if records[pair.where] == 1 else f"{pair.where}#{records[pair.where]}"
        grades = right[pair.anchor]
        itself = {ids[pair.anchor]} - grades.keys() if pair.anchor in ids else set()
        own = ids[pair.positive or ""]
        triplets = tuple((own, ids[text]) for text in pair.negatives if ids[text] not in grades)
        queries.append(QueryExample(name, pair.anchor, grades, corpus, pair.where, frozenset(itself), triplets))
    return queries


def gold(example: PairExample | QueryExample) -> list[tuple[str, str]]:
    """(score or relevant document, place); nothing for a pair, whose texts are not labelled with each other."""
    if isinstance(example, QueryExample):
        return [(document, example.where) for document, grade in example.grades.items() if grade > 0]
    return [] if example.score is None else [(repr(example.score), example.where)]


def truth(example: PairExample | QueryExample) -> Any:
    """The score, the grades of the judged documents, or the positive and the negatives."""
    if isinstance(example, QueryExample):
        return dict(example.grades)
    return [example.positive, *example.negatives] if example.score is None else example.score


def key(example: PairExample | QueryExample) -> tuple[str, ...]:
    """The query or anchor; of a scored pair both texts."""
    if isinstance(example, QueryExample):
        return (example.text,)
    return (example.anchor,) if example.score is None else (example.anchor, example.positive or "")
