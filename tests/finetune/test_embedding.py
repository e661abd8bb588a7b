"""Contrastive fine-tuning from data to a model that sentence-transformers loads."""

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from bertctl.artifacts.tensors import load_tensors
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run as evaluate
from bertctl.finetune.config import FinetuneSection
from bertctl.finetune.run import run
from bertctl.recipe.load import build_recipe

ASKED, TOLD = ("fine", "great", "lovely", "dull", "awful", "poor"), ("Ann", "Bob", "Eve", "Rome", "Oslo", "Lima")
NOUNS = ("film", "book", "song", "meal", "walk")


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    """A BEIR folder in which each adjective is asked for by a name that only training can tell: 30 passages, and a
    query to each in the words of train, of dev and of test."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "qrels").mkdir()
    pairs = [(f"{told} {noun}", f"{asked} {noun}") for asked, told in zip(ASKED, TOLD, strict=True) for noun in NOUNS]
    corpus = [{"_id": f"d{i}", "title": "", "text": f"the {passage} was"} for i, (_, passage) in enumerate(pairs)]
    queries = []
    for split, before in (("train", "we saw"), ("dev", "it was"), ("test", "very")):
        rows = [{"_id": f"{split}{i}", "text": f"{before} {query}"} for i, (query, _) in enumerate(pairs)]
        queries += rows
        lines = ["query-id\tcorpus-id\tscore", *(f"{row['_id']}\td{i}\t1" for i, row in enumerate(rows))]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines))
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def make(encoder, searched):
    def section(steps: int = 60, training: dict | None = None, **more) -> FinetuneSection:
        settings = {"steps": steps, "batch_size": 30, "optimizer": {"lr": 1e-2}, "precision": "float32"}
        tree = {"task": "embedding", "model": str(encoder), "data": {"path": str(searched)}, "dropout": 0.0}
        return build_recipe({**tree, **more, "training": settings | (training or {})}, FinetuneSection)

    return section


def test_search_is_learnt_and_the_model_loads_elsewhere(make, encoder, searched, tmp_path):
    embedding = {"both_directions": True, "projection_size": 8, "query_prefix": "a ", "passage_prefix": "it "}
    result = run(make(embedding=embedding, max_length=20), out=tmp_path / "out", seed=1)
    values = {"task": "embedding", "data": {"path": str(searched)}}
    before = evaluate(build_recipe({**values, "model": str(encoder)}, EvaluateSection), out=tmp_path / "before", seed=0)
    start = before["metrics"]["ndcg@10"]["value"]
    assert (result["metric"], result["scored_split"], result["majority_baseline"]) == ("ndcg@10", "test", None)
    assert result["pretrained"]["value"] > start + 0.2
    model = tmp_path / "out" / "model"
    after = evaluate(
        build_recipe({"model": str(model), "data": values["data"]}, EvaluateSection), out=tmp_path / "after", seed=0
    )
    assert after["metrics"]["ndcg@10"]["value"] == result["metrics"]["ndcg@10"]["value"]
    lines = ["a very Ann film", "it the fine film was", "Rome " * 30]
    theirs = SentenceTransformer(str(model), device="cpu")
    assert (theirs.max_seq_length, theirs.prompts) == (20, {"query": "a ", "document": "it "})
    ours = [row["embedding"] for row in predict(model, lines)]
    np.testing.assert_allclose(ours, theirs.encode(lines, show_progress_bar=False), atol=1e-5)
    assert np.shape(ours) == (3, 8)
    again = run(make(steps=1, model=str(model)), out=tmp_path / "again", seed=1)  # its projection goes on
    assert again["pretrained"]["value"] > start + 0.2


def weights(out: Path) -> dict:
    return load_tensors(out / "model" / "model.safetensors")


def test_micro_batches_change_the_memory_and_not_the_model(make, tmp_path):
    epochs = {"steps": None, "epochs": 3}  # of 30 pairs, which make one batch
    plain = run(make(training=epochs), out=tmp_path / "plain", seed=1)
    parts = run(make(training=epochs | {"micro_batch_size": 7}), out=tmp_path / "parts", seed=1)
    assert [row["steps"] for result in (plain, parts) for row in result["pretrained"]["seeds"]] == [3, 3]
    assert parts["metrics"]["ndcg@10"]["value"] == pytest.approx(plain["metrics"]["ndcg@10"]["value"], abs=1e-6)
    other = weights(tmp_path / "parts")
    assert max(float((tensor - other[name]).abs().max()) for name, tensor in weights(tmp_path / "plain").items()) < 1e-4


def test_the_top_layer_is_trained_first_where_the_head_has_nothing_to_train(make, encoder, tmp_path):
    result = run(make(steps=2, strategy={"unfreeze_every": 1}), out=tmp_path / "out", seed=1)
    rows = {row["group"]: row["first_step"] for row in result["parameter_groups"]}
    assert rows == {"layer 2": 1, "layer 1": 2, "embeddings": 3}
    before, after = load_tensors(encoder / "model.safetensors"), weights(tmp_path / "out")
    same = {name for name, tensor in after.items() if tensor.equal(before[f"bert.{name}"])}
    assert {name.startswith("embeddings.") for name in same} == {True}
    assert any(name.startswith("embeddings.") for name in same)


def write(folder: Path, header: str, rows: list[str]) -> Path:
    for split in ("train", "dev"):
        (folder / f"{split}.csv").write_text("\n".join([header, *rows]) + "\n")
    return folder


def test_triplets(make, tmp_path):
    rows = [
        f"{told} {noun},{asked} {noun},{other} {noun}"
        for told, asked, other in zip(TOLD, ASKED, ASKED[1:] + ASKED[:1], strict=True)
        for noun in NOUNS
    ]
    data = {"path": str(write(tmp_path, "anchor,positive,negative", rows))}
    result = run(
        make(steps=25, data=data, embedding={"loss": "triplet"}, pooling="attention"), out=tmp_path / "out", seed=1
    )
    assert result["metrics"]["triplet_accuracy"]["value"] > 0.8
    assert not (tmp_path / "out" / "model" / "modules.json").exists()  # learned pooling is ours alone


@pytest.mark.parametrize("section", [{}, {"loss": "cosine_mse", "highest_score": 5.0}])
def test_scored_pairs(make, tmp_path, section):
    """Two words belong together by their places in the lists."""
    rows = [f"{a},{b},{5 - abs(i - j)}" for i, a in enumerate(TOLD) for j, b in enumerate(ASKED)]
    data = {"path": str(write(tmp_path, "sentence1,sentence2,score", rows))}
    result = run(make(steps=25, data=data, embedding=section), out=tmp_path / "out", seed=1)
    assert result["metric"] == "spearman"
    assert result["pretrained"]["value"] > 0.7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding": {"loss": "cosent"}}, "got pairs without a score, expected scored pairs"),
        ({"folds": 3, "data": {"path": "train"}}, "folds: embedding ranks the texts of a split among each other"),
        ({"loss": {"label_smoothing": 0.1}}, "finetune.loss.label_smoothing: the loss of embedding takes none of them"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(make, searched, tmp_path, changes, message):
    if "folds" in changes:
        (tmp_path / "train.csv").write_text("anchor,positive\n" + "".join(f"Ann {i},fine {i}\n" for i in range(9)))
        changes = {**changes, "data": {"train": str(tmp_path / "train.csv")}}
    with pytest.raises(BertctlError, match=message):
        run(make(**changes), out=tmp_path / "out", seed=1)
    assert not (tmp_path / "out").exists()


def test_the_section_is_for_its_task(make):
    with pytest.raises(BertctlError, match="`embedding` belongs to the task of this name, not to ner"):
        make(task="ner", embedding={"loss": "triplet"})
