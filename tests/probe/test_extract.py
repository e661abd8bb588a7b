"""The states that probes read are the model's own, at the first piece of each word, and none is lost."""

import numpy as np
import pytest
import torch

from bertctl.errors import BertctlError
from bertctl.probe.extract import extract, layers_of
from bertctl.probe.words import draw, read_words
from bertctl.tasks.batches import collate
from bertctl.tasks.config import DataSection
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import TextExample, TokenExample
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import load_model

CPU = Runtime(torch.device("cpu"), torch.float32)


def sentence(*words):
    return TokenExample(words, tuple("N" if word in ("cat", "dog") else "V" for word in words), "f", ())


def read(examples, tokenizer, *, task="pos", labels=("N", "V"), max_length=24, most=1000, seed=0):
    data = DataSection(overlap_tokens=4)
    settings = {"data": data, "max_length": max_length, "most": most, "seed": seed}
    return read_words(TASKS[task], examples, tokenizer, labels, **settings)


def states(model, words, layers, *, batch_size=2, file=None):
    return extract(model, words, layers, file=file, pad_id=0, batch_size=batch_size, runtime=CPU, label="states")


@pytest.fixture
def model(checkpoint):
    return load_model(checkpoint).model.eval()


def test_the_layers_are_those_of_the_model_and_the_last_is_its_final_state(model, tokenizer):
    words = read([sentence("the", "extraordinary", "cat", "ran")], tokenizer)
    found = states(model, words, [0, 1, 2])
    batch = collate(words.features, model, 0)
    assert batch["token_type_ids"].max() == 0  # a single sentence is one segment
    pieces = [len(word) for word in tokenizer.encode_words([["the", "extraordinary", "cat", "ran"]])[0]]
    assert pieces[1] > 1  # so that first pieces and words differ
    first = np.cumsum([1, *pieces[:-1]])
    with torch.no_grad():
        output = model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
        embedded = model.encoder.embeddings(batch["input_ids"], None, model.encoder.position)
    np.testing.assert_array_equal(found[2], output.last_hidden_state[0, first].numpy())
    np.testing.assert_array_equal(found[1], output.hidden_states[1][0, first].numpy())
    np.testing.assert_array_equal(found[0], embedded[0, first].numpy())


def test_every_word_of_a_long_sentence_has_its_state(model, tokenizer):
    """60 words in windows of 12 pieces; layer 0 of a window is the word at another position, so never zero."""
    long = sentence(*["cat", "ran", "dog", "saw"] * 15)
    words = read([sentence("cat"), long, sentence("dog", "ran")], tokenizer, max_length=12)
    assert len(words.features) > 3
    assert len(words) == 63
    assert sorted(row for rows, _ in words.places for row in rows) == list(range(63))
    assert words.labels.tolist() == [0] + [0, 1] * 30 + [0, 1]
    assert words.examples.tolist() == [0] + [1] * 60 + [2] * 2
    assert np.abs(states(model, words, [2])).max(axis=-1).min() > 0


def test_batches_and_files_change_nothing(model, tokenizer, tmp_path):
    words = read([sentence(*["cat", "ran"] * n) for n in (1, 9, 4, 6)], tokenizer)
    alone = states(model, words, [0, 2], batch_size=1)
    np.testing.assert_allclose(states(model, words, [0, 2], batch_size=4), alone, atol=1e-5)
    mapped = states(model, words, [0, 2], batch_size=1, file=tmp_path / "s.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, alone)


def test_a_text_is_the_mean_over_its_real_tokens(model, tokenizer):
    texts = [TextExample("the cat sat on the old mat", None, "x", "f:1"), TextExample("a dog", None, "y", "f:2")]
    words = read(texts, tokenizer, task="classification", labels=("x", "y"))
    found = states(model, words, [1])[0]
    for row, feature in enumerate(words.features):
        with torch.no_grad():
            hidden = model(torch.tensor([feature.input_ids]), output_hidden_states=True).hidden_states[1]
        np.testing.assert_allclose(found[row], hidden[0].mean(dim=0).numpy(), atol=1e-5)


def test_a_limit_is_kept_to_the_word(model, tokenizer):
    words = read([sentence(*["cat", "ran"] * 5) for _ in range(8)], tokenizer, most=23, seed=3)
    assert len(words) == len(words.types) == len(words.examples) == 23
    assert sorted(row for rows, _ in words.places for row in rows) == list(range(23))
    assert np.abs(states(model, words, [0])).max(axis=-1).min() > 0


def test_drawing_takes_whole_examples_by_seed():
    sizes = [3, 1, 4, 1, 5]
    assert draw(sizes, 14, 0) == [0, 1, 2, 3, 4]
    drawn = draw(sizes, 6, 0)
    assert len(set(drawn)) == len(drawn)
    assert sum(sizes[i] for i in drawn[:-1]) < 6 <= sum(sizes[i] for i in drawn)
    assert drawn == draw(sizes, 6, 0)
    assert any(draw(sizes, 6, seed) != drawn for seed in range(1, 5))


def test_two_blocks_make_three_layers():
    """Numbering from 0, the embeddings, as in the docs; -1 is no layer."""
    assert layers_of("all", 2) == [0, 1, 2]
    assert layers_of([2, 0, 2], 2) == [0, 2]
    for wrong in (3, -1):
        with pytest.raises(BertctlError, match=rf"got {wrong}, expected 0 .* to 2 ") as caught:
            layers_of([1, wrong], 2)
        assert caught.value.exit_code == 2
