"""`bertctl describe`: what a checkpoint is, or what a recipe's pretraining would be, without building any weights."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertctl.cli.options import Json, Set, Verbose
from bertctl.cli.shipped import find_recipe, is_recipe
from bertctl.console import print_json
from bertctl.errors import BertctlError

if TYPE_CHECKING:
    from bertctl.cli.recipe import Recipe
    from bertctl.encoder.config import EncoderConfig
    from bertctl.variants.describe import Description

WORDPIECES = 30522  # BERT's vocabulary, for a recipe that does not say how large its own is
LONGEST_NAME = 60
SIZES_WIDTH = 12


def describe(
    what: Annotated[str, typer.Argument(metavar="MODEL|RECIPE", help="A checkpoint or hub name, or a recipe.")],
    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help="Texts in one forward pass.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", min=1, help="Tokens of each text.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="float32 or bf16.")] = None,
    set_: Set = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Layers, shapes, first weights, parameters, arithmetic for a token, and the memory of a training step."""
    if precision not in (None, "float32", "bf16"):
        raise BertctlError(f"--precision: got `{precision}`, expected float32 or bf16")
    if not is_recipe(what) and set_:
        raise BertctlError(f"--set: got {set_[0]}, but {what} is no recipe")
    given = _of_recipe(what, set_ or []) if is_recipe(what) else _of_model(what)
    asked = {"batch_size": batch_size, "tokens": tokens, "precision": precision}
    given |= {name: value for name, value in asked.items() if value is not None}
    from bertctl.variants.describe import describe as trace  # imports torch

    longest = given["config"].max_position_embeddings
    if given["config"].image_size:
        if tokens not in (None, longest):
            raise BertctlError(f"--tokens: got {tokens}, but an image is always {longest} tokens to this encoder")
        given["tokens"] = longest
    given["tokens"] = given["tokens"] if tokens is not None else min(given["tokens"], longest)
    if given["tokens"] > longest:
        raise BertctlError(f"--tokens: got {tokens}, but the encoder reads at most {longest}")
    found = trace(**given)
    if json:
        print_json(_values(found))
    else:
        _show(what, found, fresh=is_recipe(what))


def _of_model(name: str) -> dict[str, Any]:
    """What to describe of a checkpoint."""
    from bertctl.artifacts.checkpoint import read_config, resolve_model
    from bertctl.variants.config import read_encoder_config
    from bertctl.variants.hf import stored_heads

    folder = resolve_model(name)
    fields = read_config(folder)
    family, config = read_encoder_config(folder, fields)
    heads = stored_heads(fields, family)
    return {"config": config, "heads": heads, "batch_size": 32, "tokens": 128, "precision": "float32"}


def _of_recipe(name: str, overrides: list[str]) -> dict[str, Any]:
    """What to describe of the pretraining in a recipe. Errors: BertctlError if there is none."""
    from bertctl.build_pairs.config import BuildPairsSection
    from bertctl.cli.recipe import Recipe
    from bertctl.recipe.load import load_recipe
    from bertctl.variants.config import encoder_config
    from bertctl.variants.extend import rounded_up

    recipe = load_recipe(find_recipe(name), Recipe, overrides)
    if recipe.pretrain is None:
        raise BertctlError(f"{name}: no section `pretrain`, so there is no encoder to describe")
    pairs = recipe.build_pairs or BuildPairsSection()
    training = recipe.pretrain.training
    images = recipe.pretrain.objective.name == "masked_image"
    vocab_size, pad_token_id = (0, 0) if images else _vocabulary(recipe)
    rows = rounded_up(vocab_size, recipe.pretrain.pad_vocab_to_multiple_of)
    heads = {"masked_lm": 0} | ({"sentence_pair": 2} if pairs.second_segment != "none" else {})
    if recipe.pretrain.objective.name == "replaced_token":
        heads = {"replaced_token": 1}  # of the encoder that stays; its generator is not described
    elif images:
        heads = {"masked_image": 0}
    return {
        "config": encoder_config(recipe.pretrain.encoder, vocab_size=rows, pad_token_id=pad_token_id),
        "heads": heads,
        "batch_size": training.micro_batch_size or training.batch_size,
        "tokens": max(phase.sequence_length for phase in pairs.lengths()),
        "precision": "float32" if training.precision == "float32" else "bf16",
        "gradient_checkpointing": training.gradient_checkpointing,
    }


