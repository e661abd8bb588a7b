"""What a job depends on, as one hash: its section, the contents of its inputs, the code, the libraries.

`bertctl run` skips a job whose hash is the one that it left in its folder when it ended. The hash goes by contents, so
that an input made again with the same bytes changes nothing, and a moved folder is the same folder.
"""

import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import bertctl
from bertctl.artifacts.files import write_whole
from bertctl.artifacts.manifest import NAME, UNHASHED, sha256_file, tree_hash
from bertctl.cli.plan import Job
from bertctl.cli.stages import STAGES

RECORD = ".stage.json"  # hidden: it is about the folder and not part of it
LIBRARIES = ("torch", "numpy", "tokenizers", "sentencex", "datasets")


def job_hash(job: Job, seed: int) -> str:
    """The identity of `job`, 64 hex digits. Reads every input file once."""
    values = job.section.model_dump(mode="json")
    inputs = STAGES[job.stage].inputs
    section = {key: "" if key in inputs else value for key, value in values.items() if key != "name"}
    contents = {key: list(_contents(value)) for key, value in values.items() if value is not None}
    parts = [job.stage, seed, section, contents, code_hash(), _versions(LIBRARIES)]
    if "python_docs" in json.dumps(values):
        parts.append(_versions(tuple(sorted({d.metadata["Name"] for d in metadata.distributions()}))))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_done(job: Job, identity: str) -> bool:
    """Whether the job's folder holds the result of just this job."""
    return made_by(job) == identity and (job.out / "result.json").is_file()


def made_by(job: Job) -> str | None:
    """The hash that the job which filled the folder left there; None if none has ended there."""
    try:
        return str(json.loads((job.out / RECORD).read_text(encoding="utf-8"))["job"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record(job: Job, identity: str) -> None:
    """Leave the hash in the folder, once the work is done. Resuming what was finished changes no file."""
    if made_by(job) != identity:
        write_whole(job.out / RECORD, json.dumps({"job": identity}) + "\n")


@cache
def code_hash() -> str:
    """SHA-256 over the package's own source, as it was when this process first asked."""
    package = Path(bertctl.__file__).parent
    digest = hashlib.sha256(bertctl.__name__.encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _contents(value: Any) -> Iterator[str]:
    """The hash of every file or folder that a value names: texts that are paths or patterns of paths that exist."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _contents(item)
    elif isinstance(value, str) and value and "\0" not in value and len(value) < 4096:
        for name in sorted(glob.glob(value)) if glob.has_magic(value) else [value]:
            if os.path.exists(name):
                yield content_hash(Path(name))


def content_hash(path: Path) -> str:
    """The identity of a file, of a bertctl folder (by its manifest, or that of its model), or of any folder."""
    if path.is_file():
        return sha256_file(path)
    for folder in (path, path / "model"):
        if (folder / NAME).is_file():
            return tree_hash(folder)
    if not path.is_dir():
        return ""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not _ignored(file.relative_to(path))]
    lines = [f"{sha256_file(file)}  {file.relative_to(path).as_posix()}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _ignored(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts) or any(path.match(pattern) for pattern in UNHASHED)
