"""`bertctl recipes`."""

from typing import Annotated

import typer

from bertctl.cli.shipped import find_recipe, shipped, title
from bertctl.console import print_json

Name = Annotated[str | None, typer.Argument(metavar="[list|NAME|schema|explain]", help="What to print.")]
Key = Annotated[str | None, typer.Argument(metavar="[KEY]", help="explain: a key, as pretrain.training.")]


def recipes(
    name: Name = None,
    key: Key = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show where in the program an error came from.")] = False,
) -> None:
    """List the recipes that come along, print one, explain the keys, or print the JSON Schema for an editor."""
    if name in (None, "list"):
        width = max((len(known) for known in shipped()), default=0)
        for known, path in shipped().items():
            typer.echo(f"{known:<{width}}  {title(path)}".rstrip())
    elif name == "schema":
        _schema()
    elif name == "explain":
        _explain(key)
    else:
        typer.echo(find_recipe(key if name == "print" and key else name).read_text(encoding="utf-8"), nl=False)


def _schema() -> None:
    from bertctl.cli.recipe import Recipe
    from bertctl.recipe.describe import json_schema

    print_json(json_schema(Recipe))


def _explain(key: str | None) -> None:
    from bertctl.cli.recipe import Recipe
    from bertctl.recipe.describe import explain

    typer.echo(explain(Recipe, key))
