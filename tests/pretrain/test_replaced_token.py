"""ELECTRA's objective: its losses against transformers, its samples against their distribution, where gradients go, and
one gradient however a step is cut."""

import numpy as np
import pytest
import torch
import transformers

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.pretrain.build import build_objective
from bertctl.pretrain.data import make_batches
from bertctl.pretrain.held_out import evaluate_held_out, score_rows
from bertctl.pretrain.masking import uniform_draws
from bertctl.pretrain.replaced_token import ReplacedTokenObjective, generator_config, real_places, sampled
from bertctl.pretrain.shared_embeddings import settle
from bertctl.training.loop import fit
from bertctl.training.runtime import Runtime
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.hf import save_model

CPU = Runtime(torch.device("cpu"), torch.float32)
WEIGHTS = {"mlm": 1.0, "replaced_token": 50.0}
ENCODER = {
    "name": "electra",
    "size": "small",
    "hidden_size": 32,
    "embedding_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


@pytest.fixture
def made(section, data):
    """(objective, batches, section) of a tiny ELECTRA over the small corpus."""
    chosen = section(
        encoder=ENCODER, objective={"name": "replaced_token"}, training={"batch_size": 32, "precision": "float32"}
    )
    objective = build_objective(chosen, data, seed=1)
    return objective, make_batches(chosen, data, steps=9, seed=1, runtime=CPU, sampled=True), chosen


@pytest.mark.parametrize(
    ("size", "width", "expected"),
    [
        ("small", 0.25, (64, 1, 256, 128)),  # the paper's table 6
        ("small", 1.0, (256, 4, 1024, 128)),  # the released small model's
        ("base", 0.3333, (256, 4, 1024, 768)),
        ("large", 0.25, (256, 4, 1024, 1024)),
    ],
)
def test_the_generators_are_the_published_ones(size, width, expected):
    config = encoder_config(EncoderSection(name="electra", size=size), vocab_size=30_522, pad_token_id=0)
    small = generator_config(config, width)
    assert (small.hidden_size, small.num_attention_heads, small.intermediate_size, small.embedding_size) == expected
    assert small.num_hidden_layers == config.num_hidden_layers


@pytest.mark.parametrize(("hidden", "heads", "width"), [(128, 2, 0.25), (96, 4, 0.33), (20, 5, 0.5), (4, 2, 0.25)])
def test_any_width_makes_a_generator(hidden, heads, width):
    config = EncoderConfig(
        vocab_size=9, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=heads, intermediate_size=hidden
    )
    small = generator_config(config, width)
    assert small.hidden_size == pytest.approx(hidden * width, abs=1)
    with torch.device("meta"):
        Model(small, {"masked_lm": 0})


def test_samples_follow_the_softmax():
    logits = torch.tensor([2.0, -1.0, float("-inf"), 0.5, 1.0])
    draws = torch.from_numpy(uniform_draws(np.arange(2000), np.zeros(2000, dtype=np.int64), 100, seed=3)).flatten()
    assert draws.min() >= 0
    assert draws.max() < 1
    tokens = sampled(logits.expand(len(draws), 5), draws)
    shares = torch.bincount(tokens, minlength=5) / len(draws)
    expected = logits.softmax(-1)
    error = (expected * (1 - expected) / len(draws)).sqrt()
    assert (shares - expected).abs().le(4 * error).all(), (shares, expected)
    assert shares[2] == 0
    assert sampled(torch.tensor([[0.0, -1e9]]), torch.tensor([1 - 2**-24])).item() == 0


@torch.no_grad()
@pytest.mark.parametrize("probability", [0.15, 0.9])
def test_masked_places_are_drawn_without_replacement(probability, section, data):
    """The generator is asked once for each place that is masked, and no other token can be replaced."""
    masking = {"probability": probability, "mask_share": 1.0, "random_share": 0.0}
    chosen = section(encoder=ENCODER, objective={"name": "replaced_token"}, masking=masking)
    objective = build_objective(chosen, data, seed=1)
    batches = make_batches(chosen, data, steps=1, seed=1, runtime=CPU, sampled=True)
    batch = batches.held_out(data.held_out, np.arange(len(data.held_out)))
    ids, places, special = (
        batch["input_ids"],
        batch["masked_positions"],
        torch.tensor(sorted(data.tokenizer.special_ids)),
    )
    assert len(places.unique()) == len(places) == len(batch["draws"].unique())
    masked = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, places, True).view_as(ids)
    ordinary = masked | (batch["attention_mask"] & ~torch.isin(ids, special))
    budgets = (probability * ordinary.sum(dim=1)).round().clamp(min=1)
    assert torch.equal(masked.sum(dim=1), budgets.long())
    assert (ids[masked] == data.tokenizer.mask_id).all()
    assert not torch.isin(batch["labels"], special).any()
    _, _, replaced = objective.logits(batch)
    assert replaced.any()
    assert not replaced[~masked[batch["attention_mask"]]].any()


