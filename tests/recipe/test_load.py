from pathlib import Path

import pytest

from bertctl.errors import BertctlError
from bertctl.recipe.load import build_recipe, load_recipe
from bertctl.recipe.overrides import Override
from bertctl.recipe.section import Section
from tests.recipe.sample import Adam, Root, Sgd


@pytest.fixture
def load(tmp_path):
    def load(text, *overrides):
        path = tmp_path / "r.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_recipe(path, Root, overrides)

    return load


@pytest.fixture
def problems(load, tmp_path):
    """The problems of a text, without the folder in front."""

    def problems(text, *overrides):
        with pytest.raises(BertctlError) as caught:
            load(text, *overrides)
        assert caught.value.exit_code == 2
        return [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return problems


def in_pretrain(text):
    return f"pretrain:\n  steps: 5\n  {text}\n"


# The recipe rows of the matrix of malformed inputs: each is refused, at its line and column.
@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("sede: 1", "1:1", "unknown key; did you mean `seed`?"),
        (in_pretrain("optimizer: {name: adam, lrr: 1}"), "3:27", "did you mean `lr`?"),
        ("pretrain: {save: true}", "1:1", "pretrain.steps: missing"),
        ("seed: 'x'", "1:7", "got `x`, expected a whole number"),
        ("pretrain: {steps: 5, precision: [bf16]}", "1:33", "got a list of 1, expected `bf16` or `float32`"),
        ("seed: true", "1:7", "got true, expected a whole number"),
        ("seed: 3.5", "1:7", "got 3.5, expected a whole number"),
        ("seed: 1e6", "1:7", "write 1000000"),
        (in_pretrain("save: no"), "3:9", "got `no`, expected true or false"),
        (in_pretrain("save: 1"), "3:9", "got 1, expected true or false"),
        (in_pretrain("optimizer: {lr: '1e-3'}").replace("{lr", "{name: adam, lr"), "3:31", "without quotes"),
        ("pretrain: {steps: -5}", "1:19", "got -5, expected more than 0"),
        (in_pretrain("batch_size: 0"), "3:15", "got 0, expected 1 or more"),
        (in_pretrain("probability: 1.5"), "3:16", "got 1.5, expected less than 1"),
        (in_pretrain("probability: .nan"), "3:16", "expected a finite number"),
        (in_pretrain("probability: .inf"), "3:16", "expected a finite number"),
        ("seed: 1\nseed: 2", "2:1", "already given in line 1"),
        ("", "1:1", "empty"),
        ("- seed: 1", "1:1", "got a list"),
        ("seed", "1:1", "got a single value"),
        ("seed: 1\n---\nseed: 2", "2:1", "second document"),
        ("pretrain:\n\tsteps: 1", "2:1", "tab"),
        (b"seed: 1\nworkdir: ab\xff", "2:12", "byte 0xff"),
        ("seed: 1".encode("utf-16"), "1:1", "UTF-16"),
        ("seed: &s [*s]", "1:11", "inside its own value"),
        ("seed: " + "[" * 5000, "1:70", "deep"),
        ("seed: !!python/object/apply:os.getcwd []", "1:7", "tag"),
        ("seed: !!python/name:os.getcwd", "1:7", "tag"),
        ("workdir: ${HOME}/x", "1:10", "no variables"),
        ("workdir: '${HOME}/x'", "1:10", "no variables"),
        (in_pretrain("precision: bf61"), "3:14", "did you mean `bf16`?"),
        (in_pretrain("optimizer: {name: adma}"), "3:14", "did you mean `adam`?"),
        (in_pretrain("optimizer: {lr: 0.1}"), "3:3", "pretrain.optimizer.name: missing"),
        (in_pretrain("encoder: {lr: 7}"), "3:17", "pretrain.encoder.lr: got 7, expected 1 or less"),
        ("pretrain: {steps: 1, batch_size: 77}", "1:11", "batch_size 77 needs 2 steps"),
        ('workdir: "\\ud800"', "1:10", "surrogate"),
    ],
)
def test_each_fault_is_refused_at_its_place(problems, text, place, word):
    found = problems(text)
    assert any(line.startswith(f"r.yaml:{place}: ") and word in line for line in found), found


