"""Linear baselines against scikit-learn's, which minimise the same sums; and what they cannot see."""

import json

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from bertctl.finetune import baselines
from bertctl.finetune.baselines import linear, linear_baselines, minimise, piece_counts
from bertctl.recipe.load import build_recipe
from bertctl.tasks.config import DataSection
from bertctl.text.tokenizer import Tokenizer
from tests.finetune.opened import open_data

WORDS = ["red", "green", "blue", "dog", "cat", "sun"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], True, True)


def opened(folder, task, answer, pairs=False, counts=(80, 30, 30)):
    """Random texts of known words, labelled by `answer`."""
    generator = np.random.default_rng(0)
    for split, count in zip(("train", "dev", "test"), counts, strict=True):
        rows = []
        for _ in range(count):
            first, second = (generator.choice(WORDS, generator.integers(1, 9)).tolist() for _ in range(2))
            texts = {"text": " ".join(first)} | ({"text_pair": " ".join(second)} if pairs else {})
            rows.append(json.dumps(texts | answer(first, second, generator)))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    section = build_recipe({"path": str(folder)}, DataSection)
    return open_data(task, section, TOKENIZER)


def fitted(data, penalty):
    columns = piece_counts(data, data.train)
    weights = torch.zeros(columns(data.train).shape[1] + 1, data.task.outputs(data.labels), requires_grad=True)
    labels = {"labels": torch.tensor([feature.labels for feature in data.train])}
    minimise(data.task, weights, columns(data.train), labels, penalty)
    features = [feature for chunk in data.test for feature in chunk.features]
    return linear(columns(features), weights.detach()).numpy()


def vectors(data):
    texts = [[example.text for example in split] for split in (data.splits.train, data.splits.test)]
    counter = CountVectorizer().fit(texts[0])
    return [counter.transform(part).toarray() for part in texts]


def test_classes_as_logistic_regression_has_them(tmp_path):
    data = opened(
        tmp_path, "classification", lambda a, b, g: {"label": str(min(2, a.count("red")) if g.random() < 0.8 else 1)}
    )
    train, test = vectors(data)
    penalty = 1e-2
    # ours: mean + penalty * |W|^2; theirs: C * sum + |W|^2 / 2
    model = LogisticRegression(C=1 / (2 * penalty * len(train)), tol=1e-8, max_iter=2000)
    model.fit(train, [example.label for example in data.splits.train])
    ours = torch.from_numpy(fitted(data, penalty)).softmax(dim=1).numpy()
    np.testing.assert_allclose(ours, model.predict_proba(test), atol=1e-3)


def test_numbers_as_ridge_regression_has_them(tmp_path):
    data = opened(tmp_path, "regression", lambda a, b, g: {"score": 2.0 * a.count("red") - a.count("sun") + g.normal()})
    train, test = vectors(data)
    penalty = 1e-2
    model = Ridge(alpha=penalty * len(train)).fit(train, [example.label for example in data.splits.train])
    np.testing.assert_allclose(fitted(data, penalty)[:, 0], model.predict(test), atol=1e-2)


def test_each_label_is_a_regression_of_its_own(tmp_path):
    data = opened(
        tmp_path,
        "multi_label",
        lambda a, b, g: {"labels": sorted({w for w in a if w in ("red", "sun") and g.random() < 0.9})},
    )
    train, test = vectors(data)
    penalty = 1e-3
    logits = fitted(data, penalty)
    for number, label in enumerate(["red", "sun"]):
        # the mean is over examples and labels, so the penalty of one label weighs twice
        model = LogisticRegression(C=1 / (4 * penalty * len(train)), tol=1e-8, max_iter=2000)
        model.fit(train, [label in example.label for example in data.splits.train])
        np.testing.assert_allclose(1 / (1 + np.exp(-logits[:, number])), model.predict_proba(test)[:, 1], atol=1e-3)


def test_words_count_and_their_order_does_not(tmp_path):
    data = opened(tmp_path, "classification", lambda a, b, g: {"label": "yes" if "red" in a else "no"})
    found = linear_baselines(data)
    assert list(found) == ["bag_of_words"]
    assert found["bag_of_words"]["value"] == 1.0
    assert found["bag_of_words"]["metrics"]["mcc"] == 1.0
    assert found["bag_of_words"]["low"] <= found["bag_of_words"]["high"] == 1.0
    assert found == linear_baselines(data)


def test_a_pair_whose_longer_text_tells_is_seen_through_by_its_length(tmp_path):
    data = opened(tmp_path, "regression", lambda a, b, g: {"score": abs(len(a) - len(b)) + 0.5 * len(b)}, pairs=True)
    found = linear_baselines(data)
    assert found["length_baseline"]["value"] > 0.999
    assert found["bag_of_words"]["value"] < 0.95
    assert found["length_baseline"]["metrics"]["mse"] < 0.05


def test_the_texts_of_a_pair_are_counted_apart(tmp_path):
    data = opened(tmp_path, "classification", lambda a, b, g: {"label": "x" if "red" in b else "y"}, pairs=True)
    assert linear_baselines(data)["bag_of_words"]["value"] > 0.95


def test_a_second_text_is_known_by_its_separator_and_not_by_its_type(tmp_path):
    """Types are all 0 in the inputs of RoBERTa."""
    data = opened(tmp_path, "classification", lambda a, b, g: {"label": "x" if "red" in b else "y"}, pairs=True)
    expected = linear_baselines(data)
    for feature in [*data.train, *(feature for chunk in (*data.dev, *data.test) for feature in chunk.features)]:
        feature.token_type_ids = [0] * len(feature.input_ids)
    assert linear_baselines(data) == expected
    assert list(expected) == ["bag_of_words", "length_baseline"]


def test_texts_without_a_piece_leave_the_majority(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\n,x\n,y\n,x\n")
    (tmp_path / "dev.csv").write_text("text,label\n,x\nred,x\n,y\n,x\n")
    section = build_recipe({"path": str(tmp_path)}, DataSection)
    data = open_data("classification", section, TOKENIZER)
    assert linear_baselines(data)["bag_of_words"]["value"] == 0.75


def test_tasks_about_words_have_none(tmp_path):
    (tmp_path / "train.conll").write_text("red B-X\n\ndog O\n\n")
    (tmp_path / "dev.conll").write_text("red B-X\n")
    section = build_recipe({"path": str(tmp_path)}, DataSection)
    assert linear_baselines(open_data("ner", section, TOKENIZER)) == {}


def test_pieces_are_limited_to_the_most_frequent(tmp_path, monkeypatch):
    data = opened(tmp_path, "classification", lambda a, b, g: {"label": "yes" if "red" in a else "no"})
    monkeypatch.setattr(baselines, "MOST_WEIGHTS", 6)  # 3 pieces for 2 classes
    assert piece_counts(data, data.train)(data.train).shape[1] == 3
    monkeypatch.setattr(baselines, "MOST_INPUTS", 10)
    assert baselines.some_of(data.train) == baselines.some_of(data.train)
    assert len(baselines.some_of(data.train)) == 10
