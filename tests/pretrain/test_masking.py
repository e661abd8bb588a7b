"""Masking: what may never happen, the shares that must, and that a mask depends on nothing but its example."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.pretrain.masking import Masking, mask_tokens, ordinary_ids
from bertctl.text.algorithms import Unigram
from bertctl.text.special import BERT_NAMES
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_byte_bpe import train_byte_bpe

VOCABULARY, SPECIAL = 100, (0, 1, 2, 3, 4)
PAD, CLS, SEP, MASK = 0, 2, 3, 4


def masking(**changes):
    return Masking(mask_id=MASK, ordinary_ids=ordinary_ids(VOCABULARY, SPECIAL), **changes)


def examples(lengths, width, seed=0, longest_word=1):
    """[CLS] tokens [SEP] padding, with words of 1 to `longest_word` pieces."""
    random = np.random.default_rng(seed)
    ids = np.full((len(lengths), width), PAD)
    eligible, starts = np.zeros(ids.shape, bool), np.zeros(ids.shape, bool)
    for row, length in enumerate(lengths):
        ids[row, 0], ids[row, length + 1] = CLS, SEP
        ids[row, 1 : length + 1] = random.integers(5, VOCABULARY, length)
        eligible[row, 1 : length + 1] = True
        place = 1
        while place <= length:
            starts[row, place] = True
            place += random.integers(1, longest_word + 1)
    return ids, eligible, starts


def draw(ids, eligible, starts, numbers=None, epoch=0, seed=0, **changes):
    numbers = np.arange(len(ids)) if numbers is None else numbers
    epochs = np.full(len(ids), epoch)
    return mask_tokens(ids, eligible, starts, numbers, epochs, masking=masking(**changes), seed=seed)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.sampled_from(["token", "word"]),
    st.floats(0.01, 0.9),
    st.integers(0, 2**40),
)
def test_only_ordinary_tokens_are_chosen_or_put_in(lengths, unit, probability, number):
    ids, eligible, starts = examples(lengths, 33, seed=len(lengths), longest_word=4)
    numbers = np.arange(len(ids)) + number
    masked, chosen = draw(ids, eligible, starts, numbers, unit=unit, probability=probability)
    assert not (chosen & ~eligible).any()
    assert np.array_equal(masked[~chosen], ids[~chosen])
    assert not np.isin(masked[chosen], [0, 1, 2, 3]).any()
    assert ((chosen.sum(axis=1) >= 1) == (np.array(lengths) > 0)).all()


@pytest.mark.parametrize("probability", [0.15, 0.3, 0.5])
def test_the_number_of_tokens_is_exact(probability):
    lengths = list(range(1, 120))
    ids, eligible, starts = examples(lengths, 122)
    _, chosen = draw(ids, eligible, starts, probability=probability)
    assert chosen.sum(axis=1).tolist() == [max(1, int(np.rint(probability * n))) for n in lengths]


def test_eighty_ten_ten_within_five_standard_deviations():
    ids, eligible, starts = examples([100] * 3000, 104)
    masked, chosen = draw(ids, eligible, starts, probability=0.5)
    total = chosen.sum()
    mask, keep = (masked[chosen] == MASK).sum(), (masked[chosen] == ids[chosen]).sum()
    # a random id equals the token by chance once in 95 times
    for count, share in ((mask, 0.8), (keep, 0.1 + 0.1 / 95)):
        assert abs(count - share * total) < 5 * np.sqrt(total * share * (1 - share))
    other = masked[chosen & (masked != MASK) & (masked != ids)]
    counts = np.bincount(other, minlength=VOCABULARY)[5:]
    assert abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


def test_every_place_is_chosen_equally_often():
    ids, eligible, starts = examples([40] * 20_000, 42)
    _, chosen = draw(ids, eligible, starts)
    counts = chosen.sum(axis=0)[1:41]
    expected = 20_000 * 6 / 40
    assert abs(counts - expected).max() < 5 * np.sqrt(expected * (1 - 6 / 40))


@pytest.mark.parametrize(("count", "probability"), [(5, 0.4), (6, 0.5), (4, 0.75)])
def test_places_are_drawn_without_replacement(count, probability):
    """Every set of so many different places comes equally often; with replacement some would be drawn twice, and sets
    would be smaller (as in ELECTRA's released code, which draws from a categorical distribution)."""
    ids, eligible, starts = examples([count] * 4000, count + 2)
    _, chosen = draw(ids, eligible, starts, probability=probability)
    size = round(probability * count)
    assert (chosen.sum(axis=1) == size).all()
    sets, found = np.unique(chosen @ 2 ** np.arange(count + 2), return_counts=True)  # one number for each set
    expected = 4000 / math.comb(count, size)
    assert len(sets) == math.comb(count, size)
    assert abs(found - expected).max() < 5 * np.sqrt(expected)


def test_a_mask_depends_on_seed_epoch_and_example_only():
    ids, eligible, starts = examples([30] * 8, 40)
    numbers = np.array([5, 900, 3, 2**41, 77, 12, 8, 1])
    whole, chosen = draw(ids, eligible, starts, numbers)
    order = np.array([6, 2, 7])
    part, part_chosen = draw(ids[order, :34], eligible[order, :34], starts[order, :34], numbers[order])
    assert np.array_equal(part, whole[order, :34])
    assert np.array_equal(part_chosen, chosen[order, :34])
    for change in ({"epoch": 1}, {"seed": 1}):
        assert not np.array_equal(draw(ids, eligible, starts, numbers, **change)[1], chosen)


def test_whole_words_are_chosen_or_not_in_a_thousand_draws():
    # unwanted playing unwanted playing: un ##want ##ed play ##ing, twice
    ids = np.array([[CLS, 10, 11, 12, 13, 14, 10, 11, 12, 13, 14, SEP]])
    eligible = ~np.isin(ids, SPECIAL)
    starts = np.isin(ids, [10, 13])
    words = np.cumsum(starts[0])
    split = pieces = 0
    for number in range(1000):
        _, chosen = draw(ids, eligible, starts, np.array([number]), unit="word", probability=0.3)
        for word in range(1, 5):
            of_word = chosen[0, (words == word) & eligible[0]]
            split += 0 < of_word.sum() < len(of_word)
        pieces += chosen.sum()
    assert split == 0
    assert abs(pieces / 10_000 - 0.3) < 0.06  # a budget of 3 pieces in words of 2 and 3


def byte_bpe():
    return train_byte_bpe(["un wanted ed play ing play ing"] * 3, vocab_size=275)


def metaspace():
    pieces = [*BERT_NAMES.values(), "\u2581", "\u2581un", "want", "ed", "\u2581play", "ing", *"abdegilnptuwy"]
    cutter = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    scores = (*[0.0] * 5, *[-3.0] * 6, *[-9.0] * 13)
    return Tokenizer(pieces, False, False, algorithm=Unigram(scores, 1, None, cutter, None))


@pytest.mark.parametrize("make", [byte_bpe, metaspace])
def test_words_of_bytes_and_metaspace_stay_whole_too(make):
    """huggingface/transformers#11768: a rule that knows `##` only had masked single pieces for weeks."""
    tokenizer = make()
    text = " ".join(["unwanted playing"] * 8)
    pieces = tokenizer.encode([text])[0]
    owners = np.array([text[:end].count(" ") for end in pieces.ends])  # which word, by the blanks in front of it
    assert (np.bincount(owners) > 1).all()
    ids, eligible = pieces.ids[None].astype(np.int64), np.ones((1, len(pieces.ids)), dtype=bool)
    rules = Masking(tokenizer.mask_id, ordinary_ids(tokenizer.vocab_size, tokenizer.special_ids), unit="word")
    shares = []
    for number in range(1000):
        rows = np.array([number]), np.array([0])
        _, chosen = mask_tokens(ids, eligible, pieces.word_starts[None], *rows, masking=rules, seed=0)
        hidden = np.bincount(owners, weights=chosen[0])
        assert set(hidden / np.bincount(owners)) <= {0, 1}
        shares.append(chosen.mean())
    assert abs(np.mean(shares) - 0.15) < 0.02


def test_whole_word_share_is_right_on_long_examples():
    ids, eligible, starts = examples([200] * 500, 203, longest_word=5)
    _, chosen = draw(ids, eligible, starts, unit="word")
    assert abs(chosen.sum() / eligible.sum() - 0.15) < 0.01


def test_a_segment_cut_inside_a_word_begins_a_word():
    ids = np.array([[CLS, 20, 21, SEP, 22, 23, SEP]])
    starts = np.array([[0, 0, 1, 0, 0, 1, 0]], dtype=bool)
    eligible = ~np.isin(ids, SPECIAL)
    drawn = {tuple(np.flatnonzero(draw(ids, eligible, starts, np.array([n]), unit="word")[1])) for n in range(200)}
    assert drawn == {(1,), (2,), (4,), (5,)}
