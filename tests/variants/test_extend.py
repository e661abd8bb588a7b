"""Rows for new tokens, and rows that stand for no token."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.variants.extend import BIAS, NEVER, WORDS, extended, never_predicted, rounded_up
from bertctl.variants.hf import load_model, save_model

CONFIG = EncoderConfig(
    vocab_size=10,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
HEADS = {"masked_lm": 0, "sentence_pair": 2}
IDS = torch.tensor([[2, 5, 9, 3]])


def model_of(**changes):
    torch.manual_seed(0)
    model = Model(EncoderConfig(**{**vars(CONFIG), **changes}), HEADS)
    model.get_parameter(BIAS).data.normal_()
    return model.eval()


def logits(model, ids=IDS):
    with torch.no_grad():
        return model.masked_logits(model(ids), torch.arange(ids.shape[1]))


@pytest.mark.parametrize("changes", [{}, {"embedding_size": 8}])
def test_new_rows_are_means_and_the_others_stay(changes):
    model = model_of(**changes)
    larger = extended(model, [[5, 6], [9]], used=10, rows=64)
    words, bias = larger.get_parameter(WORDS), larger.get_parameter(BIAS)
    assert words.shape[0] == larger.config.vocab_size == len(bias) == 64
    assert torch.equal(words[:10], model.get_parameter(WORDS))
    assert torch.allclose(words[10], (words[5] + words[6]) / 2)
    assert torch.equal(words[11], words[9])
    assert torch.allclose(bias[10], (bias[5] + bias[6]) / 2)
    assert torch.allclose(logits(larger)[:, :10], logits(model), atol=1e-6)
    as_before = logits(larger, torch.where(IDS == 9, 11, IDS))  # 11 is what 9 was
    assert torch.allclose(as_before[:, :10], logits(model), atol=1e-6)
    assert torch.equal(larger.heads["sentence_pair"].output.weight, model.heads["sentence_pair"].output.weight)


def test_rows_that_were_padding_are_used_first():
    model = model_of(vocab_size=16)
    larger = extended(model, [[1]], used=10, rows=16)
    assert larger.config.vocab_size == 16
    assert torch.equal(larger.get_parameter(WORDS)[10], model.get_parameter(WORDS)[1])
    assert not larger.get_parameter(WORDS)[11:].any()
    with pytest.raises(ValueError, match="got 10 rows for 10 tokens of 16 and 1 new ones"):
        extended(model, [[1]], used=10, rows=10)


def test_rows_without_a_token_are_never_predicted_and_never_change():
    model = model_of(vocab_size=64)
    never_predicted(model, 10)
    before = {name: model.get_parameter(name)[10:].clone() for name in (WORDS, BIAS)}
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(5):
        found = model.masked_logits(model(IDS), torch.tensor([1, 2]))
        torch.nn.functional.cross_entropy(found, torch.tensor([5, 7])).backward()
        optimizer.step()
    for precision in (torch.float32, torch.bfloat16, torch.float16):
        shares = logits(model.eval()).to(precision).softmax(dim=-1)
        assert not shares[:, 10:].any()
    assert torch.equal(model.get_parameter(WORDS)[10:], before[WORDS])
    assert (model.get_parameter(WORDS)[10:] == 0).all()
    decayed = model.get_parameter(BIAS)[10:]  # this optimizer decays biases too
    assert (decayed < 0.9 * NEVER).all()


def test_soft_targets_over_them_are_finite():
    teacher, student = model_of(vocab_size=64), model_of(vocab_size=64, hidden_size=32)
    for one in (teacher, student):
        never_predicted(one, 10)
    for temperature in (1.0, 8.0):
        parts = [torch.log_softmax(logits(one) / temperature, dim=-1) for one in (teacher, student)]
        loss = torch.nn.functional.kl_div(parts[1], parts[0], log_target=True, reduction="batchmean")
        assert loss.isfinite()
        assert loss > 0


def test_transformers_never_predicts_them_either(tmp_path):
    model = extended(model_of(), [[5, 6]], used=10, rows=64)
    save_model(tmp_path, model, None)
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        shares = theirs(input_ids=IDS).logits.softmax(dim=-1)
    assert shares.shape[-1] == 64
    assert not shares[..., 11:].any()
    assert torch.equal(load_model(tmp_path).model.get_parameter(WORDS), model.get_parameter(WORDS))


@pytest.mark.parametrize(("size", "multiple", "expected"), [(1, 64, 64), (64, 64, 64), (65, 64, 128), (7, 1, 7)])
def test_rounding(size, multiple, expected):
    assert rounded_up(size, multiple) == expected
