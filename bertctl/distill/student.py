"""The student: how large it is, and which of the teacher's weights it starts from.

Shapes: L layers, E hidden size, V vocabulary.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.distill.config import StudentSection
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError, raise_problems
from bertctl.heads.model import Model
from bertctl.recipe.load import load_recipe
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import mix
from bertctl.variants.config import EncoderSection, preset, unknown
from bertctl.variants.hf import load_model, read_encoder_config
from bertctl.variants.table import VARIANTS

HALF = "half"
LAYERS = "encoder.layers."
WORDS = "encoder.embeddings.word.weight"
POSITIONS = "encoder.position.table.weight"
SEGMENTS = "encoder.embeddings.segment.weight"
TABLES = (WORDS, POSITIONS, SEGMENTS)
RECIPE_ENDINGS = (".yaml", ".yml")
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


def build_student(
    spec: str | StudentSection,
    teacher: Model,
    tokenizer: Tokenizer,
    *,
    heads: Mapping[str, int],
    layer_map: Sequence[int] | None,
    seed: int,
) -> Student:
    """The student that `spec` names, with those of `heads` that its encoder can have.

    Errors: BertctlError for an unknown name, sizes that do not fit, a checkpoint with another vocabulary, or a layer
    map that names layers which are not there.
    """
    torch.manual_seed(mix(seed, 0))
    config = student_config(spec, teacher.config)
    if config is None:
        assert isinstance(spec, str)
        return _from_checkpoint(spec, teacher, tokenizer, heads, layer_map)
    model = Model(config, fitting_heads(heads, config))
    return start_from_teacher(model, teacher, layer_map)


def student_config(spec: str | StudentSection, teacher: EncoderConfig) -> EncoderConfig | None:
    """The teacher's config with what `spec` says put in its place; None if `spec` names a checkpoint."""
    if spec == HALF:
        return dataclasses.replace(teacher, num_hidden_layers=max(1, teacher.num_hidden_layers // 2))
    section = named_section(spec) if isinstance(spec, str) else spec
    if section is None:
        return None
    given = section.model_dump(exclude={"name", "size"}, exclude_none=True)
    try:
        return dataclasses.replace(teacher, **{**preset_fields(section), **given})
    except ValueError as error:
        raise BertctlError(f"student: {error}") from error


def named_section(name: str) -> EncoderSection | None:
    """The section of a preset or of a YAML file; None for any other name."""
    return load_recipe(Path(name), StudentSection) if name.endswith(RECIPE_ENDINGS) else preset(name)


def preset_fields(section: EncoderSection) -> dict[str, Any]:
    """What the preset says that a section names; nothing if it names none."""
    if section.name is None and section.size is None:
        return {}
    name, size = section.name or "bert", section.size or "base"
    family = VARIANTS.get(name)
    if family is None:
        raise BertctlError(unknown("student.name", name, VARIANTS))
    if size not in family.sizes:
        raise BertctlError(unknown(f"student.size of {name}", size, family.sizes))
    return {**family.common, **family.sizes[size]}


def fitting_heads(heads: Mapping[str, int], config: EncoderConfig) -> dict[str, int]:
    """`heads`, but no sentence pairs without segments, which tell a pair's two sentences apart."""
    return {name: count for name, count in heads.items() if name != "sentence_pair" or config.type_vocab_size > 0}


def even_layers(teacher_layers: int, student_layers: int) -> list[int]:
    """Which teacher layer (from 1) each student layer starts from: first and last, the others evenly between.

    For 12 and 6 that is 1, 3, 5, 8, 10, 12, the choice of DistilBERT's released extraction script.
    Errors: BertctlError if the student is deeper.
    """
    if student_layers > teacher_layers:
        raise BertctlError(
            f"student: {student_layers} layers cannot start from the teacher's {teacher_layers}",
            hint="name a smaller student, or a checkpoint to start from",
        )
    if student_layers == 1:
        return [1]
    return [1 + round(i * (teacher_layers - 1) / (student_layers - 1)) for i in range(student_layers)]


def start_from_teacher(model: Model, teacher: Model, layer_map: Sequence[int] | None = None) -> Student:
    """Copy what fits: layers by the map if both kinds agree; embeddings, final norm, pooler and heads of equal shapes.
    Wider embeddings of the teacher are projected on their principal directions; the rest stays fresh."""
    differing = [name for name in LAYER_FIELDS if getattr(model.config, name) != getattr(teacher.config, name)]
    if layer_map is not None and differing:
        raise BertctlError(f"layer_map: the student's layers differ from the teacher's in {', '.join(differing)}")
    copied = None if differing else checked_map(layer_map, teacher.config, model.config)
    have, own = teacher.state_dict(), model.state_dict()
    narrow = principal_directions(have[WORDS], own[WORDS].shape[1])
    projected, fresh = [], []
    for name, tensor in own.items():
        source = have.get(source_name(name, copied, same_pooler=model.config.pooler_act == teacher.config.pooler_act))
        if source is not None and source.shape == tensor.shape:
            tensor.copy_(source)
        elif source is not None and name in TABLES and narrow is not None:
            tensor.copy_(source @ narrow)
            projected.append(name)
        else:
            fresh.append(name)
    _fold_segment(own, have, narrow)
    origin = f"teacher layers {', '.join(map(str, copied))}" if copied else f"none (other {differing[0]})"
    return Student(model, origin, copied, tuple(projected), tuple(fresh))


def checked_map(layer_map: Sequence[int] | None, teacher: EncoderConfig, student: EncoderConfig) -> list[int]:
    """The map as given, else evenly spread. Errors: BertctlError if it does not fit the two encoders."""
    have, want = teacher.num_hidden_layers, student.num_hidden_layers
    if layer_map is None:
        return even_layers(have, want)
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


def _from_checkpoint(
    name: str, teacher: Model, tokenizer: Tokenizer, heads: Mapping[str, int], layer_map: Sequence[int] | None
) -> Student:
    if layer_map is not None:
        raise BertctlError("layer_map: the student is a checkpoint, which brings its own layers; leave layer_map out")
    try:
        folder = resolve_model(name)
    except BertctlError as error:
        presets = f"`{HALF}`, a preset (mini, distilbert, ...), an encoder section, or a checkpoint"
        raise BertctlError(*error.problems, hint=f"student takes {presets}") from error
    same_vocabulary(Tokenizer.load(folder), folder, tokenizer, "the teacher")
    config = read_encoder_config(folder, read_config(folder))[1]
    if config.vocab_size != teacher.config.vocab_size:
        raise BertctlError(
            f"{folder}: {config.vocab_size} word embeddings, but the teacher has {teacher.config.vocab_size}"
        )
    loaded = load_model(folder, fitting_heads(heads, config))
    return Student(loaded.model, f"checkpoint {name}", fresh=tuple(loaded.new_tensors), source=folder)


def same_vocabulary(one: Tokenizer, name: object, other: Tokenizer, other_name: object) -> None:
    """Refuse two tokenizers that give a text different ids: soft targets compare distributions id by id.

    Errors: BertctlError with the first id that differs and how many do, or the switches that differ.
    """
    pairs = list(zip_longest(one.tokens, other.tokens, fillvalue="(none)"))
    differing = [number for number, (left, right) in enumerate(pairs) if left != right]
    if differing:
        left, right = pairs[differing[0]]
        problem = (
            f"{name}: its vocabulary differs from that of {other_name} in {len(differing):,} of {len(pairs):,} ids; "
            f"the first is id {differing[0]}, {left!r} and {right!r}"
        )
        raise BertctlError(problem, hint="teacher, student and data must share one tokenizer")
    if one.hash != other.hash:
        raise BertctlError(
            f"{name}: the same vocabulary as {other_name}, but text is normalised in another way (lower case, accents)"
        )
