"""A ViT that knows scikit-learn's digits teaches a shallower one: scores, losses by hand, resume, and transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch.nn import functional as F

from bertctl import signals
from bertctl.distill.config import DistillSection, StudentSection
from bertctl.distill.objective import DistillationObjective, TaskReader
from bertctl.distill.run import run
from bertctl.distill.start import GRID, LAYERS, PATCHES, summands
from bertctl.distill.student import build_student
from bertctl.errors import BertctlError, Stopped
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.run import run as evaluate
from bertctl.finetune import train as trainer
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run as finetune
from bertctl.heads.model import Model
from bertctl.images.processor import ImageProcessor
from bertctl.recipe.load import build_recipe
from bertctl.tasks.batches import TrainingBatches, collate
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Features
from bertctl.training.runtime import Runtime
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.hf import load_model, save_model

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
TASK = TASKS["image_classification"]
SPLITS = dict(
    zip(("train", "dev", "test"), np.split(np.random.default_rng(0).permutation(1797)[:480], [320, 360]), strict=True)
)


@pytest.fixture(scope="module")
def digits(write_digits, tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"), SPLITS)


@pytest.fixture(scope="module")
def teacher(digits, tmp_path_factory):
    """The folder of 3 layers of 32, fine-tuned from fresh weights."""
    section = EncoderSection(
        name="vit", size="tiny", image_size=8, patch_size=4, num_channels=1, initializer_range=0.15, **SIZES
    )
    config, folder = encoder_config(section, vocab_size=0, pad_token_id=0), tmp_path_factory.mktemp("teacher")
    torch.manual_seed(0)
    (folder / "fresh").mkdir()
    save_model(folder / "fresh", Model(config, {}), ImageProcessor.of(config))
    training = {"steps": 70, "batch_size": 32, "optimizer": {"lr": 6e-3}, "precision": "float32"}
    tree = {"task": TASK.name, "model": str(folder / "fresh"), "data": {"path": str(digits)}, "training": training}
    finetune(build_recipe(tree, FinetuneSection), out=folder / "run", seed=0)
    return folder / "run"


@pytest.fixture(scope="module")
def section(digits, teacher):
    def make(steps=40, training=None, **more):
        settings = {"steps": steps, "batch_size": 32, "optimizer": {"lr": 4e-3}, "precision": "float32"}
        tree = {"task": TASK.name, "teacher": str(teacher), "data": {"path": str(digits)}}
        return build_recipe(tree | more | {"training": settings | (training or {})}, DistillSection)

    return make


@pytest.fixture(scope="module")
def done(section, tmp_path_factory):
    out = tmp_path_factory.mktemp("done") / "run"
    return out, run(section(student={"num_hidden_layers": 2}), out=out, seed=1)


def pixels_of(paths):
    """[N, 1, 8, 8] as ViT's processor makes them."""
    shades = np.stack([np.asarray(Image.open(path), dtype=np.float32) for path in paths])
    return torch.from_numpy((shades / 255 - 0.5) / 0.5).unsqueeze(1)


def test_the_result_says_what_was_won_and_what_was_lost(done, teacher, digits, tmp_path):
    out, result = done
    assert result["metric"] == "accuracy"
    assert (
        result["teacher"]["value"] == json.loads((teacher / "result.json").read_text())["metrics"]["accuracy"]["value"]
    )
    assert result["teacher"]["value"] > 0.7
    assert result["student"]["low"] < result["student"]["value"] < result["student"]["high"]
    assert result["retained"] == pytest.approx(result["student"]["value"] / result["teacher"]["value"])
    assert result["retained"] > 0.85
    assert (result["layer_map"], result["fresh_tensors"], result["projected_tensors"]) == ([1, 3], 0, [])
    assert (result["speed"]["batch"], result["speed"]["tokens"]) == (32, 5)
    assert result["parameters_student"] == sum(p.numel() for p in load_model(out / "model").model.parameters())
    found = evaluate(EvaluateSection(model=str(out), data={"path": digits}), out=tmp_path / "e", seed=0)
    assert found["metrics"]["accuracy"]["value"] == result["student"]["value"]


