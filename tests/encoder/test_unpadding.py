"""Batches whose padding is left out against the same batches with it: values, gradients, dropout, and the choice."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from bertctl.encoder import unpadding
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.encoder.kernels import reference
from bertctl.encoder.patterns import Pattern
from bertctl.encoder.scope import Scope
from bertctl.encoder.unpadding import Places, attend_packed, few_sizes, find_packing, fits_varlen, varlen

T = 11
MASK = torch.tensor([[1] * T, [1] * 6 + [0] * 5, [0] * T, [1] + [0] * 10, [0] * 4 + [1] * 7]).bool()
MORE = torch.arange(T) < torch.tensor([11, 11, 9, 4, 2])[:, None]  # 37 tokens, whose products have 38 rows
GAPS = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1], [1] * 10 + [0]]).bool()
ATTENTION = (("full",), ("causal", "local"), ("local_global",), ("linear", "causal_linear"), ("local", "full"))
CASES = [
    *itertools.product(ATTENTION, ("learned", "sinusoidal", "rotary", "none"), ("none",), ("post",)),
    *itertools.product(ATTENTION[:3], ("learned", "rotary"), ("bucketed", "disentangled"), ("pre",)),
]


def encoder(dropout=0.0, **changes):
    torch.manual_seed(4)
    fields = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
        "attention_window_tokens": 4,
        "relative_buckets": 8,
        "relative_max_distance": 9,
        "local_rope_theta": 100.0,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "initializer_range": 0.3,
    }
    return Encoder(EncoderConfig(**(fields | changes))).train()


def ids(mask):
    return torch.randint(5, 50, mask.shape, generator=torch.Generator().manual_seed(1))


def measured(model, mask, padded, monkeypatch, seed=0, **asked):
    """States, and gradients of a loss of the real tokens' states by name."""
    monkeypatch.setattr(unpadding, "LEAST_PADDING", 1.0 if padded else 0.0)
    model.zero_grad()
    torch.manual_seed(seed)
    states = model(ids(mask), mask, ids(mask) % 2, **asked).last_hidden_state
    (states[mask].float() ** 3).mean().backward()
    return states.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("mask", [MASK, MORE, GAPS], ids=["texts", "more rows than tokens", "gaps"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("attention", "position", "relative", "place"), CASES)
def test_states_and_gradients_are_those_of_the_padded_batch(
    attention, position, relative, place, dtype, mask, monkeypatch
):
    model = encoder(attention=attention, position=position, relative_position=relative, norm_place=place)
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        (got, gradients), (want, others) = (measured(model, mask, padded, monkeypatch) for padded in (False, True))
    bound = 1e-5 if dtype == torch.float32 else 6e-2
    torch.testing.assert_close(got[mask], want[mask], atol=bound, rtol=bound)
    assert not got[~mask].any()
    assert not want[~mask].any()
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        scale = others[name].abs().max().item()
        torch.testing.assert_close(gradient, others[name], atol=bound * max(scale, 1e-2), rtol=0, msg=name)


@pytest.mark.parametrize(("mask", "count"), [(MASK, 25), (MORE, 38)])
def test_layers_meet_real_tokens_and_few_others(monkeypatch, mask, count):
    monkeypatch.setattr(unpadding, "LEAST_PADDING", 0.0)
    model, rows = encoder(), []
    for layer in model.layers:
        for part in (layer.attention_norm, layer.feed_forward):
            part.register_forward_hook(lambda _, given, __: rows.append(given[0].shape[:-1].numel()))
    model(ids(mask), mask)
    assert rows == [count] * 4
    rows.clear()
    model(ids(mask), mask, places=torch.arange(mask.numel())[mask.flatten()][:25])
    assert rows == [count, count, 25, 25]


def test_few_sizes_by_hand():
    """At most five binary digits before the zeros: 33 = 100001 becomes 34, 1000 = 1111101000 becomes 1024."""
    assert [few_sizes(n) for n in (0, 1, 31, 32, 33, 37, 65, 1000, 3401, 4096)] == [
        *(0, 1, 31, 32, 34, 38, 68, 1024, 3456, 4096)
    ]
    sizes = {n: few_sizes(n) for n in range(1, 8193)}
    assert all(n <= size <= n * 17 / 16 for n, size in sizes.items())
    assert len({size for size in sizes.values() if size > 512}) == 64  # 16 for each doubling


def test_as_many_places_as_there_are_few_sizes_of(monkeypatch):
    """37 places are computed as 38 rows; what comes back, and every gradient, is that of the 37."""
    model = encoder()
    places = torch.arange(MORE.numel())[MORE.flatten()].flip(0)
    want, others = measured(model, MORE, True, monkeypatch)
    got, gradients = measured(model, MORE, False, monkeypatch, places=places)
    torch.testing.assert_close(got[MORE], want[MORE], atol=1e-5, rtol=1e-5)
    assert not got[~MORE].any()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], atol=1e-5, rtol=1e-4, msg=name)


