"""How long an input may be, and that each stage names its own key."""

import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.lengths import longest_input


@pytest.mark.parametrize(
    ("asked", "noted", "limit", "got"),
    [(None, None, 1024, 512), (None, None, 40, 40), (None, 96, 512, 96), (None, 96, 40, 40), (30, 96, 40, 30)],
)
def test_the_longest_input_is_as_asked_else_as_noted_else_what_the_encoder_reads(asked, noted, limit, got):
    assert longest_input(asked, limit, key="x.max_length", noted=noted) == got


def test_more_than_the_encoder_reads_is_refused_with_the_key_of_its_stage():
    with pytest.raises(BertctlError, match=r"^probe.max_length: got 41, but the encoder reads at most 40") as caught:
        longest_input(41, 40, key="probe.max_length")
    assert caught.value.hint == "ask for 40, or leave probe.max_length out"
