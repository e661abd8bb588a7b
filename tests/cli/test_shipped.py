import pytest

from bertctl.cli import shipped
from bertctl.errors import BertctlError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "finetune").mkdir()
    (tmp_path / "demo.yaml").write_text("# bertctl run demo    two minutes\nseed: 1\n")
    (tmp_path / "finetune/ner.yaml").write_text("# ner\n")
    monkeypatch.setattr(shipped, "recipes_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recipes_are_found_by_name_and_by_path(folder):
    assert list(shipped.shipped()) == ["demo", "finetune/ner"]
    assert shipped.find_recipe("demo") == folder / "demo.yaml"
    assert shipped.find_recipe("recipes/finetune/ner.yaml") == folder / "finetune/ner.yaml"
    (folder / "own.yaml").write_text("seed: 1\n")
    assert str(shipped.find_recipe("own.yaml")) == "own.yaml"
    with pytest.raises(BertctlError, match="did you mean `demo`"):
        shipped.find_recipe("demos")


def test_a_folder_of_a_run_is_no_recipe_but_has_one(folder):
    (folder / "mine").mkdir()
    (folder / "mine/recipe.yaml").write_text("seed: 1\n")
    with pytest.raises(BertctlError, match="mine: got the folder of a run, expected a recipe") as caught:
        shipped.find_recipe("mine")
    assert "to go on with the run: bertctl STAGE mine/recipe.yaml --out mine --resume" in caught.value.hint


def test_a_model_is_told_from_a_recipe(folder):
    assert shipped.is_recipe("x.yaml")
    assert shipped.is_recipe("finetune/nerx.yml")
    assert shipped.is_recipe("demo")
    assert not shipped.is_recipe("google-bert/bert-base-uncased")
    (folder / "demo").mkdir()
    assert not shipped.is_recipe("demo")


def test_recipes_lists_prints_and_describes(folder, capsys):
    from bertctl.cli.recipes import recipes

    recipes(None, None)
    assert capsys.readouterr().out == "demo          bertctl run demo    two minutes\nfinetune/ner  ner\n"
    recipes("demo", None)
    recipes("print", "demo")
    assert capsys.readouterr().out == (folder / "demo.yaml").read_text() * 2
