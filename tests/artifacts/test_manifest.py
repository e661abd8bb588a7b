"""Every kind of damage to a folder is seen, named, and is exit 2."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertctl.artifacts.folder import whole_folder, write_whole
from bertctl.artifacts.manifest import read_manifest, sha256_file, tree_hash, verify
from bertctl.errors import BertctlError

FLIPS = 20
Rewrite = Callable[[Path, bytes], None]
CHECKPOINT_FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")
TOKEN_FILES = ("tokens-00000.safetensors", "vocab.txt", "tokenizer.json", "manifest.json")


def flip(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def assert_flips_are_seen(path: Path, rewrite: Rewrite) -> None:
    intact = path.read_bytes()
    bits = np.random.default_rng(7).choice(len(intact) * 8, FLIPS, replace=False)
    for bit in bits:
        rewrite(path, flip(intact, int(bit)))
        with pytest.raises(BertctlError, match=path.name) as caught:
            verify(path.parent)
        assert caught.value.exit_code == 2, f"bit {bit}"
    rewrite(path, intact)
    verify(path.parent)


@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_flipped_bit_in_a_checkpoint(checkpoint: Callable[[int], Path], rewrite: Rewrite, name: str) -> None:
    assert_flips_are_seen(checkpoint(5) / name, rewrite)


@pytest.mark.parametrize("name", TOKEN_FILES)
def test_flipped_bit_in_a_token_folder(tokens: Path, rewrite: Rewrite, name: str) -> None:
    assert_flips_are_seen(tokens / name, rewrite)


@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_truncation_at_nine_points(checkpoint: Callable[[int], Path], rewrite: Rewrite, name: str) -> None:
    path = checkpoint(5) / name
    intact = path.read_bytes()
    for cut in range(9):
        rewrite(path, intact[: len(intact) * cut // 9])
        with pytest.raises(BertctlError, match=name):
            verify(path.parent)
    rewrite(path, intact + b"\0")
    with pytest.raises(BertctlError, match=name):
        verify(path.parent)


def test_missing_extra_and_swapped_files(checkpoint: Callable[[int], Path], tokens: Path) -> None:
    first, second = checkpoint(5), checkpoint(10)
    for name in ("model.safetensors", "state.json"):
        aside = first.parent / "aside"
        os.rename(first / name, aside)
        os.rename(second / name, first / name)
        os.rename(aside, second / name)
    with pytest.raises(BertctlError) as caught:
        verify(first)
    assert len(caught.value.problems) == 2, "all problems of a folder are told together"
    (tokens / "vocab.txt").unlink()
    with pytest.raises(BertctlError, match=r"vocab\.txt: missing"):
        verify(tokens)
    shutil.copy(tokens / "tokens-00000.safetensors", tokens / "tokens-00009.safetensors")
    with pytest.raises(BertctlError, match=r"tokens-00009\.safetensors: not in the manifest"):
        verify(tokens)


def test_no_manifest_no_folder_other_kind(tokens: Path, tmp_path: Path) -> None:
    with pytest.raises(BertctlError, match="got a folder of kind 'tokens', expected 'pairs'"):
        verify(tokens, kind="pairs")
    with pytest.raises(BertctlError, match="nowhere: no such folder, expected a finished folder"):
        verify(tmp_path / "nowhere")
    for kind, command in {"tokens": "bertctl tokenize", "pairs": "bertctl build-pairs"}.items():
        with pytest.raises(BertctlError) as caught:
            verify(tmp_path / "nowhere", kind=kind)
        assert caught.value.hint == f"{command} makes such a folder"
    (tmp_path / "file").write_text("x")
    with pytest.raises(BertctlError, match="file: got a file, expected a finished folder"):
        verify(tmp_path / "file")
    (tokens / "manifest.json").unlink()
    with pytest.raises(BertctlError, match="expected the manifest of a finished"):
        verify(tokens)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"format_version": 1}', '{"format_version": "x"}', "[" * 100_000]
)
def test_nonsense_for_a_manifest(tokens: Path, rewrite: Rewrite, text: str) -> None:
    rewrite(tokens / "manifest.json", text.encode())
    with pytest.raises(BertctlError, match=r"manifest\.json: damaged"):
        read_manifest(tokens)


def test_later_format_version_is_named(tokens: Path, rewrite: Rewrite) -> None:
    path = tokens / "manifest.json"
    tree = json.loads(path.read_text())
    del tree["manifest_sha256"]
    tree["format_version"] = 99
    digest = hashlib.sha256(json.dumps(tree, indent=1).encode()).hexdigest()
    rewrite(path, (json.dumps({**tree, "manifest_sha256": digest}, indent=1) + "\n").encode())
    with pytest.raises(BertctlError, match="got format version 99, expected at most 1") as caught:
        verify(tokens)
    assert caught.value.hint


def test_equal_contents_have_equal_hashes_and_a_name_counts(tmp_path: Path) -> None:
    def make(name: str, files: dict[str, str]) -> str:
        with whole_folder(tmp_path / name, kind="model", inputs={}) as temp:
            for file, text in files.items():
                (temp / file).parent.mkdir(exist_ok=True)
                write_whole(temp / file, text)
        return tree_hash(tmp_path / name)

    base = {"b.txt": "two", "a.txt": "one", "part/c.txt": "three"}
    hashed = make("first", {**base, "result.json": '{"seconds": 1}', "timing.json": "1"})
    assert hashed == make("second", {**dict(reversed(base.items())), "result.json": '{"seconds": 2}'})
    assert hashed != make("third", {"b.txt": "one", "a.txt": "two", "part/c.txt": "three"})
    lines = "".join(f"{hashlib.sha256(base[name].encode()).hexdigest()}  {name}\n" for name in base)
    by_hand = hashlib.sha256("".join(sorted(lines.splitlines(keepends=True))).encode()).hexdigest()
    assert hashed == by_hand


def test_what_may_change_and_what_may_be_added(tokens: Path) -> None:
    before = tree_hash(tokens)
    for name in ("result.json", "metrics.jsonl", "recipe.yaml", "README.md", ".gitattributes", ".lock"):
        (tokens / name).write_text("anything")
    verify(tokens, kind="tokens")
    assert tree_hash(tokens) == before


def test_inputs_facts_and_versions_come_back(tmp_path: Path) -> None:
    facts: dict[str, object] = {}
    with whole_folder(tmp_path / "x", kind="pairs", inputs={"tokens": "ab"}, facts=facts) as temp:
        write_whole(temp / "a", b"\0\xff")
        facts |= {"count": 3, "rate": 0.1, "text": "ä\u2028", "nested": {"list": [1, None]}}
    manifest = verify(tmp_path / "x")
    assert (manifest.kind, dict(manifest.inputs), dict(manifest.facts)) == ("pairs", {"tokens": "ab"}, facts)
    assert manifest.files == {"a": (2, hashlib.sha256(b"\0\xff").hexdigest())}
    assert manifest.versions["torch"]


def test_a_file_is_hashed_again_when_it_changes(tmp_path: Path, rewrite: Rewrite) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    first = sha256_file(path)
    rewrite(path, b"two")
    assert [first, sha256_file(path)] == [hashlib.sha256(text).hexdigest() for text in (b"one", b"two")]
