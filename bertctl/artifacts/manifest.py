"""`manifest.json`: what a folder must hold, byte for byte. The last file written, the first one read.

safetensors has no checksum: a flipped bit in a tensor loads without a sign. So every file's SHA-256 is kept here,
and the manifest's own over its text, which makes a flipped bit in any file of an artifact show. Wall-clock times,
hosts and absolute paths live in files that are listed by name only, so that equal runs give equal hashes.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bertctl.artifacts.files import LEFTOVER, environment_faults, write_whole
from bertctl.errors import BertctlError, raise_problems

FORMAT_VERSION = 1
NAME = "manifest.json"
UNHASHED = ("result.json", "metrics.jsonl", "recipe.yaml", "timing*.json")
MAY_BE_ADDED = ("README*", "LICENSE*")  # what people and model hubs put into a folder later, read by no program
SEPARATE = ("checkpoints",)  # folders in a run's folder whose parts carry manifests of their own

_hashes: dict[tuple[str, int, int, int], str] = {}


@dataclass(frozen=True)
class Manifest:
    """What a `manifest.json` says. `files`: name relative to the folder -> (bytes, SHA-256)."""

    kind: str
    format_version: int
    files: Mapping[str, tuple[int, str]]
    unhashed: tuple[str, ...]
    inputs: Mapping[str, str]
    facts: Mapping[str, Any]
    versions: Mapping[str, str]


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes in hex, computed once per process while path, inode, size and time stay the same."""
    status = path.stat()
    key = (os.path.abspath(path), status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _hashes:
        with path.open("rb") as file:
            _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def write_manifest(folder: Path, *, kind: str, inputs: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    """Hash the files of `folder` and write its manifest.

    `kind` is what the folder is (`tokens`, `model`, ...), `inputs` the name and hash of what it was made from,
    `facts` any JSON that readers may want (counts, settings). Errors: EnvironmentFault.
    """
    names = list(_names(folder))
    with environment_faults(folder):
        hashed = [name for name in names if not _is_unhashed(name)]
        files = {name: _entry(folder / name) for name in hashed}
    tree = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "files": files,
        "unhashed": [name for name in names if _is_unhashed(name)],
        "inputs": dict(inputs),
        "facts": dict(facts),
        "versions": _versions(),
    }
    write_whole(folder / NAME, _text(tree))


def _entry(path: Path) -> dict[str, int | str]:
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _text(tree: Mapping[str, Any]) -> str:
    """The only spelling of a manifest; its last key is the SHA-256 of the rest."""
    body = json.dumps(tree, indent=1, allow_nan=False)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps({**tree, "manifest_sha256": digest}, indent=1, allow_nan=False) + "\n"


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for package in ("bertctl", "torch", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _names(folder: Path) -> Iterator[str]:
    """Files that belong to the artifact, in order; hidden files, leftovers and manifests themselves do not."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f[0] != "." and f not in SEPARATE and not LEFTOVER.fullmatch(f))
        for name in sorted(files):
            if name[0] != "." and name != NAME and not LEFTOVER.fullmatch(name):
                yield (Path(place) / name).relative_to(folder).as_posix()


def _is_unhashed(name: str) -> bool:
    return any(fnmatch(Path(name).name, pattern) for pattern in UNHASHED)


def is_kind(folder: Path, kind: str) -> bool:
    """Whether `folder` holds a finished artifact of this kind, and not something else that must stay."""
    try:
        return read_manifest(folder).kind == kind
    except BertctlError:
        return False


MADE_BY = {"tokens": "bertctl tokenize", "pairs": "bertctl build-pairs"}


def read_manifest(folder: Path, made_by: str | None = None) -> Manifest:
    """The manifest of `folder`, checked against its own hash; the other files are not looked at (see `verify`).
    `made_by`: the command that makes such a folder, for who has none.

    Errors: BertctlError if there is none, if it is damaged, or if a later bertctl wrote it.
    """
    path = folder / NAME
    try:
        text = path.read_bytes()
        tree = json.loads(text)
        version = tree["format_version"]
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            got = "got a file" if folder.exists() else "no such folder"
            hint = f"{made_by} makes such a folder" if made_by else None
            raise BertctlError(f"{folder}: {got}, expected a finished folder of bertctl", hint=hint) from None
        hint = "name the folder that an earlier command was given as --out, once that command has ended"
        problem = f"{path}: no such file, expected the manifest of a finished bertctl folder"
        raise BertctlError(problem, hint=hint) from None
    except (ValueError, RecursionError, TypeError, KeyError):
        raise BertctlError(f"{path}: damaged, expected a manifest as bertctl writes it") from None
    if isinstance(version, int) and version > FORMAT_VERSION and _is_intact(tree, text):
        problem = f"{path}: got format version {version}, expected at most {FORMAT_VERSION}"
        raise BertctlError(problem, hint="use the bertctl that wrote this folder, or a later one")
    if not _is_intact(tree, text):
        raise BertctlError(f"{path}: damaged, its text does not match its own SHA-256")
    return _manifest(tree, path)


def _is_intact(tree: dict[str, Any], text: bytes) -> bool:
    body = {key: value for key, value in tree.items() if key != "manifest_sha256"}
    try:
        return _text(body).encode() == text
    except (ValueError, RecursionError):
        return False


def _manifest(tree: dict[str, Any], path: Path) -> Manifest:
    try:
        files = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in tree["files"].items()}
        unhashed = tuple(map(str, tree["unhashed"]))
        return Manifest(
            str(tree["kind"]),
            int(tree["format_version"]),
            files,
            unhashed,
            dict(tree["inputs"]),
            dict(tree["facts"]),
            dict(tree["versions"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BertctlError(f"{path}: damaged, expected a manifest as bertctl writes it") from None


def verify(folder: Path, *, kind: str | None = None) -> Manifest:
    """Check that `folder` holds exactly what its manifest says, every hashed file byte for byte.

    Errors: BertctlError naming each file that is missing, extra, cut short or changed, or another kind than `kind`.
    """
    manifest = read_manifest(folder, MADE_BY.get(kind or ""))
    if kind is not None and manifest.kind != kind:
        raise BertctlError(f"{folder}: got a folder of kind {manifest.kind!r}, expected {kind!r}")
    problems = [problem for name in manifest.files if (problem := _problem(folder / name, *manifest.files[name]))]
    problems += [f"{folder / name}: not in the manifest, expected no such file" for name in _extra(folder, manifest)]
    hint = "restore the folder from a copy or make it again"
    if manifest.kind == "model":
        hint += "; if you changed this model on purpose, delete its manifest.json"
    raise_problems(problems, hint=hint)
    return manifest


def _extra(folder: Path, manifest: Manifest) -> list[str]:
    known = [name for name in _names(folder) if name not in manifest.files and not _is_unhashed(name)]
    return [name for name in known if not any(fnmatch(name, pattern) for pattern in MAY_BE_ADDED)]


def _problem(path: Path, size: int, digest: str) -> str | None:
    if not path.is_file():
        return f"{path}: missing, expected {size:,} bytes"
    if (got := path.stat().st_size) != size:
        return f"{path}: damaged, got {got:,} bytes, expected {size:,}"
    if sha256_file(path) != digest:
        return f"{path}: damaged, its bytes do not match the SHA-256 in manifest.json"
    return None


def tree_hash(folder: Path) -> str:
    """The identity of an artifact: SHA-256 over the sorted lines `<sha256>  <name>` of its hashed files.

    Read from the manifest; call `verify` first where the files themselves matter.
    """
    files = read_manifest(folder).files
    lines = sorted(f"{digest}  {name}\n" for name, (_, digest) in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()
