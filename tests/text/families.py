"""The tokenizers of the family as transformers builds them, from tiny vocabularies."""

import math
from collections import Counter
from string import ascii_lowercase, digits, punctuation

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertTokenizer,
    BertTokenizer,
    DebertaV2Tokenizer,
    MPNetTokenizer,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
)


def byte_parts(byte_bpe, names):
    """vocab and merges of a trained vocabulary, with other special tokens in front."""
    tokens = [*names, *byte_bpe.tokens[5:]]
    return {token: i for i, token in enumerate(tokens)}, list(byte_bpe.algorithm.merges)


def unigram(texts, special):
    """Words and letters with their log frequencies."""
    words = Counter("\u2581" + word for text in texts for word in text.split())
    letters = Counter("".join(words))
    counts = dict(words.most_common(600)) | {letter: count for letter, count in letters.items() if letter.isascii()}
    counts["\u2581"] = letters["\u2581"]
    total = sum(counts.values())
    scores = sorted((math.log(count / total), piece) for piece, count in counts.items())
    return [*((name, 0.0) for name in special), *((piece, score) for score, piece in reversed(scores))]


def roberta(texts, byte_bpe):
    vocab, merges = byte_parts(byte_bpe, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return RobertaTokenizer(vocab=vocab, merges=merges)


def roberta_prefix(texts, byte_bpe):
    vocab, merges = byte_parts(byte_bpe, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return RobertaTokenizer(vocab=vocab, merges=merges, add_prefix_space=True)


def modernbert(texts, byte_bpe):
    """NFC, runs of blanks as tokens of their own, BERT's names behind the vocabulary."""
    vocab, merges = byte_parts(byte_bpe, [])
    library = Tokenizer(models.BPE(vocab, merges))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 3, 2)])
    named = ["<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    library.add_special_tokens([*named, AddedToken("[MASK]", lstrip=True)])
    ends = [(name, library.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    library.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ends
    )
    names = {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "cls", "sep", "pad", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=library, **names)


def albert(texts, byte_bpe):
    return AlbertTokenizer(vocab=unigram(texts, ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]))


def albert_cased(texts, byte_bpe):
    vocab = unigram(texts, ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    return AlbertTokenizer(vocab=vocab, do_lower_case=False, keep_accents=True)


def deberta(texts, byte_bpe):
    """[MASK] is added behind the vocabulary, as in DeBERTa-v3."""
    return DebertaV2Tokenizer(vocab=unigram(texts, ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]))


def deberta_punctuation(texts, byte_bpe):
    vocab = unigram(texts, ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])
    return DebertaV2Tokenizer(vocab=vocab, split_by_punct=True)


def mpnet(texts, byte_bpe):
    """RoBERTa's names in front of BERT's vocabulary with BERT's own names."""
    letters = [*ascii_lowercase, *digits, *punctuation]
    names = ["<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*names, *letters, *(f"##{letter}" for letter in letters), "<mask>"]
    return MPNetTokenizer(vocab={token: i for i, token in enumerate(tokens)})


def bert(texts, byte_bpe):
    letters = [*ascii_lowercase, *digits, *punctuation]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    return BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})


FAMILIES = {
    family.__name__: family
    for family in (
        *(bert, mpnet, roberta, roberta_prefix, modernbert),
        *(albert, albert_cased, deberta, deberta_punctuation),
    )
}
