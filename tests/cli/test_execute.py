import json

import pytest

from bertctl.cli.recipe import Recipe
from bertctl.errors import BertctlError
from bertctl.recipe.load import load_recipe
from bertctl.recipe.yaml_tree import parse_yaml


def test_the_resolved_recipe_is_there_before_the_work_and_repeats_it(fake, call, recipe, tmp_path):
    seen = []
    fake.then = lambda stage: seen.append((tmp_path / "work/tokenize/recipe.yaml").read_text())
    assert call("tokenize", recipe, "--set", "tokenize.vocab_size=200")[0] == 0
    saved = load_recipe(tmp_path / "work/tokenize/recipe.yaml", Recipe)
    assert seen == [(tmp_path / "work/tokenize/recipe.yaml").read_text()]
    assert saved.tokenize.vocab_size == 200
    assert saved.pretrain is None
    assert call("tokenize", "work/tokenize/recipe.yaml", "--out", "again")[0] == 0
    (_, first, _, *rest), (_, second, _, *same) = fake.calls
    assert first == second
    assert rest == same == [7, False]


def test_dry_run_prints_the_recipe_and_does_nothing(fake, call, recipe, tmp_path):
    code, out, err = call("pretrain", recipe, "--dry-run")
    assert code == 0
    assert err == "would run pretrain -> work/pretrain\n"
    assert "  pairs: work/build_pairs\n" in out
    (tmp_path / "copy.yaml").write_text(out)
    assert load_recipe(tmp_path / "copy.yaml", Recipe).pretrain.training.steps == 5
    as_json = call("pretrain", recipe, "--dry-run", "--json")[1]
    assert json.loads(as_json) == parse_yaml(out).tree
    assert not (tmp_path / "work").exists()
    assert fake.calls == []


def test_json_prints_the_result_and_nothing_else_on_stdout(fake, call, recipe):
    assert call("tokenize", recipe)[1] == ""
    code, out, _ = call("tokenize", recipe, "--json", "--out", "b")
    assert (code, json.loads(out)) == (0, {"seconds": 1.5, "documents": 3})


def test_a_refusal_leaves_no_trace(fake, call, recipe, tmp_path):
    def then(_stage):
        raise BertctlError("bad data")

    fake.then = then
    before = sorted(tmp_path.rglob("*"))
    assert call("tokenize", recipe, "--out", "new/inner")[0] == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refusal_leaves_what_was_there_before(fake, call, recipe, tmp_path):
    call("tokenize", recipe)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def then(_stage):
        raise BertctlError("not empty")

    fake.then = then
    assert call("tokenize", recipe, "--set", "seed=9")[0] == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_resume_and_out_reach_the_stage(fake, call, recipe, tmp_path):
    call("tokenize", recipe, "--resume", "--out", "here")
    assert [(str(out), resume) for _, _, out, _, resume in fake.calls] == [("here", True)]


def test_resuming_what_is_finished_does_nothing(fake, call, recipe, tmp_path):
    call("tokenize", recipe)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    code, out, err = call("tokenize", recipe, "--resume", "--json")
    assert (code, json.loads(out)["documents"], len(fake.calls)) == (0, 3, 1)
    assert "nothing to do" in err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    call("tokenize", recipe, "--resume", "--set", "seed=8")
    assert len(fake.calls) == 2  # another job: the stage is the one to judge


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["pretrain"], "pretrain.pairs: there is no work/build_pairs"),
        (["finetune"], "finetune.ner.model: there is no work/pretrain"),
        (["evaluate"], "evaluate.ner.model: there is no work/finetune/ner"),
    ],
)
def test_an_input_that_is_not_there_yet_is_named_with_the_way_to_it(fake, call, recipe, arguments, word):
    code, _, err = call(*arguments, recipe)
    assert code == 2
    assert word in err
    assert "hint: bertctl " in err
    assert fake.calls == []


def test_named_data_need_no_pairs(fake, call, recipe, tmp_path):
    (tmp_path / "model").mkdir()
    lm = ("--set", "evaluate={task: masked_lm, model: model, data: {path: d}}")
    assert call("evaluate", recipe, *lm)[0] == 0
    ((_, section, *_),) = fake.calls
    assert (section.pairs, section.tokens) == (None, None)


def test_a_recipe_without_the_section_is_refused(fake, call, tmp_path):
    (tmp_path / "p.yaml").write_text("pretrain: {}\n")
    code, _, err = call("tokenize", "p.yaml")
    assert code == 2
    assert "no section `tokenize` (sections present: pretrain)" in err
    assert "hint: bertctl pretrain p.yaml" in err
    (tmp_path / "empty.yaml").write_text("seed: 7\n")
    assert "(sections present: none)\nhint: bertctl recipes explain tokenize" in call("tokenize", "empty.yaml")[2]


def test_output_over_input_is_refused(fake, call, tmp_path):
    (tmp_path / "tokens").mkdir()
    code, _, err = call("build-pairs", "tokens", "--out", "tokens")
    assert code == 2
    assert "as output and as input" in err


def test_a_folder_in_use_exits_with_3(fake, call, recipe, tmp_path):
    from bertctl.artifacts.folder import lock

    with lock(tmp_path / "work/tokenize"):
        code, _, err = call("tokenize", recipe)
    assert code == 3
    assert "in use by process" in err
    assert fake.calls == []


def test_only_the_first_of_several_ranks_writes(fake, call, recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    code, out, _ = call("tokenize", recipe, "--json")
    assert (code, out) == (0, "")
    assert not (tmp_path / "work/tokenize/recipe.yaml").exists()
    assert not (tmp_path / "work/tokenize/.stage.json").exists()