def test_all_states_are_in_rows_again(monkeypatch):
    model = encoder(norm_place="pre").eval()
    found = []
    for least in (0.0, 1.0):
        monkeypatch.setattr(unpadding, "LEAST_PADDING", least)
        found.append(model(ids(MASK), MASK, output_hidden_states=True))
    assert len(found[0].hidden_states) == 3
    assert found[0].hidden_states[-1] is found[0].last_hidden_state
    for got, want in zip(found[0].hidden_states, found[1].hidden_states, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
        assert not got[~MASK].any()
    asked = model(ids(MASK), MASK, output_attentions=True)
    assert [weights.shape for weights in asked.attentions] == [(len(MASK), 2, T, T)] * 2
    torch.testing.assert_close(asked.last_hidden_state, found[0].last_hidden_state, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_places_are_those_of_the_padded_batch(checkpointing, monkeypatch):
    """Also the first one of a text without a token, whose state is zeros and teaches nothing."""
    model = encoder()
    model.gradient_checkpointing = checkpointing
    firsts = torch.arange(0, MASK.numel(), T)
    whole, _ = measured(model, MASK, True, monkeypatch)
    monkeypatch.setattr(unpadding, "LEAST_PADDING", 0.0)
    got = model(ids(MASK), MASK, ids(MASK) % 2, places=firsts).last_hidden_state
    torch.testing.assert_close(got[:, 0], whole[:, 0], atol=1e-5, rtol=1e-5)
    gradients = []
    for least in (0.0, 1.0):
        monkeypatch.setattr(unpadding, "LEAST_PADDING", least)
        model.zero_grad()
        model(ids(MASK), MASK, places=firsts).last_hidden_state.pow(3).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_dropout_is_a_function_of_the_seed_and_checkpointing_repeats_it(monkeypatch):
    model = encoder(dropout=0.3)
    first, gradients = measured(model, MASK, False, monkeypatch, seed=7)
    again, same = measured(model, MASK, False, monkeypatch, seed=7)
    model.gradient_checkpointing = True
    kept, recomputed = measured(model, MASK, False, monkeypatch, seed=7)
    assert torch.equal(first, again)
    assert torch.equal(first, kept)
    assert all(torch.equal(gradients[name], same[name]) for name in same)
    assert all(torch.equal(gradients[name], recomputed[name]) for name in same)
    assert not torch.equal(first, measured(model, MASK, False, monkeypatch, seed=8)[0])


def test_without_padding_nothing_changes_bit_for_bit(monkeypatch):
    full = torch.ones(3, T, dtype=torch.bool)
    model = encoder(dropout=0.1)
    (got, gradients), (want, others) = (measured(model, full, padded, monkeypatch) for padded in (False, True))
    assert torch.equal(got, want)
    assert all(torch.equal(gradients[name], others[name]) for name in others)


def test_the_choice_depends_on_the_share_of_padding_alone():
    share = unpadding.LEAST_PADDING
    assert find_packing(None, 2) is None
    assert find_packing(torch.zeros(3, T, dtype=torch.bool), 2) is None
    assert find_packing(torch.ones(3, T, dtype=torch.bool), 2) is None
    for padding, left_out in ((int(share * 1000) - 1, False), (int(share * 1000) + 1, True)):
        mask = (torch.arange(1000) < 1000 - padding).view(10, 100)
        assert (find_packing(mask, 2) is not None) is left_out


def test_a_convolution_keeps_the_rows(monkeypatch):
    model = encoder(conv_kernel_size=3)
    (got, _), (want, _) = (measured(model, MASK, padded, monkeypatch) for padded in (False, True))
    assert torch.equal(got, want)


def test_rows_and_places_by_hand():
    places = Places.of(torch.tensor([1, 4, 5]), 6)
    assert places.row.tolist() == [3, 0, 3, 3, 1, 2]
    rows = torch.tensor([[1.0], [2.0], [3.0]])
    assert places.spread(rows).flatten().tolist() == [0, 1, 0, 0, 2, 3]
    assert places.collect(places.spread(rows)).tolist() == rows.tolist()
    wide = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(places.spread, wide)
    assert torch.autograd.gradcheck(places.collect, torch.randn(6, 2, dtype=torch.float64, requires_grad=True))


def test_a_packing_by_hand():
    packing = find_packing(torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0]]).bool(), 2)
    assert packing.tokens.place.tolist() == [0, 1, 6]
    assert packing.places.tolist() == [0, 1, 0]
    assert packing.starts.tolist() == [0, 2, 2, 3]
    assert (packing.longest, packing.gapless) == (2, True)
    assert packing.heads.place.tolist() == [0, 3, 1, 4, 12, 15]
    assert packing.rows_of(torch.tensor([6, 1, 3])).tolist() == [2, 1, 2]
    assert not find_packing(GAPS, 2).gapless
    assert find_packing(MASK, 2).gapless


