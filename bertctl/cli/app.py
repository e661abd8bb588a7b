"""The command line: a static table of commands, each loaded only when it is called, and the exit codes.

`bertctl --help` has to be quick, so nothing here imports pydantic, rich, numpy or torch.
"""

import contextlib
import errno
import os
import sys
import traceback
from importlib import import_module
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from bertctl.console import clean
from bertctl.errors import BertctlError, Stopped

# command -> what it does; the module is bertctl/cli/<command>.py, the function has the name of the command
COMMANDS = {
    "tokenize": "Train or take a vocabulary; write a corpus as token shards.",
    "build-pairs": "Cut token shards into training examples, with sentence pairs or without.",
    "pretrain": "Train an encoder on masked tokens.",
    "finetune": "Train a checkpoint for a task.",
    "distill": "Train a smaller encoder to do as a larger one.",
    "evaluate": "Score a checkpoint on data, with intervals.",
    "predict": "Lines or JSONL in, JSONL out.",
    "probe": "See what each layer knows.",
    "describe": "What a model or recipe holds and needs: shapes, parameters, arithmetic, memory.",
    "run": "All stages of a recipe, in order; what has not changed is not done again.",
    "recipes": "List, print and explain recipes.",
}

ENVIRONMENT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)


class LazyCommands(TyperGroup):
    """A group that knows its commands by name and imports one only when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(COMMANDS)  # names only, for "did you mean"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, built from its module; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        function = getattr(import_module(f"bertctl.cli.{name}"), name)
        single = _typer()
        if isinstance(function, typer.Typer):
            return typer.main.get_command(function)
        single.command(cmd_name)(function)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in `--help`, from the table and not from the modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _typer(**attributes: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **attributes)


def _version(value: bool) -> None:
    if value:
        from importlib import metadata

        try:
            typer.echo(f"bertctl {metadata.version('bertctl')}")
        except metadata.PackageNotFoundError:
            typer.echo("bertctl, not installed (run from its source)")
        raise typer.Exit


def root_command() -> Any:
    """The whole command line as one object."""
    app = _typer(cls=LazyCommands)

    @app.callback(help="From raw text to a small, fast, evaluated encoder.")
    def options(
        version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    ) -> None:
        """Options of bertctl itself."""

    return typer.main.get_command(app)


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave with its exit code (docs/formats.md: 0, 1, 2, 3, 4, 5, 128 + signal)."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    # torch's threads wait asleep, not spinning: beside one other busy process the demo's training step took 2 to 10
    # times as long with spinning threads, and on an idle machine about 10% less (docs/experiments.md)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    code = _guarded(given)
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _to_nowhere(sys.stderr)
    if code == 0 and sys.stdout is not None:
        code = _flush()
    sys.exit(code)


def _fill_closed_streams() -> None:
    """With `2>&-` Python has no stderr, and prints on stdout what is meant for it; and the next file that is opened
    gets its number, and with it what C libraries complain about."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - for the whole process


def _guarded(given: list[str]) -> int:
    """The exit code of a command, after saying on stderr what went wrong."""
    verbose = "--verbose" in given
    try:
        code = int(root_command().main(given, prog_name="bertctl", standalone_mode=False) or 0)
        if code == 130:  # how typer hands on a KeyboardInterrupt
            raise KeyboardInterrupt
        return code
    except Stopped as error:
        return _say(error, [f"bertctl: {error}"], error.exit_status, verbose)
    except BertctlError as error:
        return _say(error, error.lines(), error.exit_code, verbose)
    except typer.TyperException as error:
        return _say(error, [f"error: {_usage(error)}", f"hint: {_help_of(error)}"], 2, verbose)
    except (KeyboardInterrupt, typer.Abort) as error:
        return _say(error, ["bertctl: stopped by SIGINT"], 130, verbose)
    except BrokenPipeError:
        return _quiet_pipe()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's own answer to a closed pipe is an exit with 1
            return _quiet_pipe()
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in tokenizers (Rust) is a BaseException and no Exception
        fault = _environment_fault(error)
        return _say(error, [f"error: {fault}"], 3, verbose) if fault else _bug(error)


def _say(error: BaseException, lines: list[str], code: int, verbose: bool) -> int:
    from bertctl.recipe.redact import redact

    trace = "".join(traceback.format_exception(error)).splitlines() if verbose else []
    with contextlib.suppress(OSError):  # nobody reads it, or its disk is full; the exit code still tells
        for line in (*trace, *lines):
            print(clean(redact(line)), file=sys.stderr)  # noqa: T201
    return code


def _usage(error: Any) -> str:
    message = str(error.format_message()).strip()
    return message[:1].lower() + message[1:]


def _help_of(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'bertctl'} --help"


def _environment_fault(error: BaseException) -> str | None:
    """A sentence if the machine is at fault: disk, permissions, memory."""
    if isinstance(error, OSError) and error.errno in ENVIRONMENT_ERRORS:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{os.strerror(error.errno)}"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"not enough memory: {str(error).splitlines()[0] if str(error) else 'an allocation failed'}"
    return None


def _bug(error: BaseException) -> int:
    return _say(error, ["error: this is a bug in bertctl; the lines above tell where"], 1, verbose=True)


def _flush() -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _quiet_pipe()
    except OSError as error:
        _to_nowhere(sys.stdout)
        fault = f"stdout: {os.strerror(error.errno or 0)}"
        return _say(error, [f"error: {fault}"], 3, verbose=False)
    return 0


def _quiet_pipe() -> int:
    """`| head` has read enough: that is success (decided), also for shells with `pipefail`."""
    _to_nowhere(sys.stdout)
    return 0


def _to_nowhere(stream: TextIO) -> None:
    """Python flushes its streams once more at its end, and must not complain there."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
