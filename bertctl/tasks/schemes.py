"""How the tags of a data set mark entities: found from them, or checked against the scheme that the recipe names."""

from collections.abc import Collection, Sequence

from bertctl.metrics.tagging import ONE_SPELLING, PREFIXED, ill_formed, split_tag
from bertctl.tasks.config import DataSection
from bertctl.tasks.task import TokenExample

PREFIXES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "IO": "I"}


def settle(examples: Sequence[TokenExample], data: DataSection, problems: list[str]) -> str:
    """The scheme of the gold tags. Appends a problem for each tag without prefix among others, and, unless the recipe
    keeps them, for each entity that the scheme does not write this way."""
    scheme = find_scheme([e.tags for e in examples if e.tags is not None]) if data.scheme == "auto" else data.scheme
    if scheme == "none":
        return scheme
    for example in examples:
        tags = example.tags or ()
        bare = [place for place, tag in enumerate(tags) if tag != "O" and _prefix(tag) not in PREFIXES[scheme]]
        expected = f"expected O, or a prefix of {scheme} ({', '.join(PREFIXES[scheme])}) and a type, as in I-PER"
        problems.extend(f"{example.place(place)}: got the tag {tags[place]!r}, {expected}" for place in bare)
        if data.ill_formed_tags == "refuse" and not bare:
            problems.extend(_ill_formed(example, place, scheme) for place in ill_formed(tags, scheme))
    return scheme


def _ill_formed(example: TokenExample, place: int, scheme: str) -> str:
    tags = example.tags or ()
    before = repr(tags[place - 1]) if place else "the start"
    return (
        f"{example.place(place)}: got {tags[place]!r} after {before}, an entity that {scheme} does not write this way; "
        "expected another tag (`data.ill_formed_tags: keep` takes it as it is)"
    )


def _prefix(tag: str) -> str:
    match = PREFIXED.fullmatch(tag)
    return ONE_SPELLING.get(match[1], match[1]) if match else "?"


def find_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """BIOES if there are E- or S- tags, IO if all are I-, none if none has a prefix, else BIO or IOB1.

    Of the last two the one that fewer entities contradict; BIO if both fit. Tags that are all O count as BIO.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {"O"}
    prefixes = {_prefix(tag) for tag in tags}
    if tags and prefixes == {"?"}:
        return "none"
    if prefixes & {"E", "S"}:
        return "BIOES"
    if prefixes - {"?"} == {"I"}:
        return "IO"
    faults = {scheme: sum(len(ill_formed(tags, scheme)) for tags in sentences) for scheme in ("BIO", "IOB1")}
    return min(faults, key=lambda scheme: faults[scheme])


def complete_labels(tags: Collection[str], scheme: str) -> list[str]:
    """O and every tag that the scheme can write for the types among `tags`: a type that happens to have no I- tag in
    train can have one in dev."""
    types = {split_tag(tag, scheme)[1] for tag in tags} - {""}
    if scheme == "none":
        return ["O", *sorted(types)]
    letters = {tag[0] for tag in tags}
    spellings = ({"E": "L", "S": "U"} if letters & {"L", "U"} else {}) | ({"I": "M"} if "M" in letters else {})
    return ["O", *(f"{spellings.get(p, p)}-{kind}" for kind in sorted(types) for p in PREFIXES[scheme])]


def scheme_of_labels(labels: Sequence[str]) -> str:
    """The scheme that a set of labels can write; IOB1 has the labels of BIO."""
    prefixes = {_prefix(label) for label in labels if label != "O"}
    if "?" in prefixes or not prefixes:
        return "none"
    return "BIOES" if prefixes & {"E", "S"} else "BIO" if "B" in prefixes else "IO"
