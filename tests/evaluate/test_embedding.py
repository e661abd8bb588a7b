"""Vectors of any model folder, scored without a recipe and given by predict, against sentence-transformers."""

import json

import numpy as np
import pytest
import torch
import transformers
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.predict import predict
from bertctl.evaluate.run import run
from bertctl.recipe.load import build_recipe
from bertctl.text.tokenizer import Tokenizer

WORDS = ["cat", "dog", "house", "mat", "sat", "ran", "day", "good", "old", "long"]


def texts(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(1, 9))) for _ in range(count)]


def section(**values) -> EvaluateSection:
    return build_recipe({"task": "embedding", **values}, EvaluateSection)


def pooled(model, folder, lines: list[str], pool) -> np.ndarray:
    """Vectors of transformers, one text at a time, ids by our tokenizer."""
    tokenizer = Tokenizer.load(folder)
    rows = []
    for ids in tokenizer.encode_ids(lines):
        inputs = torch.tensor([[tokenizer.cls_id, *ids.tolist(), tokenizer.sep_id]])
        with torch.inference_mode():
            rows.append(pool(model(inputs).last_hidden_state[0]).numpy())
    found = np.stack(rows)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize(("pooling", "pool"), [(None, lambda h: h.mean(0)), ("cls", lambda h: h[0])])
def test_scored_pairs_of_any_encoder(bare, tmp_path, pooling, pool):
    first, second = texts(30, 0), texts(30, 1)
    scores = np.random.default_rng(2).integers(0, 6, 30)
    (tmp_path / "pairs.csv").write_text(
        "".join(f"{a},{b},{c}\n" for a, b, c in zip(first, second, scores, strict=True))
    )
    values = {"model": str(bare), "data": {"path": str(tmp_path / "pairs.csv")}}
    result = run(section(**values, **({"pooling": pooling} if pooling else {})), out=tmp_path / "out", seed=0)
    model = transformers.AutoModel.from_pretrained(bare).eval()
    a, b = (pooled(model, bare, lines, pool) for lines in (first, second))
    expected = spearmanr((a * b).sum(1), scores).statistic
    assert result["metric"] == "spearman"
    assert result["metrics"]["spearman"]["value"] == pytest.approx(expected, abs=1e-6)


def beir(folder, queries: list[str], documents: list[str]) -> None:
    """The right document of query i is i."""
    for name, lines in (("queries", queries), ("corpus", documents)):
        rows = [json.dumps({"_id": f"{name[0]}{i}", "text": line}) for i, line in enumerate(lines)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    (folder / "qrels").mkdir()
    rows = ["query-id\tcorpus-id\tscore", *(f"q{i}\tc{i}\t1" for i in range(len(queries)))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows))


def test_a_corpus_is_ranked_as_sentence_transformers_vectors_rank_it(minilm, tmp_path):
    documents = [f"{a} {b} {c}" for a, b, c in zip(texts(12, 3), texts(12, 4), WORDS + WORDS[:2], strict=True)]
    queries = [line.split()[0] for line in documents[:6]]
    beir(tmp_path, queries, documents)
    result = run(section(model=str(minilm), data={"path": str(tmp_path)}), out=tmp_path / "out", seed=0)
    model = SentenceTransformer(str(minilm), device="cpu")
    a, b = (model.encode(lines, show_progress_bar=False) for lines in (queries, documents))
    ranks = [1 + int((row > row[i]).sum()) for i, row in enumerate(a @ b.T)]
    assert (result["metric"], result["queries"], result["documents"]) == ("ndcg@10", 6, 12)
    assert result["metrics"]["mrr@10"]["value"] == pytest.approx(np.mean([1 / r if r <= 10 else 0 for r in ranks]))
    rows = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    assert [row["ranking"].index(f"c{i}") + 1 for i, row in enumerate(rows)] == ranks
    theirs = section(predictions=[str(tmp_path / "out" / "predictions.jsonl")], data={"path": str(tmp_path)})
    again = run(theirs, out=tmp_path / "again", seed=0)
    assert again["metrics"] == result["metrics"]


def test_prefixes_of_a_checkpoint_are_used(make_model, tmp_path):
    prefixes = {"query_prefix": "cat ", "passage_prefix": "dog ", "text_prefix": "", "normalize": True}
    plain, with_prefixes = make_model({"embedding": 0}), make_model({"embedding": 0}, extra={"embedding": prefixes})
    queries, documents = texts(5, 5), texts(9, 6)
    outs = []
    for model, before in ((with_prefixes, ("", "")), (plain, ("cat ", "dog "))):
        folder = tmp_path / model.name
        folder.mkdir()
        beir(folder, [before[0] + line for line in queries], [before[1] + line for line in documents])
        run(section(model=str(model), data={"path": str(folder)}), out=folder / "out", seed=0)
        outs.append((folder / "out" / "predictions.jsonl").read_text())
    assert outs[0] == outs[1]
    other = SentenceTransformer(str(with_prefixes), device="cpu")
    [row] = predict(with_prefixes, queries[:1])
    np.testing.assert_allclose(row["embedding"], other.encode(queries[0], show_progress_bar=False), atol=1e-5)


def test_a_long_text_in_windows_is_the_mean_of_its_windows(bare):
    long = "cat dog " * 40
    model = transformers.AutoModel.from_pretrained(bare).eval()
    [row] = predict(bare, [long], long_text="windows", max_length=12)
    assert "truncated" not in row
    assert next(predict(bare, [long], max_length=12))["truncated"]
    ids = Tokenizer.load(bare).encode_ids([long])[0].tolist()
    tokenizer = Tokenizer.load(bare)
    overlap = 5  # half of the ten places, as for any task
    rows = []
    for begin in range(0, len(ids), 10 - overlap):
        part = ids[begin : begin + 10]
        with torch.inference_mode():
            hidden = model(torch.tensor([[tokenizer.cls_id, *part, tokenizer.sep_id]])).last_hidden_state[0]
        rows.append(hidden.mean(0).numpy())
        if begin + 10 >= len(ids):
            break
    np.testing.assert_allclose(row["embedding"], np.mean(rows, axis=0), atol=1e-5)


def test_pooling_is_for_vectors_only(bare):
    with pytest.raises(BertctlError, match="`pooling` belongs to the task embedding"):
        build_recipe({"task": "ner", "pooling": "max"}, EvaluateSection)
