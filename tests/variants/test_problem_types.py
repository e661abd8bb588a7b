"""Heads for whole texts that transformers calls regression and multi-label: the same numbers and the same losses."""

import pytest
import torch
import transformers

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.evaluate.task import labels_for, task_of
from bertctl.finetune.objective import TaskObjective
from bertctl.heads.model import Model
from bertctl.tasks.table import TASKS
from bertctl.variants.hf import load_model, save_model
from bertctl.variants.table import VARIANTS

SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
    "initializer_range": 0.3,
}
IDS = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
MASK = IDS != 0
TARGETS = {"regression": torch.tensor([1.5, -0.25]), "multi_label": torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])}
LABELS = {"regression": [], "multi_label": ["x", "y", "z"]}


def tiny(family: str, outputs: int) -> Model:
    torch.manual_seed(0)
    return Model(EncoderConfig(**(SIZES | VARIANTS[family].common)), {"sequence": outputs}).eval()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("name", ["regression", "multi_label"])
def test_transformers_gives_the_same_numbers_and_the_same_loss(name, family, tmp_path):
    task = TASKS[name]
    model = tiny(family, task.outputs(LABELS[name]))
    save_model(tmp_path, model, None, labels=LABELS[name] or None, problem_type=task.problem_type)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert theirs.config.num_labels == task.outputs(LABELS[name])
    assert theirs.config.problem_type == task.problem_type
    batch = {"input_ids": IDS, "attention_mask": MASK, "labels": TARGETS[name]}
    objective = TaskObjective(model, task)
    with torch.no_grad():
        expected = theirs(input_ids=IDS, attention_mask=MASK.long(), labels=TARGETS[name])
        logits = model.logits("sequence", model(IDS, MASK))
        loss = objective(batch)["task"] / objective.counts(batch)["task"]
    assert torch.allclose(logits, expected.logits, atol=1e-5)
    assert loss.item() == pytest.approx(expected.loss.item(), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "outputs", "name"),
    [
        ("SequenceClassification", 3, "classification"),
        ("SequenceClassification", 1, "regression"),
        ("QuestionAnswering", 2, "qa"),
        ("MultipleChoice", 2, "multiple_choice"),
        ("MaskedLM", 2, "masked_lm"),
    ],
)
def test_a_model_of_theirs_without_a_problem_type_is_known_by_its_head(kind, outputs, name, tmp_path):
    config = transformers.BertConfig(**SIZES, num_labels=outputs)
    getattr(transformers, f"BertFor{kind}")(config).save_pretrained(tmp_path)
    assert task_of(load_model(tmp_path), tmp_path) == name


def test_a_token_head_of_theirs_may_be_for_two_tasks(tmp_path):
    transformers.BertForTokenClassification(transformers.BertConfig(**SIZES, num_labels=3)).save_pretrained(tmp_path)
    with pytest.raises(BertctlError, match="a head for ner or pos, but does not say for which task"):
        task_of(load_model(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["regression", "multi_label"])
def test_a_model_of_theirs_is_known_by_its_problem_type(name, tmp_path):
    outputs = TASKS[name].outputs(LABELS[name])
    config = transformers.BertConfig(**SIZES, num_labels=outputs, problem_type=TASKS[name].problem_type)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert task_of(loaded, tmp_path) == name
    assert len(labels_for(TASKS[name], loaded, str(tmp_path))) == len(LABELS[name])


@pytest.mark.parametrize("name", ["regression", "multi_label"])
def test_rows_without_an_answer_have_no_loss(name):
    task = TASKS[name]
    logits = torch.randn(2, task.outputs(LABELS[name]), requires_grad=True)
    nothing = torch.full_like(TARGETS[name], float("nan"))
    half = torch.cat([TARGETS[name][:1], nothing[1:]])
    options = TaskObjective(tiny("bert", 1), task).options
    assert task.loss.count({"labels": nothing}, options) == 0
    assert task.loss.sum(logits, {"labels": nothing}, options) == 0
    one = task.loss.sum(logits[:1], {"labels": TARGETS[name][:1]}, options)
    both = task.loss.sum(logits, {"labels": half}, options)
    both.backward()
    assert both.item() == pytest.approx(one.item())
    assert logits.grad[1].abs().max() == 0
