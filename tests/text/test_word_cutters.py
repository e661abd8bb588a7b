"""Words are the library's own, however a text was taken apart first."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from bertctl.text.word_counts import count_words
from bertctl.text.word_cutters import ByteWords

BYTES = ByteWords(lowercase=False, strip_accents=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(
    "ab1.'s \t\n\r\x1c\x85\u00a0\u3000\u2028\u200b\u4e2d\u0301", max_size=30
)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_words_of_bytes_are_those_of_the_library(texts):
    library = pre_tokenizers.ByteLevel(add_prefix_space=False)
    expected = Counter(word for text in texts for word, _ in library.pre_tokenize_str(text))
    assert count_words(texts, BYTES).counts == expected


def test_a_clause_without_blanks_counts_and_a_wall_of_letters_does_not():
    clause = "\u4e2d\u6587" * 50
    counts = count_words([clause, "x" * 20000], BYTES).counts
    assert list(counts.values()) == [1]
    assert len(next(iter(counts))) == len(clause.encode())
