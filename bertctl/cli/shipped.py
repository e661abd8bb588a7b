"""The recipes that come along: in the wheel beside the package, in a checkout at its root."""

import difflib
from pathlib import Path

import bertctl
from bertctl.errors import BertctlError

ENDINGS = (".yaml", ".yml")


def recipes_folder() -> Path:
    """Where the shipped recipes are."""
    package = Path(bertctl.__file__).parent
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def shipped() -> dict[str, Path]:
    """Name (`demo`, `finetune/ner`) -> file, sorted by name."""
    folder = recipes_folder()
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def is_recipe(text: str) -> bool:
    """Whether an argument names a recipe, not a model or folder: by its ending, or as the name of a shipped one."""
    return text.endswith(ENDINGS) or (not Path(text).exists() and text in shipped())


def find_recipe(text: str) -> Path:
    """The file for a path or for the name of a shipped recipe. Errors: BertctlError with the nearest name."""
    if Path(text, "config.json").is_file():
        hint = f"a model goes to an option: bertctl finetune --task TASK --model {text} --data PATH"
        raise BertctlError(f"{text}: got the folder of a model, expected a recipe", hint=hint)
    saved = Path(text, "recipe.yaml")
    if saved.is_file():
        raise BertctlError(
            f"{text}: got the folder of a run, expected a recipe",
            hint=f"its recipe is {saved}; to go on with the run: bertctl STAGE {saved} --out {text} --resume",
        )
    if Path(text).exists():
        return Path(text)
    known = shipped()
    for name in (text, text.removeprefix("recipes/").removesuffix(".yaml")):
        if name in known:
            return known[name]
    near = difflib.get_close_matches(text, list(known), n=1)
    guess = f"; did you mean `{near[0]}`?" if near else ""
    raise BertctlError(f"{text}: no such recipe{guess}", hint="bertctl recipes  (lists those that come along)")


def title(path: Path) -> str:
    """What a recipe says of itself in its first line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("#").strip()
