"""The recipe section."""

import pytest

from bertctl.distill.config import DistillSection
from bertctl.errors import BertctlError
from bertctl.recipe.dump import dump_recipe
from bertctl.recipe.load import build_recipe, load_recipe


def test_weights_left_out_have_their_defaults_and_are_written_out():
    on_pairs = build_recipe({"weights": {"mlm": 0.5, "hidden_cosine": 0}}, DistillSection)
    assert on_pairs.weights == {"soft_targets": 5.0, "mlm": 0.5, "hidden_cosine": 0.0, "sentence_pair": 1.0}
    assert build_recipe({"task": "ner"}, DistillSection).weights == {"soft_targets": 0.5, "hard_labels": 0.5}
    assert "soft_targets: 5.0" in dump_recipe(on_pairs)


@pytest.mark.parametrize("student", ["mini", {"hidden_size": 8}, {"name": "distilbert"}])
def test_a_dumped_section_loads_as_an_equal_one(student, tmp_path):
    section = build_recipe({"student": student, "weights": {"hidden_mse": 1}}, DistillSection)
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(section))
    assert load_recipe(path, DistillSection) == section


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"weights": {"soft_target": 1.0}}, "did you mean 'soft_targets'"),
        ({"weights": {"hard_labels": 1.0}}, "got 'hard_labels', expected one of"),
        ({"task": "pos", "weights": {"mlm": 1.0}}, "got 'mlm', expected one of"),
        ({"weights": {"mlm": -1.0}}, "weight -1.0, expected 0 or more"),
        ({"weights": {"soft_targets": 0, "mlm": 0, "hidden_cosine": 0}}, "all losses are switched off"),
        ({"data": {"path": "d"}}, "needs a `task`"),
        ({"temperature": 0}, "temperature"),
        ({"student": {"hiden_size": 8}}, "hidden_size"),
        ({"phases": [{"name": "a", "share": 0.5}]}, "add up to 0.5"),
    ],
)
def test_what_cannot_be_meant_is_refused(tree, message):
    with pytest.raises(BertctlError, match=message):
        build_recipe(tree, DistillSection)
