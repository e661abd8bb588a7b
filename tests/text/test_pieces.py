"""Places without the blanks at their ends."""

import numpy as np
import pytest

from bertctl.text.pieces import without_blanks


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        (" ab", (0, 3), (1, 3)),
        ("ab \u3000", (0, 4), (0, 2)),
        ("a  b", (1, 3), (1, 3)),  # nothing but blanks stays where it is
        ("a b", (1, 1), (1, 1)),
        ("\U0001f600 x", (1, 3), (2, 3)),
        ("ab", (0, 2), (0, 2)),
    ],
)
def test_by_hand(text, place, expected):
    assert tuple(without_blanks(text, np.array([place], dtype=np.int32))[0]) == expected


def test_no_pieces():
    assert without_blanks("  ", np.empty((0, 2), dtype=np.int32)).shape == (0, 2)
