"""What a frozen encoder says of every input: computed once, kept on disk, and looked up from then on.

    out/states/<key>-<rank>of<ranks>/states.safetensors     float32 [N, E], memory-mapped

A head that reads every token needs a row a token, any other one row a text or an image, as pooled. The key is a hash of
the encoder, the inputs, the pooling and the arithmetic, so what was computed for something else is never taken. Inputs
are found by what is in them, ids or pixels: the same cache serves training and dev data in batches of any make-up.

Shapes: B batch, T tokens, E hidden size, N rows, C channels.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertctl import signals
from bertctl.artifacts.folder import environment_faults, whole_folder
from bertctl.artifacts.manifest import NAME as MANIFEST
from bertctl.artifacts.manifest import verify
from bertctl.artifacts.tensors import map_arrays, save_rows
from bertctl.console import note, warn
from bertctl.encoder.encoder import EncoderOutput
from bertctl.errors import Stopped
from bertctl.finetune.data import TaskData
from bertctl.heads.model import Model
from bertctl.heads.pooling import POOLINGS
from bertctl.heads.table import HEADS
from bertctl.tasks.batches import collate, token_counts
from bertctl.tasks.task import Features
from bertctl.training.batching import inputs_of
from bertctl.training.runtime import Runtime

KIND, FOLDER, FILE = "states", "states", "states.safetensors"


@dataclass(frozen=True)
class Place:
    """Where an input's rows are: `part` the rank that computed them."""

    part: int
    start: int
    rows: int


@dataclass(frozen=True)
class States:
    """Stands in for a frozen encoder, as `Model.recall`."""

    parts: Sequence[NDArray[np.float32]]
    places: dict[bytes, Place]
    per_token: bool
    tokens_of: Callable[[Tensor], int]
    """T of a batch of inputs."""

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> EncoderOutput | None:
        """Hidden states [B, T, E], zero at padding; for a head that reads whole inputs [B, 1, E], the text or image as
        pooled. None if one of the inputs is not here."""
        keys = keys_of(input_ids, attention_mask, token_type_ids)
        known = [None if key is None else self.places.get(key) for key in keys]
        if any(key is not None and place is None for key, place in zip(keys, known, strict=True)):
            return None
        width = self.tokens_of(input_ids) if self.per_token else 1
        hidden = np.zeros((len(keys), width, self.parts[0].shape[1]), dtype=np.float32)
        for row, place in enumerate(known):
            if place is not None:
                hidden[row, : place.rows] = self.parts[place.part][place.start : place.start + place.rows]
        mask = attention_mask if self.per_token and attention_mask is not None else None
        return EncoderOutput(torch.from_numpy(hidden).to(input_ids.device), attention_mask=mask)


def keys_of(inputs: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None) -> list[bytes | None]:
    """The name of each input of a batch, ids [B, T] or pixels [B, C, height, width]; None for one without a real token,
    as a rank without an example has it."""
    rows = inputs.cpu().numpy()
    lengths = [None] * len(rows) if attention_mask is None else attention_mask.sum(dim=1).tolist()
    if rows.ndim == 4:
        return [None if n == 0 else input_key(row) for row, n in zip(rows, lengths, strict=True)]
    segments = np.zeros_like(rows) if token_type_ids is None else token_type_ids.cpu().numpy()
    return [
        None if n == 0 else input_key(row[:n], other[:n]) for row, other, n in zip(rows, segments, lengths, strict=True)
    ]


def input_key(*arrays: NDArray[np.generic]) -> bytes:
    """A short name for an input: ids and segments, or pixels."""
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).digest()


def remember(model: Model, data: TaskData, out: Path, batch_size: int, runtime: Runtime) -> States | None:
    """The states of all training and dev inputs: those on disk below `out`, or computed now. None, with a warning, if
    the disk has no room for them. Errors: Stopped, EnvironmentFault."""
    per_token = HEADS[data.task.head].reads == "tokens" or model.config.pooling == "attention"
    named = different_inputs(data)
    order = sorted(named, key=lambda key: (-len(named[key].input_ids), key))
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
    tokens = dict(zip(named, token_counts(list(named.values()), model), strict=True))
    places, rows = lay_out(batches, tokens if per_token else dict.fromkeys(named, 1), runtime.world_size)
    folder = out / FOLDER / f"{states_key(model, order, per_token, runtime)}-{runtime.rank}of{runtime.world_size}"
    width = model.config.hidden_size
    if sum_over_ranks((folder / MANIFEST).exists(), runtime) < runtime.world_size:
        if not has_room(out, 4 * width * sum(rows), runtime):
            return None
        began = time.monotonic()
        parts = compute(model, batches, named, places, data.tokenizer.pad_id, per_token, runtime)
        with whole_folder(folder, kind=KIND, inputs=data.hashes, replace=True) as temp:
            save_rows(temp / FILE, "states", (rows[runtime.rank], width), parts)
        size = f"{4 * width * sum(rows) / 1e6:,.1f} MB"
        note(f"encoder outputs of {len(order):,} inputs kept: {size}, in {time.monotonic() - began:.1f} s")
    runtime.barrier()
    folders = [folder.with_name(f"{folder.name.split('-')[0]}-{r}of{runtime.world_size}") for r in range(len(rows))]
    for part in folders:
        verify(part, kind=KIND)
    return States([map_arrays(part / FILE)["states"] for part in folders], places, per_token, model.encoder.tokens_of)


