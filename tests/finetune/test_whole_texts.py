"""Numbers and label sets from data to checkpoint: what is trained is what is saved, scored and loaded elsewhere."""

import json

import numpy as np
import pytest
import torch
import transformers

from bertctl.evaluate.predict import predict
from bertctl.finetune.run import run
from bertctl.finetune.start import FROM_SCRATCH, PRETRAINED, build_model
from bertctl.text.tokenizer import Tokenizer
from tests.finetune.opened import open_data

MOODS = {"fine": 2.0, "great": 3.0, "dull": -1.0, "poor": -2.0}
NOUNS = ("film", "book", "song")


def written(folder, task, counts=(160, 40, 40)):
    """Texts of two or three moods: their sum is the number, the moods are the labels."""
    generator = np.random.default_rng(0)
    for split, count in zip(("train", "dev", "test"), counts, strict=True):
        rows = []
        for _ in range(count):
            moods = sorted(set(generator.choice(list(MOODS), generator.integers(0, 4)).tolist()))
            text = " ".join([*moods, str(generator.choice(NOUNS))])
            rows.append(
                {"text": text, "score": 5 + sum(MOODS[m] for m in moods)}
                if task == "regression"
                else {"text": text, "labels": moods}
            )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("variant", [PRETRAINED, FROM_SCRATCH])
def test_a_new_head_for_numbers_starts_at_their_mean(variant, make_section, encoder, tmp_path):
    section = make_section(task="regression", data={"path": str(written(tmp_path, "regression"))})
    data = open_data("regression", section.data, Tokenizer.load(encoder))
    model = build_model(section, encoder, data, variant=variant, seed=1)
    mean = np.mean([row["score"] for row in lines_of(tmp_path / "train.jsonl")])
    assert model.heads["sequence"].output.bias.item() == pytest.approx(mean, abs=1e-6)


def test_numbers_are_learnt_and_transformers_gives_the_same(make_section, tmp_path):
    section = make_section(160, task="regression", data={"path": str(written(tmp_path, "regression"))})
    result = run(section, out=tmp_path / "out", seed=3)
    assert result["pretrained"]["value"] > 0.8
    assert result["majority_baseline"]["value"] is None
    assert "not constant" in result["majority_baseline"]["reason"]
    lines = [row["text"] for row in lines_of(tmp_path / "test.jsonl")]
    ours = [row["value"] for row in predict(tmp_path / "out", lines)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "model")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "model").eval()
    with torch.no_grad():
        theirs = [model(**tokenizer(text, return_tensors="pt")).logits.item() for text in lines]
    assert ours == pytest.approx(theirs, abs=1e-4)
    written_down = lines_of(tmp_path / "out/runs/pretrained-seed3/predictions-test.jsonl")
    assert [row["value"] for row in written_down] == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("thresholds", ["one", "each"])
def test_label_sets_are_learnt_with_the_threshold_that_dev_likes_best(thresholds, make_section, tmp_path):
    data = {"path": str(written(tmp_path, "multi_label"))}
    section = make_section(160, task="multi_label", data=data, thresholds=thresholds)
    result = run(section, out=tmp_path / "out", seed=3)
    assert result["pretrained"]["value"] > result["majority_baseline"]["value"] + 0.2
    config = json.loads((tmp_path / "out/model/config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert list(config["label2id"]) == ["dull", "fine", "great", "poor"]
    assert config["bertctl"]["settings"] == result["settings"]
    assert set(result["settings"]) - {"temperature"} == {"threshold" if thresholds == "one" else "thresholds"}
    lines = [row["text"] for row in lines_of(tmp_path / "test.jsonl")]
    kept = lines_of(tmp_path / "out/runs/pretrained-seed3/predictions-test.jsonl")
    assert [row["labels"] for row in predict(tmp_path / "out", lines)] == [row["labels"] for row in kept]


def test_windows_are_training_rows_and_the_checkpoint_remembers_them(make_section, tmp_path):
    filler = "the a was and it we saw very " * 3
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        rows = [f"{filler}{'fine' if n % 3 else 'dull'} film\t{'pos' if n % 3 else 'neg'}" for n in range(count)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    data = {"path": str(tmp_path), "long_text": "windows", "overlap_tokens": 4}
    result = run(make_section(100, max_length=24, data=data), out=tmp_path / "out", seed=0)
    # 26 pieces in windows of 22 that share 4: the first hides the word that matters
    assert result["windows"]["test"]["windows"] == 40
    assert result["windows"]["test"]["texts_in_windows"] == 20
    assert result["truncated"]["test"] == 0
    assert result["pretrained"]["value"] == 1.0  # cut to 22 pieces, every text is the same
    lines = [row.split("\t")[0] for row in (tmp_path / "test.tsv").read_text().splitlines()[1:]]
    answers = list(predict(tmp_path / "out", lines))
    assert [row["label"] for row in answers] == ["pos" if n % 3 else "neg" for n in range(20)]
    assert len({row["label"] for row in predict(tmp_path / "out", lines, long_text="cut")}) == 1
    noted = json.loads((tmp_path / "out/model/config.json").read_text())["bertctl"]
    assert (noted["long_text"], noted["overlap_tokens"], noted["pairs"]) == ("windows", 4, False)


@pytest.mark.parametrize(
    ("task", "gold"),
    [
        ("multi_label", {"fine": {"labels": ["good", "film"]}, "dull": {"labels": ["film"]}}),
        ("regression", {"fine": {"score": 1.0}, "dull": {"score": 0.0}}),
    ],
)
def test_label_sets_and_numbers_are_learnt_from_the_windows_of_long_texts(task, gold, make_section, tmp_path):
    filler = (
        "the a was and it we saw very " * 3
    )  # of 26 pieces the first window has 22: the word that matters is behind
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        words = ["fine" if n % 3 else "dull" for n in range(count)]
        lines = [json.dumps({"text": f"{filler}{word} film", **gold[word]}) + "\n" for word in words]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines))
    data = {"path": str(tmp_path), "long_text": "windows", "overlap_tokens": 4}
    result = run(make_section(100, task=task, max_length=24, data=data), out=tmp_path / "out", seed=0)
    assert result["windows"]["test"]["windows"] == 40
    assert result["pretrained"]["value"] > 0.95
    texts = [row["text"] for row in lines_of(tmp_path / "test.jsonl")]
    answers = [row.get("labels", row.get("value")) for row in predict(tmp_path / "out", texts)]
    cut = [row.get("labels", row.get("value")) for row in predict(tmp_path / "out", texts, long_text="cut")]
    assert answers[0] != answers[1]
    assert cut[0] == cut[1]
