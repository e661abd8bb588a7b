"""Single files appear whole; what the system refuses is exit 3; leftovers of the dead go, of the living stay."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertctl.artifacts.files import clean_leftovers, environment_faults, whole_file, write_whole
from bertctl.artifacts.folder import lock, whole_folder
from bertctl.artifacts.tensors import save_tensors
from bertctl.errors import EnvironmentFault


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_old_content_stays_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "old")

    def fail() -> None:
        with whole_file(path) as temp:
            temp.write_text("new and unfin")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    write_whole(path, "näw")
    assert path.read_bytes() == "näw".encode()
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_refusals_are_environment_faults(tmp_path: Path, code: int) -> None:
    def refuse() -> None:
        with environment_faults(tmp_path / "x", needs_bytes=12_345):
            raise OSError(code, os.strerror(code))

    with pytest.raises(EnvironmentFault, match=os.strerror(code).lower()) as caught:
        refuse()
    assert caught.value.exit_code == 3
    assert ("12,345 bytes needed" in str(caught.value)) == (code in (errno.ENOSPC, errno.EDQUOT))


def test_a_missing_input_is_no_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), environment_faults(tmp_path):
        (tmp_path / "input").read_text()


@pytest.mark.parametrize("free", [0, 1, 2, 3, 8, 15])
def test_full_disk(small_disk: Callable[[int], Path], free: int) -> None:
    """With `free` pages left, something of 16 pages does not fit: exit 3, what was there stays, nothing else does."""
    disk = small_disk(1 << 20)
    with whole_folder(disk / "step-5", kind="checkpoint", inputs={}, facts={"step": 5}) as temp:
        write_whole(temp / "a", "old")
    status = os.statvfs(disk)
    (disk / "fill").write_bytes(b"0" * (status.f_bavail - free) * status.f_frsize)
    before = names(disk)
    with (
        pytest.raises(EnvironmentFault, match=r"no space left.*bytes free"),
        whole_folder(disk / "step-10", kind="checkpoint", inputs={}) as temp,
    ):
        save_tensors(temp / "model.safetensors", {"x": np.zeros(16 * status.f_frsize, np.uint8)}, {})
    with pytest.raises(EnvironmentFault, match=r"65,\d\d\d bytes needed"):
        save_tensors(disk / "loose", {"x": np.zeros(16 * 4096, np.uint8)}, {})
    with pytest.raises(EnvironmentFault):
        write_whole(disk / "step-5" / "a", "n" * 16 * 4096)
    assert names(disk) == before
    assert (disk / "step-5" / "a").read_text() == "old"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place in (tmp_path / "file", tmp_path / "file" / "x", tmp_path / ("n" * 300), tmp_path / "broken", loop):
        with pytest.raises(EnvironmentFault) as caught, lock(place):
            pass
        assert len(caught.value.problems) == 1
        with pytest.raises(EnvironmentFault), whole_folder(place, kind="model", inputs={}):
            pass
    assert names(tmp_path) == ["broken", "file", "loop"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentFault, match="permission denied"), lock(tmp_path / "x"):
        pass


def test_leftovers_of_the_dead_go_and_of_the_living_stay(tmp_path: Path) -> None:
    code = """if True:
        import os, signal, sys
        from pathlib import Path
        from bertctl.artifacts.folder import whole_folder
        with whole_folder(Path(sys.argv[1]) / sys.argv[2], kind="model", inputs={}) as temp:
            (temp / "half").write_text("x")
            print("inside", flush=True)
            sys.stdin.read()
    """
    alive, dead = (
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("alive", "dead")
    )
    for process in (alive, dead):
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
    dead.kill()
    dead.communicate()
    (tmp_path / "mine.tmp-notes").write_text("a user's own file")
    clean_leftovers(tmp_path)
    assert [name.split("-")[0] for name in names(tmp_path)] == ["alive.tmp", "mine.tmp"]
    alive.communicate()
    assert names(tmp_path) == ["alive", "mine.tmp-notes"]