def different_inputs(data: TaskData) -> dict[bytes, Features]:
    """The different inputs of train and dev by name; every image is read once for that. Errors: Stopped."""
    named = {}
    for feature in [*data.train, *(feature for chunk in data.dev for feature in chunk.features)]:
        signals.check("looking at the inputs of the encoder")
        named[feature_key(feature)] = feature
    return named


def feature_key(feature: Features) -> bytes:
    """The name that `keys_of` gives the input of a batch."""
    if feature.pixels is not None:
        return input_key(feature.pixels())
    return input_key(*(np.array(ids, dtype=np.int64) for ids in (feature.input_ids, feature.token_type_ids)))


def lay_out(
    batches: Sequence[Sequence[bytes]], sizes: Mapping[bytes, int], ranks: int
) -> tuple[dict[bytes, Place], list[int]]:
    """(where every input's rows are, rows of each rank): ranks take turns with the batches."""
    places, rows = {}, [0] * ranks
    for number, batch in enumerate(batches):
        for key in batch:
            places[key] = Place(number % ranks, rows[number % ranks], sizes[key])
            rows[number % ranks] += sizes[key]
    return places, rows


def states_key(model: Model, order: Sequence[bytes], per_token: bool, runtime: Runtime) -> str:
    """Hash of everything that the states depend on."""
    pooling = "tokens" if per_token else model.config.pooling
    facts = [asdict(model.config), pooling, str(runtime.dtype), runtime.device.type, torch.__version__]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, tensor in sorted(model.encoder.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    for key in order:
        digest.update(key)
    return digest.hexdigest()[:16]


def sum_over_ranks(number: int, runtime: Runtime) -> int:
    """Sum of a number of each rank, on every rank."""
    return int(runtime.sum(torch.tensor(number, dtype=torch.int64, device=runtime.device)))


def has_room(out: Path, size: int, runtime: Runtime) -> bool:
    """Whether `size` bytes can be written below `out` and a tenth as many are left; rank 0 decides."""
    free = shutil.disk_usage(out).free
    enough = sum_over_ranks(runtime.rank == 0 and free > 1.1 * size, runtime) > 0
    if not enough:
        warn(f"encoder outputs are computed again every epoch: they take {size:,} bytes, {out} has {free:,} free")
    return enough


def compute(
    model: Model,
    batches: Sequence[Sequence[bytes]],
    named: dict[bytes, Features],
    places: Mapping[bytes, Place],
    pad_id: int,
    per_token: bool,
    runtime: Runtime,
) -> Iterator[NDArray[np.float32]]:
    """This rank's rows, batch by batch. Errors: Stopped."""
    model.eval()
    for turn in range(0, len(batches), runtime.world_size):
        if number := runtime.agree_on_signal():
            raise Stopped(number, "stopped while computing encoder outputs")
        for keys in batches[turn + runtime.rank : turn + runtime.rank + 1]:
            batch = collate([named[key] for key in keys], model, pad_id)
            batch = {name: tensor.to(runtime.device) for name, tensor in batch.items()}
            with torch.inference_mode(), runtime.autocast():
                output = model(inputs_of(batch), batch.get("attention_mask"), batch.get("token_type_ids"))
                hidden = output.last_hidden_state
                if per_token:
                    rows = torch.cat([hidden[row, : places[key].rows] for row, key in enumerate(keys)])
                else:
                    rows = POOLINGS[model.config.pooling](hidden, output.attention_mask)
            yield rows.float().cpu().numpy()


def forget(out: Path) -> None:
    """Remove what was kept."""
    with environment_faults(out):
        shutil.rmtree(out / FOLDER, ignore_errors=True)
