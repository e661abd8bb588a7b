"""What is told of a model without weights, against counting by hand and against a step that is really taken."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from bertctl.heads.model import Model
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.describe import describe, trace

MASKED_LM = {"masked_lm": 0}


def config(size="tiny", **fields):
    return encoder_config(EncoderSection(size=size, **fields), vocab_size=1000, pad_token_id=0)


def test_base_has_the_published_parameters_and_the_arithmetic_counted_by_hand():
    base = encoder_config(EncoderSection(), vocab_size=30_522, pad_token_id=0)
    found = describe(base, {"masked_lm": 0, "sentence_pair": 2}, batch_size=2, tokens=100)
    assert sum(found.parameters.values()) == 110_106_428  # BertForPreTraining of bert-base-uncased, tied
    assert found.parameters["embeddings"] == (30_522 + 512 + 2 + 2) * 768
    mixing, own = 3 * 768 * 768 + 2 * 100 * 768, 768 * 768 + 2 * 768 * 3072  # q, k, v, scores, sum; output, up, down
    last = mixing + own * 32 / 200  # only where a head reads: 30 masked of 200 tokens, the first ones of 2 texts
    head = (30 * (768 * 768 + 768 * 30_522) + 2 * (768 * 768 + 2 * 768)) / 200
    assert found.flops_per_token == pytest.approx(2 * (11 * (mixing + own) + last + head))
    assert found.training_flops_per_token == 3 * found.flops_per_token


@pytest.mark.parametrize("attention", [("full",), ("local",), ("linear", "full")])
def test_attention_is_counted_with_and_without_dropout(attention):
    """Another kernel computes it then."""
    found = [
        describe(config(attention=attention, attention_probs_dropout_prob=share), {}, batch_size=1, tokens=512)
        for share in (0.0, 0.1)
    ]
    assert found[0].flops_per_token == pytest.approx(found[1].flops_per_token)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_is_kept_for_the_backward_pass_is_what_a_real_step_keeps(checkpointing):
    torch.manual_seed(0)
    model = Model(config(), MASKED_LM).train()
    model.encoder.gradient_checkpointing = checkpointing
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = trace(model, 4, 24)
    real = sum(t.untyped_storage().nbytes() for place, t in kept.items() if place not in own)
    del outputs
    found = describe(config(), MASKED_LM, batch_size=4, tokens=24, gradient_checkpointing=checkpointing)
    assert found.bytes["activations"] == pytest.approx(real, rel=0.01)


def test_memory_grows_with_the_batch_and_shrinks_with_checkpointing_and_bf16():
    def activations(**options):
        return describe(config("mini"), MASKED_LM, **({"batch_size": 8, "tokens": 64} | options)).bytes["activations"]

    plain = activations()
    more = activations(batch_size=16) - plain
    assert activations(batch_size=24) == pytest.approx(plain + 2 * more, rel=0.02)
    assert more > 0.4 * plain  # the rest, gradients of the vocabulary among it, does not depend on the batch
    assert activations(gradient_checkpointing=True) < 0.5 * plain
    assert activations(precision="bf16") < plain


def test_no_weight_is_built():
    found = describe(config(hidden_size=65_536, num_attention_heads=64), MASKED_LM, batch_size=1, tokens=8)
    assert sum(found.parameters.values()) > 2**33  # 32 GiB and more in float32


def test_vit_is_counted_by_hand_too():
    vit = encoder_config(EncoderSection(name="vit"), vocab_size=0, pad_token_id=0)
    tokens = vit.max_position_embeddings
    found = describe(vit, {"masked_image": 0}, batch_size=2, tokens=tokens)
    assert tokens == 14 * 14 + 1
    assert sum(found.parameters.values()) == 86_390_016  # ViTForMaskedImageModeling
    assert found.parameters["embeddings"] == 768 * (3 * 16 * 16 + 1) + 768 + tokens * 768
    layer = 4 * 768 * 768 + 2 * 768 * 3072 + 2 * tokens * 768
    patches = (3 * 16 * 16 * 768) * 2 * (tokens - 1) / tokens  # from pixels, and to them
    assert found.flops_per_token == pytest.approx(2 * (12 * layer + patches))
    assert set(found.initial) == {name for name, _ in found.tensors}
    classifier = describe(vit, {"image": 10}, batch_size=2, tokens=tokens)
    assert classifier.parameters["head image"] == 7690
    assert classifier.bytes["activations"] > 0
