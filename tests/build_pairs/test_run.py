"""The stage as a whole: records that respect their length, phases, the audit, determinism and refusals."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from bertctl import signals
from bertctl.artifacts.examples import Examples, phases
from bertctl.artifacts.manifest import read_manifest, tree_hash
from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.config import BuildPairsSection
from bertctl.build_pairs.layout import Layout
from bertctl.build_pairs.run import run
from bertctl.errors import BertctlError, Stopped
from bertctl.text.special import BERT_TEMPLATE
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run as tokenize

KINDS = ["next_sentence", "sentence_order", "none"]


def section(tokens, **values):
    return BuildPairsSection.model_validate_json(json.dumps({"tokens": str(tokens), **values}))


def text_to_tokens(tmp_path, text):
    (tmp_path / "c.txt").write_text(text)
    corpus = {"corpus": {"files": [str(tmp_path / "c.txt")]}, "vocab_size": 100, "sentences": "newline"}
    tokenize(TokenizeSection.model_validate_json(json.dumps(corpus)), out=tmp_path / "tokens", seed=0)
    return tmp_path / "tokens"


@pytest.mark.parametrize("kind", KINDS)
def test_examples_fit_and_never_share_documents_between_splits(real_tokens, real_shards, tmp_path, kind):
    lengths = {"short": 32, "long": 128}
    plan = [{"name": name, "sequence_length": length} for name, length in lengths.items()]
    result = run(
        section(real_tokens, phases=plan, second_segment=kind, held_out_fraction=0.1), out=tmp_path / "out", seed=1
    )
    assert phases(tmp_path / "out") == ["short", "long"]
    assert read_manifest(tmp_path / "out").inputs["tokens"] == tree_hash(real_tokens)
    layout = Layout.of(real_shards)
    starts = layout.bounds[layout.documents]
    for name, length in lengths.items():
        documents = {}
        for split in ("train", "held_out"):
            examples = Examples(tmp_path / "out" / f"examples-{name}-{split}.safetensors")
            c = examples.columns
            assert len(examples) == result["phases"][name][split]["examples"] > 0
            assert examples.lengths(special=BERT_TEMPLATE.count).max() <= length
            assert set(c["label"].tolist()) == ({-1} if kind == "none" else {0, 1})
            positions = [c[f"{side}_start"] + layout.shard_starts[c[f"{side}_shard"]] for side in "ab"]
            used = positions if kind != "none" else positions[:1]
            documents[split] = {int(d) for p in used for d in np.searchsorted(starts, p, side="right")}
        assert not documents["train"] & documents["held_out"]
        assert len(documents["train"] | documents["held_out"]) >= layout.num_documents - 12  # one-word documents


def test_the_audit_tells_what_was_built(real_tokens, tmp_path, capsys):
    result = run(section(real_tokens, sequence_length=64), out=tmp_path / "out", seed=1)
    facts = result["phases"]["64"]
    examples = Examples(tmp_path / "out" / "examples-64-train.safetensors")
    lengths = examples.lengths(special=BERT_TEMPLATE.count)
    assert facts["train"]["labels"] == {
        "is_next": int((examples.columns["label"] == 0).sum()),
        "is_random": int((examples.columns["label"] == 1).sum()),
    }
    assert facts["train"]["length"]["mean"] == pytest.approx(lengths.mean())
    assert facts["train"]["padding_share"] == pytest.approx(1 - lengths.mean() / 64)
    for unit in ("token", "word"):
        shares = facts["masking"][unit]
        assert shares["special_tokens_masked"] == 0
        assert abs(shares["chosen_share"] - 0.15) < 0.02
        assert abs(shares["mask_share"] - 0.8) < 0.05
        assert abs(shares["random_share"] - 0.1) < 0.04
        assert shares["mask_share"] + shares["random_share"] + shares["keep_share"] == pytest.approx(1)
    assert facts["masking"]["token"]["words_split"] == 0  # counted for whole words only
    assert facts["masking"]["word"]["words_split"] == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "special tokens masked: 0, 0 words split" in printed.err
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result


def test_unknown_pieces_are_special_and_never_masked(tmp_path):
    tokens = text_to_tokens(tmp_path, "\n\n".join(["aa bb \u4e2d cc\ndd ee"] + ["aa bb cc\ndd ee"] * 60))
    shards = TokenShards(tokens)
    assert (np.concatenate([shard.tokens for shard in shards.shards]) == 1).any()
    result = run(section(tokens, sequence_length=16), out=tmp_path / "out", seed=1)
    assert result["phases"]["16"]["masking"]["token"]["special_tokens_masked"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes(real_tokens, tmp_path, kind):
    hashes = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(section(real_tokens, second_segment=kind, duplicates=2), out=tmp_path / name, seed=seed)
        hashes.append(tree_hash(tmp_path / name))
    assert hashes[0] == hashes[1] != hashes[2]


def test_duplicates_are_other_cuts_of_the_same_documents(real_tokens, tmp_path):
    for times in (1, 3):
        run(section(real_tokens, duplicates=times), out=tmp_path / str(times), seed=1)
    once, thrice = (Examples(tmp_path / n / "examples-128-train.safetensors").columns for n in ("1", "3"))
    held = [(tmp_path / n / "examples-128-held_out.safetensors").read_bytes() for n in ("1", "3")]
    count = len(once["label"])
    assert 2.8 * count < len(thrice["label"]) < 3.2 * count
    assert np.array_equal(once["b_start"], thrice["b_start"][:count])
    assert not np.array_equal(once["b_start"], thrice["b_start"][count : 2 * count])
    assert held[0] == held[1]


def test_blank_lines_after_every_sentence_are_refused(tmp_path):
    """google-research/bert#125."""
    tokens = text_to_tokens(tmp_path, "s one here.\n\ns two here.\n\ns three here.\n\ns four here.\n")
    with pytest.raises(BertctlError, match="documents=4, single-sentence=4") as caught:
        run(section(tokens), out=tmp_path / "out", seed=1)
    assert "`none` or `sentence_order`" in caught.value.hint
    assert not (tmp_path / "out").exists()
    for kind in ("none", "sentence_order"):
        result = run(section(tokens, second_segment=kind, held_out_fraction=0), out=tmp_path / kind, seed=1)
        assert result["phases"]["128"]["train"]["examples"] == 4