@torch.no_grad()
def test_rows_that_pad_the_vocabulary_are_never_drawn(section, data):
    """Not even by the highest numbers that are drawn, at which the last row of a softmax would be taken."""
    chosen = section(encoder=ENCODER, objective={"name": "replaced_token"}, pad_vocab_to_multiple_of=64)
    objective, words = build_objective(chosen, data, seed=1), data.tokenizer.vocab_size
    batches = make_batches(chosen, data, steps=1, seed=1, runtime=CPU, sampled=True)
    batch = batches.held_out(data.held_out, np.arange(len(data.held_out)))
    guesses, _, _ = objective.logits(batch)
    assert words < guesses.shape[1] == 64
    assert not guesses.softmax(dim=-1)[:, words:].any()
    assert sampled(guesses, torch.full((len(guesses),), 1 - 2**-24)).max() < words
    for model in (objective.model, objective.generator):
        assert not model.encoder.embeddings.word.weight[words:].any()


def test_draws_are_a_function_of_the_example_and_its_epoch():
    ids, epochs = np.array([7, 8, 7]), np.array([0, 0, 1])
    draws = uniform_draws(ids, epochs, 16, seed=3)
    assert np.array_equal(uniform_draws(ids[1:], epochs[1:], 16, seed=3), draws[1:])
    assert np.array_equal(uniform_draws(ids, epochs, 8, seed=3), draws[:, :8])
    for other in (draws[1], draws[2], uniform_draws(ids, epochs, 16, seed=4)[0]):
        assert not np.allclose(draws[0], other)


@torch.no_grad()
def test_losses_are_those_of_transformers_for_the_same_samples(made, data, tmp_path):
    objective, batches, _ = made
    objective.eval()
    published = {}
    for name, model, auto in (
        ("generator", objective.generator, "AutoModelForMaskedLM"),
        ("model", objective.model, "AutoModelForPreTraining"),
    ):
        (tmp_path / name).mkdir()
        save_model(tmp_path / name, model, None)
        published[name] = getattr(transformers, auto).from_pretrained(tmp_path / name).eval()
    batch = batches.held_out(data.held_out, np.arange(len(data.held_out)))
    ids, places = batch["input_ids"], batch["masked_positions"]
    mask = batch["attention_mask"]
    rest = {"attention_mask": mask.long(), "token_type_ids": batch["token_type_ids"]}
    targets = torch.full(ids.shape, -100).flatten().index_copy(0, places, batch["labels"]).view_as(ids)
    theirs = published["generator"](ids, labels=targets, **rest)
    probabilities = theirs.logits.flatten(0, 1)[places].double().softmax(-1)
    tokens = (probabilities.cumsum(-1) <= batch["draws"].double()[:, None]).sum(-1)
    original = ids.flatten().index_copy(0, places, batch["labels"]).view_as(ids)
    corrupted = ids.flatten().index_copy(0, places, tokens).view_as(ids)
    told = published["model"](corrupted, labels=(corrupted != original).long(), **rest)

    losses, counts = objective(batch), objective.counts(batch)
    assert (counts["mlm"], counts["replaced_token"]) == (len(places), mask.sum())
    assert (losses["mlm"] / counts["mlm"]).item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    assert (losses["replaced_token"] / counts["replaced_token"]).item() == pytest.approx(told.loss.item(), rel=1e-4)
    assert objective.weights == WEIGHTS
    assert 0 < (tokens == batch["labels"]).sum() < len(places), "some samples hit the original, which is not replaced"
    _, logits, replaced = objective.logits(batch)
    assert torch.equal(replaced, (corrupted != original)[mask])
    torch.testing.assert_close(logits, told.logits[mask], atol=1e-4, rtol=1e-4)


def test_the_model_teaches_the_generator_nothing_but_their_embeddings(made):
    objective, batches, _ = made
    objective(batches(1)[0])["replaced_token"].backward()
    words = objective.model.encoder.embeddings.word
    assert objective.generator.encoder.embeddings.word is words
    assert objective.generator.encoder.position.table is objective.model.encoder.position.table
    own = [p for n, p in objective.named_parameters() if n.startswith("generator.")]
    assert own
    assert all(p.grad is None for p in own)
    assert words.weight.grad.abs().sum() > 0
    assert all(p.grad is not None for p in objective.model.parameters())


