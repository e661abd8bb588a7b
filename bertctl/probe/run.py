"""Stage 7: what each layer of a checkpoint knows. Read it from top to bottom."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.artifacts.folder import whole_folder
from bertctl.artifacts.manifest import is_kind
from bertctl.console import Progress, note
from bertctl.errors import BertctlError
from bertctl.probe.attention import head_attention
from bertctl.probe.config import ProbeSection
from bertctl.probe.extract import States, extract, layers_of
from bertctl.probe.report import show, summarise, tell
from bertctl.probe.result import SPLITS, HeadAttention, Layer
from bertctl.probe.table import PROBES
from bertctl.probe.words import Words, read_words
from bertctl.tasks.lengths import longest_input
from bertctl.tasks.preprocessing import preprocessor, refuse_other_inputs
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Splits, Task
from bertctl.training import runtime as runtimes
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import Loaded, load_model

KIND = "probe"
MEGABYTE = 1_000_000


def run(section: ProbeSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Probe the section's model and write result.json into `out`.

    An older probe in `out` is replaced; nothing is kept of one that was stopped, so `resume` starts over.
    Errors: BertctlError before the model runs, for a layer that it does not have, for data that cannot be read.
    """
    began = time.monotonic()
    if runtimes.place()[1] > 1:
        raise BertctlError("probe: started as one of several ranks, but it runs in one process; leave out torchrun")
    task = TASKS[section.task]
    loaded, tokenizer = open_model(section, task)
    config = loaded.model.config
    layers = layers_of(section.layers, config.num_hidden_layers)
    max_length = longest_input(section.max_length, config.max_position_embeddings, key="probe.max_length")
    splits = training_data(task, section.data, seed=seed)
    labels = task.labels(splits.train)
    scored = tell(task, splits)
    words = words_of(section, splits, tokenizer, labels, scored=scored, max_length=max_length, seed=seed)
    with (
        runtimes.start(section.precision) as runtime,
        whole_folder(out, kind=KIND, inputs={"vocabulary": tokenizer.hash}, replace=is_kind(out, KIND)) as temp,
    ):
        loaded.model.to(runtime.device).eval()
        with tempfile.TemporaryDirectory(dir=temp) as scratch:
            states = states_of(section, loaded, words, layers, Path(scratch), tokenizer.pad_id, runtime)
            heads = attention_of(section, loaded, words["test"], tokenizer.pad_id, runtime)
            rows, details = probe_layers(section, layers, states, words, labels, heads, seed=seed)
        about = {"task": section.task, "model": section.model, "split": scored, "max_length": max_length}
        summary = summarise(section, words, labels, rows, details)
        result = {**about, **summary, "seconds": round(time.monotonic() - began, 2)}
        text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        (temp / "result.json").write_text(text, encoding="utf-8")
    show(result)
    return result


def open_model(section: ProbeSection, task: Task) -> tuple[Loaded, Any]:
    """The model, and what makes its inputs. Errors: BertctlError if the section asks of it what it cannot."""
    if section.model is None:
        raise BertctlError("probe.model: not given", hint="bertctl probe MODEL --task pos --data PATH")
    if task.head == "token" and section.pooling != "mean":
        raise BertctlError(f"probe.pooling: got {section.pooling}, but {task.name} is about words; leave it out")
    source = resolve_model(section.model)
    loaded = load_model(source)
    refuse_other_inputs(task, loaded.model.config, section.model)
    return loaded, preprocessor(source, loaded.model.config)


def words_of(
    section: ProbeSection, splits: Splits, tokenizer: Any, labels: list[str], *, scored: str, max_length: int,
    seed: int,
) -> dict[str, Words]:  # fmt: skip
    """What is probed of each split; `test` is the split that is scored."""
    examples = {"train": splits.train, "dev": splits.dev, "test": getattr(splits, scored)}
    most = {"train": section.train_words, "dev": section.test_words, "test": section.test_words}
    return {
        split: read_words(
            TASKS[section.task],
            examples[split],
            tokenizer,
            labels,
            data=section.data,
            max_length=max_length,
            most=most[split],
            seed=seed,
        )
        for split in SPLITS
    }


def states_of(
    section: ProbeSection, loaded: Loaded, words: dict[str, Words], layers: list[int], folder: Path, pad_id: int,
    runtime: Runtime,
) -> dict[str, States]:  # fmt: skip
    """The states of each split, [layers, rows, hidden size]; in files if all of them are too much for memory."""
    rows = sum(len(part) for part in words.values())
    total = rows * len(layers) * loaded.model.config.hidden_size * np.dtype(np.float32).itemsize
    in_memory = total <= section.memory_megabytes * MEGABYTE
    if not in_memory:
        note(f"the states take {total / 1e9:.1f} GB and are kept in a file for the time being")
    return {
        split: extract(
            loaded.model,
            part,
            layers,
            file=None if in_memory else folder / f"{split}.npy",
            pad_id=pad_id,
            batch_size=section.batch_size,
            runtime=runtime,
            label=f"states of {split}",
            pooling=section.pooling,
        )
        for split, part in words.items()
    }


def attention_of(
    section: ProbeSection, loaded: Loaded, words: Words, pad_id: int, runtime: Runtime
) -> list[HeadAttention]:
    """How the heads of every block attend on the words that are scored."""
    return head_attention(
        loaded.model,
        words.features,
        tokens=section.attention_tokens,
        pad_id=pad_id,
        batch_size=section.batch_size,
        runtime=runtime,
    )


def probe_layers(
    section: ProbeSection, layers: list[int], states: dict[str, States], words: dict[str, Words], labels: list[str],
    heads: list[HeadAttention], *, seed: int,
) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:  # fmt: skip
    """Every probe of the table on every layer: a row of numbers a layer, and the lists of what the probes say more."""
    rows: list[dict[str, Any]] = []
    details: dict[str, list[Any]] = {}
    with Progress(f"probe {section.task}", "layers", len(layers)) as progress:
        for place, number in enumerate(layers):
            layer = Layer(
                number=number,
                states={split: part[place] for split, part in states.items()},
                words=words,
                labels=labels,
                attention=heads[number - 1] if number else None,
                section=section,
                seed=seed,
            )
            row: dict[str, Any] = {"layer": number}
            for probe in PROBES.values():
                found = probe(layer, row)
                row |= found.values
                for name, item in found.details.items():
                    details.setdefault(name, []).append(item)
            rows.append(row)
            progress.update(place + 1, f"layer {number}: accuracy {row['accuracy']:.3f}")
    return rows, details
