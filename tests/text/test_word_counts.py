"""Exact counts in bounded memory, whatever the order."""

import random
from collections import Counter

import pytest
from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

from bertctl import signals
from bertctl.errors import Stopped
from bertctl.text import word_counts
from bertctl.text.word_counts import count_words
from bertctl.text.word_cutters import BertWords


def count(texts, **limits):
    return count_words(texts, BertWords(lowercase=True, strip_accents=True), **limits)


def test_counts_equal_the_plain_python_tokenizer(real_texts, odd_texts):
    texts = [*real_texts[:20], *(text for text in odd_texts if "[" not in text)]
    reference = BasicTokenizer(do_lower_case=True)
    expected = Counter(word for text in texts for word in reference.tokenize(text) if len(word) <= 100)
    assert count(texts).counts == expected


def test_spilling_to_disk_changes_nothing(real_texts, monkeypatch, tmp_path):
    whole = count(real_texts)
    monkeypatch.setattr(word_counts, "CHARACTERS_PER_FOLD", 5000)
    spilled = count(real_texts, words_in_memory=500, spill=tmp_path)
    assert list(spilled.counts.items()) == list(whole.counts.items())
    assert not list(tmp_path.iterdir())


def test_the_order_of_texts_changes_nothing(real_texts, monkeypatch):
    monkeypatch.setattr(word_counts, "CHARACTERS_PER_FOLD", 5000)
    shuffled = random.Random(1).sample(real_texts, len(real_texts))
    limits = {"words_in_memory": 500, "most_words": 800}
    assert list(count(real_texts, **limits).counts.items()) == list(count(shuffled, **limits).counts.items())


def test_the_rarest_words_go_first_and_together(real_texts):
    whole, fewer = count(real_texts), count(real_texts, most_words=800)
    assert 0 < len(fewer.counts) <= 800
    assert fewer.counts == {word: n for word, n in whole.counts.items() if n >= fewer.least}
    assert sum(n >= fewer.least - 1 for n in whole.counts.values()) > 800


def test_a_signal_stops_the_count():
    def endless():
        while True:
            yield "word"
            signals.request(15)

    with pytest.raises(Stopped):
        count(endless())
