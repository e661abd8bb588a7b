"""Low-rank additions: nothing at the start, the product of their matrices in the end, an ordinary model after that."""

import pytest
import torch
from torch import nn

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.finetune.lora import LoraLinear, add_lora, merge_lora
from bertctl.finetune.strategy_config import LoraSection
from bertctl.heads.model import Model

SMALL = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}
ALL = ["query", "key", "value", "output", "up", "down"]
IDS = torch.tensor([[1, 5, 9, 2], [1, 7, 2, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])


def make(**more):
    torch.manual_seed(0)
    return Model(EncoderConfig(**{**SMALL, **more}), {"sequence": 2}).eval()


def outputs(model):
    with torch.inference_mode():
        return model.logits("sequence", model(IDS, MASK))


def test_by_hand():
    plain = nn.Linear(2, 2)
    plain.weight.data = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    plain.bias.data = torch.tensor([0.5, -0.5])
    layer = LoraLinear(plain, LoraSection(rank=1, alpha=3.0))
    layer.lora_a.data = torch.tensor([[1.0, -1.0]])
    layer.lora_b.data = torch.tensor([[2.0], [0.0]])
    # x = (5, 3): W x + b = (11.5, 26.5); A x = 2; B A x = (4, 0); times 3 / 1
    assert layer(torch.tensor([5.0, 3.0])).tolist() == [23.5, 26.5]
    assert layer.merged().weight.tolist() == [[7.0, -4.0], [3.0, 4.0]]


def test_it_starts_as_the_base_model():
    model = make()
    before = outputs(model)
    add_lora(model.encoder, LoraSection(projections=ALL))
    assert sum(isinstance(module, LoraLinear) for module in model.modules()) == 2 * len(ALL)
    assert torch.equal(outputs(model), before)


@pytest.mark.parametrize("more", [{}, {"feed_forward": "glu", "use_bias": False, "norm_place": "pre"}])
def test_merged_gives_what_unmerged_gave_and_is_an_ordinary_model(more):
    model = make(**more)
    names, before = sorted(model.state_dict()), outputs(model)
    add_lora(model.encoder, LoraSection(rank=3, alpha=6.0, projections=[*ALL, *(["gate"] if more else [])]))
    for name, parameter in model.named_parameters():
        if "lora" in name:
            nn.init.normal_(parameter, std=0.3)
    unmerged = outputs(model)
    assert float((unmerged - before).abs().max()) > 1e-3
    merge_lora(model)
    assert sorted(model.state_dict()) == names
    assert not any(isinstance(module, LoraLinear) for module in model.modules())
    assert torch.allclose(outputs(model), unmerged, atol=1e-6, rtol=0)


def test_dropout_is_of_the_addition_only_and_off_in_evaluation():
    plain = nn.Linear(64, 4)
    layer = LoraLinear(plain, LoraSection(rank=2, dropout=0.5))
    x = torch.randn(8, 64)
    assert torch.equal(layer.train()(x), plain(x))  # B is zero
    nn.init.normal_(layer.lora_b)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


@pytest.mark.parametrize(("sharing", "expected"), [("all", 2), ("attention", 1 + 2), ("feed_forward", 2 + 1)])
def test_a_matrix_that_layers_share_has_one_addition(sharing, expected):
    model = make(layer_sharing=sharing)
    add_lora(model.encoder, LoraSection(projections=["query", "up"]))
    assert sum(isinstance(module, LoraLinear) for module in model.modules()) == expected
    assert isinstance(model.encoder.layers[1].attention.query, LoraLinear)
    for name, parameter in model.named_parameters():
        if "lora" in name:
            nn.init.normal_(parameter, std=0.3)
    unmerged = outputs(model)
    merge_lora(model)
    assert not any(isinstance(module, LoraLinear) for module in model.modules())
    assert torch.allclose(outputs(model), unmerged, atol=1e-6, rtol=0)


def test_a_gate_that_is_not_there_is_refused():
    with pytest.raises(BertctlError, match=r"lora\.projections: got gate"):
        add_lora(make().encoder, LoraSection(projections=["gate"]))