def _vocabulary(recipe: "Recipe") -> tuple[int, int]:
    """Its size and padding id, as the recipe asks for it."""
    section = recipe.tokenize
    if section is None:
        return WORDPIECES, 0
    if section.vocab_size is not None:
        from bertctl.tokenize.vocabulary import NAMES, TRAININGS

        usual = TRAININGS[section.algorithm or "wordpiece"].names
        names = NAMES[section.special_tokens] if section.special_tokens else usual
        return section.vocab_size + len(section.add_tokens), list(names).index("pad")  # special tokens come first
    if section.vocabulary is None or not Path(section.vocabulary).exists():
        return WORDPIECES, 0
    from bertctl.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(section.vocabulary)
    return tokenizer.vocab_size + len(section.add_tokens), tokenizer.pad_id


def _values(found: "Description") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **{key: value for key, value in asdict(found).items() if key != "tensors"},
        "parameters_in_all": sum(found.parameters.values()),
        "training_flops_per_token": found.training_flops_per_token,
        "tensors": {name: list(shape) for name, shape in found.tensors},
    }


def _show(what: str, found: "Description", *, fresh: bool) -> None:
    """One line a tensor, with what it starts with if it is not loaded; equal layers once, and below them the sums."""
    config = found.config
    width = min(LONGEST_NAME, max(len(name) for name, _ in found.tensors))
    for name, shape in found.tensors:
        layer = name.removeprefix("encoder.layers.").split(".")[0]
        if not (name.startswith("encoder.layers.") and layer != "0" and _is_like_first(name, shape, found)):
            sizes = " x ".join(map(str, shape))
            typer.echo(
                f"{name:<{width}}  {sizes:<{SIZES_WIDTH}}  {found.initial[name]}"
                if fresh
                else f"{name:<{width}}  {sizes}"
            )
    total = sum(found.parameters.values())
    parts = ", ".join(f"{part} {count:,}" for part, count in found.parameters.items())
    memory = ", ".join(f"{part} {_mebibytes(size)}" for part, size in found.bytes.items())
    typer.echo(
        f"\n{what}: {config.num_hidden_layers} layers x {config.hidden_size}, {config.num_attention_heads} heads, "
        f"{_reads(config)}\n"
        f"saved as: {_saved_as(found.model_type)}\n"
        f"parameters: {total:,} ({parts})\n"
        f"arithmetic: {found.flops_per_token / 1e6:,.1f} MFLOP a token forward, "
        f"{found.training_flops_per_token / 1e6:,.1f} in training, at {found.tokens} tokens\n"
        f"memory of a training step, {found.batch_size} x {found.tokens} tokens in {found.precision}: "
        f"at least {_mebibytes(sum(found.bytes.values()))} ({memory})"
    )


def _reads(config: "EncoderConfig") -> str:
    """What the encoder's inputs are."""
    if not config.image_size:
        return f"vocabulary {config.vocab_size:,}, at most {config.max_position_embeddings:,} tokens"
    size, patch, grey = config.image_size, config.patch_size, config.num_channels == 1
    kind = "images in shades of grey" if grey else "images"
    return f"{kind} of {size} x {size} in patches of {patch} x {patch}, {config.max_position_embeddings:,} tokens"


def _saved_as(model_type: str) -> str:
    """The model_type, and whether transformers knows it."""
    return "bertctl, which transformers cannot load" if model_type == "bertctl" else model_type


def _is_like_first(name: str, shape: tuple[int, ...], found: "Description") -> bool:
    """Whether the first layer has a tensor of this name and shape, so that it need not be told again."""
    rest = name.removeprefix("encoder.layers.").split(".", 1)[1]
    return (f"encoder.layers.0.{rest}", shape) in found.tensors


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
