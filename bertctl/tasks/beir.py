"""Folders in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels/{train,dev,test}.tsv.

Source: Thakur et al., BEIR, arXiv:2104.08663. As there, a document is its title, a blank and its text, and the document
that has the id of the query is not among the answers to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding_data import Corpus, PairExample, QueryExample
from bertctl.tasks.splits import SPLIT_WORDS
from bertctl.tasks.tables import Table, read_table
from bertctl.tasks.values import clean_text, number_of, text_of

QRELS = ("query-id", "corpus-id", "score")
Judgements = dict[str, dict[str, tuple[float, str]]]
"""Query id -> document id -> (grade, place)."""


@dataclass(frozen=True)
class Texts:
    """Texts by id, with the place of each."""

    texts: dict[str, str]
    places: dict[str, str]


def read_folder(folder: Path, data: DataSection, problems: list[str]) -> dict[str, list[Any]] | None:
    """train: the pairs that are judged relevant, with the documents judged otherwise as negatives; dev and test: the
    queries, each to be answered from the whole corpus. None for a folder of another layout."""
    corpus_file, queries_file, qrels = folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels"
    if not (corpus_file.is_file() and queries_file.is_file() and qrels.is_dir()):
        return None
    documents, queries = _read_texts(corpus_file, problems), _read_texts(queries_file, problems)
    corpus = Corpus(*(tuple(part) for part in (documents.texts, documents.texts.values(), documents.places.values())))
    found: dict[str, list[Any]] = {}
    for split, words in SPLIT_WORDS.items():
        for path in (qrels / f"{word}.tsv" for word in words):
            if path.is_file():
                judged = _judgements(path, documents, queries, problems)
                asked = [_query(name, queries, grades, corpus) for name, grades in judged.items()]
                found[split] = _pairs(asked, judged, documents) if split == "train" else asked
    if not found and not problems:
        problems.append(f"{qrels}: got no train.tsv, dev.tsv or test.tsv, expected one of them")
    return found


def _read_texts(path: Path, problems: list[str]) -> Texts:
    """_id, text and maybe title of every line."""
    found = Texts({}, {})
    for line, row in read_table(path, "jsonl", header=True, problems=problems).rows:
        place = f"{path}:{line}"
        name = text_of(row.get("_id"), place, "_id", problems)
        title = text_of(row.get("title") or "", place, "title", problems)
        if name in found.texts:
            problems.append(f"{place}: got the _id {name!r} again, first in {found.places[name]}")
        found.texts[name] = f"{title} {text_of(row.get('text'), place, 'text', problems)}".strip()
        found.places[name] = place
    return found


def _judgements(path: Path, documents: Texts, queries: Texts, problems: list[str]) -> Judgements:
    """The judgements of a file, queries in the order in which they come in it; those of unknown texts are problems."""
    found: Judgements = {}
    table = read_table(path, "tsv", header=True, problems=problems)
    if not _has_columns(table, problems):
        return found
    for line, row in table.rows:
        place, problems_before = table.place(line), len(problems)
        query, document = (clean_text(row[column]) for column in QRELS[:2])
        for name, known, file in ((query, queries, "queries"), (document, documents, "corpus")):
            if name not in known.texts:
                problems.append(f"{place}: got {name!r}, expected an _id of {file}.jsonl")
        grade = number_of(row["score"], place, "score", problems)
        if len(problems) == problems_before:
            found.setdefault(query, {})[document] = grade, place
    return found


def _has_columns(table: Table, problems: list[str]) -> bool:
    missing = [column for column in QRELS if column not in table.columns]
    if missing and table.rows:
        have = ", ".join(map(repr, table.columns))
        problems.append(f"{table.place(1)}: got the columns {have}, expected {', '.join(QRELS)}")
    return not missing


def _query(name: str, queries: Texts, judged: Mapping[str, tuple[float, str]], corpus: Corpus) -> QueryExample:
    grades = {document: grade for document, (grade, _) in judged.items()}
    where = next(iter(judged.values()))[1]
    return QueryExample(name, queries.texts[name], grades, corpus, where, frozenset({name}))


def _pairs(queries: Sequence[QueryExample], judged: Judgements, documents: Texts) -> list[PairExample]:
    """Every query with each of its relevant documents."""
    pairs = []
    for query in queries:
        wrong = tuple(documents.texts[name] for name, grade in query.grades.items() if grade <= 0)
        for name, (grade, place) in judged[query.id].items():
            if grade > 0:
                pairs.append(PairExample(query.text, documents.texts[name], place, wrong, None, query))
    return pairs
