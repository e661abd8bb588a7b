"""Special tokens around segments, by hand; against every family's own in test_tokenizer_json.py."""

import pytest

from bertctl.text.special import (
    BERT_NAMES,
    BERT_TEMPLATE,
    ROBERTA_NAMES,
    ROBERTA_TEMPLATE,
    Joined,
    Template,
    post_processor,
    special_names,
    template_of,
)

IDS = {"cls": 1, "sep": 2}


def test_one_segment_and_two():
    assert BERT_TEMPLATE.join([[5, 6]], IDS) == Joined([1, 5, 6, 2], [0, 0, 0, 0], [1])
    assert BERT_TEMPLATE.join([[5, 6], [7]], IDS) == Joined([1, 5, 6, 2, 7, 2], [0, 0, 0, 0, 1, 1], [1, 4])
    assert ROBERTA_TEMPLATE.join([[5, 6], [7]], IDS) == Joined([1, 5, 6, 2, 2, 7, 2], [0] * 7, [1, 5])
    assert [BERT_TEMPLATE.count(n) for n in (1, 2)] == [2, 3]
    assert [ROBERTA_TEMPLATE.count(n) for n in (1, 2)] == [2, 4]


def test_empty_segments_keep_their_separators():
    assert ROBERTA_TEMPLATE.join([[], []], IDS) == Joined([1, 2, 2, 2], [0] * 4, [1, 3])


@pytest.mark.parametrize("segments", [[], [[1], [2], [3]]])
def test_other_numbers_of_segments_are_refused(segments):
    with pytest.raises(ValueError, match="expected 1 or 2"):
        BERT_TEMPLATE.join(segments, IDS)


@pytest.mark.parametrize(
    "template", [BERT_TEMPLATE, ROBERTA_TEMPLATE, Template(second_type=0), Template(("cls", "cls"), (), ("sep",), 1)]
)
@pytest.mark.parametrize("names", [BERT_NAMES, ROBERTA_NAMES])
def test_a_template_is_read_back_as_written(template, names):
    assert template_of(post_processor(template, names, IDS), names) == template
    inside = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, post_processor(template, names, IDS)]}
    assert template_of(inside, names) == template


def test_names_are_found_among_pieces():
    assert special_names({}, [*BERT_NAMES.values(), "a"]) == BERT_NAMES
    assert special_names({}, ["a", *ROBERTA_NAMES.values()]) == ROBERTA_NAMES
    mixed = special_names({}, ["<s>", "<pad>", "</s>", "[UNK]", "[CLS]", "[SEP]", "<mask>"])
    assert mixed == {"pad": "<pad>", "unk": "[UNK]", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    given = special_names({"cls_token": {"content": "<c>"}, "pad_token": None}, [*BERT_NAMES.values()])
    assert given == {**BERT_NAMES, "cls": "<c>"}
