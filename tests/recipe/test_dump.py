from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.recipe.dump import dump_recipe, scalar
from bertctl.recipe.load import load_recipe
from tests.recipe.sample import Adam, Root, Sgd, Train

TEXT = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "${" not in text and "://" not in text)
WORDS = st.sampled_from(
    ["no", "1", "1e-4", "~", "null", "010", "0x1", ".inf", "a: b", "- a", "#", "1_0", "=", "<<", "é"]
)
TRAINS = st.builds(
    Train,
    steps=st.integers(2, 10**30),
    optimizer=st.builds(Adam, lr=st.floats(0, 1, exclude_min=True))
    | st.builds(Sgd, name=st.just("sgd"), momentum=st.floats(allow_nan=False, allow_infinity=False)),
    save=st.booleans(),
    labels=st.none() | st.lists(TEXT | WORDS),
    encoder=TEXT | WORDS | st.just(Adam()),
)
ROOTS = st.builds(
    Root,
    workdir=st.sampled_from([Path("runs"), Path("/a b/ü"), Path("1e5"), Path("no")]),
    seed=st.integers(),
    pretrain=st.none() | TRAINS,
    finetune=st.none() | st.lists(TRAINS, max_size=3),
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(ROOTS)
def test_what_is_written_loads_to_the_same(recipe):
    path = Path(__file__).parent / "never-written.yaml"
    assert _load(dump_recipe(recipe), path) == recipe


def _load(text, path):
    """Through the loader, but from memory: hypothesis writes no files."""

    class InMemory(type(path)):
        def open(self, *_args, **_kwargs):
            import io

            return io.BytesIO(text.encode())

    return load_recipe(InMemory(path), Root)


def test_the_form_is_fixed():
    recipe = Root(seed=7, finetune=[Train(steps=2, labels=["a", "no"]), Train(steps=3, encoder=Adam(lr=1e-5))])
    assert dump_recipe(recipe).splitlines()[:13] == [
        "workdir: runs",
        "seed: 7",
        "finetune:",
        "  - steps: 2",
        "    batch_size: 32",
        "    optimizer:",
        "      name: adam",
        "      lr: 0.001",
        "    precision: bf16",
        "    save: true",
        "    probability: 0.15",
        '    labels: [a, "no"]',
        "    encoder: half",
    ]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(TEXT | WORDS)
def test_text_is_read_as_text_by_yaml_1_1_too(text):
    assert yaml.safe_load(f"key: {scalar(text)}") == {"key": text}


def test_secrets_are_not_written():
    text = dump_recipe(Root(pretrain=Train(steps=2, labels=["http://me:pw@host", "num_tokens", "hf_" + "a" * 30])))
    assert "pw" not in text
    assert "aaaa" not in text
    assert "num_tokens" in text
