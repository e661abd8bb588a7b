"""`bertctl tokenize`."""

from typing import Annotated

import typer

from bertctl.cli.execute import run_stage
from bertctl.cli.options import DryRun, Json, Out, Resume, Set, Verbose, shared
from bertctl.cli.shipped import is_recipe
from bertctl.cli.shortcuts import fills
from bertctl.errors import BertctlError


def tokenize(
    recipe: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE] [FILES]...", help="A recipe, or more files behind --corpus.")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", metavar="FILES...", help="Files, folders, patterns, `-`, or `python_docs`."),
    ] = None,
    vocab_size: Annotated[int | None, typer.Option("--vocab-size", metavar="N", help="Pieces to learn.")] = None,
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", metavar="PATH", help="An existing vocabulary or model folder.")
    ] = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Train or take a vocabulary, and write a corpus as token shards."""
    name, files = split(recipe or [], corpus or [])
    source = {"name": files[0]} if files == ["python_docs"] else {"files": files} if files else None
    shortcuts = fills(
        ("--corpus", "corpus", source),
        ("--vocab-size", "vocab_size", vocab_size),
        ("--vocabulary", "vocabulary", vocabulary),
    )
    run_stage("tokenize", name, shortcuts, shared(out, set_, dry_run, resume, json))


def split(words: list[str], corpus: list[str]) -> tuple[str | None, list[str]]:
    """The recipe and the corpus files. The shell makes several words of `--corpus data/*.txt`; the option takes one."""
    recipes = [word for word in words if is_recipe(word)]
    files = [word for word in words if word not in recipes]
    if not corpus and files:
        recipes, files = recipes + files, []
    if len(recipes) > 1:
        raise BertctlError(
            f"tokenize: got {' '.join(recipes)}, expected one recipe", hint="name text files with --corpus"
        )
    return (recipes[0] if recipes else None), [*corpus, *files]
