"""Lines in, one JSON object a line out, in order and in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

from bertctl import signals
from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import warn
from bertctl.encoder.config import Pooling
from bertctl.errors import BertctlError, raise_problems
from bertctl.evaluate.answers import Answer, Answerer, Embeddings, MaskedTokens, TaskLabels
from bertctl.evaluate.config import MASKED_LM
from bertctl.evaluate.inputs import InputFormat, Record, read_records
from bertctl.evaluate.task import labels_for, limits_for, settings_of, task_of
from bertctl.heads.pooling import POOLINGS
from bertctl.tasks.config import DataSection
from bertctl.tasks.preprocessing import preprocessor
from bertctl.tasks.table import TASKS
from bertctl.training import runtime as runtimes
from bertctl.variants.config import unknown
from bertctl.variants.hf import Loaded, load_model

BATCHES_AT_ONCE = 16  # sorted by length together, so that little is computed for padding

EMBEDDING = "embedding"
Output = Literal["auto", "labels", "masks", "embeddings"]


def predict(
    model: str | Path,
    source: Iterable[str],
    *,
    task: str | None = None,
    output: Output = "auto",
    top_k: int = 5,
    pooling: str | None = None,
    normalize: bool | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
    long_text: Literal["cut", "refuse", "windows"] | None = None,
    format: InputFormat = "auto",  # noqa: A002
    precision: str = "float32",
    where: str = "<stdin>",
) -> Iterator[dict[str, Any]]:
    """One object for each line of `source`, in order, whatever the batch size.

    `output` masks: {"masks": [[{"token", "probability"} x top_k] for each [MASK]]}; labels: the predictions of the
    checkpoint's task; embeddings: {"embedding": [...]}, pooled over the real tokens, in the way of the checkpoint where
    `pooling` and `normalize` are not given, else the mean as it is; auto: what the checkpoint has a head for,
    embeddings if it has none. A text longer than `max_length` is cut, its object says so by `truncated`,
    `pieces` and `pieces_kept`, and the number of such texts is warned of at the end; or it is refused, or read in
    windows (labels of whole texts), by default as the checkpoint was fine-tuned.
    Errors: BertctlError before anything is read if the checkpoint cannot do what is asked.
    """
    folder = resolve_model(model)
    loaded = load_model(folder)
    tokenizer = preprocessor(folder, loaded.model.config)
    output = decided(loaded, folder, task, output)
    refuse_unused(output, pooling, normalize)
    if output == "embeddings":
        loaded = embedder(loaded, folder, pooling)
    with runtimes.start(precision) as runtime:
        loaded.model.to(runtime.device).eval()
        limits = limits_for(max_length, DataSection(long_text=long_text), loaded, key="max_length")
        make = choose(loaded, folder, task, output, top_k=top_k, normalize=normalize)
        answerer = make(loaded.model, tokenizer, limits, batch_size, runtime)
        yield from answers(answerer, read_records(source, where=where, format=format), long_text)


def decided(loaded: Loaded, folder: Path, task: str | None, output: Output) -> Output:
    """What is given if it is not said: what the checkpoint has a head for. Errors: BertctlError for an unknown task."""
    if task is not None and task not in (*TASKS, MASKED_LM):
        raise BertctlError(unknown("task", task, (*TASKS, MASKED_LM)))
    if output == "auto":
        bare = not loaded.model.head_outputs.keys() - {"sentence_pair"}
        name = task or (None if bare else task_of(loaded, folder))
        vectors = name is None or (name in TASKS and TASKS[name].vectors)
        output = "embeddings" if vectors else "masks" if name == MASKED_LM else "labels"
    if loaded.model.config.image_size and output != "labels":
        raise BertctlError(
            f"{folder}: reads images, for which labels can be predicted, not {output}",
            hint=f"bertctl finetune --task image_classification --model {folder} --data FOLDER",
        )
    return output


def refuse_unused(output: Output, pooling: str | None, normalize: bool | None) -> None:
    """Errors: BertctlError for an option of embeddings where something else is given."""
    for option, value in (("pooling", pooling), ("normalize", normalize)):
        if value is not None and output != "embeddings":
            raise BertctlError(
                f"{option}: belongs to embeddings, and {output} are asked for", hint="--output embeddings gives them"
            )


def embedder(loaded: Loaded, folder: Path, pooling: str | None) -> Loaded:
    """The checkpoint with a head for vectors of texts: its own, or one that only pools. Errors: BertctlError."""
    if pooling is not None and pooling not in POOLINGS:
        raise BertctlError(unknown("pooling", pooling, POOLINGS))
    if pooling is None and EMBEDDING in loaded.model.head_outputs:
        return loaded
    return load_model(folder, {EMBEDDING: 0}, pooling=cast("Pooling | None", pooling))


def choose(
    loaded: Loaded, folder: Path, task: str | None, output: Output, *, top_k: int, normalize: bool | None
) -> Callable[..., Answerer]:
    """What makes the answers. Errors: BertctlError if the checkpoint has no head for it, or for an unknown name."""
    heads = loaded.model.head_outputs
    if output == "embeddings":
        said = loaded.extra.get(EMBEDDING) or {}
        unit = bool(said.get("normalize", False)) if normalize is None else normalize
        return partial(Embeddings, normalize=unit, prefix=str(said.get("text_prefix") or ""))
    if output == "masks":
        if "masked_lm" not in heads:
            have = ", ".join(heads) or "none"
            raise BertctlError(
                f"{folder}: has no masked-LM head (heads: {have})", hint="--output embeddings needs none"
            )
        return partial(MaskedTokens, top_k=top_k)
    if output != "labels":
        raise BertctlError(unknown("output", output, ["auto", "labels", "masks", "embeddings"]))
    name = task or task_of(loaded, folder)
    if name not in TASKS:
        raise BertctlError(f"{folder}: was made for {name}, so it has no labels to give", hint="--output masks")
    labels = labels_for(TASKS[name], loaded, str(folder))
    said = settings_of(loaded)
    return partial(TaskLabels, task=TASKS[name], labels=labels, settings=said, noted=loaded.extra, source=str(folder))


def answers(answerer: Answerer, records: Iterator[Record], long_text: str | None) -> Iterator[dict[str, Any]]:
    """The answers to all records, some batches at a time."""
    cut = total = maskless = 0
    try:
        while group := list(islice(records, answerer.batch_size * BATCHES_AT_ONCE)):
            signals.check("predicting")
            made = answerer.answers(group)
            if long_text == "refuse":
                refuse_cut(group, made, answerer.limits.max_length)
            cut, total = cut + sum("truncated" in answer for answer in made), total + len(made)
            maskless += sum(answer.get("masks") == [] for answer in made)
            yield from map(with_id, group, made)
    finally:
        if maskless:
            mask = answerer.tokenizer.special["mask"]
            warn(f"{maskless:,} of {total:,} texts hold no {mask}, so nothing is said of them")
        if cut:
            longest = answerer.limits.max_length
            warn(f"truncated={cut} of {total:,} texts: longer than {longest} word pieces, they were cut")


def with_id(record: Record, answer: Answer) -> Answer:
    """An answer with the `id` of its object, if it has one, so that it can be found again."""
    name = record.value.get("id") if isinstance(record.value, dict) else None
    return answer if name is None else {"id": name, **answer}


def refuse_cut(records: Sequence[Record], made: Sequence[dict[str, Any]], max_length: int) -> None:
    """Raise BertctlError naming every text that was cut."""
    raise_problems(
        [
            f"{record.where}: got {answer['pieces']} word pieces, expected at most {answer['pieces_kept']} "
            f"(max_length {max_length})"
            for record, answer in zip(records, made, strict=True)
            if "truncated" in answer
        ],
        hint="without `--long-text refuse` such texts are cut",
    )
