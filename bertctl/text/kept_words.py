"""Ids of texts from the ids of their words, each encoded once and kept.

What WordPiece makes of a text is what it makes of the parts between blanks, one after the other: nothing in its
normaliser, its rules for words or its search for pieces looks across a blank. The library does not keep words. 3 MB of
documentation take it 1.36 s of processor time; with words kept 0.70 s, of which 0.5 are their 46,000 words, and 0.2 s
once those are known.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import tokenizers

LONGEST_KEPT = 32  # characters: longer ones rarely come again
MOST_KEPT = 1 << 17  # about 25 MB; some more if threads call at once
BORDER, NO_ID = "\ud800", -1  # half a UTF-16 pair between two texts, and what stands for it among the ids


class KeptWords:
    """The words of a tokenizer of the library that has seen them; it must work as the module says."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library
        self.kept = {BORDER: np.array([NO_ID], dtype=np.int32).tobytes()}

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Ids of each text, [N] int32; none has half a UTF-16 pair in it. Loops over words are left to C."""
        words = f" {BORDER} ".join(["", *texts, ""]).split(" ")
        distinct = set(words)
        known = {word: self.kept[word] for word in distinct & self.kept.keys()}
        new = list(distinct.difference(known))
        for word, encoding in zip(new, self.library.encode_batch_fast(new, add_special_tokens=False), strict=True):
            known[word] = np.array(encoding.ids, dtype=np.int32).tobytes()
        ids = np.frombuffer(bytearray().join(map(known.__getitem__, words)), dtype=np.int32)
        short = [word for word in new if len(word) <= LONGEST_KEPT]
        self.kept |= {word: known[word] for word in short[: max(0, MOST_KEPT - len(self.kept))]}
        return [ids[start + 1 : stop] for start, stop in pairwise(np.flatnonzero(ids == NO_ID).tolist())]
