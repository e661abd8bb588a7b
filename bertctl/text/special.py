"""Special tokens: what they are called in each family, and how they stand around one or two segments.

`[CLS] A [SEP] B [SEP]` (BERT) and `<s> A </s></s> B </s>` (RoBERTa) are data: whoever puts segments together calls
`Tokenizer.join`, or fills arrays by `Template.frame`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BERT_NAMES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_NAMES = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}  # in the order of ids
STYLES = (BERT_NAMES, ROBERTA_NAMES)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where things stand in an input of `length` tokens: segment i from `starts[i]` on, special tokens as (place,
    role); tokens from `second` on belong to the second segment."""

    starts: list[int]
    special: list[tuple[int, str]]
    second: int
    length: int


@dataclass(frozen=True, slots=True)
class Joined:
    """One input of T tokens: `ids` and `token_type_ids` [T]; segment i begins at `starts[i]`."""

    ids: list[int]
    token_type_ids: list[int]
    starts: list[int]


@dataclass(frozen=True)
class Template:
    """Roles (`cls`, `sep`) before the first segment, between two, and at the end.

    `second_type` is the token type of the second segment and of what ends it; all else has type 0.
    """

    before: tuple[str, ...] = ("cls",)
    between: tuple[str, ...] = ("sep",)
    after: tuple[str, ...] = ("sep",)
    second_type: int = 1

    def count(self, segments: int) -> int:
        """Special tokens around 1 or 2 segments."""
        return len(self.before) + len(self.between) * (segments - 1) + len(self.after)

    def frame(self, lengths: Sequence[int]) -> Frame:
        """The places of one or two segments of these lengths, and of what stands around them.

        Errors: ValueError for another number of segments.
        """
        if len(lengths) not in (1, 2):
            raise ValueError(f"got {len(lengths)} segments, expected 1 or 2")
        starts, special, place = [], list(enumerate(self.before)), len(self.before)
        for length, roles in zip(lengths, (self.between, self.after)[-len(lengths) :], strict=True):
            starts.append(place)
            special += enumerate(roles, place + length)
            place += length + len(roles)
        return Frame(starts, special, starts[1] if len(starts) == 2 else place, place)

    def join(self, segments: Sequence[Sequence[int]], ids: Mapping[str, int]) -> Joined:
        """Segments of piece ids in their frame, with the special tokens of `ids` (role -> id)."""
        frame = self.frame([len(segment) for segment in segments])
        joined = [0] * frame.length
        for place, role in frame.special:
            joined[place] = ids[role]
        for start, segment in zip(frame.starts, segments, strict=True):
            joined[start : start + len(segment)] = segment
        types = [0] * frame.second + [self.second_type] * (frame.length - frame.second)
        return Joined(joined, types, frame.starts)


BERT_TEMPLATE = Template()
ROBERTA_TEMPLATE = Template(between=("sep", "sep"), second_type=0)


def special_names(
    settings: Mapping[str, Any],
    tokens: Sequence[str],
    *,
    said: Mapping[str, str] | None = None,
    preferred: Collection[str] = (),
) -> dict[str, str]:
    """Role -> name: as tokenizer_config.json says, else as the rest of the file says, else the usual one that is there
    (among `preferred` first). MPNet has BERT's names among its pieces and RoBERTa's in front: the first counts."""
    given = {role: settings[f"{role}_token"] for role in BERT_NAMES if settings.get(f"{role}_token")}
    names = {role: one["content"] if isinstance(one, dict) else str(one) for role, one in given.items()}
    names = {role: str(name) for role, name in (said or {}).items()} | names
    place = {token: number for number, token in enumerate(tokens)}
    styles = sorted(STYLES, key=lambda style: (names.get("cls") != style["cls"], place.get(style["cls"], len(place))))
    for role in BERT_NAMES:
        usual = [style[role] for style in styles]
        there = [name for name in usual if name in preferred] or [name for name in usual if name in place]
        names.setdefault(role, (there or usual)[0])
    return {role: names[role] for role in BERT_NAMES}


