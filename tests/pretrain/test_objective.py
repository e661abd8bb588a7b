"""The pretraining objective: what its sums are divided by, and where that lies."""

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.pretrain.objective import PretrainingObjective

CONFIG = EncoderConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_counts_lie_where_the_batch_lies(device):
    # the loop stacks them with the count of real tokens, which fails for tensors of two devices
    batch = {"input_ids": torch.zeros(4, 8, dtype=torch.long), "labels": torch.zeros(5, dtype=torch.long)}
    objective = PretrainingObjective(Model(CONFIG, {"masked_lm": 0, "sentence_pair": 2}))
    counts = objective.counts({name: tensor.to(device) for name, tensor in batch.items()})
    assert {name: count.device.type for name, count in counts.items()} == {"mlm": device, "sentence_pair": device}
    if device == "cpu":
        assert {name: int(count) for name, count in counts.items()} == {"mlm": 5, "sentence_pair": 4}
