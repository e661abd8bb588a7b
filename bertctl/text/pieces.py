"""What an encoded text is: pieces with their places in the original."""

from dataclasses import dataclass

import numpy as np

BLANKS = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class Pieces:
    """One encoded text of N pieces, without special tokens around it.

    Shapes: all [N]; `ids` int32; `starts`, `ends` int32, code points of the original text; `word_starts` bool.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    word_starts: np.ndarray


def without_blanks(text: str, places: np.ndarray) -> np.ndarray:
    """Places [N, 2] of pieces without the blanks at their ends; a piece of nothing but blanks keeps its place."""
    solid = np.append(~np.isin(np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32), BLANKS), True)
    numbers = np.arange(len(solid), dtype=np.int32)
    ahead = np.minimum.accumulate(np.where(solid, numbers, len(text))[::-1])[::-1]
    behind = np.append(0, np.maximum.accumulate(np.where(solid, numbers + 1, 0))[:-1])
    starts, ends = ahead[places[:, 0]], behind[places[:, 1]]
    cut = np.stack([starts, ends], axis=1).astype(np.int32)
    return np.where((starts < ends)[:, None], cut, places)
