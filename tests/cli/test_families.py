"""Every family walks the whole road by the commands that a user types: tokenize, build-pairs, pretrain on its own
objective, finetune for texts and for words, evaluate, predict, distill to half the layers, probe; and what comes out is
read by transformers, with equal answers, wherever that knows the family.

Vocabularies and pairs are made once a kind; everything else is done anew for each family.
"""

import json
from functools import partial

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from bertctl import signals
from bertctl.cli import identity
from bertctl.variants.table import VARIANTS
from tests.cli.families import FAMILIES, SIZES, classified, write_checkpoint
from tests.cli.road import assert_falls, bertctl, config, losses, result, sets, training
from tests.toys import documents, tagged

TEXTS = ["the lovely was a", "awful", "we saw it and it was very dull"]
ROWS = {"train": (96, 0), "dev": (16, 1), "test": (24, 2)}


@pytest.fixture(scope="module", autouse=True)
def _alone():
    """No handlers of signals, and no hash of the source, which may be edited meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "install", lambda: None)
        patch.setattr(identity, "code_hash", lambda: "this code")
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The corpus and the data of two tasks."""
    folder = tmp_path_factory.mktemp("families")
    (folder / "corpus.txt").write_text(documents(80, 0, width=6))
    tags = partial(tagged, shortest=2, longest=5)
    for name, ending, make in (("texts", "tsv", classified), ("words", "conll", tags)):
        (folder / name).mkdir()
        for split, (count, seed) in ROWS.items():
            (folder / name / f"{split}.{ending}").write_text(make(count, seed))
    return folder


@pytest.fixture(scope="module")
def tokens(place):
    """Folder of the tokens in a kind of vocabulary: learned here, or that of a checkpoint."""

    def make(kind):
        out = place / f"tokens-{kind}"
        if out.exists():
            return out
        given = ["--corpus", place / "corpus.txt", "--set", "tokenize.sentences=newline", "--out", out]
        if kind in ("wordpiece", "byte_bpe"):
            bertctl("tokenize", *given, "--vocab-size", 330, "--set", f"tokenize.algorithm={kind}")
        else:
            write_checkpoint(kind, (place / "corpus.txt").read_text().splitlines(), place / kind)
            bertctl("tokenize", *given, "--vocabulary", place / kind)
        return out

    return make


@pytest.fixture(scope="module")
def pairs(place, tokens):
    """Folder of the examples in a kind of vocabulary."""

    def make(kind, second_segment):
        out = place / f"pairs-{kind}-{second_segment}"
        if not out.exists():
            section = {"sequence_length": 24, "second_segment": second_segment, "held_out_fraction": 0.1}
            bertctl("build-pairs", tokens(kind), *sets("build_pairs", section), "--out", out)
        return out

    return make


def pretrain(family, place, tokens, pairs, out):
    section = {"pairs": str(pairs(family.vocabulary, family.second_segment)), "tokens": str(tokens(family.vocabulary))}
    if family.from_checkpoint:
        section["init_from"] = str(place / family.vocabulary)
    else:
        section["encoder"] = SIZES | {"max_position_embeddings": 128, "initializer_range": 0.1} | family.encoder
    if family.objective:
        section["objective"] = family.objective
    bertctl("pretrain", *sets("pretrain", section | training(24)), "--out", out)
    assert_falls(losses(out), by=0.85)


def finetune(task, data, place, out, steps=18):
    given = ["--task", task, "--model", place / "pretrained", "--data", data]
    bertctl("finetune", *given, *sets("finetune", {"dropout": 0.0, **training(steps)}), "--out", out)
    assert_falls(losses(out), by=0.95)


def distil(place, out, *given):
    """The teacher's half, which has tensors of the teacher only."""
    bertctl("distill", *given, *sets("distill", training(8)), "--out", out)
    found, layers = result(out), result(place / "probe")["layers"][-1]["layer"]
    assert len(found["layer_map"]) == layers // 2
    assert found["fresh_tensors"] == 0
    assert found["parameters_student"] <= found["parameters_teacher"]
    assert found["student"]["value"] is not None
    assert losses(out)


def probe(place, task, data, layers):
    section = {"strengths": [0.01], "bootstrap_samples": 100}
    given = ["--task", task, "--data", data, *sets("probe", section)]
    bertctl("probe", place / "pretrained", *given, "--out", place / "probe")
    rows = result(place / "probe")["layers"]
    assert [row["layer"] for row in rows] == list(range(layers + 1))
    assert max(row["accuracy"] for row in rows) > result(place / "probe")["majority_baseline"]
    assert all(row["attention_entropy"] > 0 for row in rows[1:])
    assert len(result(place / "probe")["attention_entropy_per_head"][0]["nats"]) == SIZES["num_attention_heads"]


def said(folder, lines=TEXTS):
    """What `predict` says of texts, or of files."""
    inputs = folder / "inputs.txt"
    inputs.write_text("".join(f"{line}\n" for line in lines))
    bertctl("predict", folder, inputs, "--out", folder / "said.jsonl")
    return [json.loads(line) for line in (folder / "said.jsonl").read_text().splitlines()]


@torch.no_grad()
def theirs(folder, kind, texts=TEXTS):
    """[texts, labels] or [texts, tokens, labels]: probabilities by transformers, its own tokenizer and all, at the
    temperature that dev found; which word each token is of; names of labels."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder / "model").eval()
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    logits = model(**batch).logits
    temperature = config(folder)["bertctl"].get("settings", {}).get("temperature", 1.0)
    return (logits / temperature).softmax(dim=-1), [batch.word_ids(n) for n in range(len(texts))], model.config.id2label


def assert_same_labels(folder):
    """A classifier's probabilities are those of transformers."""
    probabilities, _, names = theirs(folder, "SequenceClassification")
    ours = [[row["probabilities"][names[n]] for n in range(2)] for row in said(folder)]
    torch.testing.assert_close(torch.tensor(ours), probabilities, atol=1e-5, rtol=0)