@torch.no_grad()
def test_the_student_is_a_checkpoint_of_transformers_with_equal_logits(done, digits):
    out, result = done
    theirs = transformers.ViTForImageClassification.from_pretrained(out / "model").eval()
    paths = sorted((digits / "test").rglob("*.png"))
    logits = theirs(pixels_of(paths)).logits
    torch.testing.assert_close(logits, load_model(out / "model").model.eval().read("image", pixels_of(paths)))
    said = [theirs.config.id2label[int(n)] for n in logits.argmax(dim=-1)]
    right = np.mean([label == path.parent.name for label, path in zip(said, paths, strict=True)])
    assert right == result["student"]["value"]
    assert (out / "model" / "preprocessor_config.json").exists()


def features(count=6):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(count, 1, 8, 8)).astype(np.float32)
    return [Features([], [], n % 10, n, 0, pixels=lambda row=row: row) for n, row in enumerate(rows)]


def test_every_loss_is_what_transformers_states_and_weights_give_by_hand(done, teacher):
    names = ("soft_targets", "hidden_cosine", "hidden_mse", "attention_kl", "hard_labels")
    models = [load_model(folder / "model").model.eval() for folder in (done[0], teacher)]
    reader = TaskReader(TASK, TASK.imitation)
    objective = DistillationObjective(*models, reader, weights=dict.fromkeys(names, 1.0), temperature=2.0)
    batch = collate(features(), models[0], 0)
    with torch.no_grad():
        sums, counts = objective(batch), objective.counts(batch)
        own, want = (
            transformers.ViTForImageClassification.from_pretrained(
                folder / "model", attn_implementation="eager"
            ).eval()(batch["pixel_values"], output_hidden_states=True, output_attentions=True)
            for folder in (done[0], teacher)
        )
        a, b = (load_final(folder, output) for folder, output in ((done[0], own), (teacher, want)))
        divergence = F.kl_div((own.logits / 2).log_softmax(-1), (want.logits / 2).softmax(-1), reduction="sum")
        weights = [output.attentions[-1] for output in (own, want)]
        expected = {
            "soft_targets": 4 * divergence,
            "hidden_cosine": (1 - F.cosine_similarity(a, b, dim=-1)).sum(),
            "hidden_mse": (a - b).square().mean(dim=-1).sum(),
            "attention_kl": (weights[1] * (weights[1] / weights[0]).log()).sum() / 4,
            "hard_labels": F.cross_entropy(own.logits, batch["labels"], reduction="sum"),
        }
    for name in names:
        assert float(sums[name]) == pytest.approx(float(expected[name]), rel=1e-3), name
    assert {name: int(count) for name, count in counts.items()} == {
        **dict.fromkeys(("soft_targets", "hard_labels"), 6),
        **dict.fromkeys(("hidden_cosine", "hidden_mse", "attention_kl"), 6 * 5),
    }


def load_final(folder, output):
    """The last states of transformers' classifier, behind its final norm."""
    norm = transformers.ViTForImageClassification.from_pretrained(folder / "model").eval().vit.layernorm
    return norm(output.hidden_states[-1])


def test_a_rank_without_an_image_adds_nothing_to_any_loss(done, teacher):
    models = [load_model(folder / "model").model.eval() for folder in (done[0], teacher)]
    weights = {"soft_targets": 1.0, "hidden_mse": 1.0, "attention_kl": 1.0, "hard_labels": 1.0}
    objective = DistillationObjective(*models, TaskReader(TASK, TASK.imitation), weights=weights, temperature=2.0)
    batches = TrainingBatches(features(1), models[0], 0, 2, None, 0, Runtime(torch.device("cpu"), torch.float32, 1, 2))
    (batch,) = batches(1)
    assert {int(count) for count in objective.counts(batch).values()} == {0}
    assert {float(loss.detach()) for loss in objective(batch).values()} == {0.0}


