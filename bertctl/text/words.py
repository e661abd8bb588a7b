"""Where the words of a text stand, as BERT parts it: at blanks, around punctuation and around Chinese characters.

A model that labels words reads any text in these words, whatever pieces its own tokenizer makes of them.
"""

import json
from collections.abc import Sequence
from functools import cache

import tokenizers

from bertctl.text.algorithms import WordPiece
from bertctl.text.tokenizer import without_surrogates

SIGN = "x"


def word_places(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """(start, end) of every word of each text, in code points. Control characters are no words."""
    encodings = _library().encode_batch(without_surrogates(texts), add_special_tokens=False)
    return [list(encoding.offsets) for encoding in encodings]


@cache
def _library() -> tokenizers.Tokenizer:
    """BERT's rules with a vocabulary of one sign, which every word becomes."""
    parts = WordPiece().parts([SIGN], SIGN, lowercase=False, strip_accents=False)
    model = {"type": "WordLevel", "vocab": {SIGN: 0}, "unk_token": SIGN}
    return tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], **parts, "model": model}))
