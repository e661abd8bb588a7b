"""Where weights are read from: checkpoints of a run, finished models, folders that other tools wrote, the hub.

The newest checkpoint is found by looking at the `step-N` folders themselves, never by a pointer file, which could
be torn or stale.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertctl import console
from bertctl.artifacts.folder import remove_folder
from bertctl.artifacts.header import PICKLE_SUFFIXES, refuse_pickle
from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.artifacts.manifest import verify
from bertctl.errors import BertctlError, raise_problems

if TYPE_CHECKING:
    import torch

KIND = "checkpoint"
STEP_FOLDER = re.compile(r"step-(0|[1-9]\d*)")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
HUB_FILES = [
    "config.json",
    "*/config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "preprocessor_config.json",
    "tokenizer*.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "special_tokens*",
]
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def latest_checkpoint(folder: Path, *, say: Callable[[str], None] = console.warn) -> Path | None:
    """The `step-N` folder with the largest N that verifies, or None if there is no `step-N` at all.

    A damaged one is stepped over with one line to `say`. Errors: BertctlError if all there are damaged.
    """
    damaged: list[str] = []
    for path in _steps(folder):
        problem = _damage(path)
        if problem is None:
            return path
        damaged.append(problem)
        say(f"{path}: stepping back to the checkpoint before it, because this one is damaged ({problem})")
    raise_problems(damaged, hint=f"delete {folder} to start over, or name another folder with --out")
    return None


def _steps(folder: Path) -> list[Path]:
    """The `step-N` folders, newest first by N: file times say nothing after a copy or a wrong clock."""
    found = [path for path in folder.iterdir() if STEP_FOLDER.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """`.../step-15` -> 15."""
    return int(path.name.removeprefix("step-"))


def _damage(path: Path) -> str | None:
    try:
        manifest = verify(path, kind=KIND)
    except BertctlError as error:
        return error.problems[0]
    said = manifest.facts.get("step")
    return None if said == step_of(path) else f"{path}: was written as step {said}, expected the name step-{said}"


def prune_checkpoints(folder: Path, keep: int) -> None:
    """Delete the older `step-N` folders so that the newest `keep` that verify stay; fewer than 2 only if `keep` is 1.

    A damaged one is deleted once a newer one verifies. Nothing is deleted if none verifies.
    """
    intact = [path for path in _steps(folder) if _damage(path) is None]
    kept = intact[: max(1, keep)]
    for path in _steps(folder):
        if kept and path not in kept and step_of(path) < step_of(kept[0]):
            remove_folder(path)


def resolve_model(name: str | Path) -> Path:
    """The folder with `config.json` that `name` means: a model folder, a run's folder (its `model/`), or a hub name.

    `org/name` is fetched from the hub only if no such folder exists here. Errors: BertctlError saying what was
    missing.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _model_folder(path)
    if path.exists():
        refuse_pickle(path)
        raise BertctlError(f"{path}: is a file, expected a model folder with config.json and {WEIGHTS}")
    if HUB_NAME.fullmatch(str(name)) and not path.parent.is_dir():
        return _fetch(str(name))
    raise BertctlError(
        f"{path}: no such folder, expected a model folder or a hub name such as google-bert/bert-base-uncased"
    )


def _model_folder(path: Path) -> Path:
    for folder in (path, path / "model"):
        if (folder / "config.json").is_file():
            return folder
    if (path / "checkpoints").is_dir():
        hint = "finish the run with --resume; its model/ folder is written at the end"
        raise BertctlError(f"{path}: the run in it has not finished, expected a model/ folder", hint=hint)
    raise BertctlError(f"{path}: no config.json in it or in its model/ folder, expected a model folder")


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        folder = Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except (RepositoryNotFoundError, GatedRepoError, HFValidationError) as error:
        problem = f"{name}: no such model on the hub that we may read ({type(error).__name__}), and no such folder here"
        raise BertctlError(problem) from None
    except (LocalEntryNotFoundError, OSError) as error:
        problem = f"{name}: no such folder here, and the hub could not be reached ({type(error).__name__})"
        hint = f"it would fetch config.json, {WEIGHTS} and the tokenizer files of {name}; give a local folder instead"
        raise BertctlError(problem, hint=hint) from None
    return _model_folder(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a model folder, verified if the folder has a manifest. Errors: BertctlError."""
    _verify_if_ours(folder)
    return _read_json(folder / "config.json")


def _verify_if_ours(folder: Path) -> None:
    if (folder / MANIFEST).exists():
        verify(folder)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BertctlError(f"{path}: no such file, expected a JSON file") from None
    except json.JSONDecodeError as error:
        raise BertctlError(f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise BertctlError(f"{path}: not JSON ({str(error)[:100] or type(error).__name__})") from None
    if not isinstance(tree, dict):
        raise BertctlError(f"{path}: got a JSON {type(tree).__name__}, expected an object")
    return tree


def read_weights(folder: Path) -> "dict[str, torch.Tensor]":
    """All tensors of a model folder by name, on the CPU, from `model.safetensors` or the files its index names.

    Verified if the folder has a manifest. Errors: BertctlError if nothing is there, if only pickles are, or if a
    tensor holds NaN or infinity.
    """
    from bertctl.artifacts.tensors import finite, load_tensors  # numpy: a sixth of the time of `pretrain --help`

    _verify_if_ours(folder)
    tensors: dict[str, torch.Tensor] = {}
    for path, names in _weight_files(folder):
        loaded = load_tensors(path)
        missing = sorted(names - loaded.keys()) if names is not None else []
        raise_problems([f"{path}: no tensor {name!r}, which {INDEX} expects here" for name in missing])
        tensors.update({name: tensor for name, tensor in loaded.items() if names is None or name in names})
    raise_problems(
        [f"{folder}: tensor {name!r} holds NaN or infinity" for name in sorted(tensors) if not finite(tensors[name])]
    )
    return tensors


def _weight_files(folder: Path) -> Iterator[tuple[Path, set[str] | None]]:
    """Each file to read with the tensors to take from it (None: all)."""
    if (folder / WEIGHTS).is_file():
        yield folder / WEIGHTS, None
    elif (folder / INDEX).is_file():
        yield from _indexed(folder)
    else:
        for path in sorted(path for path in folder.glob("*") if path.suffix in PICKLE_SUFFIXES):
            refuse_pickle(path)
        raise BertctlError(f"{folder}: no {WEIGHTS}, expected the weights of a model")


def _indexed(folder: Path) -> Iterator[tuple[Path, set[str]]]:
    weight_map = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BertctlError(f"{folder / INDEX}: no weight_map, expected tensor names and their files")
    problem = "expected the name of a .safetensors file in the same folder"
    wrong = [file for file in weight_map.values() if not _is_weights_name(file)]
    raise_problems([f"{folder / INDEX}: got the file {file!r}, {problem}" for file in wrong])
    for file in sorted(set(weight_map.values())):
        yield folder / file, {name for name, place in weight_map.items() if place == file}


def _is_weights_name(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(".safetensors") and Path(file).name == file
