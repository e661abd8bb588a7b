"""A label for every word, however long the sentence: nothing is left out, and the loss is on first pieces only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from bertctl.errors import BertctlError
from bertctl.tasks import token_labels
from bertctl.tasks.task import IGNORED, Features, Limits, TokenExample
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_byte_bpe import train_byte_bpe

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c"], True, True)
LABELS = ["O", "B-X", "I-X"]


def example(words: list[str], tags: list[str] | None = None, scheme: str = "BIO") -> TokenExample:
    return TokenExample(
        tuple(words), None if tags is None else tuple(tags), "f", tuple(range(1, len(words) + 1)), scheme
    )


def one_hot(features: list[Features], examples: list[TokenExample]) -> list[np.ndarray]:
    """Logits that say the gold tag at each word's position, and nonsense everywhere else."""
    found = []
    for feature in features:
        logits = np.tile([0.0, 0.0, 9.0], (len(feature.input_ids), 1))
        for word, position in zip(feature.words, feature.positions, strict=True):
            logits[position] = 9.0 * np.eye(3)[LABELS.index(examples[feature.example].tags[word])]
        found.append(logits)
    return found


def test_first_pieces_have_the_loss() -> None:
    (feature,) = token_labels.encode(
        [example(["a", "bcc", "\x00", "b"], ["B-X", "I-X", "O", "B-X"])], TOKENIZER, LABELS, Limits(16, 0)
    )
    assert feature.input_ids == [2, 5, 6, 7, 7, 1, 6, 3]  # a word without a piece is [UNK] and keeps its tag
    assert feature.labels == [IGNORED, 1, 2, IGNORED, IGNORED, 0, 1, IGNORED]
    assert (feature.words, feature.positions, feature.pieces, feature.cut) == ([0, 1, 2, 3], [1, 2, 5, 6], 6, 0)


def test_first_pieces_of_bytes_stand_behind_a_blank() -> None:
    bytes_ = train_byte_bpe([" ab ab"], vocab_size=263)
    (feature,) = token_labels.encode([example(["ab", "xy", ""], ["B-X", "I-X", "O"])], bytes_, LABELS, Limits(16, 0))
    assert [bytes_.tokens[i] for i in feature.input_ids] == ["<s>", "\u0120ab", "\u0120", "x", "y", "<unk>", "</s>"]
    assert feature.labels == [IGNORED, 1, 2, IGNORED, IGNORED, 0, IGNORED]
    assert feature.token_type_ids == [0] * 7


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "bc", "bccc", "\u200b"]), max_size=30), min_size=1, max_size=4),
    st.integers(3, 12),
    st.integers(0, 40),
)
def test_every_word_is_predicted_and_has_loss_exactly_once(
    sentences: list[list[str]], max_length: int, overlap: int
) -> None:
    examples = [example(words, [LABELS[i % 3] for i in range(len(words))]) for words in sentences]
    features = token_labels.encode(examples, TOKENIZER, LABELS, Limits(max_length, overlap % (max_length - 2)))
    assert all(len(f.input_ids) <= max_length and len(f.labels or ()) == len(f.input_ids) for f in features)
    answered = [(f.example, word) for f in features for word in f.words]
    assert answered == [(i, word) for i, words in enumerate(sentences) for word in range(len(words))]
    assert sum(label != IGNORED for f in features for label in f.labels or ()) == len(answered)
    predicted = token_labels.predictions(examples, features, one_hot(features, examples), LABELS, {})
    assert [row["tags"] for row in predicted] == [list(e.tags or ()) for e in examples]
    assert [row["tokens"] for row in predicted] == sentences


def test_a_long_sentence_is_windowed_and_its_middle_words_see_both_sides() -> None:
    features = token_labels.encode([example(["a"] * 20)], TOKENIZER, LABELS, Limits(12, 4))
    assert [len(f.input_ids) for f in features] == [12, 12, 10]
    assert [f.words for f in features] == [list(range(8)), list(range(8, 14)), list(range(14, 20))]
    assert all(f.labels is None for f in features)


def test_a_word_longer_than_the_model_keeps_its_first_piece_and_is_counted() -> None:
    (feature,) = token_labels.encode([example(["b" + "c" * 9], ["B-X"])], TOKENIZER, LABELS, Limits(6, 2))
    assert (feature.input_ids, feature.labels) == ([2, 6, 7, 7, 7, 3], [IGNORED, 1, IGNORED, IGNORED, IGNORED, IGNORED])
    assert (feature.pieces, feature.cut) == (10, 6)


def test_predictions_name_entities_with_their_words() -> None:
    examples = [example(["a", "b", "a", "b"], ["B-X", "I-X", "O", "B-X"]), example([], [])]
    features = token_labels.encode(examples, TOKENIZER, LABELS, Limits(16, 0))
    first, empty = token_labels.predictions(examples, features, one_hot(features, examples), LABELS, {})
    assert first["entities"] == [
        {"type": "X", "start": 0, "stop": 2, "text": "a b"},
        {"type": "X", "start": 3, "stop": 4, "text": "b"},
    ]
    assert all(probability > 0.99 for probability in first["probabilities"])
    assert empty == {"tokens": [], "tags": [], "probabilities": [], "entities": []}


