"""Labels from docstrings: true, balanced, the same every time, and nothing shared between splits."""

import re
from collections import Counter
from pathlib import Path

import pytest

from bertctl.demo import labels
from bertctl.demo.labels import Sizes, draw, package_examples, pair_examples, split_of
from bertctl.demo.sources import PACKAGES, Definition, Module, module_files

NONE: frozenset[str] = frozenset()
SIZES = Sizes(train=64, dev=32, test=64)


def test_packages_are_equally_many_and_true() -> None:
    found = package_examples(SIZES, 3)
    for split, size in SIZES._asdict().items():
        assert Counter(e.label for e in found[split]) == dict.fromkeys(PACKAGES, size // len(PACKAGES))
    for example in found["train"]:
        if example.label != "python":
            assert example.where.startswith(example.label)


def test_no_text_names_its_package() -> None:
    names = re.compile(r"\b(torch|pytorch|numpy|sympy|networkx|huggingface|datasets|rich|python)\b", re.IGNORECASE)
    texts = [e.text for split in package_examples(SIZES, 3).values() for e in split]
    assert [text for text in texts if names.search(text)] == []
    assert any(labels.MASK in text for text in texts)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Use `torch.nn.Linear` or NumPy arrays.", "Use `PACKAGE` or PACKAGE arrays."),
        ("An enriched orchestra of hubs", "An enriched orchestra of hubs"),
        ("from PyTorch, np.abs and a dataset", "from PACKAGE, PACKAGE and a PACKAGE"),
    ],
)
def test_names_of_packages_are_masked_as_words(text: str, masked: str) -> None:
    assert labels.PACKAGE_NAME.sub(labels.MASK, text) == masked


def test_half_of_the_pairs_change_bodies_inside_package_and_split() -> None:
    found = pair_examples(SIZES, 3)
    for examples in found.values():
        counts = Counter(e.label for e in examples)
        assert abs(counts["belongs"] - counts["other"]) <= len(PACKAGES)
    bodies = [e.pair for split in found.values() for e in split]
    assert len(set(bodies)) == len(bodies)  # every body once: neither side alone tells the label


def test_a_swapped_body_comes_from_another_module_of_the_package() -> None:
    group = [labels.Drawn("p", f"p.m{i // 3}", (f"p.m{i // 3}.f{i}", f"summary {i}", f"body {i}")) for i in range(24)]
    pairs = list(labels._half_swapped(group))
    assert len(pairs) == 24
    for place, pair in enumerate(pairs):
        body = int(pair.pair.split()[1])
        assert (pair.label == "belongs") == (body == place)
        assert pair.label == "belongs" or body // 3 != place // 3


def test_splits_share_no_module_and_no_text() -> None:
    for find in (package_examples, pair_examples):
        found = find(SIZES, 3)
        texts = {split: {" ".join(e.text.casefold().split()) for e in examples} for split, examples in found.items()}
        assert not texts["train"] & texts["test"]
        assert not texts["train"] & texts["dev"]
    splits = {split_of(name, 3) for name, _ in module_files("rich")}
    assert splits == {"train", "dev", "test"}


def test_the_seed_decides_and_nothing_else() -> None:
    first = package_examples(SIZES, 3)
    package_examples.cache_clear()
    assert package_examples(SIZES, 3) == first
    assert package_examples(SIZES, 4) != first


def test_a_module_gives_few_and_repeats_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "module_files", lambda package: [(f"{package}.m{i}", Path()) for i in range(60)])
    monkeypatch.setattr(labels, "read_module", lambda package, name, path: Module(package, name, (), NONE, NONE))
    found = draw(
        Sizes(160, 80, 160),
        0,
        lambda module: [(module.name, f"{module.name} {i % 4}") for i in range(9)],
        most_a_module=3,
    )
    items = [drawn.item for split in found.values() for drawn in split]
    assert len(set(items)) == len(items)
    assert max(Counter(where for where, _ in items).values()) == 3


def test_text_is_cut_at_a_word() -> None:
    text = "word " * 200
    assert labels.shortened(text).endswith("word")
    assert len(labels.shortened(text)) <= labels.LONGEST_TEXT
    assert labels.shortened("short") == "short"


def test_descriptions_are_long_enough_to_say_something() -> None:
    definitions = tuple(Definition(f"f{i}", "function", (), text) for i, text in enumerate(["Too short.", "Long " * 9]))
    module = Module("numpy", "numpy.m", definitions, NONE, NONE)
    assert [where for where, _ in labels._descriptions(module)] == ["numpy.m.f1"]
