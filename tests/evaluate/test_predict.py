"""Lines in, JSON objects out: against transformers and sentence-transformers, in order, in bounded memory."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

from bertctl.errors import BertctlError
from bertctl.evaluate.predict import predict
from bertctl.text.tokenizer import Tokenizer

LINES = [
    "The cat sat on the mat.",
    "",
    "a",
    "Ann saw Bob in Rome! " * 3,
    "one two\u2028three\x85four",
    "Caf\u00e9 \u4e2d\u6587 [SEP] [MASK] zzz",
    "   ",
]


def rows(model, lines, **options) -> list[dict]:
    return list(predict(model, lines, **options))


def hf_logits(model, folder, text: str) -> torch.Tensor:
    """Logits of transformers for one text, encoded by our tokenizer (its own is compared in tests/text)."""
    tokenizer = Tokenizer.load(folder)
    ids = [tokenizer.cls_id, *tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep_id]
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0]


def test_labels_have_the_probabilities_of_transformers(classifier):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    for line, row in zip(LINES, rows(classifier, LINES), strict=True):
        shares = hf_logits(model, classifier, line).softmax(-1).tolist()
        assert list(row["probabilities"]) == ["red", "green", "blue"]
        assert list(row["probabilities"].values()) == pytest.approx(shares, abs=1e-5)
        assert row["label"] == ["red", "green", "blue"][int(np.argmax(shares))]


@pytest.mark.parametrize("pairs", [True, False])
def test_a_model_of_pairs_refuses_single_texts_and_the_other_way_round(make_model, pairs):
    model = make_model({"sequence": 2}, ["no", "yes"], {"task": "classification", "pairs": pairs})
    single, both = json.dumps({"text": "the cat"}), json.dumps({"text": "the cat", "text_pair": "sat"})
    fits, other = (both, single) if pairs else (single, both)
    assert len(rows(model, [fits, fits])) == 2
    assert "embedding" in rows(model, [other], output="embeddings")[0]  # which asks nothing of the head
    with pytest.raises(BertctlError) as caught:
        rows(model, [fits, other])
    assert "<stdin>:2: got " in caught.value.problems[0]
    assert ("pairs of texts" in caught.value.problems[0]) is pairs
    assert ('"text_pair": ' in caught.value.hint) is pairs


def test_words_have_the_labels_of_transformers_and_their_places(tagger):
    model = transformers.AutoModelForTokenClassification.from_pretrained(tagger).eval()
    text = "Ann  saw the (old) house."
    [row] = rows(tagger, [text])
    words = ["Ann", "saw", "the", "(", "old", ")", "house", "."]
    assert row["tokens"] == words
    assert [text[start:end] for start, end in row["offsets"]] == words
    starts = 1 + np.flatnonzero(Tokenizer.load(tagger).encode([text])[0].word_starts)
    best = hf_logits(model, tagger, text)[starts].argmax(-1).tolist()
    assert row["tags"] == [["O", "B-PER", "I-PER"][i] for i in best]
    for entity in row["entities"]:
        assert text[entity["start_offset"] : entity["end_offset"]] == entity["text"]


def test_a_blank_line_among_texts_has_no_words(tagger):
    found = rows(tagger, ["Ann", "", "  ", "\u200b", "saw"])
    assert [row["tokens"] for row in found] == [["Ann"], [], [], [], ["saw"]]
    assert [len(row["tags"]) for row in found] == [len(row["offsets"]) for row in found] == [1, 0, 0, 0, 1]


def test_given_words_stay_whole(tagger):
    objects = [json.dumps({"tokens": ["New-York", "!?", "\u200b"]}), json.dumps({"tokens": []})]
    first, second = rows(tagger, objects)
    assert first["tokens"] == ["New-York", "!?", "\u200b"]
    assert len(first["tags"]) == 3  # also for the word that BERT's rules delete
    assert "offsets" not in first
    assert second["tags"] == []


def test_masks_have_the_best_pieces_of_transformers(masked, capsys):
    text = "The [MASK] sat on the [MASK]."
    model = transformers.AutoModelForMaskedLM.from_pretrained(masked).eval()
    tokenizer = Tokenizer.load(masked)
    ids = [tokenizer.cls_id, *tokenizer.encode([text], allow_special=True)[0].ids.tolist(), tokenizer.sep_id]
    with torch.inference_mode():
        shares = model(torch.tensor([ids])).logits[0].softmax(-1)
    [row, none] = rows(masked, [text, "no mask"], top_k=3)
    places = [place for place, token in enumerate(ids) if token == tokenizer.mask_id]
    assert len(places) == len(row["masks"]) == 2
    for place, found in zip(places, row["masks"], strict=True):
        best = shares[place].topk(3)
        assert [one["token"] for one in found] == [tokenizer.tokens[i] for i in best.indices.tolist()]
        assert [one["probability"] for one in found] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert none == {"masks": []}
    assert "1 of 2 texts hold no [MASK], so nothing is said of them" in capsys.readouterr().err


def test_a_mask_that_was_cut_off_is_null(masked):
    [row] = rows(masked, ["[MASK] " + "the " * 60 + "[MASK]"], top_k=2)
    assert len(row["masks"][0]) == 2
    assert row["masks"][1] is None
    assert (row["truncated"], row["pieces"], row["pieces_kept"]) == (True, 62, 46)


@pytest.mark.parametrize("normalize", [False, True])
def test_embeddings_are_those_of_sentence_transformers(minilm, normalize):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    body = Transformer(str(minilm))
    reference = SentenceTransformer(modules=[body, Pooling(body.get_word_embedding_dimension(), "mean")], device="cpu")
    lines = [line for line in LINES if "[SEP]" not in line]  # a control token there, plain text here
    expected = reference.encode(lines, normalize_embeddings=normalize, show_progress_bar=False)
    found = [row["embedding"] for row in rows(minilm, lines, normalize=normalize)]
    np.testing.assert_allclose(np.array(found), expected, atol=1e-5)


def test_poolings(masked):
    text = "the cat sat"
    tokenizer = Tokenizer.load(masked)
    model = transformers.AutoModel.from_pretrained(masked).eval()
    ids = [tokenizer.cls_id, *tokenizer.encode([text])[0].ids.tolist(), tokenizer.sep_id]
    with torch.inference_mode():
        hidden = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    longer = "one two three four five six seven eight"  # the first text is padded beside it
    for name, expected in (("mean", hidden.mean(0)), ("cls", hidden[0]), ("max", hidden.max(0))):
        [row, _] = rows(masked, [text, longer], output="embeddings", pooling=name)
        np.testing.assert_allclose(row["embedding"], expected, atol=1e-5)
    with pytest.raises(BertctlError, match="did you mean 'mean'"):
        rows(masked, [text], output="embeddings", pooling="meen")


@pytest.mark.parametrize("kind", ["classifier", "tagger", "masked"])
def test_order_and_answers_do_not_depend_on_the_batch_size(kind, request):
    model = request.getfixturevalue(kind)
    lines = [f"{'the cat ' * (i % 11)}{['sat', 'ran', '[MASK]'][i % 3]}" for i in range(70)]
    one, many = rows(model, lines, batch_size=1), rows(model, lines, batch_size=9)
    assert len(one) == len(many) == 70
    for a, b in zip(one, many, strict=True):
        flat_a, flat_b = flat(a), flat(b)
        assert [x for x in flat_a if not isinstance(x, float)] == [x for x in flat_b if not isinstance(x, float)]
        assert [x for x in flat_a if isinstance(x, float)] == pytest.approx(
            [x for x in flat_b if isinstance(x, float)], abs=1e-5
        )


def flat(value) -> list:
    """The leaves of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list) else [value]


