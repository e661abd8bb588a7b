"""Masked-LM scores of text and of pairs, against values that are known beforehand."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import torch
import transformers

from bertctl.artifacts.examples import Examples
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.run import run
from bertctl.heads.model import Model
from bertctl.recipe.load import build_recipe
from bertctl.text.tokenizer import Tokenizer
from bertctl.variants.hf import load_model, save_model

TEXT = (
    "The cat sat on the mat and saw Bob.\nOne two three four.\n\nA long day (and more).\n\n"
    + "ten words stand here. " * 40
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def section(**values) -> EvaluateSection:
    return build_recipe(values, EvaluateSection)


def test_a_model_that_knows_nothing_has_the_entropy_of_its_vocabulary(make_model, tokenizer, text, tmp_path):
    flat = make_model({"masked_lm": 0}, scale=0.0)
    result = run(section(model=str(flat), data={"path": str(text)}), out=tmp_path / "out", seed=0)
    assert result["metrics"]["loss"]["value"] == pytest.approx(math.log(tokenizer.vocab_size), abs=1e-5)
    assert result["metrics"]["perplexity"]["value"] == pytest.approx(tokenizer.vocab_size, rel=1e-4)
    pieces = [tokenizer.encode([part])[0].ids for part in TEXT.split("\n\n")]
    assert result["tokens"] == sum(map(len, pieces))
    assert result["examples"] == sum(math.ceil(len(ids) / 46) for ids in pieces)
    shares = np.unique(np.concatenate(pieces), return_counts=True)[1] / result["tokens"]
    assert result["unigram_entropy"] == pytest.approx(-(shares * np.log(shares)).sum())


def test_the_batch_size_changes_nothing(masked, text, tmp_path):
    results = [
        run(section(model=str(masked), data={"path": str(text)}, batch_size=size), out=tmp_path / str(size), seed=0)
        for size in (1, 3, 50)
    ]
    for result in results[1:]:
        assert result["masked_tokens"] == results[0]["masked_tokens"]
        assert result["metrics"]["loss"]["value"] == pytest.approx(results[0]["metrics"]["loss"]["value"], abs=1e-5)
        assert result["metrics"]["accuracy"] == results[0]["metrics"]["accuracy"]


def test_with_every_token_masked_the_loss_is_that_of_transformers(masked, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat saw bob")
    masking = {"probability": 0.999, "mask_share": 1.0, "random_share": 0.0}
    values = {"model": str(masked), "data": {"path": str(path)}, "masking": masking}
    result = run(section(**values), out=tmp_path / "out", seed=0)
    tokenizer = Tokenizer.load(masked)
    ids = torch.tensor(tokenizer.encode(["the cat saw bob"])[0].ids.tolist())
    hidden = [tokenizer.cls_id, *[tokenizer.mask_id] * len(ids), tokenizer.sep_id]
    model = transformers.AutoModelForMaskedLM.from_pretrained(masked).eval()
    with torch.inference_mode():
        logits = model(torch.tensor([hidden])).logits[0, 1:-1]
    expected = torch.nn.functional.cross_entropy(logits, ids)
    assert result["masked_tokens"] == len(ids)
    assert result["metrics"]["loss"]["value"] == pytest.approx(float(expected), abs=1e-5)


def test_text_without_a_word_is_refused(masked, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\u200b\n")
    with pytest.raises(BertctlError, match=r"no word|no document"):
        run(section(model=str(masked), data={"path": str(path)}), out=tmp_path / "out", seed=0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory, tokenizer):
    """Token shards of 12 documents of two sentences, and pairs into them: (tokens, pairs)."""
    from bertctl.artifacts.examples import write_examples
    from bertctl.artifacts.folder import whole_folder
    from bertctl.artifacts.manifest import tree_hash
    from bertctl.artifacts.shards import KIND, TokenShardWriter

    place = tmp_path_factory.mktemp("shards")
    words = ["the cat sat on the mat", "ann saw bob in rome", "one two three four five six", "a long day"]
    starts, at = [], 0
    with whole_folder(place / "tokens", kind=KIND, inputs={}, facts={"vocab_size": tokenizer.vocab_size}) as temp:
        writer = TokenShardWriter(temp, vocab_size=tokenizer.vocab_size, tokens_per_shard=100_000)
        for document in range(12):
            pair = [tokenizer.encode([words[(document + side) % 4]])[0] for side in range(2)]
            writer.add_document([(pieces.ids, pieces.word_starts) for pieces in pair])
            starts.append((at, at + len(pair[0].ids), at + len(pair[0].ids) + len(pair[1].ids)))
            at = starts[-1][2]
        writer.close()
        tokenizer.save(temp)
    begin, middle, end = map(np.array, zip(*starts, strict=True))
    zero = np.zeros(12, dtype=np.int32)
    columns = {
        "a_shard": zero,
        "a_start": begin,
        "a_stop": middle,
        "b_shard": zero,
        "b_start": middle,
        "b_stop": end,
        "label": (np.arange(12) % 2).astype(np.int8),
    }
    inputs = {"tokens": tree_hash(place / "tokens")}
    with whole_folder(place / "pairs", kind="pairs", inputs=inputs, facts={"phases": ["main"]}) as temp:
        for split in ("train", "held_out"):
            write_examples(temp / f"examples-main-{split}.safetensors", columns)
    assert len(Examples(place / "pairs" / "examples-main-held_out.safetensors")) == 12
    return place / "tokens", place / "pairs"


def test_pairs_are_scored_with_their_labels(make_model, tokenizer, shards, tmp_path):
    tokens, pairs = shards
    flat = make_model({"masked_lm": 0, "sentence_pair": 2}, scale=0.0)  # says "is next" of every pair
    values = {"model": str(flat), "data": {"path": str(pairs)}, "tokens": str(tokens)}
    result = run(section(**values), out=tmp_path / "out", seed=0)
    assert result["examples"] == 12
    assert result["metrics"]["loss"]["value"] == pytest.approx(math.log(tokenizer.vocab_size), abs=1e-5)
    assert result["metrics"]["sentence_pair_accuracy"]["value"] == 0.5


def test_pairs_bring_their_own_tokens(masked, shards, tmp_path):
    tokens, pairs = shards
    named = run(section(model=str(masked), pairs=str(pairs), tokens=str(tokens)), out=tmp_path / "named", seed=0)
    moved = tmp_path / "pairs"
    shutil.copytree(pairs, moved)
    (moved / "result.json").write_text(json.dumps({"tokens_folder": str(tokens)}))
    found = run(section(model=str(masked), data={"path": str(moved)}), out=tmp_path / "found", seed=0)
    assert found["metrics"] == named["metrics"]


def test_pairs_of_another_vocabulary_are_refused(masked, tokenizer, shards, tmp_path):
    tokens, pairs = shards
    other = tmp_path / "other"
    other.mkdir()
    save_model(other, load_model(masked).model, dataclasses.replace(tokenizer, lowercase=False, strip_accents=False))
    with pytest.raises(BertctlError, match="another vocabulary"):
        run(section(model=str(other), pairs=str(pairs), tokens=str(tokens)), out=tmp_path / "out", seed=0)
    with pytest.raises(BertctlError, match="`tokens` is not given"):
        run(section(model=str(masked), pairs=str(pairs)), out=tmp_path / "out", seed=0)


def test_pairs_that_are_longer_than_the_model_reads_are_refused(masked, tokenizer, shards, tmp_path):
    tokens, pairs = shards
    short = tmp_path / "short"
    short.mkdir()
    config = dataclasses.replace(load_model(masked).model.config, max_position_embeddings=8)
    save_model(short, Model(config, {"masked_lm": 0}), tokenizer)
    with pytest.raises(BertctlError, match=r"reads 8 tokens, the longest example of .* has "):
        run(section(model=str(short), pairs=str(pairs), tokens=str(tokens)), out=tmp_path / "out", seed=0)