def assert_same_tags(folder, vocabulary):
    """So are those of the best tag of every word; of bytes the first word too stands behind a blank, as all do here
    and with `add_prefix_space` there."""
    texts = [f" {text}" for text in TEXTS] if vocabulary == "byte_bpe" else TEXTS
    probabilities, words, names = theirs(folder, "TokenClassification", texts)
    for row, text, ids in zip(said(folder), probabilities, words, strict=True):
        firsts = [ids.index(number) for number in range(len(row["tags"]))]
        best = text[firsts].max(dim=-1)
        assert row["tags"] == [names[int(n)] for n in best.indices]
        torch.testing.assert_close(torch.tensor(row["probabilities"]), best.values, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_walks_the_whole_road(name, place, tokens, pairs, tmp_path):
    family = FAMILIES[name]
    layers = family.encoder.get("num_hidden_layers", SIZES["num_hidden_layers"])
    pretrain(family, place, tokens, pairs, tmp_path / "pretrained")
    probe(tmp_path, "ner", place / "words", layers)

    finetune("classification", place / "texts", tmp_path, tmp_path / "classifier")
    finetune("ner", place / "words", tmp_path, tmp_path / "tagger", steps=30)
    bertctl("evaluate", tmp_path / "tagger", "--data", place / "words", "--out", tmp_path / "scores")
    scored = result(tmp_path / "scores")["metrics"]["f1"]["value"]
    assert scored == result(tmp_path / "tagger")["metrics"]["f1"]["value"]
    assert scored > 0.5

    task = ["--task", "classification", "--data", place / "texts"]
    distil(tmp_path, tmp_path / "student", tmp_path / "classifier", "half", *task)
    made = {"pretrained", "tagger", "student"}
    if not family.objective:  # what tells replaced tokens has no distribution over words to imitate
        examples = pairs(family.vocabulary, family.second_segment)
        distil(tmp_path, tmp_path / "small", tmp_path / "pretrained", "half", "--data", examples)
        made.add("small")

    before = family.saved_as[0]
    assert {part: config(tmp_path / part)["model_type"] for part in made} == {
        part: before if part in ("pretrained", "small") else family.saved_as[1] for part in made
    }
    if family.saved_as[1] != "bertctl":
        assert_same_labels(tmp_path / "student")
        assert_same_tags(tmp_path / "tagger", family.vocabulary)
    else:
        assert len(said(tmp_path / "student")) == len(TEXTS)


def test_every_family_of_the_table_is_walked():
    walked = {family.encoder.get("name", family.saved_as[0]) for family in FAMILIES.values()}
    assert walked | {"vit"} == set(VARIANTS)


def test_an_encoder_of_images_walks_it_too(write_digits, tmp_path):
    digits = write_digits(tmp_path / "digits", {"train": range(160), "dev": range(160, 200), "test": range(200, 260)})
    encoder = {"name": "vit", "size": "tiny", "image_size": 8, "patch_size": 2, "num_channels": 1, **SIZES}
    section = {"encoder": encoder | {"initializer_range": 0.1}, "images": {"path": str(digits / "train")}}
    section["objective"] = {"name": "masked_image", "mask_patch_size": 2}
    bertctl("pretrain", *sets("pretrain", section | training(24)), "--out", tmp_path / "pretrained")
    assert_falls(losses(tmp_path / "pretrained"), by=0.95)
    probe(tmp_path, "image_classification", digits, SIZES["num_hidden_layers"])

    finetune("image_classification", digits, tmp_path, tmp_path / "classifier", steps=60)
    bertctl("evaluate", tmp_path / "classifier", "--data", digits, "--out", tmp_path / "scores")
    scored = result(tmp_path / "scores")["metrics"]["accuracy"]["value"]
    assert scored == result(tmp_path / "classifier")["metrics"]["accuracy"]["value"]
    assert scored > 2 * result(tmp_path / "classifier")["majority_baseline"]["value"]

    task = ["--task", "image_classification", "--data", digits]
    distil(tmp_path, tmp_path / "student", tmp_path / "classifier", "half", *task)
    assert config(tmp_path / "pretrained")["architectures"] == ["ViTForMaskedImageModeling"]
    assert_same_images(tmp_path / "student", sorted((digits / "test").rglob("*.png"))[:9])


@torch.no_grad()
def assert_same_images(folder, paths):
    """A classifier's probabilities are those of transformers, with pixels as its processor makes them: (x - 0.5) / 0.5
    of shares of white."""
    model = transformers.ViTForImageClassification.from_pretrained(folder / "model").eval()
    shades = np.stack([np.asarray(Image.open(path), dtype=np.float32) for path in paths])
    logits = model(torch.from_numpy((shades / 255 - 0.5) / 0.5).unsqueeze(1)).logits
    temperature = config(folder)["bertctl"].get("settings", {}).get("temperature", 1.0)
    names = model.config.id2label
    ours = [[row["probabilities"][names[n]] for n in range(len(names))] for row in said(folder, paths)]
    torch.testing.assert_close(torch.tensor(ours), (logits / temperature).softmax(dim=-1), atol=1e-5, rtol=0)
