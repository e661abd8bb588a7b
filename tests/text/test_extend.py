"""Further tokens: found as whole words, the rest as before, and equal to transformers."""

import dataclasses

import pytest
from transformers import AutoTokenizer

from bertctl.errors import BertctlError
from bertctl.text.algorithms import WordPiece
from bertctl.text.extend import old_pieces, same_vocabulary, tokens_beyond, with_tokens
from bertctl.text.tokenizer import Tokenizer

NEW = ["covfefe", "c++", "\u00fcber"]
TEXTS = [
    "so covfefe it",
    "covfefes xcovfefe covfefe, c++.",
    "the Covfefe \u00dcber c+",
    "\ncovfefe  covfefe\n",
    "nothing new",
]


def tokenizer(*words, **switches):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return Tokenizer([*names, *words], **{"lowercase": False, "strip_accents": False, **switches})


def test_new_tokens_are_found_as_words_and_all_else_stays(family):
    longer = with_tokens(family.ours, NEW)
    first = family.ours.vocab_size
    assert longer.tokens == [*family.ours.tokens, *NEW]
    ids = longer.encode_ids(TEXTS)
    assert [i for i in ids[0] if i >= first] == [first]
    if family.ours.algorithm.name != "wordpiece":  # there a token is a piece too, which begins `covfefes`
        assert [i for i in ids[1].tolist() if i >= first] == [first, first + 1]
    assert ids[4].tolist() == family.ours.encode_ids(TEXTS[4:])[0].tolist()
    pieces = longer.encode(TEXTS[:1])[0]
    place = pieces.ids.tolist().index(first)
    assert TEXTS[0][pieces.starts[place] : pieces.ends[place]] == "covfefe"
    assert pieces.word_starts[place]


def test_transformers_reads_them(family, tmp_path):
    longer = with_tokens(family.ours, NEW)
    longer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXTS, add_special_tokens=False)["input_ids"] == [ids.tolist() for ids in longer.encode_ids(TEXTS)]
    assert Tokenizer.load(tmp_path).hash == longer.hash


def test_old_pieces_are_those_of_the_word_inside_a_text(family):
    pieces = old_pieces(family.ours, NEW)
    whole = family.ours.encode_ids(["a covfefe"])[0].tolist()
    assert whole[-len(pieces[0]) :] == pieces[0]
    assert all(pieces)
    assert all(i < family.ours.vocab_size for piece in pieces for i in piece)


def test_what_is_beyond_is_found_again(family):
    longer = with_tokens(family.ours, NEW)
    assert tokens_beyond(family.ours, "old", longer, "new") == NEW
    assert tokens_beyond(family.ours, "old", family.ours, "new") == []
    with pytest.raises(BertctlError, match=rf"in 3 of {longer.vocab_size:,} ids; the first is id"):
        tokens_beyond(longer, "old", family.ours, "new")


def test_another_way_to_normalise_is_no_extension():
    old, new = tokenizer("a", "b"), with_tokens(tokenizer("a", "b", lowercase=True), ["c"])
    with pytest.raises(BertctlError, match="its vocabulary differs from that of new in 1 of"):
        tokens_beyond(old, "old", new, "new")
    other = dataclasses.replace(new, lowercase=False, algorithm=WordPiece(longest_word=7))
    with pytest.raises(BertctlError):
        tokens_beyond(old, "old", other, "new")


def test_all_tokens_that_cannot_be_added_are_named():
    with pytest.raises(BertctlError) as caught:
        with_tokens(tokenizer("a"), ["b", "a", "b", "", " c", "[SEP]"])
    assert [problem.split("got ")[1].split(",")[0] for problem in caught.value.problems] == [
        *("'a'", "'b'", "''", "' c'", "'[SEP]'"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (tokenizer("a", "b"), tokenizer("a"), r"1 of 7 ids; the first is id 6, 'b' and '\(none\)'"),
        (tokenizer("a"), tokenizer("a", lowercase=True), "normalised in another way"),
    ],
)
def test_vocabularies_that_differ_are_refused(one, other, message):
    with pytest.raises(BertctlError, match=message):
        same_vocabulary(one, "student", other, "the teacher")
    same_vocabulary(one, "student", one, "the teacher")
