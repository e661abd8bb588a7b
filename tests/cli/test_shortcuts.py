"""The short forms of the commands, as they end up in a recipe."""

import json

import pytest

from bertctl.cli import shipped
from bertctl.cli.recipe import Recipe
from bertctl.recipe.load import load_recipe

SHAPE = {
    "vocab_size": 9,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "type_vocab_size": 2,
}


@pytest.fixture
def section(call, tmp_path):
    """The one section that a command would run, and where to."""

    def section(*arguments):
        code, out, err = call(*arguments, "--dry-run")
        assert code == 0, err
        (tmp_path / "resolved.yaml").write_text(out)
        recipe = load_recipe(tmp_path / "resolved.yaml", Recipe)
        stage = arguments[0].replace("-", "_")
        (found,) = value if isinstance(value := getattr(recipe, stage), list) else [value]
        return found, err.split(" -> ")[1].strip()

    return section


def test_tokenize_takes_the_files_that_the_shell_made_of_a_pattern(section, tmp_path):
    found, out = section("tokenize", "--corpus", "a.txt", "b.txt", "c.jsonl", "--vocab-size", "30000", "--out", "t")
    assert found.corpus.files == ("a.txt", "b.txt", "c.jsonl")
    assert (found.vocab_size, out) == (30000, "t")
    assert section("tokenize", "--corpus", "-", "--vocab-size", "9")[0].corpus.files == ("-",)
    assert section("tokenize", "--corpus", "python_docs", "--vocab-size", "9")[0].corpus.name == "python_docs"
    assert section("tokenize", "--corpus", "x", "--vocabulary", "v.txt")[0].vocabulary == "v.txt"


def test_build_pairs_takes_tokens(section):
    found, out = section("build-pairs", "tokens", "--out", "p")
    assert (str(found.tokens), out) == ("tokens", "p")


def test_finetune_takes_task_model_and_data(section):
    found, out = section("finetune", "--task", "pos", "--model", "m", "--data", "d", "--out", "o")
    assert (found.task, str(found.model), str(found.data.path), out) == ("pos", "m", "d", "o")


def test_finetune_with_a_task_alone_uses_its_shipped_recipe(section, tmp_path, monkeypatch):
    (tmp_path / "finetune").mkdir()
    text = "finetune: {task: ner, model: org/model, seeds: 4, data: {name: org/data, train: train}}\n"
    (tmp_path / "finetune/ner.yaml").write_text(text)
    monkeypatch.setattr(shipped, "recipes_folder", lambda: tmp_path)
    found, out = section("finetune", "--task", "ner")
    assert (found.model, found.seeds, found.data.name, out) == ("org/model", 4, "org/data", "runs/finetune/ner")
    found, _ = section("finetune", "--task", "ner", "--data", "d")
    assert (found.model, found.seeds, found.data.name, str(found.data.path)) == ("org/model", 4, None, "d")
    assert found.data.train is None


def test_the_shipped_recipe_of_vectors_leaves_the_loss_to_the_data(section):
    found, _ = section("finetune", "--task", "embedding", "--model", "m", "--data", "scored.csv")
    assert found.embedding.loss is None


def test_what_is_set_takes_the_place_of_what_excludes_it_in_a_shipped_recipe(section):
    found, _ = section("finetune", "--task", "qa", "--set", "finetune.training.steps=5")
    assert (found.training.steps, found.training.epochs) == (5, None)
    found, _ = section("finetune", "finetune/qa", "--set", "finetune.training.schedule.warmup_steps=0")
    assert (found.training.schedule.warmup_steps, found.training.schedule.warmup_fraction) == (0, None)


