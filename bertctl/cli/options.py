"""The options that every command has, in one place, so that they are the same everywhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

Recipe = Annotated[str | None, typer.Argument(metavar="[RECIPE]", help="A recipe file, or the name of a shipped one.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Output folder; WORKDIR/STAGE if not given.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe, as pretrain.training.steps=10."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the recipe with every value and what would run.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that the output folder holds.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show where in the program an error came from.")]


@dataclass(frozen=True)
class Shared:
    """The values of the options above."""

    out: Path | None = None
    overrides: tuple[str, ...] = ()
    dry_run: bool = False
    resume: bool = False
    as_json: bool = False


def shared(out: Path | None, set_: list[str] | None, dry_run: bool, resume: bool, json: bool) -> Shared:
    """The same, from a command's parameters."""
    return Shared(out, tuple(set_ or ()), dry_run, resume, json)
