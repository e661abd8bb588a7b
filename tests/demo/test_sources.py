"""Source files are read by `ast`: what they define, in order, and nothing of them runs."""

from pathlib import Path

import pytest

from bertctl.demo import sources

SOURCE = '''"""A module of traps."""
raise RuntimeError("this module must never run")
class Box(Base):
    """Holds things."""
    def __init__(self, size, *rest, colour="red"):
        pass
    async def open(self, /, key, **more):
        """Open it."""
        def inner():
            """Not a definition of the module."""
    class Lid:
        def undocumented(self): pass
def measure(cls_, width, height=2):
    """Measure.

    Wide.
        Indented
    """
'''


def read(tmp_path: Path, text: str | bytes) -> sources.Module | None:
    path = tmp_path / "m.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return sources.read_module("pkg", "pkg.m", path)


def test_definitions_in_file_order_with_their_parameters(tmp_path: Path) -> None:
    module = read(tmp_path, SOURCE)
    assert module is not None
    assert [(d.name, d.kind, d.parameters) for d in module.definitions] == [
        ("", "module", ()),
        ("Box", "class", ("size", "rest", "colour")),
        ("Box.open", "function", ("key", "more")),
        ("measure", "function", ("cls_", "width", "height")),
    ]
    assert module.definitions[-1].docstring == "Measure.\n\nWide.\n    Indented"
    assert module.classes == {"Box", "Lid"}
    assert module.functions == {"__init__", "open", "undocumented", "measure"}


@pytest.mark.parametrize(
    "text",
    ["x = 1\n", 'def broken(:\n    """x"""\n', b'"""nul \x00"""\n', b'"""\xff\xfe"""\n', 'def f():\n    """   """\n'],
)
def test_files_that_say_nothing_are_none(tmp_path: Path, text: str | bytes) -> None:
    assert read(tmp_path, text) is None


def test_files_are_sorted_and_test_folders_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        "b.py",
        "a/__init__.py",
        "a/z.py",
        "a/tests/test_z.py",
        "test_b.py",
        "site-packages/x.py",
        "a/data.txt",
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('"""Doc."""')
    monkeypatch.setattr(sources, "package_folder", lambda package: tmp_path)
    assert [name for name, _ in sources.module_files("p")] == ["p.a", "p.a.z", "p.b"]
    assert [name for name, _ in sources.module_files(sources.STANDARD_LIBRARY)] == ["a", "a.z", "b"]


def test_a_package_that_is_not_installed_has_no_files() -> None:
    assert sources.module_files("no_such_package_here") == []