def test_the_length_of_a_shipped_recipe_that_nobody_named_is_at_most_what_the_model_reads(call, tmp_path):
    def lengths(*arguments):
        code, out, err = call("finetune", *arguments, "--dry-run", "--json")
        assert code == 0, err
        (found,) = json.loads(out)["finetune"]
        return found["max_length"], found["data"]["overlap_tokens"], err

    for name, fields in (
        ("bert", {"model_type": "bert", "max_position_embeddings": 64}),
        ("roberta", {"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1}),
        ("long", {"model_type": "bert", "max_position_embeddings": 512}),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(SHAPE | fields))
    for name in ("bert", "roberta"):
        *found, err = lengths("--task", "qa", "--model", name)
        assert found == [64, None]  # neither does the recipe's overlap of 128 fit
        assert f"max_length: 64 word pieces, which is all that {name} reads (finetune/qa has 384)\n" in err
    for asked in (
        ("--task", "qa", "--model", "long"),
        ("--task", "qa", "--model", "bert", "--set", "finetune.max_length=384"),  # is refused by the stage
        ("finetune/qa", "--model", "bert"),
        ("--task", "qa", "--model", "no-such-model"),
    ):
        *found, err = lengths(*asked)
        assert found[0] == 384
        assert "max_length" not in err


def test_finetune_takes_what_to_search_over_from_a_file(section, call, tmp_path):
    file = tmp_path / "search.yaml"
    file.write_text("runs: 4\nover:\n  - {key: training.optimizer.lr, low: 1e-5, high: 1e-3, scale: log}\n")
    found, _ = section("finetune", "--task", "pos", "--model", "m", "--data", "d", "--search", str(file))
    assert (found.search.method, found.search.runs, found.search.over[0].high) == ("random", 4, 1e-3)
    file.write_text("runs: 4\nover:\n  - {key: dropout, low: 0.3, high: 0.1}\n  - {key: dropout, value: [1]}\n")
    code, _, err = call("finetune", "--task", "pos", "--model", "m", "--data", "d", "--search", str(file))
    assert code == 2
    assert f"{file}:3:5: over.0: dropout: got low 0.3 and high 0.1" in err
    assert f"{file}:4:" in err
    file.write_text("over:\n  - key: dropout\n    values: [0.1, 1.5]\n  - {key: no.such, values: [1]}\n")
    code, _, err = call("finetune", "--task", "pos", "--model", "m", "--data", "d", "--search", str(file))
    assert code == 2
    assert f"error: {file}:3:19: finetune.0.search.over.0.values.1: dropout: got 1.5, expected less than 1" in err
    assert f"error: {file}:4:11: finetune.0.search.over.1.key: no: unknown key" in err


def test_distill_takes_teacher_and_student(section):
    found, _ = section("distill", "t", "mini", "--data", "pairs")
    assert (str(found.teacher), found.student, str(found.pairs), found.task) == ("t", "mini", "pairs", None)
    found, out = section("distill", "t", "mini", "--task", "ner", "--data", "d")
    assert (found.task, str(found.data.path), out) == ("ner", "d", "runs/distill/ner")


def test_the_student_may_be_a_section(section, call):
    given = "{num_hidden_layers: 1, hidden_size: 80}"
    asked = (
        ("distill", "t", given, "--data", "p"),
        ("distill", "t", "--set", f"distill.student={given}", "--data", "p"),
    )
    for arguments in asked:
        found, _ = section(*arguments)
        assert (str(found.teacher), str(found.pairs)) == ("t", "p")
        assert (found.student.num_hidden_layers, found.student.hidden_size) == (1, 80)
    found, _ = section("distill", "t", "half", "--set", "distill.temperature=3")
    assert (found.student, found.temperature) == ("half", 3)
    code, _, err = call("distill", "t", "{num_hidden_layers: 1", "--data", "p")
    assert code == 2
    assert "STUDENT: got '{num_hidden_layers: 1'" in err
    assert "hint: as in {num_hidden_layers: 2}" in err
    code, _, err = call("distill", "t", "--data", "p")
    assert (code, "no student" in err) == (2, True)


def test_evaluate_and_probe_take_a_model(section):
    found, _ = section("evaluate", "m", "--task", "ner", "--data", "d")
    assert (found.task, str(found.model), str(found.data.path)) == ("ner", "m", "d")
    assert section("evaluate", "org/model", "--data", "d")[0].model == "org/model"
    found, _ = section("evaluate", "m", "n", "--data", "d")
    assert (found.model, found.against) == ("m", "n")
    found, _ = section("probe", "m", "--task", "pos", "--data", "d")
    assert (found.task, str(found.model), str(found.data.path)) == ("pos", "m", "d")


def test_evaluate_goes_by_the_task_that_a_checkpoint_here_notes(section, tmp_path):
    (tmp_path / "m/model").mkdir(parents=True)
    config = tmp_path / "m/model/config.json"
    for noted, task in (({"task": "ner"}, "ner"), ({"task": "no such"}, None), ({}, None), ([], None)):
        config.write_text(json.dumps({"model_type": "bert", "bertctl": noted}))
        found, out = section("evaluate", str(tmp_path / "m"), "--data", "d")
        assert (found.task, out) == (task, f"runs/evaluate/{task or 'masked_lm'}")
    config.write_text("{")
    assert section("evaluate", str(tmp_path / "m"), "--data", "d")[0].task is None
    found, _ = section("evaluate", str(tmp_path / "m"), "--data", "d", "--task", "pos", "--predictions", "p")
    assert found.task == "pos"


def test_evaluate_takes_predictions_in_place_of_a_model(section, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/finetune/qa").mkdir(parents=True)  # where a model would be looked for
    given = ("--predictions", "a.json", "--predictions", "b.json")
    found, out = section("evaluate", "--task", "qa", "--data", "d", *given)
    assert (found.task, found.model, [str(path) for path in found.predictions]) == ("qa", None, ["a.json", "b.json"])
    assert out == "runs/evaluate/qa"
    sure = ("--no-answer-probabilities", "na.json", "--predictions", "a.json")
    found, _ = section("evaluate", "m", "--task", "qa", "--data", "d", *sure)
    assert (found.model, [str(path) for path in found.no_answer_probabilities]) == ("m", ["na.json"])


def test_with_a_recipe_a_task_picks_its_sections_and_data_keep_their_columns(call, section, tmp_path):
    first = "{task: ner, data: {name: org/x, subset: y, columns: {tokens: w}}}"
    text = f"finetune:\n  - {first}\n  - {{task: pos, data: {{path: z}}}}\n"
    (tmp_path / "two.yaml").write_text(text)
    found, out = section("finetune", "two.yaml", "--task", "ner", "--data", "d")
    assert (found.task, str(found.data.path), found.data.name, found.data.columns.tokens) == ("ner", "d", None, "w")
    assert out == "runs/finetune/ner"
    code, _, err = call("finetune", "two.yaml", "--task", "classification")
    assert code == 2
    assert "sections are: ner, pos" in err
    _, _, err = call("finetune", "two.yaml", "--dry-run", "--out", "o", "--model", "m")
    assert err.splitlines() == ["would run finetune.ner -> o/ner", "would run finetune.pos -> o/pos"]


def test_two_sections_of_one_name_are_refused(call, tmp_path):
    (tmp_path / "two.yaml").write_text("probe: [{task: pos}, {task: pos}]\n")
    code, _, err = call("probe", "two.yaml")
    assert code == 2
    assert "two sections" in err or "2 sections called `pos`" in err
