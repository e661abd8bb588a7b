"""Models as Hugging Face folders, in both directions.

What a family's published code can compute is written under its own names, so that transformers loads it; anything else
is written as `model_type: bertctl` under our names, and loads here exactly.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertctl.artifacts.checkpoint import read_config, read_weights
from bertctl.artifacts.tensors import save_tensors
from bertctl.encoder.config import EncoderConfig, Pooling
from bertctl.encoder.sharing import model_tensors
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.variants import embedding_folder
from bertctl.variants.config import OWN_TYPE, read_encoder_config
from bertctl.variants.family import Family, expresses
from bertctl.variants.names import part_of, tensor_names, tidy, together
from bertctl.variants.table import VARIANTS

if TYPE_CHECKING:
    from bertctl.text.tokenizer import Tokenizer

POOLERS = ("pooler.dense.weight", "pooler.weight")  # of a bare encoder that has one; the second is ALBERT's
FIXED_OUTPUTS = {
    "masked_lm": 0,
    "sentence_pair": 2,
    "span": 2,
    "choice": 1,
    "replaced_token": 1,
    "embedding": 0,
    "masked_image": 0,
}


@dataclass(frozen=True)
class Loaded:
    """A model from disk: `labels` in the order of its outputs if it has a task head; `extra` what bertctl noted about
    its making; `new_tensors` drawn anew because the file has none, `unused_tensors` in the file, not in it."""

    model: Model
    labels: list[str] | None
    extra: dict[str, Any]
    new_tensors: list[str]
    unused_tensors: list[str]
    problem_type: str | None = None


def family_of(config: EncoderConfig, heads: frozenset[str]) -> Family | None:
    """The first family whose published code computes this encoder with these heads."""
    return next((family for family in VARIANTS.values() if expresses(family, config, heads)), None)


def save_model(
    folder: Path,
    model: Model,
    tokenizer: "Tokenizer | None",
    *,
    labels: list[str] | None = None,
    problem_type: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write config.json, model.safetensors and the tokenizer's files into `folder`, which exists. `labels` and
    `problem_type` (regression, multi_label_classification) are for transformers too, which counts outputs by labels.

    Equal models give equal bytes: no time, host or path is written.
    """
    family, config, heads = published(model)
    fields: dict[str, Any]
    if family is None:
        fields = {"model_type": OWN_TYPE, "architectures": ["bertctl"], **dataclasses.asdict(model.config)}
    else:
        fields = {"model_type": family.model_type, "architectures": [family.architectures[heads]]}
        fields |= family.to_hf(config) or {}
        if "embedding" in model.head_outputs:
            embedding_folder.write(folder, model, extra or {})
    whole = model.head_outputs.get("sequence", model.head_outputs.get("image", 0))
    names = labels or [f"LABEL_{number}" for number in range(whole)]
    if names:
        fields |= {"id2label": dict(enumerate(names)), "label2id": {label: i for i, label in enumerate(names)}}
    if problem_type is not None:
        fields["problem_type"] = problem_type
    fields |= {"dtype": "float32", "torch_dtype": "float32", "tie_word_embeddings": True}
    fields["bertctl"] = {"heads": dict(sorted(model.head_outputs.items())), **(extra or {})}
    (folder / "config.json").write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    save_tensors(folder / "model.safetensors", named_weights(model), {"format": "pt"})
    if tokenizer is not None:
        tokenizer.save(folder)


def named_weights(model: Model) -> dict[str, Tensor]:
    """The weights under the names they have on disk."""
    family, _, heads = published(model)
    names = tensor_names(model, family, prefixed=bool(heads))
    elsewhere = "heads.embedding." if "embedding" not in heads else "-"
    own = {name: tensor for name, tensor in model_tensors(model).items() if not name.startswith(elsewhere)}
    return {name: tensor.detach().contiguous() for name, tensor in together(own, names).items()}


def published(model: Model) -> tuple[Family | None, EncoderConfig, frozenset[str]]:
    """The family of a model, and the encoder and heads that config.json and model.safetensors are about.

    For an embedding model that is a bare encoder: its pooling and projection have files of their own. Learned pooling
    has none, so that it is written as any other model that no published code computes.
    """
    config, heads = model.config, frozenset(model.head_outputs)
    if heads == {"embedding"} and config.pooling in embedding_folder.POOLINGS:
        bare = dataclasses.replace(config, pooling="cls")
        family = family_of(bare, frozenset())
        if family is not None:
            return family, bare, frozenset()
    return family_of(config, heads), config, heads


