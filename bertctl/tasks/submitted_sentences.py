"""Tags that any other system gave to the words of the data: by the ids of sentences, or as one row of words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from bertctl.tasks.config import DataSection
from bertctl.tasks.matching import Said, distinct_ids, matched
from bertctl.tasks.submissions import takes_all
from bertctl.tasks.task import Prediction, TokenExample


@dataclass(frozen=True)
class Sentences:
    """A submission of tags in any form that the task reads: CoNLL columns, CoNLL-U, JSONL or Parquet with lists."""

    read_file: Callable[[Path, DataSection, bool, list[str]], list[TokenExample]]

    def __call__(
        self, path: Path, examples: Sequence[TokenExample], data: DataSection, problems: list[str]
    ) -> list[Prediction]:
        """The tags of every sentence; problems where words are not those of the data. In a file without ids it does not
        matter where blank lines stand."""
        said = self.read_file(path, DataSection(label_names=data.label_names), True, problems)
        if problems:
            return []
        if distinct_ids(examples) and any(one.id is not None for one in said):
            answers = [Said(one.id, one.place(), one) for one in said]
            found = matched(str(path), answers, examples, problems, all_known=takes_all(data), all_said=True)
            pairs = [(mine, one) for mine, one in zip(examples, found, strict=True) if one is not None]
            problems.extend(p for mine, one in pairs if (p := difference([mine], [one], str(path))) is not None)
            return [prediction(mine.words, one.tags or ()) for mine, one in pairs]
        other = difference(examples, said, str(path))
        if other is not None:
            problems.append(other)
            return []
        tags = iter([tag for one in said for tag in one.tags or ()])
        return [prediction(mine.words, [next(tags) for _ in mine.words]) for mine in examples]


def prediction(words: Sequence[str], tags: Sequence[str]) -> Prediction:
    """{"tokens", "tags"}."""
    return {"tokens": list(words), "tags": list(tags)}


def difference(mine: Sequence[TokenExample], theirs: Sequence[TokenExample], where: str) -> str | None:
    """The first place where two rows of words differ, as a problem."""
    rows = [[(word, one.place(n)) for one in side for n, word in enumerate(one.words)] for side in (mine, theirs)]
    for own, other in zip_longest(*rows):
        if own is None or other is None or own[0] != other[0]:
            got = f"the word {other[0]!r}" if other else "no more words"
            expected = f"{own[0]!r} as in {own[1]}" if own else "no more words"
            return f"{other[1] if other else where}: got {got}, expected {expected}"
    return None
