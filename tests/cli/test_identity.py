import os

from bertctl.artifacts.folder import whole_folder
from bertctl.cli.identity import code_hash, content_hash


def test_a_folder_is_known_by_its_contents(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner/file.txt").write_text("text")
    (tmp_path / "b/metrics.jsonl").write_text("times that differ")
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    os.rename(tmp_path / "b/inner/file.txt", tmp_path / "b/inner/other.txt")
    assert content_hash(tmp_path / "a") != content_hash(tmp_path / "b")
    assert content_hash(tmp_path / "a/inner/file.txt") == content_hash(tmp_path / "b/inner/other.txt")


def test_a_run_folder_is_known_by_its_model(tmp_path):
    for name in ("a", "b"):
        with whole_folder(tmp_path / name / "model", kind="model", inputs={}) as folder:
            (folder / "weights").write_text("1")
    (tmp_path / "b/checkpoints").mkdir()
    (tmp_path / "b/checkpoints/old").write_text("x")
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")


def test_the_code_has_a_hash_of_its_own():
    assert len(code_hash()) == 64