def test_two_documents_are_enough(tmp_path, capsys):
    """google-research/bert#125: the same text without blank lines, and a second document."""
    tokens = text_to_tokens(tmp_path, "s one here.\ns two here.\ns three here.\ns four here.\n\nother words.\n")
    result = run(section(tokens, duplicates=20), out=tmp_path / "out", seed=1)
    labels = result["phases"]["128"]["train"]["labels"]
    assert labels["is_next"] > 0
    assert labels["is_random"] > 0
    assert "too few to hold any out" in capsys.readouterr().err


def test_labels_far_from_half_are_told(make_tokens, tmp_path, capsys):
    run(section(make_tokens([[5]] * 40 + [[5, 5]] * 4)), out=tmp_path / "out", seed=1)
    assert "warning: phase 128" in capsys.readouterr().err


def test_a_signal_leaves_nothing(real_tokens, tmp_path):
    signals.request(10)
    with pytest.raises(Stopped, match="building pairs") as caught:
        run(section(real_tokens), out=tmp_path / "out", seed=1)
    assert caught.value.exit_status == 138
    assert not list(tmp_path.iterdir())


def test_no_tokens_named():
    with pytest.raises(BertctlError, match=r"build_pairs\.tokens: not given"):
        run(BuildPairsSection(), out=None, seed=1)


@pytest.mark.parametrize(
    "values",
    [
        {"sequence_length": 7},
        {"sequence_length": 128, "phases": [{"name": "a", "sequence_length": 128}]},
        {"phases": [{"name": "a", "sequence_length": 8}, {"name": "a", "sequence_length": 16}]},
        {"phases": [{"name": "../a", "sequence_length": 8}]},
        {"second_segment": "next"},
        {"cross_documents": True},
        {"held_out_fraction": 0.6},
    ],
)
def test_sections_that_cannot_be_meant(values):
    with pytest.raises(ValidationError):
        section("tokens", **values)
