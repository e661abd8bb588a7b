"""Folders that appear under their final name only when whole, and the lock that keeps two runs out of one folder.

Order of a save: temp folder beside, files flushed, manifest last, folder flushed, rename, parent flushed. A process
that dies at any of these points leaves the old state or the new one, and a leftover that the next start removes.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertctl.artifacts.files import (
    beside,
    clean_leftovers,
    die_at,
    environment_faults,
    fsync_path,
    hold,
    remove,
    whole_file,
    write_whole,
)
from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.artifacts.manifest import write_manifest
from bertctl.errors import BertctlError, EnvironmentFault

__all__ = ["die_at", "environment_faults", "lock", "remove_folder", "whole_file", "whole_folder", "write_whole"]

LOCK = ".lock"
KEPT = (LOCK, "recipe.yaml")  # written into an output folder before the work starts; they do not make it "not empty"


@contextmanager
def whole_folder(
    final: Path,
    *,
    kind: str,
    inputs: Mapping[str, str],
    facts: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Iterator[Path]:
    """A temp folder to write into; at the end of the block it gets its manifest and becomes `final`, whole.

    `inputs` and `facts` (see `write_manifest`) are read at the end, so a dict may be filled inside the block. A
    `final` that holds more than a lock and a recipe is refused unless `replace`. An exception in the block leaves
    nothing behind.
    Errors: BertctlError if `final` is taken, EnvironmentFault.
    """
    _refuse_broken_link(final)
    final = Path(os.path.realpath(final))
    with environment_faults(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        clean_leftovers(final.parent, final.name)
        _refuse_taken(final, replace)
        die_at(f"before temp {final.name}")
        temp, held = _new_temp(final)
        try:
            yield temp
            _finish(temp, kind, inputs, facts or {}, final)
            _refuse_taken(final, replace)
            _put_in_place(temp, final, replace)
        except BaseException:
            shutil.rmtree(temp, ignore_errors=True)
            raise
        finally:
            os.close(held)


def _refuse_broken_link(path: Path) -> None:
    if os.path.islink(path) and not os.path.exists(path):  # pathlib's raise where the name is too long
        raise EnvironmentFault(f"{path}: a link that leads nowhere, expected a folder")


def _refuse_taken(final: Path, replace: bool) -> None:
    if os.path.exists(final) and not final.is_dir():
        raise EnvironmentFault(f"{final}: is a file, expected a folder to write into")
    taken = [name for name in os.listdir(final) if name not in KEPT] if final.is_dir() else []
    if taken and not replace:
        first = min(taken, key=lambda name: (name.startswith("."), name))  # one that a person knows of
        problem = f"{final}: not empty (it holds {first}), expected a new folder"
        raise BertctlError(problem, hint="name another folder with --out, or delete this one")


def _new_temp(final: Path) -> tuple[Path, int]:
    """A temp folder and the descriptor that marks it as in use.

    Another process may take the folder for a leftover in the moment before it is marked; then it is gone and we try
    again.
    """
    while True:
        temp = beside(final, "tmp")
        temp.mkdir()
        try:
            held = hold(temp)
        except FileNotFoundError:
            continue
        if temp.is_dir():
            return temp, held
        os.close(held)


def _finish(temp: Path, kind: str, inputs: Mapping[str, str], facts: Mapping[str, Any], final: Path) -> None:
    for name in KEPT:
        if (final / name).is_file() and not (temp / name).exists():
            _link(final / name, temp / name)
    folders = [Path(place) for place, _, _ in os.walk(temp)]
    for path in [path for folder in folders for path in folder.iterdir() if path.is_file()]:
        fsync_path(path)
    die_at(f"before manifest {final.name}")
    write_manifest(temp, kind=kind, inputs=inputs, facts=facts)
    die_at(f"after manifest {final.name}")
    for path in (temp / MANIFEST, *folders):
        fsync_path(path)


def _link(path: Path, other: Path) -> None:
    """The same file under a second name, so that a held lock stays held; a copy where there are no hard links."""
    try:
        os.link(path, other)
    except PermissionError:
        shutil.copy2(path, other)


def _put_in_place(temp: Path, final: Path, replace: bool) -> None:
    """Rename `temp` to `final`; what was there is moved aside, and put back by the next start if we die between."""
    die_at(f"before rename {final.name}")
    if final.is_dir() and os.listdir(final):
        old = beside(final, "old")
        held = hold(final)
        try:
            os.rename(final, old)
            _take_place(temp, final, old, replace)
            remove(old)
        finally:
            os.close(held)
    else:
        os.rename(temp, final)
        fsync_path(final.parent)
        die_at(f"after rename {final.name}")


def _take_place(temp: Path, final: Path, old: Path, replace: bool) -> None:
    try:
        _refuse_taken(old, replace)  # another process may have finished here since we looked
        die_at(f"between renames {final.name}")
        os.rename(temp, final)
    except BaseException:
        os.rename(old, final)
        raise
    fsync_path(final.parent)
    die_at(f"after rename {final.name}")


def remove_folder(folder: Path) -> None:
    """Delete a folder so that its name is never seen on half of it."""
    doomed = beside(folder, "tmp")
    with environment_faults(folder):
        os.rename(folder, doomed)
        for path in sorted(doomed.iterdir())[:1]:
            remove(path)
        die_at(f"during delete {folder.name}")
        remove(doomed)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold `folder` (made if missing) for this process; the kernel frees it however the process ends.

    A folder that was made for this is taken away again if the block fails before it put anything there.
    Errors: EnvironmentFault naming the process that holds it.
    """
    _refuse_broken_link(folder)
    new = not os.path.exists(folder)
    descriptor = None
    while descriptor is None:
        descriptor = _locked(folder)
    try:
        yield
    except BaseException:
        if new and os.path.isdir(folder) and os.listdir(folder) == [LOCK]:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)


def _locked(folder: Path) -> int | None:
    """The descriptor of a lock file that is held; None if it was deleted while we took it."""
    with environment_faults(folder):
        _make(folder)
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            return None
    try:
        _take(descriptor, folder)
        if os.path.exists(folder / LOCK) and os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # how /proc and the like refuse, although the parent is there
        raise EnvironmentFault(f"{folder}: cannot be made, expected a place that takes new folders") from None


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        problem = f"{folder}: in use by process {holder}, expected a folder that no live run holds"
        raise EnvironmentFault(problem, hint="wait until it ends, or name another folder with --out") from None
    with environment_faults(folder):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
