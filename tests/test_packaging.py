"""What the set-up files promise: exact versions, recipes in the wheel, a container that keeps its torch."""

import re
import stat
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def name_of(requirement):
    return re.split(r"[<>=~! \[]", requirement)[0].lower().replace("_", "-")


def constraints():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(re.fullmatch(r"([A-Za-z0-9_.-]+)==([^+\s]+)", line).groups() for line in lines if line[0] != "#")


def test_every_requirement_has_an_exact_version():
    pinned = {name_of(name): version for name, version in constraints().items()}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = {name_of(one) for one in [*PROJECT["project"]["dependencies"], *extras["test"], *extras["check"]]}
    assert wanted <= pinned.keys()
    assert pinned["torch"] == "2.13.0"


def test_nothing_that_only_tests_compare_with_is_needed_at_run_time():
    base = {name_of(one) for one in PROJECT["project"]["dependencies"]}
    assert base == {
        *("torch", "typer", "rich", "tokenizers", "datasets"),
        *("pyyaml", "pydantic", "safetensors", "numpy", "sentencex"),
    }


def test_the_recipes_go_into_the_wheel_where_the_program_looks_for_them():
    target = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]["recipes"]
    assert target == "bertctl/recipes"
    assert not (ROOT / "bertctl/recipes").exists(), "in a checkout they are at the root"


def test_the_container_keeps_its_torch_and_runs_as_a_user():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert lines.index("USER bertctl") < lines.index('ENTRYPOINT ["bertctl"]')
    text = "\n".join(lines)
    assert "cuda" in re.search(r"ARG TORCH_IMAGE=(pytorch/pytorch:\S+)", text)[1]
    assert "diff /tmp/torch-before" in text
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_ci_runs_the_tests():
    path = ROOT / ".ci/run"
    assert path.stat().st_mode & stat.S_IXUSR
    assert "exec make test" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["setup", "demo", "test", "check", "bench"])
def test_the_targets_that_people_are_told_of_exist(name):
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_contributing_stays_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) < 150