def test_a_missing_recipe_and_a_folder_are_refused(tmp_path):
    with pytest.raises(BertctlError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml", Root)
    with pytest.raises(BertctlError, match="got a folder"):
        load_recipe(tmp_path, Root)
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(BertctlError, match="got over"):
        load_recipe(tmp_path / "big.yaml", Root)


def test_what_must_be_accepted(load):
    recipe = load("pretrain: {steps: 1_000, optimizer: {name: adam, lr: 5e-5}, labels: [yes, no]}")
    assert recipe.pretrain.steps == 1000
    assert recipe.pretrain.optimizer == Adam(lr=5e-5)
    assert recipe.pretrain.labels == ["yes", "no"]
    assert load("pretrain: {steps: 1, optimizer: {name: adam, lr: 1e-3}}").pretrain.optimizer.lr == 0.001
    assert load(b"\xef\xbb\xbfseed: 7\n").seed == 7
    assert load(b"seed: 7\r\nworkdir: a\r\n") == Root(seed=7, workdir=Path("a"))


def test_all_problems_come_at_once_and_in_the_order_of_the_file(problems):
    found = problems(
        "pretrain:\n  stepz: 3\n  lr: 1\n  save: 3\nworkdir: 010\nsede: 010\nfinetune:\n  - {steps: 0}\n  - {}\n", "x"
    )
    assert [line.split(": ")[0] for line in found] == [
        "r.yaml:1:1",
        "r.yaml:2:3",
        "r.yaml:3:3",
        "r.yaml:4:9",
        "r.yaml:5:10",
        "r.yaml:6:1",
        "r.yaml:6:7",
        "r.yaml:8:13",
        "r.yaml:9:5",
        "--set x",
    ]
    assert found[2].endswith("pretrain.lr: unknown key; `lr` is a key of `pretrain.optimizer`")


def test_one_section_stands_for_a_list_of_one(load, problems):
    assert load("finetune: {steps: 3}") == load("finetune: [{steps: 3}]")
    (problem,) = problems("finetune:\n  steps: 3\n  savee: 1")
    assert problem == "r.yaml:3:3: finetune.savee: unknown key; did you mean `save`?"


def test_set_changes_values_by_the_same_rules(load):
    recipe = load(
        "pretrain: {steps: 1}\nfinetune: [{steps: 1}, {steps: 2}]",
        "seed=1_000",
        "pretrain.optimizer={name: sgd, momentum: 0}",
        "pretrain.labels=[no, 1e-4x]",
        "finetune.1.steps=20",
        "finetune[0].save=false",
        "finetune.*.batch_size=8",
        "workdir=a=b",
        "seed=8",
    )
    assert recipe.seed == 8
    assert recipe.pretrain.optimizer == Sgd(name="sgd", momentum=0.0)
    assert recipe.pretrain.labels == ["no", "1e-4x"]
    assert [(one.steps, one.save, one.batch_size) for one in recipe.finetune] == [(1, False, 8), (20, True, 8)]
    assert recipe.workdir == Path("a=b")


def test_set_needs_no_index_where_there_is_one_section(load):
    one = load("finetune: [{steps: 1, labels: [a]}]", "finetune.steps=3", "finetune.0.save=false")
    assert [(section.steps, section.save) for section in one.finetune] == [(3, False)]
    assert load("finetune: {steps: 1}", "finetune.steps=3").finetune[0].steps == 3


def test_set_may_make_a_section_and_unset_a_value(load):
    recipe = load("pretrain: {steps: 1, labels: [a]}", "finetune.steps=3", "pretrain.labels=")
    assert recipe.finetune[0].steps == 3
    assert recipe.pretrain.labels is None


@pytest.mark.parametrize("mark", ["|", ",", ";", "#", ":", "-", "*", "&", "@"])
def test_one_mark_of_punctuation_is_itself(load, mark):
    assert load("pretrain: {steps: 1}", f"pretrain.encoder={mark}").pretrain.encoder == mark


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("pretrain.steps", "got no `=`"),
        ("=3", "got no `=`"),
        ("pretrain..steps=3", "one `.` between them"),
        ("pretrain.steps=x", "got `x`, expected a whole number"),
        ("pretrain.stepz=3", "did you mean `steps`?"),
        ("pretrain.steps.more=3", "has no key `more`"),
        ("finetune.5.steps=3", "an index from 0 to 1"),
        ("finetune.steps=3", "expected an index"),
        ("pretrain.0=3", "is no list"),
        ("seed=010", "leading zero"),
        ("seed=*a", "double quotes"),
        ("seed={a: 1, a: 2}", "already given"),
    ],
)
def test_a_wrong_set_is_named_as_it_was_written(problems, override, word):
    (problem,) = problems("pretrain: {steps: 1}\nfinetune: [{steps: 1}, {steps: 2}]", override)
    assert problem.startswith(f"--set {override}: ")
    assert word in problem


