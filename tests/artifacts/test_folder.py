"""A folder is there whole or not at all, wherever the process dies; one folder, one run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertctl.artifacts.folder import lock, remove_folder, whole_folder, write_whole
from bertctl.artifacts.manifest import verify
from bertctl.errors import BertctlError, EnvironmentFault

WRITE = """if True:
    import sys
    from pathlib import Path
    from bertctl.artifacts.folder import remove_folder, whole_folder, write_whole
    final = Path(sys.argv[1])
    with whole_folder(final, kind="model", inputs={}, replace=True) as temp:
        write_whole(temp / "a", "new a")
        write_whole(temp / "b", "new b")
    remove_folder(final.with_name("gone"))
"""
WRITE_POINTS = (
    "before temp x",
    "after file x/a",
    "after file x/b",
    "before manifest x",
    "after manifest x",
    "before rename x",
    "between renames x",
    "after rename x",
    "during delete gone",
)


def make(final: Path, text: str) -> None:
    with whole_folder(final, kind="model", inputs={}, replace=True) as temp:
        for name in ("a", "b"):
            write_whole(temp / name, f"{text} {name}")


def content(final: Path) -> dict[str, str]:
    return {name: (final / name).read_text() for name in verify(final, kind="model").files}


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("point", WRITE_POINTS)
def test_kill_at_every_write_point(tmp_path: Path, point: str, replaces: bool) -> None:
    final, gone = tmp_path / "x", tmp_path / "gone"
    old, new = ({name: f"{text} {name}" for name in ("a", "b")} for text in ("old", "new"))
    make(gone, "old")
    if replaces:
        make(final, "old")
    elif point.startswith("between"):
        pytest.skip("nothing is moved aside if nothing is there")
    environment = {**os.environ, "BERTCTL_TEST_DIE_AT": point}
    died = subprocess.run([sys.executable, "-c", WRITE, str(final)], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL, "the point was never reached"
    done = point.startswith(("after rename", "during delete"))
    if final.exists():
        assert content(final) == (new if done else old), "what is there under the final name is whole"
    else:
        assert not done
        assert not replaces or point.startswith("between")
    assert gone.exists() == (not point.startswith("during delete")), "half a folder is never under its own name"
    make(gone, "old")
    make(final, "new")
    remove_folder(gone)
    assert content(final) == new
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"], "nothing is left to clean by hand"


def test_what_was_moved_aside_is_put_back(tmp_path: Path) -> None:
    final = tmp_path / "x"
    make(final, "old")
    environment = {**os.environ, "BERTCTL_TEST_DIE_AT": "between renames x"}
    subprocess.run([sys.executable, "-c", WRITE, str(final)], env=environment, check=False)
    assert not final.exists()
    with pytest.raises(BertctlError, match="not empty"), whole_folder(final, kind="model", inputs={}):
        pass
    assert content(final) == {"a": "old a", "b": "old b"}


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with whole_folder(tmp_path / "new" / "x", kind="model", inputs={}) as temp:
            write_whole(temp / "a", "half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_full_folder_is_refused_before_and_after_the_work(tmp_path: Path) -> None:
    final = tmp_path / "x"
    final.mkdir()
    make(final, "old")  # an empty one is taken
    (final / ".hidden").touch()  # not what a person would look for
    began = []
    with (
        pytest.raises(BertctlError, match=r"x: not empty \(it holds a\)"),
        whole_folder(final, kind="model", inputs={}),
    ):
        began.append("work that would have been for nothing")
    assert not began
    late = tmp_path / "y"

    def overtaken() -> None:
        with whole_folder(late, kind="model", inputs={}) as temp:
            write_whole(temp / "a", "ours")
            make(late, "old")

    with pytest.raises(BertctlError, match="not empty") as caught:
        overtaken()
    assert caught.value.exit_code == 2
    assert content(late) == {"a": "old a", "b": "old b"}


def test_a_folder_filled_in_the_last_moment_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final = tmp_path / "x"

    def overtake(point: str) -> None:
        if point == "before rename x":
            (final / "theirs").write_text("finished first")

    monkeypatch.setattr("bertctl.artifacts.folder.die_at", overtake)

    def work() -> None:
        with lock(final), whole_folder(final, kind="tokens", inputs={}) as temp:
            write_whole(temp / "ours", "finished second")

    with pytest.raises(BertctlError, match=r"not empty \(it holds theirs\)"):
        work()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]
    assert sorted(path.name for path in final.iterdir()) == [".lock", "theirs"]


def test_lock_and_recipe_stay_and_the_lock_stays_held(tmp_path: Path) -> None:
    final = tmp_path / "x"
    with lock(final):
        (final / "recipe.yaml").write_text("seed: 7\n")
        with whole_folder(final, kind="tokens", inputs={}) as temp:
            write_whole(temp / "a", "new")
        assert (final / "recipe.yaml").read_text() == "seed: 7\n"
        with pytest.raises(EnvironmentFault), lock(final):
            pass
    with lock(final):
        verify(final, kind="tokens")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


def test_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    make(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "disk") == {"a": "new a", "b": "new b"}
    monkeypatch.chdir(tmp_path)
    with whole_folder(Path("relative"), kind="model", inputs={}) as temp:
        monkeypatch.chdir("/")
        write_whole(temp / "a", "x")
    verify(tmp_path / "relative")


def test_remove_folder(tmp_path: Path) -> None:
    make(tmp_path / "x", "old")
    remove_folder(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


HOLD = """if True:
    import sys
    from pathlib import Path
    from bertctl.artifacts.folder import lock
    with lock(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
"""


def test_second_run_is_refused_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    with pytest.raises(EnvironmentFault, match=f"in use by process {first.pid}") as caught, lock(out):
        pass
    assert caught.value.exit_code == 3
    first.kill()
    first.communicate()
    with lock(out):
        pass


def test_a_folder_made_for_the_lock_goes_with_a_failure(tmp_path: Path) -> None:
    existing, new, used = tmp_path / "existing", tmp_path / "new", tmp_path / "used"
    existing.mkdir()
    for folder in (existing, new, used):

        def fail(folder: Path = folder) -> None:
            with lock(folder):
                if folder == used:
                    (folder / "work").write_text("x")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["existing", "used"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no folders")
def test_a_place_that_takes_no_folders_is_a_fault_of_the_environment() -> None:
    with pytest.raises(EnvironmentFault, match="/proc/bertctl"), lock(Path("/proc/bertctl/run")):
        pass


def test_a_deleted_lock_file_holds_nobody_out_and_lets_nobody_in_twice(tmp_path: Path) -> None:
    with lock(tmp_path):
        (tmp_path / ".lock").unlink()
        with lock(tmp_path), pytest.raises(EnvironmentFault), lock(tmp_path):
            pass


def test_eight_processes_make_the_same_new_folder(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from bertctl.artifacts.folder import whole_folder, write_whole
        from bertctl.errors import BertctlError
        try:
            with whole_folder(Path(sys.argv[1]), kind="model", inputs={}) as temp:
                write_whole(temp / "a", "x")
        except BertctlError as error:
            sys.exit(error.exit_code)
    """
    command = [sys.executable, "-c", code, str(tmp_path / "deep" / "er" / "x")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    errors = [process.communicate()[1] for process in running]
    codes = sorted(process.returncode for process in running)
    assert codes[0] == 0, errors
    assert set(codes) <= {0, 2, 3}, errors
    assert codes.count(0) == 1, "the first one there wins, the others are told that the place is taken"
    verify(tmp_path / "deep" / "er" / "x")
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["x"]
