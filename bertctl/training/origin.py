"""The checkpoint that a run starts from, told by what is in it and not by where it lies."""

import hashlib
from pathlib import Path

from bertctl.artifacts.manifest import sha256_file


def origin_hash(folder: Path) -> str:
    """SHA-256 over the config and the weights of a model folder.

    It goes into the fingerprint of a run in place of the folder's name: a path would make equal runs differ, and would
    not tell when the model behind it is exchanged before a resume.
    """
    paths = sorted([folder / "config.json", *folder.glob("*.safetensors")])
    lines = [f"{sha256_file(path)}  {path.name}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
