"""Held-out scores against a plain computation, whatever the batch size; the entropy against its formula."""

import numpy as np
import pytest
import torch

from bertctl.heads.model import Model
from bertctl.pretrain.data import make_batches
from bertctl.pretrain.held_out import evaluate_held_out, on_plateau, score_rows, unigram_entropy
from bertctl.pretrain.masking import ordinary_ids
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.training.runtime import Runtime
from bertctl.variants.config import encoder_config


@pytest.fixture
def scored(data, section):
    made = section()
    config = encoder_config(made.encoder, vocab_size=data.tokenizer.vocab_size, pad_token_id=0)
    torch.manual_seed(0)
    objective = PretrainingObjective(Model(config, {"masked_lm": 0, "sentence_pair": 2}))
    runtime = Runtime(torch.device("cpu"), torch.float32)
    return objective, make_batches(made, data, steps=1, seed=5, runtime=runtime)


def test_rows_do_not_depend_on_the_batch_size(scored, data):
    objective, batches = scored
    ids = np.arange(len(data.held_out))
    one, many = (score_rows(objective, data.held_out, ids, batches, batch_size=size) for size in (1, 64))
    np.testing.assert_allclose(one, many, atol=1e-4)


@torch.no_grad()
def test_the_result_is_the_mean_over_masked_tokens_and_over_pairs(scored, data):
    objective, batches = scored
    objective.eval()
    losses, right, pairs = [], [], []
    for example in range(len(data.held_out)):
        batch = batches.held_out(data.held_out, np.array([example]))
        masked, pair = objective.logits(batch)
        losses += (-masked.log_softmax(-1).gather(1, batch["labels"][:, None])).flatten().tolist()
        right += (masked.argmax(-1) == batch["labels"]).tolist()
        pairs.append(pair.argmax(-1).item() == batch["pair_labels"].item())
    result = evaluate_held_out(objective, data.held_out, batches, 10_000)
    assert result["masked_tokens"] == len(losses)
    assert result["mlm_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert result["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-4)
    assert result["mlm_accuracy"] == pytest.approx(np.mean(right))
    assert result["sentence_pair_accuracy"] == pytest.approx(np.mean(pairs))
    assert evaluate_held_out(objective, data.held_out, batches, 10_000) == result
    assert evaluate_held_out(objective, data.held_out, batches, 3)["examples"] == 3


def test_entropy_is_that_of_the_counts(data):
    ordinary = ordinary_ids(data.tokenizer.vocab_size, data.tokenizer.special_ids)
    tokens = np.concatenate([np.asarray(shard.tokens) for shard in data.shards.shards])
    _, counts = np.unique(tokens[np.isin(tokens, ordinary)], return_counts=True)
    shares = counts / counts.sum()
    assert unigram_entropy(data.shards, ordinary) == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-12)


def test_the_alarm_rings_on_the_plateau_only(capsys):
    assert on_plateau(5.95, 6.0)
    assert "token frequencies" in capsys.readouterr().err
    assert not on_plateau(5.0, 6.0)
    assert capsys.readouterr().err == ""
