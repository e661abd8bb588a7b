"""Tensor names: ours to a family's and back, and the old spellings that files still use."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.variants.family import Family

WRAPPERS = ("module.", "_orig_mod.")  # left by DataParallel and torch.compile
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}  # norms in files converted from TensorFlow
NOT_WEIGHTS = ("position_ids",)


class Stored(NamedTuple):
    """Where a tensor of ours is in a file: number `part` of the `parts` equal ones, one below the other, that the
    tensor called `name` is made of."""

    name: str
    part: int = 0
    parts: int = 1


def tensor_names(model: Model, family: Family | None, *, prefixed: bool | None = None) -> dict[str, Stored]:
    """Our name of each tensor of `model` -> the family's; `prefixed`: whether the file has the encoder under the
    family's prefix, by default as published (a bare encoder has none)."""
    own = list(model_tensors(model))
    if family is None:
        return {name: Stored(name) for name in own}
    base = family.base if (bool(model.head_outputs) if prefixed is None else prefixed) else ""
    table: dict[str, Stored] = {}
    for paths, theirs in (*family.tensor_names, *family.renamed.get(frozenset(model.head_outputs), ())):
        ours = (paths,) if isinstance(paths, str) else paths
        for n in range(model.config.num_hidden_layers):
            name = theirs.format(n=n, group=model.config.group_of(n), base=base)
            table |= {path.format(n=n): Stored(name, part, len(ours)) for part, path in enumerate(ours)}
    return {name: _translate(name, table) for name in own}


def _translate(name: str, table: Mapping[str, Stored]) -> Stored:
    """Replace the module path, all but the last part of a tensor's name. A name that no row covers stays ours: it can
    only be met when a file is read for a head that the family does not publish."""
    path, _, leaf = name.rpartition(".")
    return table[path]._replace(name=f"{table[path].name}.{leaf}") if path in table else Stored(name)


def together(tensors: Mapping[str, Tensor], names: Mapping[str, Stored]) -> dict[str, Tensor]:
    """Our tensors under the names of a file, those that it stores as one put together."""
    groups: dict[str, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        groups.setdefault(names[name].name, {})[names[name].part] = tensor
    return {
        name: torch.cat([parts[number] for number in sorted(parts)]) if len(parts) > 1 else parts[0]
        for name, parts in groups.items()
    }


def part_of(weights: Mapping[str, Tensor], stored: Stored) -> Tensor | None:
    """The part of a file's tensor that `stored` says; None if there is none, and the whole if it cannot be split."""
    whole = weights.get(stored.name)
    if whole is None or stored.parts == 1 or len(whole) % stored.parts:
        return whole
    return whole.chunk(stored.parts)[stored.part]


def tidy(weights: Mapping[str, Tensor], family: Family | None, folder: Path) -> dict[str, Tensor]:
    """Strip wrappers' prefixes, old spellings of norms, buffers, and the copy of the output embeddings."""
    tidied: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        for wrapper in WRAPPERS:
            name = name.removeprefix(wrapper)
        for old, new in OLD_ENDINGS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        for old, new in family.spellings if family is not None else ():
            name = new + name.removeprefix(old) if name.startswith(old) else name
        if not name.endswith(NOT_WEIGHTS):
            tidied[name] = tensor.float()
    if family is not None and family.decoder:
        _drop_tied_copy(tidied, family, folder)
    return tidied


def _drop_tied_copy(weights: dict[str, Tensor], family: Family, folder: Path) -> None:
    """A stored output matrix must equal the word embeddings: ours are always tied. A bias kept with it goes to the head
    that owns it."""
    decoder, head = family.decoder, dict(family.tensor_names)["heads.masked_lm"]
    matrix = weights.pop(f"{decoder}.weight", None)
    if decoder != head and f"{decoder}.bias" in weights:
        weights.setdefault(f"{head}.bias", weights.pop(f"{decoder}.bias"))
    embedding = dict(family.tensor_names)["encoder.embeddings.word"].format(base="")
    words = next((t for name, t in weights.items() if name.endswith(f"{embedding}.weight")), None)
    if matrix is not None and words is not None and not torch.equal(matrix, words):
        raise BertctlError(
            f"{folder}: {decoder}.weight differs from the word embeddings; untied outputs are not supported"
        )
