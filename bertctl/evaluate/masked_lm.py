"""How well a checkpoint predicts masked tokens: on held-out pairs, or on any text.

The same seed always masks the same tokens, so that two checkpoints with one vocabulary can be compared.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertctl.artifacts.examples import Examples, phases
from bertctl.artifacts.manifest import read_manifest, tree_hash, verify
from bertctl.artifacts.shards import TokenShards
from bertctl.errors import BertctlError
from bertctl.evaluate.config import EvaluateSection
from bertctl.evaluate.masked_text import Scored, metrics_of, score_text
from bertctl.evaluate.score import comparison
from bertctl.evaluate.systems import Checkpoint
from bertctl.evaluate.task import longest_for
from bertctl.metrics.rows import mean_metric
from bertctl.pretrain.batches import ExampleReader, MaskedBatches
from bertctl.pretrain.data import make_masking, tokens_of
from bertctl.pretrain.held_out import score_rows
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.tasks.scores import summaries
from bertctl.text.tokenizer import Tokenizer
from bertctl.training.batching import evenly
from bertctl.training.runtime import Runtime


def score_masked_lm(
    section: EvaluateSection, checkpoints: Sequence[Checkpoint], *, seed: int, runtime: Runtime
) -> dict[str, Any]:
    """Loss (nats), perplexity and accuracy over masked tokens with intervals, and the unigram entropy of the text; of a
    second checkpoint the same under `against`, and both compared on the same masks.

    Errors: BertctlError if a checkpoint has no masked-LM head, or other pieces than the pairs were built with, or than
    the first checkpoint has.
    """
    for checkpoint in checkpoints:
        if "masked_lm" not in checkpoint.loaded.model.head_outputs:
            raise BertctlError(f"{checkpoint.name}: has no masked-LM head, so it cannot predict masked tokens")
        if checkpoint.tokenizer.hash != checkpoints[0].tokenizer.hash:
            raise BertctlError(
                f"{checkpoint.name}: has another vocabulary than {checkpoints[0].name}, so their losses do not compare",
                hint="score them one by one",
            )
    max_length = min(longest_for(section.max_length, checkpoint.loaded) for checkpoint in checkpoints)
    found = [score_one(section, checkpoint, max_length, seed=seed, runtime=runtime) for checkpoint in checkpoints]
    results = [
        {"model": c.name, **about, "metrics": summaries(metrics, samples=section.bootstrap_samples)}
        for c, (about, metrics) in zip(checkpoints, found, strict=True)
    ]
    if len(results) == 1:
        return results[0]
    return results[0] | {"against": results[1], "comparison": comparison(section, found[0][1], found[1][1])}


def score_one(
    section: EvaluateSection, checkpoint: Checkpoint, max_length: int, *, seed: int, runtime: Runtime
) -> Scored:
    """One checkpoint on pairs or on text. Shapes: every row of a metric is an example or a window of text."""
    objective, tokenizer = PretrainingObjective(checkpoint.loaded.model).eval(), checkpoint.tokenizer
    pairs = pairs_folder(section)
    if pairs is not None:
        return score_pairs(section, pairs, checkpoint.name, objective, tokenizer, seed=seed, runtime=runtime)
    return score_text(section, objective, tokenizer, max_length, seed, runtime)


def pairs_folder(section: EvaluateSection) -> Path | None:
    """The pairs to score, if the section means pairs and no text."""
    if not section.data.is_given():
        return section.pairs
    path = section.data.path
    if path is None or not (path / "manifest.json").is_file():
        return None
    return path if read_manifest(path).kind == "pairs" else None


def score_pairs(
    section: EvaluateSection,
    pairs: Path,
    name: str,
    objective: PretrainingObjective,
    tokenizer: Tokenizer,
    *,
    seed: int,
    runtime: Runtime,
) -> Scored:
    """The held-out part of the last phase: as pretraining scores it, with the same examples and masks."""
    reader = held_out_pairs(pairs, section.tokens or tokens_of(pairs), name, tokenizer)
    most = objective.model.config.max_position_embeddings
    if reader.longest > most:
        problem = f"{name}: reads {most} tokens, the longest example of {pairs} has {reader.longest}"
        raise BertctlError(problem, hint="score it on text, which is cut into windows that fit")
    batches = MaskedBatches(
        phases=[],
        batch_size=section.batch_size,
        micro_batch_size=None,
        masking=make_masking(section.masking, tokenizer),
        seed=seed,
        runtime=runtime,
    )
    ids = evenly(len(reader), section.held_out_examples)
    rows = score_rows(objective, reader, ids, batches, batch_size=section.batch_size)
    about, metrics = metrics_of(rows)
    if reader.has_pairs() and "sentence_pair" in objective.weights:
        metrics["sentence_pair_accuracy"] = mean_metric("sentence_pair_accuracy", rows[:, 3], "there are no pairs")
    return {"split": "held_out", **about}, metrics


def held_out_pairs(pairs: Path, tokens: Path | None, name: str, tokenizer: Tokenizer) -> ExampleReader:
    """The examples, for the checkpoint of this `name`. Errors: BertctlError if the folders do not belong together, or
    were made with another vocabulary."""
    if tokens is None:
        raise BertctlError(
            f"{pairs}: points into token shards, and `tokens` is not given", hint="--set evaluate.tokens=FOLDER"
        )
    manifest = verify(pairs, kind="pairs")
    if manifest.inputs.get("tokens") != tree_hash(tokens):
        raise BertctlError(f"{pairs}: built from other tokens than {tokens}")
    if Tokenizer.load(tokens).hash != tokenizer.hash:
        raise BertctlError(f"{name}: has another vocabulary than {tokens}", hint="score it on text")
    examples = Examples(pairs / f"examples-{phases(pairs)[-1]}-held_out.safetensors")
    return ExampleReader(TokenShards(tokens), examples, tokenizer)