def test_tags_without_prefix_have_no_entities() -> None:
    examples = [example(["a"], ["O"])]
    features = token_labels.encode(examples, TOKENIZER, ["NN", "VB", "O"], Limits(16, 0))
    (row,) = token_labels.predictions(examples, features, [np.zeros((3, 3))], ["NN", "VB", "O"], {})
    assert "entities" not in row


def test_entities_are_scored_in_both_modes_and_the_report_names_the_scheme() -> None:
    examples = [example(["a", "b"], ["B-Phone", "I-Phone"])]
    predicted = [{"tags": ["I-Phone", "I-Phone"]}]
    scores = token_labels.score_entities(examples, predicted, [])
    assert (scores["f1"].point(), scores["f1_conlleval"].point()) == (0.0, 1.0)
    details = token_labels.entity_details(examples, predicted, [])
    assert details["scheme"] == "BIO"
    assert [details["per_type"][mode][0]["f1"] for mode in ("strict", "conlleval")] == [0.0, 1.0]


def test_tags_are_scored_by_word() -> None:
    examples = [example(["a", "b", "a"], ["N", "V", "N"], "none")]
    predicted = [{"tags": ["N", "N", "N"]}]
    assert token_labels.score_tags(examples, predicted, ["N", "V"])["token_accuracy"].point() == pytest.approx(2 / 3)
    assert [row["support"] for row in token_labels.tag_details(examples, predicted, ["N", "V"])["per_class"]] == [2, 1]


def test_scoring_without_gold_tags_is_refused() -> None:
    with pytest.raises(BertctlError, match="f:1: got no tags"):
        token_labels.score_tags([example(["a"])], [{"tags": ["N"]}], ["N"])


def test_gold_names_the_line_of_each_word_and_the_key_its_text() -> None:
    one = example(["a", "b"], ["N", "V"])
    assert token_labels.gold(one) == [("N", "f:1"), ("V", "f:2")]
    assert token_labels.key(one) == ("a b",)
    assert token_labels.gold(example(["a"])) == []
    assert token_labels.majority([one], [one], []) == ("N", [{"tags": ["N", "N"]}])


def test_labels_of_entities_are_complete_and_those_of_tags_are_as_found() -> None:
    assert token_labels.entity_labels([example(["a", "b"], ["B-Y", "O"])]) == ["O", "B-Y", "I-Y"]
    assert token_labels.tag_labels([example(["a", "b"], ["V", "N"])]) == ["N", "V"]


def test_an_overlap_that_leaves_no_new_word_is_refused_and_the_default_fits_any_window() -> None:
    words = [example(["a"] * 30, ["O"] * 30)]
    for max_length in (4, 12, 40):
        features = token_labels.encode(words, TOKENIZER, LABELS, Limits(max_length, None))
        assert sorted(word for feature in features for word in feature.words) == list(range(30))
    for overlap in (10, 12, 50):
        with pytest.raises(BertctlError, match="must be < 10"):
            token_labels.encode(words, TOKENIZER, LABELS, Limits(12, overlap))


def test_the_temperature_is_that_of_all_words_of_dev_and_leaves_the_tags() -> None:
    """Against scipy's minimiser, over sentences in windows: each word counts once."""
    generator = np.random.default_rng(0)
    examples = [example(["a"] * size, [LABELS[i] for i in generator.integers(0, 3, size)]) for size in (20, 3, 9)]
    features = token_labels.encode(examples, TOKENIZER, LABELS, Limits(12, 4))
    logits = [
        3 * (generator.normal(size=row.shape) + row / 9)
        for row in (np.asarray(one) for one in one_hot(features, examples))
    ]
    settings = token_labels.tune(examples, features, logits, LABELS)

    def loss(value: float) -> float:
        rows = token_labels.predictions(examples, features, logits, LABELS, {"temperature": value})
        total = 0.0
        for feature, own in zip(features, logits, strict=True):
            tags = [examples[feature.example].tags[word] for word in feature.words]
            for position, tag in zip(feature.positions, tags, strict=True):
                total -= log_softmax(own[position] / value)[LABELS.index(tag)]
        assert sum(len(row["tags"]) for row in rows) == 32
        return total

    least = minimize_scalar(lambda x: loss(np.exp(x)), bounds=(-4, 4), method="bounded", options={"xatol": 1e-8})
    assert settings == {"temperature": pytest.approx(np.exp(least.x), rel=1e-4)}
    plain, warm = (token_labels.predictions(examples, features, logits, LABELS, one) for one in ({}, settings))
    assert [row["tags"] for row in plain] == [row["tags"] for row in warm]
    assert all(a["probabilities"] != b["probabilities"] for a, b in zip(plain, warm, strict=True))


def test_there_is_no_temperature_without_mistakes_or_tags() -> None:
    examples = [example(["a", "b"], ["B-X", "I-X"])]
    features = token_labels.encode(examples, TOKENIZER, LABELS, Limits(12, 4))
    assert token_labels.tune(examples, features, one_hot(features, examples), LABELS) == {}
    bare = token_labels.encode([example(["a", "b"])], TOKENIZER, LABELS, Limits(12, 4))
    assert token_labels.tune([example(["a", "b"])], bare, [np.zeros((4, 3))], LABELS) == {}
    assert token_labels.tune([], [], [], LABELS) == {}
