"""Byte-level BPE: the same merges as the stock trainer's, whatever the order of texts, threads and hash seeds."""

import os
import random
import subprocess
import sys

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, trainers

from bertctl.errors import BertctlError
from bertctl.text.special import BERT_NAMES, ROBERTA_NAMES, ROBERTA_TEMPLATE
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_byte_bpe import train_byte_bpe

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def stock(texts, vocab_size, normalizer=None):
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer is not None:
        library.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return sorted(library.get_vocab(), key=library.get_vocab().get)


def test_pieces_are_those_of_the_stock_trainer_in_its_order(real_texts, odd_texts):
    texts = [*real_texts, *odd_texts, *odd_texts]
    assert train_byte_bpe(texts, vocab_size=2500).tokens == stock(texts, 2500)


def test_the_two_switches_are_separate(odd_texts):
    texts = [*odd_texts, "CAFÉ caf\u00e9 Cafe\u0301 \u00c4ther"] * 2
    both = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    folded = train_byte_bpe(texts, vocab_size=330, lowercase=True, strip_accents=True)
    assert folded.tokens == stock(texts, 330, both)
    assert (folded.lowercase, folded.strip_accents) == (True, True)
    lower = train_byte_bpe(texts, vocab_size=330, lowercase=True)
    assert lower.encode_ids(["CAF\u00c9"])[0].tolist() == lower.encode_ids(["caf\u00e9"])[0].tolist()
    assert lower.encode_ids(["CAFE"])[0].tolist() != lower.encode_ids(["caf\u00e9"])[0].tolist()


def test_what_is_learned_is_what_encodes(byte_bpe, real_texts):
    """Every piece behind the bytes is found in the texts that it was learned from."""
    used = {i for ids in byte_bpe.encode_ids(real_texts) for i in ids.tolist()}
    learned = range(5 + 256, byte_bpe.vocab_size)
    assert sum(i in used for i in learned) > 0.95 * len(learned)
    assert byte_bpe.unk_id not in used


def test_special_tokens_and_their_places(real_texts, tmp_path):
    roberta = train_byte_bpe(real_texts[:5], vocab_size=300)
    assert roberta.tokens[:5] == SPECIAL == list(ROBERTA_NAMES.values())
    assert (roberta.template, roberta.pad_id, roberta.cls_id) == (ROBERTA_TEMPLATE, 1, 0)
    bert = train_byte_bpe(real_texts[:5], vocab_size=300, names=BERT_NAMES)
    assert bert.tokens[:5] == list(BERT_NAMES.values())
    assert bert.join([7], [8]).ids == [2, 7, 3, 8, 3]
    bert.save(tmp_path)
    assert Tokenizer.load(tmp_path).hash == bert.hash


def test_a_size_too_large_gives_what_there_is_and_one_too_small_is_refused():
    assert train_byte_bpe(["low lower", "lowest"], vocab_size=30000).vocab_size == 5 + 256 + 3  # lo, low, lowe
    with pytest.raises(BertctlError, match="got 260, expected at least 261: 5 special tokens and 256 bytes"):
        train_byte_bpe(["low"], vocab_size=260)
    assert train_byte_bpe(["low low"], vocab_size=261).vocab_size == 261


def test_the_order_of_texts_changes_nothing(real_texts, byte_bpe):
    shuffled = random.Random(1).sample(real_texts, len(real_texts))
    assert train_byte_bpe(shuffled, vocab_size=1500).hash == byte_bpe.hash


def test_processes_hash_seeds_and_threads_change_nothing(byte_bpe):
    code = (
        "from pydoc_data.topics import topics; from bertctl.text.train_byte_bpe import train_byte_bpe\n"
        "print(train_byte_bpe(sorted(topics.values()), vocab_size=1500).hash)"
    )
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == byte_bpe.hash
