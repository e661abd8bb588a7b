"""The trainer: its size is told, its result depends on nothing but the text, and it is as good as the stock one."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from bertctl.errors import BertctlError
from bertctl.text.train_wordpiece import learn, train_wordpiece
from bertctl.text.word_cutters import BertWords

LOW = ["low lower lowest", "new newer newest"]
AS_IS = BertWords(lowercase=False, strip_accents=False)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def stock(texts, vocab_size, min_frequency=2):
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False)
    return tokenizer


def slow_merges(counts, size, min_frequency):
    """Byte-pair encoding as one would write it on a blackboard."""
    words = {word: [word[0], *("##" + c for c in word[1:])] for word in counts}
    alphabet = sorted({c for word in counts for c in word})
    pieces = [*alphabet, *sorted({piece for word in words.values() for piece in word if piece.startswith("##")})]
    while len(pieces) < size:
        pairs = Counter()
        for word, spelled in words.items():
            for i in range(len(spelled) - 1):
                pairs[spelled[i], spelled[i + 1]] += counts[word]
        best = min(pairs, key=lambda p: (-pairs[p], pieces.index(p[0]), pieces.index(p[1])), default=None)
        if best is None or pairs[best] < min_frequency:
            break
        new = best[0] + best[1].removeprefix("##")
        pieces += [] if new in pieces else [new]
        for word, spelled in words.items():
            i = 0
            while i < len(spelled) - 1:
                if (spelled[i], spelled[i + 1]) == best:
                    spelled[i : i + 2] = [new]
                i += 1
            words[word] = spelled
    return pieces


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abé中", min_size=1, max_size=7), st.integers(1, 9), min_size=1, max_size=12),
    st.integers(0, 25),
    st.integers(1, 4),
)
def test_merges_are_those_of_the_blackboard(counts, more, min_frequency):
    counts = dict(sorted(counts.items()))
    alphabet = {c for word in counts for c in word} | {"##" + c for word in counts for c in word[1:]}
    size = len(alphabet) + more
    learned = learn(counts, AS_IS, vocab_size=size + 5, min_frequency=1)
    assert learned.tokenizer.tokens == [*SPECIAL, *slow_merges(counts, size, 1)]
    frequent = {c for c in alphabet if sum(n * word.count(c) for word, n in counts.items()) >= min_frequency}
    if frequent >= {c for c in alphabet if len(c) == 1}:
        learned = learn(counts, AS_IS, vocab_size=size + 5, min_frequency=min_frequency)
        assert learned.tokenizer.tokens == [*SPECIAL, *slow_merges(counts, size, min_frequency)]


def test_a_size_too_large_gives_what_there_is():
    """huggingface/tokenizers#903: asked and real size differ; the real one is the tokenizer's."""
    trained = train_wordpiece(LOW, vocab_size=30000)
    assert trained.vocab_size == len(trained.tokens) == 25
    assert set(trained.tokens) == set(stock(LOW, 30000).get_vocab())
    assert trained.tokens[:5] == SPECIAL


def test_a_size_too_small_for_the_alphabet_is_refused_with_both_numbers():
    """huggingface/tokenizers#670."""
    with pytest.raises(BertctlError, match=r"got 8, expected at least 19") as caught:
        train_wordpiece(LOW, vocab_size=8)
    assert caught.value.exit_code == 2
    assert train_wordpiece(LOW, vocab_size=19).vocab_size == 19


def test_it_is_as_good_as_the_stock_trainer(real_texts, trained):
    reference = stock(real_texts, trained.vocab_size)
    pieces = sum(len(ids) for ids in trained.encode_ids(real_texts))
    theirs = sum(len(encoding.ids) for encoding in reference.encode_batch(real_texts, add_special_tokens=False))
    assert pieces <= 1.005 * theirs


def test_every_word_of_the_text_can_be_written(real_texts, trained):
    ids = [i for text in trained.encode_ids(real_texts) for i in text.tolist()]
    assert ids.count(trained.unk_id) / len(ids) < 1e-4


def test_rare_characters_are_left_out_and_counted():
    learned = learn({"aa": 5, "b": 1}, AS_IS, vocab_size=10, min_frequency=2)
    assert (learned.characters, learned.characters_left_out, learned.words) == (1, 1, 1)
    assert learned.tokenizer.tokens == [*SPECIAL, "a", "##a", "aa"]


def test_the_order_of_texts_changes_nothing(real_texts, trained):
    shuffled = random.Random(1).sample(real_texts, len(real_texts))
    assert train_wordpiece(shuffled, vocab_size=2000).tokens == trained.tokens


def test_processes_hash_seeds_and_threads_change_nothing(trained):
    code = (
        "from pydoc_data.topics import topics; from bertctl.text.train_wordpiece import train_wordpiece\n"
        "print(train_wordpiece(sorted(topics.values()), vocab_size=2000).hash)"
    )
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == trained.hash
