"""The data section takes one source, and positions from 1."""

import pytest
from pydantic import ValidationError

from bertctl.recipe.load import build_recipe
from bertctl.tasks.config import ColumnsSection, DataSection


@pytest.mark.parametrize(
    "tree",
    [
        {"path": "d", "name": "x"},
        {"path": "d", "subset": "x"},
        {"columns": {"text": 0}},
        {"columns": {"txt": "a"}},
        {"dev_share": 1.0},
        {"format": "xml"},
        {"overlap_tokens": -1},
        {"train_examples": 0},
    ],
)
def test_what_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DataSection.model_validate(tree)


def test_what_a_recipe_may_say() -> None:
    data = build_recipe({"path": "d", "columns": {"text": 4, "label": "y"}, "label_names": ["no", "yes"]}, DataSection)
    assert (data.columns, data.label_names) == (ColumnsSection(text=4, label="y"), ("no", "yes"))
    assert data.is_given()
    assert not DataSection().is_given()
