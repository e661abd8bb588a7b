"""Which answer of a file belongs to which example: by id where both have ids, whatever the order, else in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertctl import console


@dataclass(frozen=True, slots=True)
class Said:
    """An answer of a file: the id that stands with it, where it stands, and what it is."""

    id: str | None
    place: str
    answer: Any


def matched(
    where: str, said: Sequence[Said], examples: Sequence[Any], problems: list[str], *, all_known: bool, all_said: bool
) -> list[Any]:
    """The answer to each example, None where the file `where` has none.

    Appends to problems: another number of answers than of examples, if they go in order; else ids that are missing or
    come twice, with `all_known` those that no example has, and with `all_said` examples without an answer.
    """
    known = distinct_ids(examples)
    if not known or all(one.id is None for one in said):
        return in_order(where, said, examples, problems)
    found = by_id(said, problems)
    strange = [one for one in said if one.id is not None and one.id not in set(known)]
    missing = [name for name in known if name not in found]
    if strange and len(missing) < len(known) and not all_known:
        console.warn(f"{where}: {len(strange):,} of its ids belong to no example, such as {strange[0].id!r}")
    elif all_known or len(missing) == len(known):
        expected = f"expected ids of the data, such as {known[0]!r}"
        problems.extend(f"{one.place}: got the id {one.id!r}, {expected}" for one in strange)
    if missing and all_said:
        place = examples[known.index(missing[0])].place()
        count = f"{len(missing):,} of {len(known):,} examples"
        problems.append(f"{where}: got no prediction for {count}, such as {missing[0]!r} ({place}), expected one each")
    return [found.get(name) for name in known]


def distinct_ids(examples: Sequence[Any]) -> list[str]:
    """The ids of the examples; none if one has no id, or two have the same."""
    ids = [getattr(example, "id", None) for example in examples]
    return [] if None in ids or len(set(ids)) < len(ids) else [str(one) for one in ids]


def in_order(where: str, said: Sequence[Said], examples: Sequence[Any], problems: list[str]) -> list[Any]:
    """The answers as they come; a problem if they are not as many as the examples."""
    if len(said) != len(examples):
        expected = f"expected {len(examples):,} in order, or an id with each here and in the data"
        problems.append(f"{where}: got {len(said):,} predictions, {expected}")
    elif any(one.id is not None for one in said):
        console.note(f"{where}: the data have no distinct ids, so it is read in order, whatever its ids")
    return [one.answer for one in said]


def by_id(said: Sequence[Said], problems: list[str]) -> Mapping[str, Any]:
    """id -> answer; a problem for each record without id, or with one that stood before."""
    found: dict[str, Any] = {}
    for one in said:
        if one.id is None:
            problems.append(f"{one.place}: got a record without id, expected one as in others of this file")
        elif one.id in found:
            problems.append(f"{one.place}: got the id {one.id!r} more than once, expected distinct ids")
        else:
            found[one.id] = one.answer
    return found
