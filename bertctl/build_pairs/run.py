"""The stage `build-pairs`: token shards in, index records of training examples out. No token is copied."""

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from bertctl import console
from bertctl.artifacts.examples import KIND, write_examples
from bertctl.artifacts.folder import lock, whole_folder
from bertctl.artifacts.manifest import tree_hash
from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs import audit
from bertctl.build_pairs.config import BuildPairsSection, LengthSection
from bertctl.build_pairs.full_sentences import full_sentences
from bertctl.build_pairs.layout import Layout
from bertctl.build_pairs.next_sentence import next_sentence_pairs, require_pairs
from bertctl.build_pairs.records import Records, concatenate, truncate
from bertctl.build_pairs.sentence_order import sentence_order_pairs
from bertctl.build_pairs.split import hold_out
from bertctl.errors import BertctlError
from bertctl.text.tokenizer import Tokenizer

SPLITS = ("train", "held_out")
MOST_SKEW = 0.05  # a label share this far from a half is worth a warning


def run(section: BuildPairsSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Write the folder `out`: one file of examples for each phase and split, and result.json with the audit.

    Every phase and split is a pure function of (section, tokens, seed). Nothing is kept of a run that was stopped, so
    `resume` starts over. Errors: BertctlError if the tokens cannot give what is asked for.
    """
    started = time.monotonic()
    if section.tokens is None:
        raise BertctlError("build_pairs.tokens: not given", hint="name the folder that `bertctl tokenize` wrote")
    shards, tokenizer = TokenShards(section.tokens), Tokenizer.load(section.tokens)
    layout = Layout.of(shards)
    pairs = section.second_segment == "next_sentence"
    if pairs:
        require_pairs(layout.sentences(), str(section.tokens))
    documents = hold_out(layout.sentences(), section.held_out_fraction, seed=seed, pairs=pairs)
    if section.held_out_fraction and not len(documents[1]):
        console.warn(
            f"{layout.num_documents} documents are too few to hold any out; training cannot be evaluated on them"
        )
    facts: dict[str, Any] = {"phases": [phase.name for phase in section.lengths()]}
    inputs = {"tokens": tree_hash(section.tokens)}
    with lock(out), whole_folder(out, kind=KIND, inputs=inputs, facts=facts) as temp:
        phases = {
            phase.name: _write_phase(section, phase, layout, shards, tokenizer, documents, seed, temp)
            for phase in section.lengths()
        }
        facts |= {
            "second_segment": section.second_segment,
            "documents": dict(zip(SPLITS, map(len, documents), strict=True)),
        }
        # where the tokens lie as seen from here: readers need them, and check their hash against the manifest
        tokens_folder = os.path.relpath(section.tokens, out)
        result = {**facts, "phases": phases, "tokens_folder": tokens_folder, "seconds": time.monotonic() - started}
        (temp / "result.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    return result


def _write_phase(
    section: BuildPairsSection,
    phase: LengthSection,
    layout: Layout,
    shards: TokenShards,
    tokenizer: Tokenizer,
    documents: tuple[np.ndarray, np.ndarray],
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """Build, write and audit the examples of one length; returns the audit."""
    facts: dict[str, Any] = {"sequence_length": phase.sequence_length}
    longest = most_text(section, phase, tokenizer)
    fitting = layout.cut_long(longest, shards)
    for split, numbers in zip(SPLITS, documents, strict=True):
        passes = section.duplicates if split == "train" else 1
        records = concatenate(
            [
                _build(section, longest, fitting, shards, numbers, f"{seed}/{phase.name}/{split}/{i}")
                for i in range(passes)
            ]
        )
        columns = records.columns(fitting)
        write_examples(folder / f"examples-{phase.name}-{split}.safetensors", columns)
        facts[split] = audit.describe(
            records, tokenizer, second_segment=section.second_segment, sequence_length=phase.sequence_length
        )
        audit.show(phase.name, split, facts[split])
        if split == "train":
            _require_examples(records, phase)
            _warn_if_skewed(records, phase)
            facts["masking"] = audit.masking(columns, shards, tokenizer, seed=seed)
            audit.show_masking(facts["masking"])
    return facts


def most_text(section: BuildPairsSection, phase: LengthSection, tokenizer: Tokenizer) -> int:
    """Tokens of text in an example: what the special tokens leave."""
    return phase.sequence_length - tokenizer.special_count(1 if section.second_segment == "none" else 2)


def _build(
    section: BuildPairsSection,
    longest: int,
    layout: Layout,
    shards: TokenShards,
    documents: np.ndarray,
    key: str,
) -> Records:
    """One pass over `documents`, `longest` tokens of text an example; `key` seeds everything that is drawn."""
    rng = random.Random(key)
    short = section.short_sequence_probability
    if section.second_segment == "none":
        return full_sentences(layout, documents, longest=longest, cross_documents=section.cross_documents)
    if section.second_segment == "next_sentence":
        records = next_sentence_pairs(layout, documents, longest=longest, short_probability=short, rng=rng)
    else:
        records = sentence_order_pairs(layout, documents, shards, longest=longest, short_probability=short, rng=rng)
    return truncate(records, longest, layout, shards, np.random.default_rng(rng.getrandbits(128)))


def _require_examples(records: Records, phase: LengthSection) -> None:
    if not len(records):
        raise BertctlError(f"phase {phase.name}: the tokens give no example: every document is a single word")


def _warn_if_skewed(records: Records, phase: LengthSection) -> None:
    share = float((records.label == 1).mean())
    if records.label[0] >= 0 and abs(share - 0.5) > MOST_SKEW:
        console.warn(
            f"phase {phase.name}: {share:.1%} of the pairs have label 1, expected about half; documents of one "
            "sentence can only be in random pairs (`sentence_order` and `none` have no such limit)"
        )
