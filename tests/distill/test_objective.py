"""The objective: what is averaged over what, and that the teacher stays as it was."""

import pytest
import torch
from torch import nn

from bertctl.distill.losses import LOSSES
from bertctl.distill.objective import DistillationObjective, MaskedReader, Predicted, TaskReader
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import EncoderOutput
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import IGNORED
from bertctl.training.loop import fit
from bertctl.training.runtime import Runtime

EVERYTHING = {**dict.fromkeys(LOSSES, 1.0), "mlm": 2.0, "sentence_pair": 0.5}
HEADS = {"masked_lm": 0, "sentence_pair": 2}


def config(**changes) -> EncoderConfig:
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return EncoderConfig(**{**sizes, "intermediate_size": 32, "initializer_range": 0.3, **dropout, **changes})


def models(heads=HEADS, **changes) -> tuple[Model, Model]:
    """Student and teacher."""
    torch.manual_seed(0)
    teacher = Model(config(), heads)
    return Model(config(num_hidden_layers=1, **changes), heads), teacher


def masked_batch(lengths, width: int) -> dict[str, torch.Tensor]:
    """Rows of `lengths` real tokens; every third real token is masked."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(5, 30, (16,), generator=generator)[:length]
    mask = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    chosen = torch.tensor([row * width + place for row, n in enumerate(lengths) for place in range(1, n, 3)])
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        "masked_positions": chosen,
        "labels": ids.flatten()[chosen] // 2,
        "pair_labels": torch.arange(len(lengths)) % 2,
    }


class OneWay(nn.Module):
    """Stands for a model: the same logits at every token."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.config = config()
        self.head_outputs = {"masked_lm": 0}
        self.constant = nn.Parameter(torch.tensor(logits))

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, *, places=None, output_attentions=False):
        return EncoderOutput(torch.zeros(*input_ids.shape, 16), attention_mask=attention_mask)

    def places_read(self, input_ids, masked):
        return None

    def masked_logits(self, output, positions):
        return self.constant.expand(len(positions), 2)


@pytest.mark.parametrize("positions", ["all", "masked"])
@pytest.mark.parametrize("padding", [0, 1, 5])
@pytest.mark.parametrize("copies", [1, 4])
def test_the_soft_loss_depends_neither_on_padding_nor_on_the_batch(padding, copies, positions):
    """HC-37 (sparseml#592, transformers#1181): teacher [2, 0], student [0, 2], T = 2 at 3 real positions."""
    reader = MaskedReader(positions, pairs=False)
    objective = DistillationObjective(
        OneWay([0.0, 2.0]), OneWay([2.0, 0.0]), reader, weights={"soft_targets": 1.0}, temperature=2.0
    )
    batch = masked_batch([3] * copies, 3 + padding)
    if not padding:
        del batch["attention_mask"]  # as batches without padding come
    mean = objective(batch)["soft_targets"] / objective.counts(batch)["soft_targets"]
    assert float(mean.detach()) == pytest.approx(1.848469, abs=1e-6)


@pytest.mark.parametrize("positions", ["all", "masked"])
def test_whole_and_cut_batches_give_the_same_gradient(positions):
    """One step of 8 and four micro-batches of 2, of unequal lengths, through the loop itself."""
    lengths = [4, 9, 12, 5, 16, 7, 10, 6]
    whole = masked_batch(lengths, 16)
    parts = [masked_rows(whole, rows, lengths) for rows in ([0, 1], [2, 3], [4, 5], [6, 7])]
    gradients = [gradient([whole], positions), gradient(parts, positions)]
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        assert torch.allclose(value, gradients[1][name], rtol=1e-4, atol=2e-6), name


def masked_rows(whole, rows, lengths):
    """Some rows of a batch, cut to their own width."""
    width, before = max(lengths[row] for row in rows), whole["input_ids"].shape[1]
    where = whole["masked_positions"] // before
    kept = torch.isin(where, torch.tensor(rows))
    row_of = torch.tensor([rows.index(int(w)) for w in where[kept]])
    cut = {name: whole[name][rows][:, :width] for name in ("input_ids", "attention_mask", "token_type_ids")}
    places = row_of * width + whole["masked_positions"][kept] % before
    labels = whole["labels"][kept]
    return cut | {"masked_positions": places, "labels": labels, "pair_labels": whole["pair_labels"][rows]}


def gradient(micro_batches, positions: str) -> dict[str, torch.Tensor]:
    """What one step of the loop hands to the optimizer, before clipping could change it."""
    student, teacher = models()
    reader = MaskedReader(positions, pairs=True)
    objective = DistillationObjective(student, teacher, reader, weights=EVERYTHING, temperature=2.0)
    optimizer = torch.optim.SGD([{"params": list(objective.parameters()), "peak_lr": 1.0}], lr=1.0)
    before = {name: p.detach().clone() for name, p in objective.named_parameters()}
    steps = fit(
        objective,
        lambda step: micro_batches,
        optimizer=optimizer,
        schedule=lambda step: 1.0,
        start=0,
        steps=1,
        runtime=Runtime(torch.device("cpu"), torch.float32),
        max_grad_norm=1e9,
        seed=0,
    )
    assert next(steps).grad_norm > 0.1
    return {name: before[name] - p.detach() for name, p in objective.named_parameters()}


def test_the_teacher_stays_in_evaluation_mode_without_gradient_and_out_of_the_module():
    student, teacher = models()
    objective = DistillationObjective(
        student, teacher.train(), MaskedReader("all", pairs=True), weights=EVERYTHING, temperature=2.0
    )
    objective.train()
    assert objective.student.training
    assert not any(module.training for module in teacher.modules())
    sum(objective(masked_batch([5, 7], 8)).values()).backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert all(p.grad is not None for p in student.parameters())
    assert {id(p) for p in objective.parameters()} == {id(p) for p in student.parameters()}


