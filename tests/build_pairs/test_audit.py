"""The audit's counters, and whole words in real text with a real vocabulary."""

import json

import numpy as np

from bertctl.artifacts.examples import Examples
from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.audit import _split_words, masking
from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.run import run
from bertctl.pretrain.batches import Rows
from bertctl.text.tokenizer import Tokenizer
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run as tokenize


def test_whole_words_stay_whole(tmp_path):
    """huggingface/transformers#11768: words of several pieces, none ever chosen in part."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "##ed", "play", "##ing"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (tmp_path / "c.txt").write_text("\n\n".join(["unwanted playing unwanted playing " * 12] * 40))
    corpus = {"corpus": {"files": [str(tmp_path / "c.txt")]}, "vocabulary": str(tmp_path / "vocab.txt")}
    tokenize(TokenizeSection.model_validate_json(json.dumps(corpus)), out=tmp_path / "tokens", seed=0)
    section = BuildPairsSection(tokens=tmp_path / "tokens", second_segment="none", sequence_length=64)
    run(section, out=tmp_path / "pairs", seed=0)
    columns = Examples(tmp_path / "pairs" / "examples-64-train.safetensors").columns
    shards, tokenizer = TokenShards(tmp_path / "tokens"), Tokenizer.load(tmp_path / "tokens")
    for seed in range(2):  # 1,024 examples
        facts = masking(columns, shards, tokenizer, seed=seed)["word"]
        assert facts["words_split"] == 0
        assert abs(facts["chosen_share"] - 0.15) < 0.02


def test_a_split_word_would_be_counted():
    """[CLS] a ##b ##c [SEP] d ##e [SEP] [PAD], and a segment that begins inside a word."""
    real = np.array([[True] * 8 + [False]])
    special = np.array([[True, False, False, False, True, False, False, True, False]])
    starts = np.array([[False, True, False, False, False, False, False, False, False]])
    rows = Rows(np.zeros((1, 9)), real, np.zeros((1, 9)), starts, special)
    assert _split_words(rows, np.array([1, 2, 3])) == 0
    assert _split_words(rows, np.array([1, 2])) == 1
    assert _split_words(rows, np.array([5, 6])) == 0
    assert _split_words(rows, np.array([3, 6])) == 2
    assert _split_words(rows, np.array([], dtype=int)) == 0
