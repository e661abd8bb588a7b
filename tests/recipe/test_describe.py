import pytest

from bertctl.errors import BertctlError
from bertctl.recipe.describe import explain, json_schema
from tests.recipe.sample import Root


def test_every_key_is_explained_with_type_default_and_sentence():
    lines = explain(Root).splitlines()
    assert lines[:2] == ["workdir: path, default runs", "    Where."]
    assert "pretrain.steps: whole number, must be given" in lines
    assert "pretrain.precision: bf16 | float32, default bf16" in lines
    assert "pretrain.labels: list of text or null, default null" in lines
    assert "finetune.optimizer.momentum: number, default 0.9" in lines


def test_a_key_is_explained_with_what_is_below_it():
    assert explain(Root, "finetune.0.optimizer.lr").splitlines() == [
        "finetune.optimizer.lr: number, default 0.001",
        "    Peak rate.",
    ]
    with pytest.raises(BertctlError, match=r"did you mean `pretrain\.steps`"):
        explain(Root, "pretrain.step")


def test_the_schema_takes_one_section_for_a_list_as_the_loader_does():
    schema = json_schema(Root)
    kinds = [choice.get("$ref", choice.get("type")) for choice in schema["properties"]["finetune"]["anyOf"]]
    assert kinds == ["#/$defs/Train", "array", "null"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Train"]["properties"]["batch_size"]["description"] == "Examples in a step."