def test_jsonl_and_plain_lines_say_the_same(classifier):
    plain = rows(classifier, [line + "\n" for line in LINES])
    objects = rows(classifier, [json.dumps({"id": i, "text": line}) + "\r\n" for i, line in enumerate(LINES)])
    assert [{"id": i, **row} for i, row in enumerate(plain)] == objects
    pair = rows(classifier, [json.dumps({"text": "the cat", "text_pair": "sat"})])
    assert pair != rows(classifier, ["the cat sat"])


def test_a_first_line_with_a_brace_is_text_unless_it_is_an_object(classifier):
    assert len(rows(classifier, ["{not json}", "x"])) == 2
    assert len(rows(classifier, ['{"text": "x"}', "", '{"text": "y"}'])) == 2
    assert len(rows(classifier, ['{"text": "x"}', "y"], format="text")) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [("{broken", "got bad JSON"), ("[1]", "got a JSON list"), ('{"txt": "x"}', "'txt'"), ('{"text": 3}', "expected")],
)
def test_a_line_that_is_no_record_is_named(classifier, line, message):
    with pytest.raises(BertctlError, match=f"in.jsonl:2: .*{message}|in.jsonl:2.*{message}"):
        rows(classifier, ['{"text": "x"}', line], where="in.jsonl")


def test_a_text_past_the_limit_is_cut_with_a_sign(minilm, capsys):
    long = ["w " * 600 + "A", "w " * 600 + "B", "w " * 510]
    first, second, fits = rows(minilm, long, max_length=512)
    assert (first["truncated"], first["pieces"], first["pieces_kept"]) == (True, 601, 510)
    assert first == second
    assert "truncated" not in fits
    assert "truncated=2 of 3 texts" in capsys.readouterr().err
    with pytest.raises(BertctlError, match="<stdin>:1: got 601 word pieces, expected at most 510"):
        rows(minilm, long, long_text="refuse", max_length=512)
    assert rows(minilm, long[:1])[0]["pieces_kept"] == 254  # what its makers say that it reads