def by_text(q, k, v, starts_q, starts_k, longest_q, longest_k, window_size):
    """What varlen_attn promises, text by text: [N, H, D] three times, each text's from one start to the next."""
    context = torch.empty_like(q)
    left, right = window_size
    for begin, end in itertools.pairwise(starts_q.tolist()):
        places = torch.arange(end - begin)
        away = places[None] - places[:, None]
        seen = (left < 0) | (away >= -left) & torch.ones_like(away).bool()
        seen = seen & ((right < 0) | (away <= right))
        mine = (x[begin:end].transpose(0, 1) for x in (q, k, v))
        context[begin:end] = F.scaled_dot_product_attention(*mine, attn_mask=seen).transpose(0, 1)
    return context


@pytest.mark.parametrize("pattern", [Pattern(), Pattern("causal"), Pattern("local", window_tokens=4)], ids=str)
def test_attention_over_texts_of_any_length_is_given_the_texts(pattern, monkeypatch):
    """The call without a GPU: what it is asked for is computed by hand, and compared with the rows'."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", by_text)
    packing = find_packing(MASK, 2)
    q, k, v = torch.randn(3, 1, 2, int(MASK.sum()), 8, generator=torch.Generator().manual_seed(2))
    got = varlen(q, k, v, packing, pattern)
    want = reference(*(packing.to_rows(x) for x in (q, k, v)), Scope(MASK, pattern))[0]
    torch.testing.assert_close(got, packing.from_rows(want), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got, attend_packed(q, k, v, packing, Scope(None, pattern)), atol=1e-5, rtol=1e-5)


def test_attention_over_texts_of_any_length_is_not_asked_for_what_it_cannot_do():
    texts, gaps = find_packing(MASK, 2), find_packing(GAPS, 2)
    q = torch.zeros(1, 2, 9, 64, dtype=torch.bfloat16)
    assert fits_varlen(q, texts, Scope(None, Pattern("local")))
    assert fits_varlen(q, gaps, Scope(None, Pattern("causal")))
    assert not fits_varlen(q, gaps, Scope(None, Pattern("local")))
    assert not fits_varlen(q, texts, Scope(None, Pattern("local_global")))
    assert not fits_varlen(q, texts, Scope(None, Pattern("linear")))
    assert not fits_varlen(q, texts, Scope(None, Pattern(), dropout=0.1))
    assert not fits_varlen(q, texts, Scope(None, Pattern(), lambda q, k, away: q))
    assert not fits_varlen(q.float(), texts, Scope(None, Pattern()))
    assert not fits_varlen(q[..., :4], texts, Scope(None, Pattern()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="variable-length attention runs on CUDA only")
@pytest.mark.parametrize("pattern", [Pattern(), Pattern("causal"), Pattern("local", window_tokens=4)], ids=str)
def test_attention_over_texts_of_any_length_on_a_gpu(pattern):
    mask = MASK.cuda()
    packing = find_packing(mask, 2)
    given = torch.randn(3, 1, 2, int(mask.sum()), 64, device="cuda", dtype=torch.bfloat16)
    results = []
    for compute in (
        varlen,
        lambda *a: packing.from_rows(reference(*map(packing.to_rows, a[:3]), Scope(mask, a[4]))[0]),
    ):
        q, k, v = (x.clone().requires_grad_() for x in given)
        context = compute(q, k, v, packing, pattern)
        context.float().square().sum().backward()
        results.append([context, q.grad, k.grad, v.grad])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=3e-2, rtol=3e-2)
