"""The pages and README against the program: links lead somewhere, commands parse, keys and recipes exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

import bertctl
from bertctl.cli.app import root_command
from bertctl.cli.recipe import Recipe
from bertctl.recipe.load import build_recipe
from bertctl.recipe.overrides import parse_override
from bertctl.recipe.sections import every_key
from bertctl.recipe.yaml_tree import parse_yaml

ROOT = Path(bertctl.__file__).parent.parent
PAGES = [path for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md") if path.exists()]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SET = re.compile(r"--set[ =]['\"]?([a-z][\w.*\[\]]*)=")
COMMAND = re.compile(r"(?:^|python -m |\s-m )bertctl (.*)")
SHELLS = ("", "sh", "bash", "shell", "console")
KEYS = dict(every_key(Recipe))

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not installed")


def blocks(page, languages):
    return [text for language, text in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def commands(page):
    """What stands behind `bertctl` in the page's shell blocks, without comments and with its other commands cut off."""
    for block in blocks(page, SHELLS):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s+[|>]\s+|&&|;", line.strip().removeprefix("$ ")):
                found = COMMAND.search(part.strip())
                if found and not part.startswith("#"):
                    yield found[1]


def parse(command):
    """Parse one command line as the program would. In a usage line, what is optional is given, and N is a number."""
    plain = re.sub(r"(?<!\S)[\[(]|[\])](?=\.\.\.|\s|$)|\.\.\.", " ", command)
    words = ["1" if word == "N" else word for word in shlex.split(plain, comments=True) if word != "|"]
    group = root_command()
    with group.make_context("bertctl", list(words)) as context:
        found = group.get_command(context, words[0])
        assert found is not None, f"no command {words[0]}"
        found.make_context(words[0], words[1:], parent=context).close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = [target.split("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8")) if ":" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_parse(page):
    wrong = []
    for command in commands(page):
        try:
            parse(command)
        except (typer.TyperException, AssertionError, ValueError) as error:
            wrong.append(f"bertctl {command}: {error}")
        except typer.Exit:
            pass  # --help, --version
    assert wrong == []


def known(path):
    """Whether there is such a key; below a mapping with free names (the weights of a distillation) any name is one."""
    names = tuple(part for part in path if isinstance(part, str) and part != "*")
    return names in KEYS or ("dict" in str(KEYS[names[:-1]].annotation) if names[:-1] in KEYS else False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_keys_given_to_set_exist(page):
    given = SET.findall(page.read_text(encoding="utf-8"))
    assert [key for key in given if not known(parse_override(f"{key}=x").path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_on_pages_load(page):
    for block in blocks(page, ("yaml",)):
        document = parse_yaml(block)
        assert document.problems == []
        build_recipe(document.tree, Recipe, origin=page.name)


def test_the_pages_are_looked_into():
    """The searches above find things: else they could not fail."""
    assert sum(len(list(commands(page))) for page in PAGES) > 40
    with pytest.raises(typer.TyperException):
        parse("pretrain --no-such-option")
    with pytest.raises(typer.TyperException):
        parse("pretrain [--no-such-option DIR]")
    with pytest.raises((typer.TyperException, AssertionError)):
        parse("no-such-command")
    assert not known(("pretrain", "no_such_key"))
    assert known(("distill", "weights", "mlm"))
