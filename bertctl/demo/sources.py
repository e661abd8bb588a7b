"""What Python source files say about themselves: docstrings, signatures and names, read by `ast` and never imported.

The packages are the standard library and the dependencies of bertctl that carry the most prose, so that a machine that
has bertctl has them. Order is by package as listed, then by module name, then by place in the file: the same on every
machine that has the same versions installed.
"""

import ast
import importlib.util
import inspect
import os
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STANDARD_LIBRARY = "python"
PACKAGES = (STANDARD_LIBRARY, "torch", "numpy", "networkx", "sympy", "datasets", "huggingface_hub", "rich")
SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "dist-packages", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "testing", "tests"}
)
QUOTES = (b'"""', b"'''")

_Defining = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """One documented class or function, or the module itself (`kind` module, `name` empty)."""

    name: str
    """Name inside the module, as in `Tensor.item`."""
    kind: str
    """module, class or function."""
    parameters: tuple[str, ...]
    """Names of the parameters as written, without self and cls."""
    docstring: str
    """Cleaned of its indentation, otherwise as written."""


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its documented definitions in file order, and every class and function name in it."""

    package: str
    name: str
    definitions: tuple[Definition, ...]
    classes: frozenset[str]
    functions: frozenset[str]


def module_files(package: str) -> list[tuple[str, Path]]:
    """(module name, file) of every source file of a package, sorted by name; empty if it is not installed."""
    root = package_folder(package)
    if root is None:
        return []
    prefix = "" if package == STANDARD_LIBRARY else f"{package}."
    found = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        for file in files:
            if file.endswith(".py") and not file.startswith(("test_", "conftest")):
                path = Path(folder, file)
                found.append((prefix + ".".join(path.relative_to(root).with_suffix("").parts), path))
    return sorted((name.removesuffix(".__init__"), path) for name, path in found)


def package_folder(package: str) -> Path | None:
    """The folder that holds a package, found without importing it."""
    if package == STANDARD_LIBRARY:
        return Path(sysconfig.get_paths()["stdlib"])
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def read_modules(package: str) -> Iterator[Module]:
    """Every module of a package that has a docstring, in order of name."""
    for name, path in module_files(package):
        module = read_module(package, name, path)
        if module is not None:
            yield module


def read_module(package: str, name: str, path: Path) -> Module | None:
    """One source file; None if it has no docstring or is no Python of this version (templates, vendored code)."""
    source = path.read_bytes()
    if not any(quotes in source for quotes in QUOTES):  # no triple quote, no docstring: skips a fifth of the files
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in other people's strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    nodes = list(_defining_nodes(tree, ""))
    definitions = [d for name_, node in nodes if (d := _definition(name_, node)) is not None]
    if not definitions:
        return None
    classes = frozenset(node.name for _, node in nodes if isinstance(node, ast.ClassDef))
    functions = frozenset(node.name for _, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return Module(package, name, tuple(definitions), classes, functions)


def _defining_nodes(node: ast.Module | _Defining, name: str) -> Iterator[tuple[str, ast.Module | _Defining]]:
    """The node and all classes, methods and functions directly in modules and classes (not inside functions)."""
    yield name, node
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, _Defining):
                yield from _defining_nodes(child, f"{name}.{child.name}" if name else child.name)


def _definition(name: str, node: ast.Module | _Defining) -> Definition | None:
    docstring = ast.get_docstring(node, clean=False)
    if not docstring or not docstring.strip():
        return None
    kind = "module" if isinstance(node, ast.Module) else "class" if isinstance(node, ast.ClassDef) else "function"
    return Definition(name, kind, _parameters(node), inspect.cleandoc(docstring))


def _parameters(node: ast.Module | _Defining) -> tuple[str, ...]:
    if isinstance(node, ast.ClassDef):  # the docstring of a class documents the arguments of its constructor
        makers = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name in ("__init__", "__new__")]
        return _parameters(makers[0]) if makers else ()
    if isinstance(node, ast.Module):
        return ()
    args = node.args
    named = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return tuple(arg.arg for arg in named if arg is not None and arg.arg not in ("self", "cls"))
