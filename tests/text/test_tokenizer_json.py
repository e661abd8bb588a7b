"""Every family's tokenizer, read from the files of transformers and written back for it."""

import json
from random import Random

import numpy as np
import pytest
from transformers import AutoTokenizer

from bertctl.errors import BertctlError
from bertctl.text.tokenizer import Tokenizer

FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), True)
LITERAL = "a [SEP] b <s> </s>[MASK] <mask> c[CLS] <unk>[UNK] [PAD]<pad> <|endoftext|>"


def ids_of(theirs, texts):
    return theirs(texts, add_special_tokens=False)["input_ids"]


def test_ids_equal_those_of_transformers(family, real_texts, odd_texts):
    texts = [*real_texts[:20], *(text for text in odd_texts if "[" not in text), " two  blanks   and\n\n\tmore "]
    ours = [ids.tolist() for ids in family.ours.encode_ids(texts)]
    for text, mine, yours in zip(texts, ours, ids_of(family.theirs, texts), strict=True):
        assert mine == yours, text[:80]
    assert [pieces.ids.tolist() for pieces in family.ours.encode(texts)] == ours


def test_auto_tokenizer_gives_the_same_ids_from_what_we_write(family, real_texts, odd_texts, tmp_path):
    family.ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    texts = [*real_texts[:20], *odd_texts, LITERAL]
    assert ids_of(theirs, texts) == ids_of(family.theirs, texts)
    assert theirs.mask_token_id == family.ours.mask_id
    assert Tokenizer.load(tmp_path).hash == family.ours.hash


@pytest.mark.parametrize("texts", [("one two",), ("one two", "and three"), ("", "x")])
def test_special_tokens_stand_where_transformers_puts_them(family, texts, tmp_path):
    family.ours.save(tmp_path)
    joined = family.ours.join(*(ids.tolist() for ids in family.ours.encode_ids(texts)))
    for theirs in (family.theirs, AutoTokenizer.from_pretrained(tmp_path)):
        expected = theirs(*texts, return_token_type_ids=True)
        assert (joined.ids, joined.token_type_ids) == (expected["input_ids"], expected["token_type_ids"])
    pieces = [ids.tolist() for ids in family.ours.encode_ids(texts)]
    for start, segment in zip(joined.starts, pieces, strict=True):
        assert joined.ids[start : start + len(segment)] == segment
    assert len(joined.ids) == sum(map(len, pieces)) + family.ours.special_count(len(texts))


def test_literal_special_tokens_are_text_unless_asked_for(family):
    plain = set(family.ours.encode_ids([LITERAL])[0].tolist())
    assert not plain & family.ours.special_ids - {family.ours.unk_id}
    literal_unk = family.ours.encode_ids([family.ours.special["unk"]])[0].tolist()
    assert len(literal_unk) > 1 or literal_unk != [family.ours.unk_id]
    allowed = family.ours.encode([LITERAL], allow_special=True)[0]
    assert allowed.ids.tolist() == ids_of(family.theirs, LITERAL)
    mask = family.ours.special["mask"]
    where = int(np.flatnonzero(allowed.ids == family.ours.mask_id)[0])
    assert LITERAL[allowed.starts[where] : allowed.ends[where]] == mask
    assert allowed.word_starts[where]


def test_words_equal_those_of_transformers(family, tmp_path):
    sentences = [["Hello", "don't", "中文", "x", "é", "3.14", " y"], ["a"], []]
    theirs = family.theirs
    if family.ours.algorithm.name == "byte_bpe":  # a word in a list stands behind a blank
        theirs = AutoTokenizer.from_pretrained(family.folder, add_prefix_space=True)
    if family.name == "modernbert":
        content = json.loads((family.folder / "tokenizer.json").read_text())
        content["pre_tokenizer"]["add_prefix_space"] = True
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        theirs = AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs(sentences, is_split_into_words=True, add_special_tokens=False)
    ours = family.ours.encode_words(sentences)
    assert [[i for word in sentence for i in word] for sentence in ours] == expected["input_ids"]
    for row, sentence in enumerate(ours[:2]):
        assert [len(word) for word in sentence] == np.bincount(expected.word_ids(row)).tolist()


def test_every_word_of_a_sentence_has_a_piece(family):
    words = [["", "\u200b", "\ud800", "\u0000", "[SEP]", "\u3000", "ok"]]
    encoded = family.ours.encode_words(words)[0]
    assert len(encoded) == 7
    assert all(encoded)


@pytest.mark.parametrize("name", ["unk", "cls", "sep", "pad", "mask"])
def test_special_tokens_are_found_without_settings(family, name):
    bare = Tokenizer.load(family.folder / "tokenizer.json")
    (family.folder / "tokenizer_config.json").rename(family.folder / "away")
    try:
        alone = Tokenizer.load(family.folder)
    finally:
        (family.folder / "away").rename(family.folder / "tokenizer_config.json")
    assert alone.special[name] == bare.special[name] == getattr(family.theirs, f"{name}_token")
    assert alone.hash == bare.hash


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("pre_tokenizer",), {"type": "WhitespaceSplit"}, "pre_tokenizer is WhitespaceSplit, expected"),
        (("model", "vocab"), None, "not as the tokenizers library writes it"),
        (("post_processor",), {"type": "TemplateProcessing"}, "not as the tokenizers library writes it"),
        (("added_tokens",), [{**FLAGS, "id": 70000, "content": "x"}], "got no piece for id"),
    ],
)
def test_damaged_files_are_refused_with_their_name(family, tmp_path, path, value, message):
    content = json.loads((family.folder / "tokenizer.json").read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))
    with pytest.raises(BertctlError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert str(file) in caught.value.problems[0]


@pytest.mark.parametrize("seed", range(8))
def test_no_damage_ends_in_a_traceback(family, tmp_path, seed):
    random = Random(seed)
    data = bytearray((family.folder / "tokenizer.json").read_bytes())
    place = random.randrange(len(data))
    if seed < 4:
        del data[place : place + random.randint(1, 40)]
    else:
        value = json.loads(data)
        holder, key = value, random.choice(list(value))
        inner = value[key]
        while isinstance(inner, dict | list) and inner and random.random() < 0.8:
            holder, key = inner, random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            inner = holder[key]
        holder[key] = random.choice([None, True, -1, 1e308, "", [], {}, ["a", "b"]])
        data = json.dumps(value).encode()
    (tmp_path / "tokenizer.json").write_bytes(bytes(data))
    try:
        tokenizer = Tokenizer.load(tmp_path)
    except BertctlError:
        return
    tokenizer.encode(["a [SEP] \u00e9"], allow_special=True)
    tokenizer.encode_words([["a", "b"]])
    assert tokenizer.join([1], [2]).ids


def test_a_template_that_is_not_expressed_is_refused(family, tmp_path):
    content = json.loads((family.folder / "tokenizer.json").read_text())
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    content["post_processor"] = {"type": "TemplateProcessing", "single": [first], "pair": [second, first]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BertctlError, match="expected A and then B"):
        Tokenizer.load(tmp_path)


def test_dropout_of_merges_is_refused(byte_bpe, tmp_path):
    byte_bpe.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["model"]["dropout"] = 0.1
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BertctlError, match="a text must always give the same pieces"):
        Tokenizer.load(tmp_path)
