"""Embedding models as sentence-transformers keeps them: a bare encoder, and beside it files that say how the vectors of
its tokens become one of the text: pooling, a projection, length 1.

Written with the module names and keys of its version 2, which all later ones read. Source: the folders that
sentence-transformers 2 to 6 save.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from bertctl.artifacts.header import PICKLE_SUFFIXES, refuse_pickle
from bertctl.artifacts.tensors import load_tensors, save_tensors
from bertctl.encoder.config import Pooling
from bertctl.errors import BertctlError, raise_problems
from bertctl.heads.model import Model
from bertctl.heads.table import EmbeddingHead

NAME = "modules.json"
PROJECTION = "heads.embedding.output"
POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "max": "max"}
FLAGS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
OTHER_FLAGS = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken")
ACTIVATIONS = {"Identity": "identity", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
PASSAGE_PROMPTS = ("document", "passage", "corpus")


@dataclass
class EmbeddingFolder:
    """What such a folder says. `projection` is the number of outputs, 0 without one; `weights` are the projection's,
    under our names; `noted` is what a checkpoint of ours keeps of the same."""

    pooling: Pooling = "mean"
    projection: int = 0
    activation: str = "identity"
    weights: dict[str, Tensor] = field(default_factory=dict)
    noted: dict[str, Any] = field(default_factory=dict)

    def set_activation(self, model: Model) -> None:
        """Give the embedding head its activation, if the projection is this one."""
        head = model.heads["embedding"]
        if isinstance(head, EmbeddingHead) and model.head_outputs["embedding"] == self.projection:
            head.act = self.activation


def write(folder: Path, model: Model, extra: Mapping[str, Any]) -> None:
    """Everything but the encoder itself, so that `SentenceTransformer(folder)` gives the vectors of `model`.

    `extra` is what config.json notes: `max_length`, and `embedding` with `normalize` and the two prefixes.
    """
    said = extra.get("embedding") or {}
    width, head = model.config.hidden_size, model.heads["embedding"]
    kinds = ["Transformer", "Pooling"]
    _write_json(folder / "1_Pooling" / "config.json", pooling_fields(model.config.pooling, width))
    if model.head_outputs["embedding"] and isinstance(head, EmbeddingHead):
        kinds.append("Dense")
        _write_projection(folder / "2_Dense", head)
    if said.get("normalize", False):
        kinds.append("Normalize")
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    _write_json(folder / NAME, modules)
    _write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": extra.get("max_length"), "do_lower_case": False}
    )
    prompts = {"query": said.get("query_prefix", ""), "document": said.get("passage_prefix", "")}
    settings = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    _write_json(folder / "config_sentence_transformers.json", settings)


def _write_projection(folder: Path, head: EmbeddingHead) -> None:
    act = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == head.act)
    parameters = {"linear.weight": "output.weight", "linear.bias": "output.bias"}
    tensors = {theirs: head.get_parameter(ours).detach().contiguous() for theirs, ours in parameters.items()}
    size, width = tensors["linear.weight"].shape
    named = f"torch.nn.modules.{'linear' if act == 'Identity' else 'activation'}.{act}"
    fields = {"in_features": width, "out_features": size, "bias": True, "activation_function": named}
    _write_json(folder / "config.json", fields)
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})


def pooling_fields(pooling: str, width: int) -> dict[str, Any]:
    """1_Pooling/config.json."""
    return {
        "word_embedding_dimension": width,
        **{flag: name == pooling for name, flag in FLAGS.items()},
        **dict.fromkeys(OTHER_FLAGS, False),
        "include_prompt": True,
    }


def read(folder: Path) -> EmbeddingFolder | None:
    """What a folder says; None without modules.json. Errors: BertctlError for modules that the embedding head does not
    have, each by name."""
    if not (folder / NAME).is_file():
        return None
    modules: list[dict[str, Any]] = _read_json(folder / NAME, list)
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    expected = ("Transformer", "Pooling", *(["Dense"] if "Dense" in kinds else []))
    if tuple(kinds) not in (expected, (*expected, "Normalize")):
        raise BertctlError(
            f"{folder / NAME}: got {', '.join(kinds)}, expected Transformer, Pooling, maybe Dense, maybe Normalize"
        )
    places = {kind: folder / str(module.get("path", "")) for kind, module in zip(kinds, modules, strict=True)}
    found = EmbeddingFolder(pooling=_pooling(places["Pooling"]))
    if "Dense" in places:
        _read_projection(places["Dense"], found)
    said = {"normalize": "Normalize" in kinds, **_prefixes(folder)}
    found.noted = {"task": "embedding", **_max_length(folder), "embedding": said}
    return found


def _pooling(folder: Path) -> Pooling:
    fields: dict[str, Any] = _read_json(folder / "config.json", dict)
    modes: Any = fields.get("pooling_mode", [name for name, flag in FLAGS.items() if fields.get(flag)])
    modes = [modes] if isinstance(modes, str) else [*modes, *(flag for flag in OTHER_FLAGS if fields.get(flag))]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        got = " and ".join(map(str, modes)) or "nothing"
        raise BertctlError(f"{folder / 'config.json'}: pools by {got}, expected one of {', '.join(POOLINGS)}")
    return POOLINGS[modes[0]]


def _read_projection(folder: Path, found: EmbeddingFolder) -> None:
    fields = _read_json(folder / "config.json", dict)
    named = str(fields.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if named not in ACTIVATIONS:
        raise BertctlError(f"{folder / 'config.json'}: got {named}, expected one of {', '.join(ACTIVATIONS)}")
    for path in sorted(folder.iterdir()):
        if path.suffix in PICKLE_SUFFIXES and not (folder / "model.safetensors").is_file():
            refuse_pickle(path)
    tensors = load_tensors(folder / "model.safetensors")
    raise_problems([f"{folder}: no tensor linear.weight" for _ in range("linear.weight" not in tensors)])
    weight = tensors["linear.weight"].float()
    found.projection, found.activation = len(weight), ACTIVATIONS[named]
    bias = tensors.get("linear.bias", weight.new_zeros(len(weight))).float()
    found.weights = {f"{PROJECTION}.weight": weight, f"{PROJECTION}.bias": bias}


def _max_length(folder: Path) -> dict[str, int]:
    path = folder / "sentence_bert_config.json"
    length = _read_json(path, dict).get("max_seq_length") if path.is_file() else None
    return {"max_length": length} if isinstance(length, int) and length > 0 else {}


def _prefixes(folder: Path) -> dict[str, str]:
    """What is put before queries and passages, and before a text that is neither."""
    path = folder / "config_sentence_transformers.json"
    fields = _read_json(path, dict) if path.is_file() else {}
    prompts = fields.get("prompts") or {}
    usual = prompts.get(fields.get("default_prompt_name"), "")
    passage = next((prompts[name] for name in PASSAGE_PROMPTS if prompts.get(name)), usual)
    return {"query_prefix": prompts.get("query") or usual, "passage_prefix": passage, "text_prefix": usual}


def _read_json(path: Path, kind: type[list] | type[dict]) -> Any:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BertctlError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BertctlError(f"{path}: not JSON ({str(error)[:100]})") from None
    if not isinstance(value, kind) or (kind is list and not all(isinstance(item, dict) for item in value)):
        raise BertctlError(f"{path}: got JSON of another kind, expected what sentence-transformers writes there")
    return value


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
