"""Small folders of every kind, and ways to damage them."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bertctl.artifacts.folder import whole_folder, write_whole
from bertctl.artifacts.shards import TokenShardWriter
from bertctl.artifacts.tensors import save_tensors


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A token folder of 3 documents in 2 shards, with tokenizer files."""
    folder = tmp_path / "tokens"
    with whole_folder(folder, kind="tokens", inputs={}) as temp:
        writer = TokenShardWriter(temp, vocab_size=300, tokens_per_shard=8)
        for first in (10, 20, 30):
            sentence = np.arange(first, first + 5)
            writer.add_document([(sentence, sentence % 2 == 0), (sentence[:2], np.array([True, False]))])
        writer.close()
        write_whole(temp / "vocab.txt", "[PAD]\n[UNK]\nthe\n")
        write_whole(temp / "tokenizer.json", '{"model": {"vocab": {"[PAD]": 0}}}')
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[int], Path]:
    """Writes `checkpoints/step-N` with weights that depend on N, and returns it."""

    def write(step: int) -> Path:
        folder = tmp_path / "checkpoints" / f"step-{step}"
        with whole_folder(folder, kind="checkpoint", inputs={}, facts={"step": step}) as temp:
            weights = np.random.default_rng(step).normal(size=(4, 3)).astype(np.float32)
            save_tensors(temp / "model.safetensors", {"weight": weights}, {})
            save_tensors(temp / "optimizer.safetensors", {"weight.exp_avg": weights * 2}, {})
            write_whole(temp / "state.json", f'{{"step": {step}}}\n')
        return folder

    return write


@pytest.fixture
def rewrite() -> Callable[[Path, bytes], None]:
    """Puts other bytes into a file, with a later time, as any real change has: hashes are kept per process and time."""

    def put(path: Path, content: bytes) -> None:
        times = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1_000_000_000))

    return put


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a tmpfs of so many bytes, where the tests run as root and may mount."""
    mounted = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk-{size}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("no mount command here")
        if done.returncode:
            pytest.skip(f"cannot mount a small tmpfs here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)
