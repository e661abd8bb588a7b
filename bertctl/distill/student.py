"""The student that a recipe names: `half`, a preset, a section, or a checkpoint."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bertctl.artifacts.checkpoint import read_config, resolve_model
from bertctl.distill.config import StudentSection
from bertctl.distill.start import Student, start_from_teacher
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.recipe.load import load_recipe
from bertctl.tasks.preprocessing import preprocessor
from bertctl.text.extend import same_vocabulary
from bertctl.training.batching import mix
from bertctl.variants.config import EncoderSection, preset, read_encoder_config, unknown
from bertctl.variants.hf import load_model
from bertctl.variants.table import VARIANTS

HALF = "half"
RECIPE_ENDINGS = (".yaml", ".yml")
OF_IMAGES = ("image_size", "patch_size", "num_channels")


def build_student(
    spec: str | StudentSection,
    teacher: Model,
    tokenizer: Any,
    *,
    heads: Mapping[str, int],
    layer_map: Sequence[int] | None,
    seed: int,
) -> Student:
    """The student that `spec` names, with those of `heads` that its encoder can have. `tokenizer` is the teacher's, or
    its `ImageProcessor`.

    Errors: BertctlError for an unknown name, sizes that do not fit, a checkpoint with another vocabulary or that reads
    other images, or a layer map that names layers which are not there.
    """
    torch.manual_seed(mix(seed, 0))
    config = student_config(spec, teacher.config)
    if config is None:
        assert isinstance(spec, str)
        return _from_checkpoint(spec, teacher, tokenizer, heads, layer_map)
    model = Model(config, fitting_heads(heads, config, teacher))
    return start_from_teacher(model, teacher, layer_map)


def student_config(spec: str | StudentSection, teacher: EncoderConfig) -> EncoderConfig | None:
    """The teacher's config with what `spec` says put in its place; None if `spec` names a checkpoint."""
    if spec == HALF:
        layers = max(1, teacher.num_hidden_layers // 2)
        groups = min(teacher.num_hidden_groups, layers)
        return dataclasses.replace(teacher, num_hidden_layers=layers, num_hidden_groups=groups)
    section = named_section(spec) if isinstance(spec, str) else spec
    if section is None:
        return None
    given = section.model_dump(exclude={"name", "size"}, exclude_none=True)
    try:
        config = dataclasses.replace(teacher, **{**preset_fields(section), **given})
    except ValueError as error:
        raise BertctlError(f"student: {error}") from error
    refuse_other_images("student", config, teacher)
    return config


def named_section(name: str) -> EncoderSection | None:
    """The section of a preset or of a YAML file; None for any other name."""
    return load_recipe(Path(name), StudentSection) if name.endswith(RECIPE_ENDINGS) else preset(name)


def preset_fields(section: EncoderSection) -> dict[str, Any]:
    """What the preset says that a section names, but for images, which are read as the teacher does; nothing if it
    names none."""
    if section.name is None and section.size is None:
        return {}
    name, size = section.name or "bert", section.size or "base"
    family = VARIANTS.get(name)
    if family is None:
        raise BertctlError(unknown("student.name", name, VARIANTS))
    if size not in family.sizes:
        raise BertctlError(unknown(f"student.size of {name}", size, family.sizes))
    fields = {**family.common, **family.sizes[size]}
    return {name: value for name, value in fields.items() if name not in OF_IMAGES}


def refuse_other_images(name: str, config: EncoderConfig, teacher: EncoderConfig) -> None:
    """Both models read the same batch. Errors: BertctlError if one reads texts, or images of another size."""
    reads = [(one.image_size, one.num_channels if one.image_size else 0) for one in (config, teacher)]
    if reads[0] != reads[1]:
        own, theirs = (f"images of {size} pixels and {n} channels" if size else "texts" for size, n in reads)
        raise BertctlError(f"{name}: reads {own}, but the teacher reads {theirs}")


def fitting_heads(heads: Mapping[str, int], config: EncoderConfig, teacher: Model) -> dict[str, int]:
    """`heads`, but no sentence pairs without segments, which tell a pair's two sentences apart; and vectors of texts as
    wide as the teacher's, by a layer if the encoder is not."""
    found = {name: count for name, count in heads.items() if name != "sentence_pair" or config.type_vocab_size > 0}
    if "embedding" in found and config.hidden_size != teacher.outputs("embedding"):
        found["embedding"] = teacher.outputs("embedding")
    return found


def _from_checkpoint(
    name: str, teacher: Model, tokenizer: Any, heads: Mapping[str, int], layer_map: Sequence[int] | None
) -> Student:
    if layer_map is not None:
        raise BertctlError("layer_map: the student is a checkpoint, which brings its own layers; leave layer_map out")
    try:
        folder = resolve_model(name)
    except BertctlError as error:
        presets = f"`{HALF}`, a preset (mini, distilbert, ...), an encoder section, or a checkpoint"
        raise BertctlError(*error.problems, hint=f"student takes {presets}") from error
    config = read_encoder_config(folder, read_config(folder))[1]
    refuse_other_images(str(folder), config, teacher.config)
    own = preprocessor(folder, config)
    if not config.image_size:
        same_vocabulary(own, folder, tokenizer, "the teacher")
    elif own != tokenizer:
        raise BertctlError(f"{folder}: makes other numbers of images than the teacher: {own}, not {tokenizer}")
    if config.vocab_size != teacher.config.vocab_size:
        raise BertctlError(
            f"{folder}: {config.vocab_size} word embeddings, but the teacher has {teacher.config.vocab_size}"
        )
    loaded = load_model(folder, fitting_heads(heads, config, teacher))
    return Student(loaded.model, f"checkpoint {name}", fresh=tuple(loaded.new_tensors), source=folder)
