import json

from bertctl import signals

ALL = [
    "tokenize",
    "build_pairs",
    "pretrain",
    "finetune:ner",
    "finetune:pos",
    "distill:ner",
    "evaluate:ner",
    "probe:pos",
]


def test_run_does_the_stages_in_order_and_feeds_them(fake, call, recipe):
    code, out, err = call("run", recipe)
    assert (code, out) == (0, "")
    assert fake.names() == ALL
    sections = {(stage, out.name): section for stage, section, out, _, _ in fake.calls}
    assert str(sections["pretrain", "pretrain"].pairs) == "work/build_pairs"
    assert str(sections["finetune", "pos"].model) == "work/pretrain"
    assert str(sections["evaluate", "ner"].model) == "work/finetune/ner"
    assert str(sections["distill", "ner"].teacher) == "work/finetune/ner"
    assert "summary.json" in err


def test_the_summary_has_a_result_for_each_stage_and_task(fake, call, recipe, tmp_path):
    code, out, _ = call("run", recipe, "--json")
    assert code == 0
    summary = json.loads((tmp_path / "work/summary.json").read_text())
    assert json.loads(out) == summary
    result = {"seconds": 1.5, "documents": 3}
    assert {key: value for key, value in summary.items() if key != "seconds"} == {
        "tokenize": result,
        "build_pairs": result,
        "pretrain": result,
        "finetune": {"ner": result, "pos": result},
        "distill": result,
        "evaluate": result,
        "probe": result,
    }


def test_what_has_not_changed_is_not_done_again(fake, call, recipe, tmp_path):
    call("run", recipe)
    first = json.loads((tmp_path / "work/summary.json").read_text())
    fake.calls.clear()
    code, _, err = call("run", recipe)
    assert (code, fake.calls) == (0, [])
    assert err.count("unchanged, taken from") == len(ALL)
    assert json.loads((tmp_path / "work/summary.json").read_text())["pretrain"] == first["pretrain"]


def redone(fake, call, recipe, *arguments):
    fake.calls.clear()
    assert call("run", recipe, *arguments)[0] == 0
    return fake.names()


def test_a_change_redoes_what_depends_on_it_and_keeps_the_old_result(fake, call, recipe, tmp_path):
    call("run", recipe)
    assert redone(fake, call, recipe, "--set", "finetune.1.seeds=2") == ["finetune:pos"]
    assert (tmp_path / "work/finetune/pos.previous/result.json").exists()
    (tmp_path / "text.txt").write_text(
        "other text\n"
    )  # the fakes write the same tokens, so nothing behind them changes
    assert redone(fake, call, recipe, "--set", "finetune.1.seeds=2") == ["tokenize"]
    assert redone(fake, call, recipe, "--set", "finetune.1.seeds=2", "--set", "seed=8") == ALL
    (tmp_path / "d").write_text("b O\n")
    assert redone(fake, call, recipe, "--set", "finetune.1.seeds=2", "--set", "seed=8") == ALL[3:]


def test_a_changed_artifact_redoes_the_stages_that_read_it(fake, call, recipe, tmp_path):
    call("run", recipe)
    (tmp_path / "work/pretrain/data.txt").write_text("other weights")
    assert redone(fake, call, recipe) == ["finetune:ner", "finetune:pos", "probe:pos"]


def test_new_code_redoes_everything(fake, call, recipe, monkeypatch):
    call("run", recipe)
    monkeypatch.setattr("bertctl.cli.identity.code_hash", lambda: "other")
    assert redone(fake, call, recipe) == ALL


def test_a_stage_done_by_its_own_command_counts(fake, call, recipe):
    call("tokenize", recipe)
    assert redone(fake, call, recipe) == ALL[1:]


def test_an_interrupted_run_goes_on_where_it_stopped(fake, call, recipe, tmp_path):
    def then(stage):
        if stage == "pretrain":
            (tmp_path / "work/pretrain/step-3").mkdir()
            signals.request(15)
            signals.check("pretraining")

    fake.then = then
    assert call("run", recipe)[0] == 143
    signals.clear()
    fake.calls.clear()
    fake.then = lambda stage: None
    assert call("run", recipe, "--resume")[0] == 0
    assert fake.names() == ALL[2:]
    assert [resume for *_, resume in fake.calls] == [True] + [False] * 5


def test_dry_run_tells_what_would_run(fake, call, recipe, tmp_path):
    call("run", recipe)
    code, out, err = call("run", recipe, "--dry-run", "--set", "pretrain.training.steps=6")
    assert code == 0
    assert out.startswith("workdir: work\nseed: 7\ntokenize:\n")
    states = [line.split("(")[1].rstrip(")") for line in err.splitlines()]
    assert states == ["unchanged, skipped"] * 2 + ["run"] * 6


def test_out_takes_the_place_of_workdir(fake, call, recipe, tmp_path):
    assert call("run", recipe, "--out", "else where")[0] == 0
    assert (tmp_path / "else where/summary.json").exists()
    assert not (tmp_path / "work").exists()