def test_stopped_and_resumed_it_ends_with_the_same_bytes(section, tmp_path, model_hash, stop_at):
    made = section(
        9, {"save_every_steps": 4, "evaluate_every_steps": 6}, student={"hidden_size": 16}, weights={"hidden_mse": 1}
    )
    whole = run(made, out=tmp_path / "whole", seed=1)
    calls = stop_at(trainer, "after_step", 7)
    with pytest.raises(Stopped):
        run(made, out=tmp_path / "parts", seed=1)
    signals.clear()
    parts = run(made, out=tmp_path / "parts", seed=1, resume=True)
    assert len(calls) == 9
    assert model_hash(tmp_path / "parts") == model_hash(tmp_path / "whole")
    assert parts["student"] == whole["student"]


def built(spec, teacher, **more):
    model = load_model(teacher / "model").model
    processor = ImageProcessor.load(teacher / "model", model.config)
    return model, build_student(spec, model, processor, heads=model.head_outputs, layer_map=None, seed=0, **more)


def test_half_has_tensors_of_the_teacher_only(teacher):
    model, student = built("half", teacher)
    have = model.state_dict()
    assert (student.layer_map, student.fresh) == ([1], ())
    assert all(torch.equal(tensor, have[name]) for name, tensor in student.model.state_dict().items())


def test_a_preset_gives_sizes_and_leaves_the_images_as_they_are(teacher):
    for spec, width in (("tiny", 128), (StudentSection(name="vit", size="tiny", num_hidden_layers=1), 192)):
        config = built(spec, teacher)[1].model.config
        assert (config.hidden_size, config.image_size, config.patch_size, config.num_channels) == (width, 8, 4, 1)
    with pytest.raises(BertctlError, match="12 layers cannot start from the teacher's 3"):
        built(
            StudentSection(name="vit", size="tiny", hidden_size=32, num_attention_heads=4, intermediate_size=64),
            teacher,
        )


@torch.no_grad()
def test_a_narrower_student_embeds_patches_as_the_teacher_on_fewer_directions(teacher):
    model, student = built(StudentSection(hidden_size=16, intermediate_size=32), teacher)
    assert {PATCHES, GRID} < set(student.projected)
    pixels = torch.stack([torch.from_numpy(f.pixels()) for f in features()])
    wide, narrow = (
        m.eval().encoder(pixels, output_hidden_states=True).hidden_states[0] for m in (model, student.model)
    )
    rows = summands(model.state_dict()).double().numpy()
    directions = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :16]
    projected = torch.from_numpy((wide.double().numpy() @ directions).astype(np.float32))
    torch.testing.assert_close(narrow.abs(), projected.abs(), rtol=1e-3, atol=1e-3)  # a direction has no sign
    assert rows.shape == (16 + 5, 32)


def test_larger_patches_make_a_faster_student_that_keeps_the_layers(teacher):
    model, student = built(StudentSection(patch_size=8), teacher)
    assert student.layer_map == [1, 2, 3]
    assert set(student.fresh) == {PATCHES, GRID}
    assert torch.equal(
        student.model.state_dict()[f"{LAYERS}2.attention.query.weight"],
        model.state_dict()[f"{LAYERS}2.attention.query.weight"],
    )
    assert student.model.eval().read("image", torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    reader = TaskReader(TASK, TASK.imitation)
    with pytest.raises(BertctlError, match="got 1 and 4 patches an image"):
        DistillationObjective(student.model, model, reader, weights={"hidden_mse": 1.0}, temperature=1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"student": {"image_size": 16}},
            "student: reads images of 16 pixels and 1 channels, but the teacher reads images of 8",
        ),
        ({"task": None, "data": {}}, "reads images, which are distilled for a task, and pretraining data are texts"),
        ({"task": "classification"}, "reads images, and classification is about texts"),
    ],
)
def test_what_does_not_go_together_is_refused(section, tmp_path, changes, message):
    with pytest.raises(BertctlError, match=message):
        run(section(**changes), out=tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_its_own_must_read_images_alike(section, teacher, tmp_path):
    loaded = load_model(teacher / "model")
    save_model(tmp_path, loaded.model, ImageProcessor(8, 8, (0.4,), (0.5,)), labels=loaded.labels)
    with pytest.raises(BertctlError, match="makes other numbers of images than the teacher"):
        run(section(student=str(tmp_path)), out=tmp_path / "out", seed=0)
