"""Which of the teacher's weights a student starts from.

Shapes: L layers, E hidden size, V vocabulary, e width of narrower embeddings, C channels, S side of a patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError, raise_problems
from bertctl.heads.model import Model
from bertctl.variants.resize import even_layers, of_own_kind

LAYERS = "encoder.layers."
WORDS = "encoder.embeddings.word.weight"
POSITIONS = "encoder.position.table.weight"
SEGMENTS = "encoder.embeddings.segment.weight"
TABLES = (WORDS, POSITIONS, SEGMENTS)
PATCHES, GRID = "encoder.embeddings.patches.weight", "encoder.position.position_embeddings"
OF_IMAGES = (PATCHES, "encoder.embeddings.patches.bias", "encoder.embeddings.cls_token", GRID)
NORM, PROJECT = "encoder.embeddings.norm", "encoder.embeddings.project"
# Two layers that agree in these fields have the same tensors and compute the same from them.
LAYER_FIELDS = (
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "feed_forward",
    "hidden_act",
    "norm",
    "norm_place",
    "position",
    "relative_position",
    "use_bias",
)


@dataclass(frozen=True)
class Student:
    """A student and where its weights come from: `layer_map` the teacher's layers (from 1), None if none were copied;
    `projected` and `fresh` the tensors that were made by projection or drawn anew; `source` the folder of a checkpoint.
    """

    model: Model
    origin: str
    layer_map: list[int] | None = None
    projected: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    source: Path | None = None


def start_from_teacher(model: Model, teacher: Model, layer_map: Sequence[int] | None = None) -> Student:
    """Copy what fits: layers by the map if both kinds agree; embeddings, final norm, pooler and heads of equal shapes.
    Wider embeddings of the teacher, of words or of patches, are projected on their principal directions, and back if
    the student factorises them; the rest stays fresh."""
    differing = [name for name in LAYER_FIELDS if getattr(model.config, name) != getattr(teacher.config, name)]
    if layer_map is not None and differing:
        raise BertctlError(f"layer_map: the student's layers differ from the teacher's in {', '.join(differing)}")
    copied = None if differing else checked_map(layer_map, teacher.config, model.config)
    # of layers that share weights the student's first one decides, and each of the teacher's may be asked for
    have, own = teacher.state_dict(), model_tensors(model)
    before = teacher.config.position_offset - model.config.position_offset
    if POSITIONS in have and before > 0:
        have[POSITIONS] = have[POSITIONS][before:]
    narrow = principal_directions(summands(have), model.config.embedding_size or model.config.hidden_size)
    projected, fresh = [], []
    for name, tensor in own.items():
        source = have.get(source_name(name, copied, same_pooler=model.config.pooler_act == teacher.config.pooler_act))
        if source is not None and name in TABLES:
            source = source[: len(tensor)]  # shorter inputs, or fewer segments, have the first rows
        less = source if source is None or narrow is None else narrowed(name, source, narrow)
        if source is not None and source.shape == tensor.shape:
            tensor.copy_(source)
        elif less is not None and less.shape == tensor.shape:
            tensor.copy_(less)
            projected.append(name)
        else:
            fresh.append(name)
    _fold_segment(own, have, narrow)
    restored = _project_back(own, have, narrow)
    projected, fresh = projected + restored, [name for name in fresh if name not in restored]
    origin = (
        f"teacher layers {', '.join(map(str, copied))}" if copied else f"none of its layers ({differing[0]} differs)"
    )
    return Student(model, origin, copied, tuple(projected), tuple(fresh))


def checked_map(layer_map: Sequence[int] | None, teacher: EncoderConfig, student: EncoderConfig) -> list[int]:
    """The map as given, else evenly spread, over layers whose attention is of the student's kind where there are such.
    Errors: BertctlError if it does not fit the two encoders."""
    have, want = teacher.num_hidden_layers, student.num_hidden_layers
    if layer_map is None and want > have:
        raise BertctlError(
            f"student: {want} layers cannot start from the teacher's {have}",
            hint="name a smaller student, or a checkpoint to start from",
        )
    if layer_map is None:
        return of_own_kind(even_layers(have, want), teacher, student)
    outside = [number for number in layer_map if not 1 <= number <= have]
    problems = [f"layer_map: got layer {number}, expected the teacher's 1..{have}" for number in outside]
    if len(layer_map) != want:
        problems.append(f"layer_map: got {len(layer_map)} layers, expected one for each of the student's {want}")
    raise_problems(problems)
    return list(layer_map)


def source_name(name: str, layer_map: Sequence[int] | None, *, same_pooler: bool) -> str:
    """The teacher's tensor that the student's `name` starts from; empty if none fits."""
    if name.startswith("pooler.") and not same_pooler:
        return ""
    if not name.startswith(LAYERS):
        return name
    if layer_map is None:
        return ""
    number, _, rest = name.removeprefix(LAYERS).partition(".")
    return f"{LAYERS}{layer_map[int(number)] - 1}.{rest}"


def summands(have: dict[str, Tensor]) -> Tensor:
    """[V, E]: what embeddings are made of. The vectors of the words; of an image what each pixel of a patch adds, and
    the places."""
    if WORDS in have:
        return have[WORDS]
    places = [have[GRID][0]] if GRID in have else []
    return torch.cat([have[PATCHES].flatten(1).T, *places])


def narrowed(name: str, source: Tensor, narrow: Tensor) -> Tensor:
    """A tensor of the embeddings [..., E], the map of patches [E, C, S, S], on fewer directions [E, e]; any other as it
    is."""
    if name == PATCHES:
        return (narrow.T @ source.flatten(1)).unflatten(1, source.shape[1:])
    return source @ narrow if name in (*TABLES, *OF_IMAGES) else source


def principal_directions(words: Tensor, width: int) -> Tensor | None:
    """[V, E] word embeddings -> the [E, width] orthonormal directions that keep most of their squared length; None if
    there is nothing to leave out. Inner products, which masked-LM scores are made of, change least (Eckart and Young,
    Psychometrika 1936)."""
    if width >= words.shape[1]:
        return None
    _, directions = torch.linalg.eigh(words.double().T @ words.double())  # eigenvalues in rising order
    return directions.flip(-1)[:, :width].to(words.dtype)


def _fold_segment(own: dict[str, Tensor], have: dict[str, Tensor], narrow: Tensor | None) -> None:
    """A student without segments gets the teacher's segment 0 as part of every position: one text is then embedded as
    the teacher does it."""
    if SEGMENTS in own or SEGMENTS not in have or POSITIONS not in own:
        return
    first = have[SEGMENTS][0] if narrow is None else have[SEGMENTS][0] @ narrow
    if first.shape == own[POSITIONS].shape[1:]:
        own[POSITIONS] += first


def _project_back(own: dict[str, Tensor], have: dict[str, Tensor], narrow: Tensor | None) -> list[str]:
    """Factorised embeddings go back along the directions [E, e] that made them narrow, and so come close to the
    teacher's. A norm leaves a vector with the length of the root of its width, hence the factor; the teacher's scale
    and shift act after its norm, so they belong here. Returns the names of what was set."""
    weight, bias = own.get(f"{PROJECT}.weight"), own.get(f"{PROJECT}.bias")
    if weight is None or narrow is None or weight.shape != narrow.shape:
        return []
    scale, shift = have.get(f"{NORM}.weight"), have.get(f"{NORM}.bias")
    back = narrow * (narrow.shape[0] / narrow.shape[1]) ** 0.5
    weight.copy_(back if scale is None else back * scale[:, None])
    if bias is None or shift is None:
        return [f"{PROJECT}.weight"]
    bias.copy_(shift)
    return [f"{PROJECT}.weight", f"{PROJECT}.bias"]
