"""Single files that appear whole or not at all, and the operating system's refusals as messages.

Leftovers: everything unfinished is called `<name>.tmp-<pid>-<8 hex digits>` and its writer holds a `flock` on it.
The kernel drops that lock when the writer dies, so a leftover is told from work in progress without trusting
process numbers, which containers use again.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bertctl.errors import EnvironmentFault

REFUSALS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.ELOOP,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ESTALE,
        errno.ENOLCK,
        errno.EBUSY,
    }
)
LEFTOVER = re.compile(r"(?P<name>.+)\.(?P<what>tmp|old)-\d+-[0-9a-f]{8}")


def die_at(point: str) -> None:
    """Kill this process if a test names this write point in BERTCTL_TEST_DIE_AT; nothing otherwise."""
    if os.environ.get("BERTCTL_TEST_DIE_AT") == point:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def environment_faults(path: Path, needs_bytes: int | None = None) -> Iterator[None]:
    """Turn what the operating system refuses while `path` is written into an `EnvironmentFault` (exit 3).

    A missing file (ENOENT) is no fault of the environment and passes through unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        named = error.filename if isinstance(error.filename, str) else ""
        where = named if named and ".tmp-" not in named else path
        taken = isinstance(error, (FileExistsError, NotADirectoryError))
        reason = "a file is in the way, expected a folder" if taken else (error.strerror or "refused").lower()
        raise EnvironmentFault(f"{where}: {reason}{_room(path, error, needs_bytes)}") from error


def _room(path: Path, error: OSError, needs_bytes: int | None) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ""
    needs = f"{needs_bytes:,} bytes needed, " if needs_bytes else ""
    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    status = os.statvfs(folder)
    return f" ({needs}{status.f_bavail * status.f_frsize:,} bytes free in {folder})"


def beside(final: Path, what: str) -> Path:
    """A new name next to `final` for something unfinished: `tmp` (to be dropped) or `old` (may be put back)."""
    return final.with_name(f"{final.name}.{what}-{os.getpid()}-{secrets.token_hex(4)}")


def hold(path: Path) -> int:
    """Mark `path` (file or folder) as in use by this process; returns the descriptor whose closing ends that.

    Waits for a cleaner that is looking at it just now. File systems without `flock` only lose the cleaning.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def fsync_path(path: Path) -> None:
    """Wait until the file's bytes, or the folder's list of names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write one file so that `path` holds the old content or all of the new, whatever happens.

    Errors: EnvironmentFault.
    """
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path, len(data)) as temp:
        temp.write_bytes(data)


@contextmanager
def whole_file(path: Path, needs_bytes: int | None = None) -> Iterator[Path]:
    """A name to write one file under; at the end of the block it is flushed to disk and becomes `path`.

    Inside a temp folder flushing is left to `whole_folder`, which does it once for all files.
    """
    temp = beside(path, "tmp")
    flush = not LEFTOVER.fullmatch(path.parent.name)
    with environment_faults(path, needs_bytes):
        try:
            temp.touch(exist_ok=False)
            descriptor = hold(temp)
            try:
                yield temp
                if flush:
                    fsync_path(temp)
                os.replace(temp, path)
                if flush:
                    fsync_path(path.parent)
            finally:
                os.close(descriptor)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
    die_at(f"after file {_named(path)}")


def _named(path: Path) -> str:
    folder = LEFTOVER.fullmatch(path.parent.name)
    return f"{folder['name'] if folder else path.parent.name}/{path.name}"


def clean_leftovers(folder: Path, name: str | None = None) -> None:
    """Drop what dead processes left unfinished in `folder`, and put back what they had moved aside.

    `name` restricts this to leftovers of one final name. Work in progress of a live process is not touched.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        leftover = LEFTOVER.fullmatch(path.name)
        if leftover and name in (None, leftover["name"]):
            with suppress(OSError), abandoned(path):
                final = path.with_name(leftover["name"])
                if leftover["what"] == "old" and not final.exists():
                    os.rename(path, final)
                else:
                    remove(path)


@contextmanager
def abandoned(path: Path) -> Iterator[None]:
    """Hold `path` while it is cleaned up; BlockingIOError if its writer is alive."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file or a whole folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