def test_all_and_masked_positions_see_the_same_logits_at_masked_tokens():
    student, _ = models()
    batch = masked_batch([5, 11, 3], 12)
    output = student(batch["input_ids"], batch["attention_mask"])
    every, masked = (MaskedReader(where, pairs=False).predict(student, output, batch) for where in ("all", "masked"))
    assert len(every.rows) == 19
    assert len(masked.rows) == len(batch["labels"])
    assert torch.allclose(every.labelled["mlm"][0], masked.labelled["mlm"][0], atol=1e-6)


def test_a_narrower_student_is_compared_through_a_learned_projection():
    student, teacher = models(hidden_size=8)
    weights = {"hidden_cosine": 1.0, "hidden_mse": 1.0}
    objective = DistillationObjective(student, teacher, MaskedReader("all", False), weights=weights, temperature=1.0)
    assert objective.projection.weight.shape == (16, 8)
    sum(objective(masked_batch([5, 7], 8)).values()).backward()
    assert objective.projection.weight.grad.abs().sum() > 0
    without = DistillationObjective(student, teacher, MaskedReader("all", False), weights={"mlm": 1.0}, temperature=1.0)
    assert without.projection is None


def test_attention_needs_equally_many_heads():
    student, teacher = models(num_attention_heads=4)
    with pytest.raises(BertctlError, match="got 4 and 2 heads"):
        DistillationObjective(
            student, teacher, MaskedReader("all", False), weights={"attention_kl": 1}, temperature=1.0
        )


def reader(task):
    return TaskReader(TASKS[task], TASKS[task].imitation)


@pytest.mark.parametrize(("head", "task"), [("sequence", "classification"), ("token", "ner")])
def test_a_task_is_averaged_over_its_labels(head, task):
    student, teacher = models({head: 3})
    batch = {name: masked_batch([5, 7], 8)[name] for name in ("input_ids", "attention_mask")}
    per_token = torch.full((2, 8), -100)
    per_token[0, 1], per_token[1, 2], per_token[1, 4] = 0, 2, 1
    batch["labels"] = torch.tensor([0, 2]) if head == "sequence" else per_token
    weights = {"soft_targets": 0.5, "hard_labels": 0.5}
    objective = DistillationObjective(student, teacher, reader(task), weights=weights, temperature=3.0)
    counts = {name: int(count) for name, count in objective.counts(batch).items()}
    assert counts == dict.fromkeys(weights, 2 if head == "sequence" else 3)
    outputs = [model(batch["input_ids"], batch["attention_mask"]) for model in (student, teacher)]
    both = zip((student, teacher), outputs, strict=True)
    logits = [model.logits(head, output)[batch["labels"] != -100] for model, output in both]
    labels = batch["labels"][batch["labels"] != -100]
    found = objective(batch)
    expected = nn.functional.kl_div((logits[0] / 3).log_softmax(-1), (logits[1] / 3).softmax(-1), reduction="sum")
    assert torch.allclose(found["soft_targets"], 9 * expected, rtol=1e-4)
    assert torch.allclose(found["hard_labels"], nn.functional.cross_entropy(logits[0], labels, reduction="sum"))
    assert isinstance(reader(task).predict(student, student(batch["input_ids"]), batch), Predicted)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_a_batch_without_a_token_or_label_counts_for_nothing_and_has_a_gradient_of_zeros(pooling):
    """What a rank without an example gets, when a batch is short."""
    batch = masked_batch([5], 8)
    batch |= {"attention_mask": torch.zeros(1, 8, dtype=torch.bool), "labels": torch.tensor([IGNORED])}
    student, teacher = models({"sequence": 3}, pooling=pooling)
    weights = dict.fromkeys([*LOSSES, "hard_labels"], 1.0)
    objective = DistillationObjective(student, teacher, reader("classification"), weights=weights, temperature=2.0)
    assert {name: int(count) for name, count in objective.counts(batch).items()} == dict.fromkeys(weights, 0)
    sum(objective(batch).values()).backward()
    assert all(p.grad.abs().max() == 0 for p in student.parameters())


@pytest.mark.parametrize(
    ("task", "more", "rows"),
    [(True, {}, 2), (True, {"hidden_mse": 1.0}, 12), ("masked", {}, 2 + 4), ("all", {}, 12)],
)
def test_the_last_layer_is_computed_only_where_it_is_compared(task, more, rows):
    """Two texts of 5 and 7 tokens, 4 of them masked; both models' last layers are seen at work."""
    student, teacher = models({"sequence": 3} if task is True else HEADS)
    found = []
    for model in (student, teacher):
        last = model.encoder.layers[-1].feed_forward
        last.register_forward_hook(lambda _, given, __: found.append(given[0].shape[:-1].numel()))
    batch = masked_batch([5, 7], 8)
    if task is True:
        batch["labels"] = torch.tensor([0, 2])
    labels = {"hard_labels": 1.0} if task is True else {"mlm": 1.0, "sentence_pair": 1.0}
    how = reader("classification") if task is True else MaskedReader(task, pairs=True)
    weights = {"soft_targets": 1.0, **labels, **more}
    losses = DistillationObjective(student, teacher, how, weights=weights, temperature=2.0)(batch)
    assert found == [rows, rows]
    whole = DistillationObjective(student, teacher, how, weights={**weights, "hidden_cosine": 1.0}, temperature=2.0)(
        batch
    )
    assert found[2:] == [12, 12]
    for name, loss in losses.items():
        torch.testing.assert_close(loss, whole[name], msg=name)