def test_a_value_that_was_set_loses_its_place_in_the_file(problems):
    (problem,) = problems("pretrain: {steps: 1, optimizer: {name: adam}}", "pretrain.optimizer={name: adam, lr: 9}")
    assert problem.startswith("--set pretrain.optimizer={name: adam, lr: 9}: pretrain.optimizer.lr: got 9")


def test_what_does_not_go_together_names_what_was_set_and_the_way_out(load):
    with pytest.raises(BertctlError) as caught:
        load("finetune:\n  - steps: 1", "finetune.batch_size=77", "finetune.save=false", "seed=3")
    place, _, given = caught.value.problems[0].partition("; with ")
    assert place.endswith("r.yaml:2:5: finetune.0: batch_size 77 needs 2 steps")
    assert given == "--set finetune.batch_size=77, --set finetune.save=false"
    assert caught.value.hint == "--set finetune.0.steps=  (takes the recipe's value away; or give one that fits)"


class Length(Section):
    exclusive = (("steps", "epochs"),)

    steps: int | None = None
    """Updates."""
    epochs: float | None = None
    """Passes."""


class Lengths(Section):
    one: Length | None = None
    """A section."""
    many: list[Length] | None = None
    """Several."""


@pytest.fixture
def lengths(tmp_path):
    def lengths(text, *overrides):
        (tmp_path / "l.yaml").write_text(text)
        return load_recipe(tmp_path / "l.yaml", Lengths, overrides)

    return lengths


def test_what_is_set_takes_the_place_of_what_excludes_it_in_the_recipe(lengths):
    recipe = lengths("one: {epochs: 3}\nmany: [{epochs: 3}, {epochs: 4}]", "many.0.steps=5")
    assert [(one.steps, one.epochs) for one in (recipe.one, *recipe.many)] == [(None, 3), (5, None), (None, 4)]
    assert lengths("many: {epochs: 3}", "many.steps=5").many == [Length(steps=5)]
    assert lengths("one: {epochs: 3}", "one.steps=").one.epochs == 3  # nothing was given in its place
    assert lengths("one: {epochs: 3}", "one.epochs=", "one.steps=5").one.steps == 5


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("one: {epochs: 3, steps: 5}", []),
        ("one: {}", ["one.epochs=3", "one.steps=5"]),
        ("many: []", ["one={epochs: 3, steps: 5}"]),
    ],
)
def test_two_that_exclude_each_other_are_refused_where_one_source_says_both(lengths, text, overrides):
    with pytest.raises(BertctlError) as caught:
        lengths(text, *overrides)
    (problem,) = caught.value.problems
    assert "one: give steps or epochs, not both" in problem
    assert all(f"--set {given}" in problem for given in overrides)
    assert caught.value.hint is None  # the command line itself says what to leave out


def test_a_key_without_its_section_is_told_where_it_belongs(load):
    for key, place in (("optimizer", "finetune"), ("momentum", "finetune.optimizer")):
        with pytest.raises(BertctlError) as caught:
            load("finetune: {steps: 1}", f"{key}=1")
        assert f"{key}: unknown key; `{key}` is a key of `{place}`" in caught.value.problems[0]
        assert caught.value.hint == f"--set {place}.{key}=1"


def test_a_tree_without_a_file_is_checked_the_same_way():
    assert build_recipe({"finetune": {"steps": 3}}, Root).finetune[0].steps == 3
    with pytest.raises(BertctlError) as caught:
        build_recipe({"pretrain": {}}, Root, [Override(("pretrain", "save"), "x", "--save")])
    assert caught.value.problems == (
        "command line: pretrain.steps: missing (Updates of the weights)",
        "--save: pretrain.save: got `x`, expected true or false",
    )


def test_secrets_are_not_repeated(problems):
    (problem,) = problems("seed: https://me:secret@host/x")
    assert "secret" not in problem
    (problem,) = problems("seed: hf_abcdefghijklmnopqrstuvwxyz")
    assert "abcdef" not in problem


def test_many_problems_are_shown_up_to_twenty(load):
    with pytest.raises(BertctlError) as caught:
        load("".join(f"k{n}: 1\n" for n in range(30)))
    assert len(caught.value.problems) == 30
    assert len(caught.value.lines()) == 21
