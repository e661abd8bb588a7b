"""The corpus of docstrings: honest prose, one paragraph a line, the same every time, with nothing imported."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

from bertctl.demo import python_docs
from bertctl.demo.sources import read_module

NUMPYDOC = """Return the :class:`~numpy.ndarray` of ``ones``
that fits.  It is new.

Parameters
----------
shape : int
    The shape
    of it.
name, other : str
    Names.

- first point
  goes on
- second

>>> ones(3)
array([1, 1, 1])

Google
Args:
    dim (int): the dim
        of it
"""


def test_paragraphs_become_lines_and_code_goes() -> None:
    assert python_docs.reflow(NUMPYDOC).split("\n") == [
        "Return the `numpy.ndarray` of `ones` that fits. It is new.",
        "shape : int",
        "The shape of it.",
        "name, other : str",
        "Names.",
        "- first point goes on",
        "- second",
        "Google",
        "Args:",
        "dim (int): the dim of it",
    ]


def test_text_without_letters_is_nothing() -> None:
    assert python_docs.reflow("----\n\n1 2 3\n\n| a | b |") == ""


def test_a_class_and_its_methods_are_one_document_and_repeats_go(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        '"""The module."""\nclass A:\n    """The class."""\n    def f(self):\n        """Same words."""\n'
        'def g():\n    """Same words."""\ndef h():\n    """Others."""\n'
    )
    module = read_module("p", "p.m", path)
    assert module is not None
    seen = {"The module."}
    assert list(python_docs.module_documents(module, seen)) == [
        ("p.m.A", "The class.\nSame words."),
        ("p.m.h", "Others."),
    ]
    assert seen == {"The module.", "The class.", "Same words.", "Others."}


def test_documents_begin_with_the_reference_and_repeat_exactly() -> None:
    first, second = (list(islice(python_docs.documents(), 400)) for _ in range(2))
    assert first == second
    assert first[0][0].startswith("pydoc:")
    assert len({text for _, text in first}) == 400
    assert all(len(text) >= python_docs.SHORTEST_DOCUMENT and "\n\n" not in text for _, text in first)


def test_nothing_that_is_read_is_imported() -> None:
    code = (
        "import sys; from itertools import islice; from bertctl.demo import python_docs, sources\n"
        "python_docs.PACKAGES = ('rich', 'torch')\n"
        "assert sum(1 for _ in islice(python_docs.documents(), 400)) == 400\n"
        "found = {'torch', 'numpy', 'rich', 'pydoc_data.topics'} & set(sys.modules)\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