def test_disentangled_words_are_read_and_not_taught(made, section, data):
    chosen = section(encoder=ENCODER, objective={"name": "replaced_token", "embedding_sharing": "disentangled"})
    objective, batch = build_objective(chosen, data, seed=1), made[1](1)[0]
    base, words = objective.generator.encoder.embeddings.word.weight, objective.model.encoder.embeddings.word
    with torch.no_grad():
        assert torch.equal(words.weight, made[0].model.encoder.embeddings.word.weight)
        mine, plain = (one.model(batch["input_ids"]).last_hidden_state for one in (objective, made[0]))
        assert torch.equal(mine, plain)
        words.own.add_(torch.randn(words.own.shape, generator=torch.Generator().manual_seed(2)))
    objective(batch)["replaced_token"].backward()
    assert base.grad is None
    assert words.own.grad.abs().sum() > 0
    objective.zero_grad()
    objective(batch)["mlm"].backward()
    assert base.grad.abs().sum() > 0
    assert words.own.grad is None

    before = objective.model(batch["input_ids"]).last_hidden_state
    count = sum(p.numel() for p in objective.model.parameters())
    model = settle(objective.model)
    torch.testing.assert_close(model(batch["input_ids"]).last_hidden_state, before)
    torch.testing.assert_close(model.encoder.embeddings.word.weight, base + words.own)
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize(("micro", "ranks"), [(8, 1), (5, 1), (None, 2), (4, 2)])
def test_a_step_has_one_gradient_however_it_is_cut(micro, ranks, section, data):
    """1 x 32 against 4 x 8 and the like; two ranks as their shares one after the other, which sums their gradients."""
    steps, weights = [], []
    for micro_batch_size, world_size in ((None, 1), (micro, ranks)):
        training = {"batch_size": 32, "micro_batch_size": micro_batch_size, "precision": "float32"}
        chosen = section(encoder=ENCODER, objective={"name": "replaced_token"}, training=training)
        objective = build_objective(chosen, data, seed=1)
        places = [Runtime(CPU.device, CPU.dtype, rank, world_size) for rank in range(world_size)]
        readers = [make_batches(chosen, data, steps=3, seed=1, runtime=place, sampled=True) for place in places]
        groups = [{"params": list(objective.parameters()), "peak_lr": 0.01}]
        steps += fit(
            objective,
            lambda number, readers=readers: [batch for read in readers for batch in read(number)],
            optimizer=torch.optim.SGD(groups, lr=0.01),
            schedule=lambda number: 1.0,
            start=0,
            steps=3,
            runtime=CPU,
            max_grad_norm=1e9,
            seed=1,
        )
        weights.append({name: p.detach().clone() for name, p in objective.named_parameters()})
    for one, other in zip(steps[:3], steps[3:], strict=True):
        assert other.losses == pytest.approx(one.losses, rel=1e-5)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    for name, one in weights[0].items():
        torch.testing.assert_close(weights[1][name], one, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_held_out_scores_are_counted_over_all_real_tokens(made, data):
    objective, batches, _ = made
    found = evaluate_held_out(objective, data.held_out, batches, 10_000)
    told, right_guesses, losses = [], [], []
    for example in range(len(data.held_out)):
        batch = batches.held_out(data.held_out, np.array([example]))
        guesses, logits, replaced = objective.logits(batch)
        told += zip((logits.sigmoid() > 0.5).tolist(), replaced.tolist(), strict=True)
        right_guesses += (guesses.argmax(-1) == batch["labels"]).tolist()
        probability = torch.where(replaced, logits.sigmoid(), 1 - logits.sigmoid())
        losses += (-probability.log()).tolist()
    called, replaced = np.array(told).T
    assert found["mlm_accuracy"] == pytest.approx(np.mean(right_guesses))
    assert found["replaced_token_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert found["replaced_token_accuracy"] == pytest.approx(np.mean(called == replaced))
    assert found["replaced_token_precision"] == pytest.approx(replaced[called].mean())
    assert found["replaced_token_recall"] == pytest.approx(called[replaced].mean())
    assert found["replaced_token_share"] == pytest.approx(replaced.mean())
    assert "undefined" not in found
    ids = np.arange(len(data.held_out))
    one, many = (score_rows(objective, data.held_out, ids, batches, batch_size=size) for size in (1, 64))
    np.testing.assert_allclose(one, many, atol=1e-3)


def test_what_was_never_called_replaced_has_no_precision(made):
    objective = made[0]
    sums = dict.fromkeys(ReplacedTokenObjective.columns, 0.0) | {"tokens": 90.0, "right": 80.0, "replaced": 10.0}
    found = objective.summary(sums, 4)
    assert (found["replaced_token_precision"], found["replaced_token_recall"]) == (None, 0.0)
    assert found["undefined"] == {"replaced_token_precision": "no token was called replaced"}
    assert "replaced_token_recall" in objective.summary(sums | {"replaced": 0.0, "called": 1.0}, 4)["undefined"]


def test_a_batch_without_padding_counts_every_place(made):
    batch = {"input_ids": torch.zeros(2, 5, dtype=torch.long), "labels": torch.zeros(1, dtype=torch.long)}
    assert torch.equal(real_places(batch), torch.arange(10))
    assert made[0].counts(batch)["replaced_token"] == 10