def test_answers_come_before_the_input_ends(classifier):
    endless = ("the cat" for _ in itertools.count())
    assert len(list(itertools.islice(predict(classifier, endless, batch_size=2), 100))) == 100


def test_what_a_checkpoint_cannot_give_is_refused_before_anything_is_read(classifier, masked):
    def unread():
        raise AssertionError("the input was read")
        yield ""

    for model, options in (
        (classifier, {"output": "masks"}),
        (masked, {"output": "labels"}),
        (masked, {"task": "ner"}),
    ):
        with pytest.raises(BertctlError):
            rows(model, unread(), **options)
    with pytest.raises(BertctlError, match=r"task: got 'nerr', expected one of .* did you mean 'ner'"):
        rows(masked, unread(), task="nerr")
    with pytest.raises(BertctlError, match="max_length: got 64, but the encoder reads at most 48"):
        rows(masked, unread(), max_length=64)


OBJECT = '{"x": "a", "id": 7}\n'


@pytest.mark.parametrize(
    ("heads", "noted", "problem"),
    [
        ({"sequence": 2}, "classification", "in:1: got an object with 'x', 'id', expected one of sentence, text, "),
        ({"token": 3}, "ner", "in:1: got an object with 'x', 'id', expected one of tokens, words"),
        ({"span": 2}, "qa", "in:1: got an object with 'x', 'id', expected one of question, query"),
        ({"choice": 1}, "multiple_choice", "in:1: got an object with 'x', 'id', expected one of context, "),
    ],
)
def test_an_object_without_the_text_is_told_what_it_needs_and_nothing_of_recipes(make_model, heads, noted, problem):
    labels = ["a", "b", "c"][: max(heads.values())] if noted in ("classification", "ner") else None
    model = make_model(heads, labels, {"task": noted})
    with pytest.raises(BertctlError) as caught:
        rows(model, [OBJECT], where="in")
    assert caught.value.problems[0].startswith(problem)
    assert not any("columns" in line for line in caught.value.lines())


@pytest.mark.parametrize(
    ("heads", "noted", "task", "problem"),
    [
        ({"sequence": 2}, "classification", "multi_label", "was fine-tuned for classification, expected a model for m"),
        ({"sequence": 2}, "classification", "regression", "was fine-tuned for classification, expected a model for r"),
        ({"sequence": 2}, None, "regression", "its head has 2 outputs, expected 1 for regression"),
        ({"sequence": 1}, "regression", "classification", "was fine-tuned for regression, expected a model for c"),
    ],
)
def test_a_head_that_says_something_else_is_not_asked(make_model, heads, noted, task, problem):
    labels = ["a", "b"] if heads["sequence"] == 2 else None
    model = make_model(heads, labels, {"task": noted} if noted else None)
    with pytest.raises(BertctlError, match=problem):
        rows(model, ["a"], task=task)


@pytest.mark.parametrize("option", [{"pooling": "mean"}, {"normalize": False}])
def test_what_belongs_to_embeddings_is_not_passed_over(tagger, masked, option):
    (name,) = option
    for model, given in ((tagger, "labels"), (masked, "masks")):
        with pytest.raises(BertctlError, match=f"{name}: belongs to embeddings, and {given} are asked for"):
            rows(model, ["a"], **option)
    assert len(rows(tagger, ["a"], output="embeddings", **option)) == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"txt": "a"}, "in:1: got an object with 'txt', expected text, and maybe text_pair"),
        ({"text": 5}, "in:1: got a number, expected text in `text`"),
        ({"text": None}, "in:1: got null, expected text in `text`"),
        ({"text": "a", "text_pair": ["b"]}, "in:1: got a list, expected text in `text`"),
    ],
)
def test_an_object_without_a_text_is_named(masked, value, problem):
    with pytest.raises(BertctlError) as caught:
        rows(masked, [json.dumps(value)], where="in")
    assert caught.value.problems[0].startswith(problem)


def test_tags_of_one_kind_may_be_taken_for_the_other(tagger):
    """The head and its labels say all there is to say."""
    assert rows(tagger, ["the cat"], task="pos") == rows(tagger, ["the cat"])


def test_as_a_filter(masked):
    command = [sys.executable, "-m", "bertctl", "predict", str(masked), "-", "--top-k", "1"]
    text = "The [MASK] sat.\none\u2028line [MASK]\n"
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert [len(answer["masks"]) for answer in answers] == [1, 1]
    assert b"predict  2 texts" in done.stderr
    done = subprocess.run(command, input=b"", capture_output=True, check=False, env=os.environ)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"warning: the input holds no line" in done.stderr
    assert set(answers[0]["masks"][0][0]) == {"token", "probability"}
