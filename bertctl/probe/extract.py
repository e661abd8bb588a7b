"""The states of every asked layer, computed once and then only read.

Shapes: K asked layers, N rows (words, texts or images), B batch, T tokens, E hidden size.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertctl import signals
from bertctl.artifacts.folder import environment_faults
from bertctl.console import Progress
from bertctl.encoder.encoder import EncoderOutput
from bertctl.errors import raise_problems
from bertctl.heads.model import Model
from bertctl.heads.pooling import POOLINGS
from bertctl.probe.config import Pooled
from bertctl.probe.words import Words
from bertctl.tasks.batches import collate
from bertctl.tasks.task import Features
from bertctl.training.batching import Batch, inputs_of
from bertctl.training.runtime import Runtime

States = NDArray[np.float32]


def layers_of(asked: Literal["all"] | Sequence[int], depth: int) -> list[int]:
    """The layers to probe, each once, in order, of an encoder with `depth` blocks, which has `depth` + 1 layers.

    Errors: BertctlError naming the layers that there are.
    """
    if asked == "all":
        return list(range(depth + 1))
    there = f"0 (the output of the embeddings) to {depth} (that of the last block)"
    raise_problems([f"probe.layers: got {n}, expected {there}" for n in asked if not 0 <= int(n) <= depth])
    return sorted({int(layer) for layer in asked})


def extract(
    model: Model, words: Words, layers: Sequence[int], *, file: Path | None, pad_id: int, batch_size: int,
    runtime: Runtime, label: str, pooling: Pooled = "mean",
) -> States:  # fmt: skip
    """States [K, N, E]: a word's are those of its first piece, a text's or an image's as `pooling` gives them.

    They lie in `file` (.npy, mapped into memory) if one is given, else in memory. Errors: Stopped, EnvironmentFault.
    """
    shape = (len(layers), len(words), model.config.hidden_size)
    states = np.empty(shape, np.float32) if file is None else _mapped(file, shape)
    done = 0
    with Progress(label, "states", len(words)) as progress:
        for ids in batches_of(words.features, batch_size):
            signals.check("reading the model's states")
            batch = collate([words.features[i] for i in ids], model, pad_id)
            output = forward(model, batch, runtime, output_hidden_states=True)
            assert output.hidden_states is not None  # asked for
            for k, layer in enumerate(layers):
                hidden = output.hidden_states[layer].float()
                wholes = POOLINGS[pooling](hidden, output.attention_mask).cpu().numpy()
                hidden = hidden.cpu()
                for row, i in enumerate(ids):
                    rows, positions = words.places[i]
                    states[k, rows] = wholes[row] if positions is None else hidden[row, positions].numpy()
            done += sum(len(words.places[i][0]) for i in ids)
            progress.update(done)
    return states


def _mapped(file: Path, shape: tuple[int, ...]) -> States:
    with environment_faults(file):
        mapped: States = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        return mapped


def batches_of(features: Sequence[Features], batch_size: int) -> Iterator[list[int]]:
    """Numbers of the features, those of like length together, the longest first."""
    order = sorted(range(len(features)), key=lambda i: -len(features[i].input_ids))
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]


def forward(
    model: Model, batch: Batch, runtime: Runtime, *, output_hidden_states: bool = False, output_attentions: bool = False
) -> EncoderOutput:
    """One pass of the encoder without gradients."""
    moved = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
    with torch.inference_mode(), runtime.autocast():
        output: EncoderOutput = model(
            inputs_of(moved),
            moved.get("attention_mask"),
            moved.get("token_type_ids"),
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
    return output


def real_tokens(output: EncoderOutput) -> Tensor:
    """[B, T] true where there is a token and no padding."""
    states, mask = output.last_hidden_state, output.attention_mask
    return torch.ones(states.shape[:2], dtype=torch.bool) if mask is None else mask.cpu()