def usual_template(special: Mapping[str, str]) -> Template:
    """What goes with these names where a file does not say."""
    return ROBERTA_TEMPLATE if special["cls"] == ROBERTA_NAMES["cls"] else BERT_TEMPLATE


def template_of(processor: Mapping[str, Any] | None, special: Mapping[str, str]) -> Template | None:
    """The template that the `post_processor` of a tokenizer.json stands for; None if it puts nothing around.

    Errors: ValueError for one that is not of the form before A between B after.
    """
    for one in _flat(processor):
        if one["type"] == "BertProcessing":
            return BERT_TEMPLATE
        if one["type"] == "RobertaProcessing":
            return ROBERTA_TEMPLATE
        if one["type"] == "TemplateProcessing":
            return _of_template(one, special)
    return None


def names_in(processor: Mapping[str, Any] | None) -> dict[str, str]:
    """The names of cls and sep that a `post_processor` puts first and last."""
    for one in _flat(processor):
        if one["type"] in ("BertProcessing", "RobertaProcessing"):
            return {"cls": one["cls"][0], "sep": one["sep"][0]}
        if one["type"] == "TemplateProcessing":
            names = [part["SpecialToken"]["id"] for part in one["single"] if "SpecialToken" in part]
            return {"cls": names[0], "sep": names[-1]} if len(names) > 1 else {}
    return {}


def _flat(processor: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    if processor is not None and processor["type"] == "Sequence":
        return [one for part in processor["processors"] for one in _flat(part)]
    return [] if processor is None else [processor]


def _of_template(processor: Mapping[str, Any], special: Mapping[str, str]) -> Template:
    roles = {special["cls"]: "cls", special["sep"]: "sep"}
    shape = [(roles.get(_name(part), _name(part)), _type(part)) for part in processor["pair"]]
    names = [name for name, _ in shape]
    if names.count("A") != 1 or names.count("B") != 1 or names.index("A") > names.index("B"):
        raise ValueError(f"the pair is {' '.join(names)}, expected A and then B")
    a, b = names.index("A"), names.index("B")
    template = Template(tuple(names[:a]), tuple(names[a + 1 : b]), tuple(names[b + 1 :]), shape[b][1])
    single = [roles.get(_name(part), _name(part)) for part in processor["single"]]
    types = [0] * b + [template.second_type] * (len(shape) - b)
    strange = sorted({*names} - {"cls", "sep", "A", "B"})
    if single != [*template.before, "A", *template.after] or strange or [kind for _, kind in shape] != types:
        raise ValueError(
            f"got {' '.join(single)} for one text and {' '.join(names)} for two, expected cls and sep alone"
        )
    return template


def _name(part: Mapping[str, Any]) -> str:
    return str(next(iter(part.values()))["id"])


def _type(part: Mapping[str, Any]) -> int:
    return int(next(iter(part.values()))["type_id"])


def post_processor(template: Template, special: Mapping[str, str], ids: Mapping[str, int]) -> dict[str, Any]:
    """The `post_processor` of a tokenizer.json for a template, in the shortest form that says it."""
    cls, sep = [special["cls"], ids["cls"]], [special["sep"], ids["sep"]]
    if template == BERT_TEMPLATE:
        return {"type": "BertProcessing", "sep": sep, "cls": cls}
    if template == ROBERTA_TEMPLATE:
        return {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": True, "add_prefix_space": False}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": template.second_type}}
    before, between = _parts(template.before, special, 0), _parts(template.between, special, 0)
    after = [_parts(template.after, special, kind) for kind in (0, template.second_type)]
    tokens = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (cls, sep)}
    return {
        "type": "TemplateProcessing",
        "single": [*before, first, *after[0]],
        "pair": [*before, first, *between, second, *after[1]],
        "special_tokens": tokens,
    }


def added_token(token_id: int, content: str) -> dict[str, Any]:
    """A special token's entry in tokenizer.json."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token_id, "content": content, **flags}


def _parts(roles: Sequence[str], special: Mapping[str, str], kind: int) -> list[dict[str, Any]]:
    return [{"SpecialToken": {"id": special[role], "type_id": kind}} for role in roles]
