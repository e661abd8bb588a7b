"""YAML text to a plain tree in which every key and value remembers its line and column.

PyYAML only scans: values are those of `yaml_scalars`, and a doubled key, which PyYAML lets win in silence, is refused.
The walk over parser events keeps its own stack, so nesting cannot exhaust Python's, and expanded aliases are counted,
so a bomb of them goes nowhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from bertctl.recipe.yaml_scalars import resolve

DEEPEST = 64
MOST_NODES = 20_000

Path = tuple[str | int, ...]


class Mark(NamedTuple):
    """A place in the text, counted from 1 as editors do; columns are code points."""

    line: int
    column: int


class Problem(NamedTuple):
    """Something wrong at `mark`; `path` is the key it belongs to."""

    mark: Mark
    path: Path
    message: str


class YamlError(Exception):
    """The text is no YAML that bertctl reads, and there is no tree to go on with."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark, self.message = mark, message


@dataclass
class Document:
    """A tree of dict, list, str, int, float, bool and None, with marks of keys and values by path."""

    tree: Any
    keys: dict[Path, Mark]
    values: dict[Path, Mark]
    problems: list[Problem]


@dataclass
class _Node:
    """A value under construction; `children` are (key, key mark, node) and keys of a list are indices."""

    mark: Mark
    scalar: Any = None
    kind: str = "scalar"
    children: "list[tuple[str | int, Mark, _Node]]" = field(default_factory=list)
    waiting: "tuple[str, Mark] | None" = None
    skip_value: bool = False
    problems: list[tuple[Mark, str]] = field(default_factory=list)
    seen: dict[str, Mark] = field(default_factory=dict)
    open_anchor: bool = False
    size: int = 1
    height: int = 1


def parse_yaml(text: str) -> Document:
    """The one document in `text`.

    Errors: YamlError with a mark, for text that cannot be read at all (syntax, depth, aliases, several documents,
    nothing in it). Doubled keys, tags, keys that are no text, numbers that are not finite and the like are listed in
    `.problems`, and the tree holds None in their place, so that a caller can report other problems beside them.
    """
    try:
        node = _compose(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(_mark(mark) if mark else Mark(1, 1), _syntax(error)) from None
    except yaml.reader.ReaderError as error:
        raise YamlError(_position(text, error.position), f"got {_code(error.character)}, expected text") from None
    if node is None:
        raise YamlError(Mark(1, 1), "got an empty file, expected keys and values")
    document = Document(None, {}, {}, [])
    document.tree = _plain(node, (), document)
    return document


def _compose(events: "Iterator[yaml.Event]") -> _Node | None:
    root: _Node | None = None
    stack: list[_Node] = []
    anchors: dict[str, _Node] = {}
    total = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise YamlError(_mark(event.start_mark), "got a second document, expected one")
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            node = stack.pop()
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(stack) >= DEEPEST:
                raise YamlError(_mark(event.start_mark), f"nested more than {DEEPEST} deep")
            stack.append(_opened(event, anchors))
            continue
        elif isinstance(event, yaml.AliasEvent):
            node = _aliased(event, anchors)
        elif isinstance(event, yaml.ScalarEvent):
            node = _scalar(event, anchors)
        else:
            continue
        total += node.size if isinstance(event, yaml.AliasEvent) else 1
        if total > MOST_NODES or len(stack) + node.height > DEEPEST + 1:
            raise YamlError(_mark(event.start_mark), f"aliases expand to over {MOST_NODES} values or {DEEPEST} levels")
        if stack:
            _put(stack[-1], node, event)
        else:
            root = node
    return root


def _opened(event: "yaml.CollectionStartEvent", anchors: dict[str, _Node]) -> _Node:
    node = _Node(_mark(event.start_mark), kind="mapping" if isinstance(event, yaml.MappingStartEvent) else "list")
    if event.tag is not None:
        node.problems.append((node.mark, f"got the tag `{_tag(event.tag)}`, expected none"))
    if event.anchor is not None:
        anchors[event.anchor] = node
        node.open_anchor = True
    return node


def _aliased(event: "yaml.AliasEvent", anchors: dict[str, _Node]) -> _Node:
    node = anchors.get(event.anchor or "")
    if node is None:
        raise YamlError(
            _mark(event.start_mark), f"got the alias `*{event.anchor}`, expected `&{event.anchor}` before it"
        )
    if node.open_anchor:
        raise YamlError(_mark(event.start_mark), f"the alias `*{event.anchor}` stands inside its own value")
    return node


def _put(parent: _Node, node: _Node, event: "yaml.Event") -> None:
    """Add a finished node to the mapping or list around it."""
    node.open_anchor = False
    if parent.kind == "list":
        parent.children.append((len(parent.children), node.mark, node))
    elif parent.waiting is not None:
        parent.children.append((*parent.waiting, node))
        parent.waiting = None
    elif parent.skip_value:
        parent.skip_value = False
        return
    else:
        _take_key(parent, node, event)
        return
    parent.size += node.size
    parent.height = max(parent.height, node.height + 1)


def _take_key(parent: _Node, node: _Node, event: "yaml.Event") -> None:
    mark, plain = _mark(event.start_mark), isinstance(event, yaml.ScalarEvent) and event.style is None
    if node.kind != "scalar" or not isinstance(node.scalar, str):
        problem = "a key must be text; put it in quotes"
    elif plain and node.scalar == "<<":
        problem = "got the merge key `<<`, expected the keys themselves"
    elif node.scalar in parent.seen:
        problem = f"the key `{node.scalar}` is already given in line {parent.seen[node.scalar].line}"
    else:
        parent.waiting = (node.scalar, mark)
        parent.seen[node.scalar] = mark
        return
    parent.problems.append((mark, problem))
    parent.skip_value = True


def _scalar(event: "yaml.ScalarEvent", anchors: dict[str, _Node]) -> _Node:
    node = _Node(_mark(event.start_mark))
    if event.tag is not None:
        node.problems.append((node.mark, f"got the tag `{_tag(event.tag)}`, expected none"))
    elif event.style is not None:
        node.scalar = _joined(event.value)
    else:
        try:
            node.scalar = resolve(event.value)
        except ValueError as error:
            node.problems.append((node.mark, str(error)))
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def _plain(node: _Node, path: Path, document: Document) -> Any:
    """Values and marks of `node`; recursion is bounded, because _compose refuses what is deeper than DEEPEST."""
    document.values[path] = node.mark
    document.problems.extend(Problem(mark, path, message) for mark, message in node.problems)
    for key, mark, _ in node.children:
        document.keys[*path, key] = mark
    if node.kind == "mapping":
        return {key: _plain(child, (*path, key), document) for key, _, child in node.children}
    if node.kind == "list":
        return [_plain(child, (*path, key), document) for key, _, child in node.children]
    return node.scalar


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _joined(text: str) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, and JSON is YAML: the pair becomes one character."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _position(text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(before.count("\n") + 1, position - before.rfind("\n"))


def _code(character: Any) -> str:
    number = ord(character) if isinstance(character, str) else int(character)
    return "a NUL character" if number == 0 else f"the character U+{number:04X}"


def _tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _syntax(error: "yaml.MarkedYAMLError") -> str:
    """What the scanner said, in words; a tab in the indentation is the usual reason and its message is obscure."""
    said = f"{error.context or ''} {error.problem or ''}".strip()
    return "got a tab in the indentation, expected spaces" if "'\\t'" in said else f"this is no YAML: {said}"
