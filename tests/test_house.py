"""The rules of the house, as tests: floors, empty __init__ files, quick starts, recipes that load, frozen options."""

import ast
import importlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import bertctl
from bertctl.cli.app import COMMANDS
from bertctl.cli.recipe import Recipe
from bertctl.cli.shipped import recipes_folder, shipped
from bertctl.recipe.load import load_recipe
from bertctl.recipe.section import Section
from bertctl.recipe.sections import every_key, sections_in
from bertctl.tasks.table import TASKS

PACKAGE = Path(bertctl.__file__).parent
ROOT = PACKAGE.parent
HERE = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])

FLOORS = [
    {"errors", "signals", "memory", "workers", "console", "recipe"},
    {"artifacts", "encoder"},
    {"heads", "variants", "text", "images", "metrics", "demo"},
    {"training"},
    {"tasks"},
    {"tokenize", "build_pairs", "pretrain", "finetune", "distill", "evaluate", "probe"},
    {"cli"},
    {"__main__"},
]
# Within a floor, one way only.
BESIDE = {
    ("variants", "heads"),  # a checkpoint's tensors are named head by head
    ("variants", "text"),  # and its folder holds the tokenizer
    ("text", "demo"),  # the corpus python_docs
    ("build_pairs", "pretrain"),  # the audit draws the very masks that pretraining will draw
    ("distill", "pretrain"),  # on pretraining data
    ("distill", "finetune"),  # for a task
    ("evaluate", "pretrain"),  # the held-out score of a checkpoint, computed as in pretraining
}
NEVER = {"transformers", "sklearn", "scipy", "sentence_transformers", "seqeval", "pickle"}
HEAVY = ("torch", "numpy", "datasets", "PIL", "pyarrow", "transformers", "sentencex", "rich")

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "recipes" not in path.parts)


def room(name):
    """`bertctl.recipe.load` -> `recipe`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def floor_of(name):
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def imports(path):
    """(line, module) of every import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_every_room_has_a_floor():
    rooms = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    assert rooms <= set().union(*FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_lower_floors_and_its_own_folder(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    wrong = []
    for line, name in imports(path):
        if name.split(".")[0] in NEVER:
            wrong.append(f"line {line}: {name} is a reference for tests")
        if not name.startswith("bertctl.") or own == "__init__":
            continue
        other = room(name)
        allowed = other == own or floor_of(other) < floor_of(own) or floor_of(own) == 0 or (own, other) in BESIDE
        if not allowed:
            wrong.append(f"line {line}: {own} (floor {floor_of(own)}) imports {name} (floor {floor_of(other)})")
    assert wrong == []


@pytest.mark.parametrize("room", ["finetune", "distill", "evaluate", "probe", "cli"])
def test_no_stage_knows_a_task_by_its_name(room):
    """What sets a task apart is a field of its row. A recipe's own checks, which load no torch, may name one."""
    found = []
    for path in sorted((PACKAGE / room).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and path.name != "config.py":
                sides = [node.left, *node.comparators]
                parts = [part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
                asked = [side for side in sides if re.search(r"\b(task|name)$", ast.unparse(side))]
                found += [f"{path.name}:{node.lineno}" for name in parts if asked and name in TASKS]
    assert found == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_an_init_file_holds_its_docstring_and_nothing_else(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


def imported_by(*arguments):
    """The modules that a command has imported when it ends, and its exit code."""
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from bertctl.cli.app import main\n"
        "main()"
    )
    environment = {**os.environ, "PYTHONPATH": HERE}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stderr.splitlines()[-1].split()}


def test_help_imports_nothing_heavy():
    found = imported_by("--help")
    assert "bertctl" in found
    assert found.isdisjoint({*HEAVY, "pydantic", "yaml"})


@pytest.mark.parametrize("command", ["pretrain", "run"])
def test_a_dry_run_imports_neither_torch_nor_data_libraries(command, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("tokenize: {corpus: {name: python_docs}, vocab_size: 9}\npretrain: {}\nprobe: {task: pos}\n")
    assert imported_by(command, str(path), "--dry-run").isdisjoint(HEAVY)


SECTIONS = [Recipe, *dict.fromkeys(s for _, f in every_key(Recipe) for s in sections_in(f.annotation))]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_section_is_strict_and_every_key_has_a_sentence(section):
    assert issubclass(section, Section)
    assert section.model_config["extra"] == "forbid"
    assert section.model_config["strict"]
    assert [name for name, field in section.model_fields.items() if not field.description] == []


def test_no_section_holds_a_model_that_is_no_section():
    """Extra keys are refused by class: a plain BaseModel inside a recipe would take any."""
    definitions = Recipe.model_json_schema()["$defs"]
    mappings = [name for name, one in definitions.items() if one.get("type") == "object"]
    assert [name for name in mappings if definitions[name].get("additionalProperties") is not False] == []


def test_recipes_come_along():
    assert recipes_folder().is_dir()
    assert shipped()


@pytest.mark.parametrize("name", list(shipped()))
def test_every_recipe_loads_and_says_how_to_call_it(name):
    load_recipe(shipped()[name], Recipe)
    text = shipped()[name].read_text(encoding="utf-8")
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    assert set(re.findall(r"bertctl (\S+) ", head)) & set(COMMANDS), "expected a comment with the command at the top"


SHARED = ["--out", "--set", "--dry-run", "--resume", "--json", "--verbose"]
# The whole command line. A new option has to be added here, so that it is a decision and not an accident.
OPTIONS = {
    "tokenize": ["--corpus", "--vocab-size", "--vocabulary", *SHARED],
    "build-pairs": SHARED,
    "pretrain": SHARED,
    "finetune": ["--task", "--model", "--data", "--search", *SHARED],
    "distill": ["--task", "--data", *SHARED],
    "evaluate": ["--task", "--data", "--predictions", "--no-answer-probabilities", *SHARED],
    "predict": [
        *["--task", "--output", "--top-k", "--pooling", "--normalize", "--batch-size", "--max-length", "--long-text"],
        *["--format", "--out", "--verbose"],
    ],
    "probe": ["--task", "--data", *SHARED],
    "describe": ["--batch-size", "--tokens", "--precision", "--set", "--json", "--verbose"],
    "run": SHARED,
    "recipes": ["--verbose"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_a_command_are_frozen(command):
    name = command.replace("-", "_")
    single = typer.Typer(add_completion=False)
    single.command(command)(getattr(importlib.import_module(f"bertctl.cli.{name}"), name))
    parameters = typer.main.get_command(single).params
    options = [option for one in parameters if one.param_type_name == "option" for option in one.opts]
    assert options == OPTIONS[command]


def test_the_demo_says_first_what_was_measured():
    first = (Path(bertctl.__file__).parents[1] / "recipes" / "demo.yaml").read_text(encoding="utf-8").splitlines()[0]
    pattern = r"# bertctl run recipes/demo\.yaml +2 CPU cores: about \d+ min, held-out MLM loss \d\.\d+"
    assert re.fullmatch(pattern, first)