def written_as(model: Model) -> str:
    """The `model_type` that a model is saved with: a family's, else bertctl's own."""
    family, _, _ = published(model)
    return OWN_TYPE if family is None else family.model_type


def load_model(
    folder: Path,
    heads: Mapping[str, int] | None = None,
    *,
    dropout: float | None = None,
    pooling: Pooling | None = None,
) -> Loaded:
    """Read a model of any known family; `heads` None takes those in the file, `dropout` and `pooling`
    replace what is stored. An embedding head that the file does not have pools by the mean, as Sentence-BERT does.

    Errors: BertctlError for an unknown family, a missing or misshapen encoder tensor, or untied output embeddings.
    """
    fields = read_config(folder)
    family, config = read_encoder_config(folder, fields)
    if dropout is not None:
        config = dataclasses.replace(config, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    weights = tidy(read_weights(folder), family, folder)
    stored, noted = stored_heads(fields, family), dict(fields.get("bertctl") or {})
    beside = embedding_folder.read(folder) if heads is None or "embedding" in heads else None
    if beside is not None:
        stored, noted = {"embedding": beside.projection}, {**noted, **beside.noted}
        weights |= beside.weights
    wanted = dict(stored if heads is None else heads)
    if "embedding" in wanted:
        wanted["embedding"] = wanted["embedding"] or stored.get("embedding", 0)
        is_new = "embedding" not in stored and config.pooling == "cls"
        pooling = pooling or (beside.pooling if beside is not None else "mean" if is_new else None)
    if pooling is not None:
        config = dataclasses.replace(config, pooling=pooling)
    pooler = not wanted and any(name.endswith(POOLERS) for name in weights)
    model = Model(config, wanted, pooler=pooler, drawn=False)
    if beside is not None:
        beside.set_activation(model)
    new, unused = fill(model, weights, family, stored, folder)
    return Loaded(model, labels_of(fields, wanted), noted, new, unused, fields.get("problem_type"))


def stored_heads(fields: dict[str, Any], family: Family | None) -> dict[str, int]:
    """Which heads the file holds: what bertctl noted, or what the published class name says."""
    noted = (fields.get("bertctl") or {}).get("heads")
    if noted is not None:
        return {name: count for name, count in noted.items() if name in HEADS}
    classes = {} if family is None else {name: heads for heads, name in family.architectures.items()}
    heads = classes.get((fields.get("architectures") or [""])[0], frozenset())
    labels = len(fields.get("id2label") or {}) or 2
    return {name: FIXED_OUTPUTS.get(name, labels) for name in sorted(heads)}


def labels_of(fields: dict[str, Any], heads: Mapping[str, int]) -> list[str] | None:
    """Label names in the order of the outputs, if the model has a task head that the file names labels for."""
    names = fields.get("id2label")
    count = next((heads[name] for name in ("sequence", "token", "image") if name in heads), None)
    if not names or len(names) != count:
        return None
    return [str(label) for _, label in sorted(names.items(), key=lambda item: int(item[0]))]


def fill(
    model: Model, weights: dict[str, Tensor], family: Family | None, stored: Mapping[str, int], folder: Path
) -> tuple[list[str], list[str]]:
    """Copy the file's tensors into the model; returns the names drawn anew and the names not used."""
    names = tensor_names(model, family, prefixed=any(w.startswith(family.base) for w in weights) if family else False)
    own = model_tensors(model)
    changed = {head for head, count in model.head_outputs.items() if stored.get(head, count) != count}
    new, problems, used = [], [], set()
    with torch.no_grad():
        for name, tensor in own.items():
            part = name.split(".")[1] if name.startswith("heads.") else name.split(".")[0]
            theirs = names[name]
            found = part_of(weights, theirs) if part not in changed else None
            if found is not None and found.shape == tensor.shape:
                tensor.copy_(found)
                used.add(theirs.name)
            elif part == "encoder":
                got = "no such tensor" if found is None else f"shape {tuple(weights[theirs.name].shape)}"
                whole = (theirs.parts * len(tensor), *tensor.shape[1:])
                problems.append(f"{folder}: {theirs.name}: got {got}, expected shape {whole}")
            else:
                new.append(name)
    if problems:
        raise BertctlError(*dict.fromkeys(problems), hint="config.json and model.safetensors do not belong together")
    return new, sorted(set(weights) - used)
