"""What pretraining reads: pairs of every phase, the token shards they point into, and their held-out part."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bertctl.artifacts.examples import Examples, phases
from bertctl.artifacts.manifest import tree_hash, verify
from bertctl.artifacts.shards import TokenShards
from bertctl.errors import BertctlError
from bertctl.pretrain.batches import ExampleReader, MaskedBatches, Phase
from bertctl.pretrain.config import MaskingSection, PhaseSection
from bertctl.pretrain.masking import Masking, ordinary_ids
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.config import TrainingSection
from bertctl.training.runtime import Runtime


class ReadsPairs(Protocol):
    """What a section says about pretraining data; those of `pretrain` and `distill` do."""

    @property
    def pairs(self) -> Path | None: ...
    @property
    def tokens(self) -> Path | None: ...
    @property
    def phases(self) -> list[PhaseSection]: ...
    @property
    def masking(self) -> MaskingSection: ...
    @property
    def training(self) -> TrainingSection: ...


@dataclass(frozen=True)
class PretrainingData:
    """Readers by phase; `held_out` is the last phase's, so that its loss is comparable over the whole run."""

    tokenizer: Tokenizer
    shards: TokenShards
    train: dict[str, ExampleReader]
    held_out: ExampleReader
    hashes: dict[str, str]

    @property
    def longest(self) -> int:
        """Tokens of the longest example."""
        return max(reader.longest for reader in (*self.train.values(), self.held_out))


def open_data(section: ReadsPairs, stage: str = "pretrain") -> PretrainingData:
    """Open and verify the folders that the section of `stage` names.

    Errors: BertctlError if one is not named or was changed, or if the pairs were built from other tokens.
    """
    if section.pairs is None:
        raise BertctlError(f"{stage}.pairs: not given", hint=f"add `--set {stage}.pairs=FOLDER` or a workdir")
    manifest = verify(section.pairs, kind="pairs")
    tokens = section.tokens or tokens_of(section.pairs)
    if tokens is None:
        raise BertctlError(f"{stage}.tokens: not given", hint=f"add `--set {stage}.tokens=FOLDER` or a workdir")
    tokens_hash = tree_hash(tokens)
    if manifest.inputs.get("tokens") != tokens_hash:
        raise BertctlError(
            f"{section.pairs}: built from other tokens than {tokens}", hint="run `bertctl build-pairs` again"
        )
    shards, tokenizer = TokenShards(tokens), Tokenizer.load(tokens)
    there = phases(section.pairs)
    names = [phase.name for phase in section.phases] or there
    if missing := [f"{stage}.phases: got '{n}', expected one of {', '.join(there)}" for n in names if n not in there]:
        hint = f"build the pairs by this recipe's section build_pairs, or take those there are: --set {stage}.phases=[]"
        raise BertctlError(*(f"{section.pairs}: {problem}" for problem in missing), hint=hint)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BertctlError(f"{stage}.phases: got '{twice[0]}' twice, expected each phase once")
    train, held_out = open_splits(section.pairs, names, shards, tokenizer)
    hashes = {"pairs": tree_hash(section.pairs), "tokens": tokens_hash, "vocabulary": tokenizer.hash}
    return PretrainingData(tokenizer, shards, train, held_out[names[-1]], hashes)


def open_splits(
    pairs: Path, names: list[str], shards: TokenShards, tokenizer: Tokenizer
) -> tuple[dict[str, ExampleReader], dict[str, ExampleReader]]:
    """(train, held out), each a reader by phase. Errors: BertctlError naming every phase without examples."""
    train, held_out = (
        {
            name: ExampleReader(shards, Examples(pairs / f"examples-{name}-{split}.safetensors"), tokenizer)
            for name in names
        }
        for split in ("train", "held_out")
    )
    empty = [
        f"{pairs}: phase '{name}' has no {split} examples"
        for split, readers in (("train", train), ("held_out", held_out))
        for name, reader in readers.items()
        if not len(reader)
    ]
    if empty:
        raise BertctlError(*empty, hint="build pairs with a larger corpus or a larger held_out_fraction")
    return train, held_out


def tokens_of(pairs: Path) -> Path | None:
    """The token folder that build-pairs noted beside its examples, if it still is there."""
    try:
        noted = json.loads((pairs / "result.json").read_text(encoding="utf-8"))["tokens_folder"]
    except (OSError, ValueError, KeyError):
        return None
    return pairs / noted if (pairs / noted).is_dir() else None


def make_batches(
    section: ReadsPairs, data: PretrainingData, *, steps: int, seed: int, runtime: Runtime, sampled: bool = False
) -> MaskedBatches:
    """The micro-batches of every step. Errors: BertctlError if the batch does not divide among the ranks."""
    training = section.training
    if training.batch_size % runtime.world_size:
        raise BertctlError(f"training.batch_size {training.batch_size} is not a multiple of {runtime.world_size} ranks")
    return MaskedBatches(
        phases=plan_phases(section.phases, data.train, steps),
        batch_size=training.batch_size,
        micro_batch_size=training.micro_batch_size,
        masking=make_masking(section.masking, data.tokenizer),
        seed=seed,
        runtime=runtime,
        sampled=sampled,
    )


def make_masking(section: MaskingSection, tokenizer: Tokenizer) -> Masking:
    """The section's masking for a vocabulary."""
    values: dict[str, Any] = section.model_dump()
    return Masking(
        mask_id=tokenizer.mask_id, ordinary_ids=ordinary_ids(tokenizer.vocab_size, tokenizer.special_ids), **values
    )


def plan_phases(sections: list[PhaseSection], readers: dict[str, ExampleReader], steps: int) -> list[Phase]:
    """Which steps belong to which phase: rounded shares, equal ones if none are given; together exactly `steps`."""
    shares = [section.share for section in sections] or [1 / len(readers)] * len(readers)
    planned: list[Phase] = []
    first, total = 1, 0.0
    for reader, share in zip(readers.values(), shares, strict=True):
        total += share
        last = steps if len(planned) == len(readers) - 1 else round(total * steps)
        planned.append(Phase(first, last, reader))
        first = last + 1
    return planned
