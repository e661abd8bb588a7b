"""What a model is and needs, without building its weights: shapes, parameters, arithmetic, memory of a training step.

Nothing is estimated by a formula of its own: a step is traced with tensors that have shapes and no data, and what it
multiplies and what it keeps for the backward pass is counted, so every part and every variant is covered.
Shapes: B batch, T tokens.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.init import Draw, fresh_values
from bertctl.heads.model import Model
from bertctl.heads.table import HEADS
from bertctl.variants.hf import written_as

Precision = Literal["float32", "bf16"]
MASKED_SHARE = 0.15  # of the tokens, which alone go through the masked-LM head; BERT's
ADAMW_BYTES = 16  # a parameter: float32 weight, gradient and two moments


@dataclass(frozen=True)
class Description:
    """`model_type`: what it is saved as; `tensors`: (name, shape) of every parameter; `initial` what a fresh one gets;
    `parameters` by part; `flops_per_token` of a forward pass (a product of [m, k] and [k, n] is 2 m k n); `bytes` of
    one training step by what they hold."""

    config: EncoderConfig
    heads: dict[str, int]
    model_type: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    initial: dict[str, str]
    parameters: dict[str, int]
    batch_size: int
    tokens: int
    precision: Precision
    flops_per_token: float
    bytes: dict[str, int]

    @property
    def training_flops_per_token(self) -> float:
        """A backward pass multiplies twice as much as a forward pass: arXiv:2001.08361, section 2.1."""
        return 3 * self.flops_per_token


def describe(
    config: EncoderConfig,
    heads: Mapping[str, int],
    *,
    batch_size: int = 32,
    tokens: int = 128,
    precision: Precision = "float32",
    gradient_checkpointing: bool = False,
) -> Description:
    """Trace one forward pass of [batch_size, tokens] in training mode. Errors: ValueError if tokens do not fit."""
    flops, kept = FlopCounterMode(display=False, custom_mapping=UNCOUNTED), Kept()
    with torch.device("meta"):
        model = Model(config, heads)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = model.to_empty(device="cpu").train()
        model.encoder.gradient_checkpointing = gradient_checkpointing
        lower = nullcontext() if precision == "float32" else torch.autocast("cpu", torch.bfloat16)
        own = {p.untyped_storage()._cdata for p in model.parameters()}
        with lower, saved_tensors_hooks(kept.pack, kept.unpack):
            trace(model, batch_size, tokens)
        with torch.no_grad(), flops:  # with gradients the loss of the vocabulary multiplies for them at once
            trace(model, batch_size, tokens)
        sizes = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
        count = sum(p.numel() for p in model.parameters())
        initial = fresh(model)
    return Description(
        config=config,
        heads=dict(heads),
        model_type=written_as(model),
        tensors=tuple(sizes),
        initial=initial,
        parameters=by_part(sizes),
        batch_size=batch_size,
        tokens=tokens,
        precision=precision,
        flops_per_token=flops.get_total_flops() / (batch_size * tokens),
        bytes={"weights, gradients, AdamW": ADAMW_BYTES * count, "activations": kept.bytes(own)},
    )


def attention_flops(q: torch.Size, k: torch.Size, v: torch.Size, *other: object, **named: object) -> int:
    """[B, H, T, D] three times -> what both products multiply."""
    batch, heads, queries, size = q
    return 2 * batch * heads * queries * k[2] * (size + v[3])


# torch counts fused attention on a GPU, but not the processor's own, which is taken where there is no dropout
UNCOUNTED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops}


def trace(model: Model, batch_size: int, tokens: int) -> list[Tensor]:
    """A loss of every head, for a batch without padding; of masked tokens at the usual share of places."""
    if model.config.image_size:
        return trace_images(model, batch_size)
    ids = torch.zeros(batch_size, tokens, dtype=torch.long)
    masked = torch.arange(max(1, round(MASKED_SHARE * batch_size * tokens)))
    output = model(ids, None, torch.zeros_like(ids), places=model.places_read(ids, masked))
    return [
        model.masked_loss(output, masked, torch.zeros_like(masked))
        if HEADS[head].reads == "masked"
        else model.logits(head, output).float().log_softmax(dim=-1)
        for head in model.head_outputs
    ]


def trace_images(model: Model, batch_size: int) -> list[Tensor]:
    """The same for images of the encoder's own size."""
    config = model.config
    pixels = torch.zeros(batch_size, config.num_channels, config.image_size, config.image_size)
    if not model.head_outputs:
        return [model(pixels).last_hidden_state]
    hidden = torch.ones(batch_size, config.num_patches, dtype=torch.bool)
    return [
        (model.masked_pixels(pixels, hidden).float() - pixels).abs()
        if HEADS[head].reads == "patches"
        else model.logits(head, model(pixels)).float().log_softmax(dim=-1)
        for head in model.head_outputs
    ]


class Kept:
    """The storages that autograd keeps for the backward pass, each counted once."""

    def __init__(self) -> None:
        self.storages: dict[int, Any] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self.storages[storage._cdata] = storage
        return tensor

    def unpack(self, tensor: Tensor) -> Tensor:
        return tensor

    def bytes(self, without: set[int]) -> int:
        """Their size, those of `without` (the weights) left out."""
        return sum(storage.nbytes() for key, storage in self.storages.items() if key not in without)


def fresh(model: Model) -> dict[str, str]:
    """What every parameter starts with: `normal, std 0.02` before it is cut at two deviations, or a number."""
    parts = {"encoder": model.encoder, "pooler": model.pooler, "heads": model.heads, "mask_decoder": model.mask_decoder}
    return {
        f"{room}.{name}": str(value) if isinstance(value, Draw) else f"{value:g}"
        for room, part in parts.items()
        if part is not None
        for name, _, value in fresh_values(part, model.config)
    }


def by_part(sizes: list[tuple[str, tuple[int, ...]]]) -> dict[str, int]:
    """Parameters of the embeddings (positions among them), the layers, and each head with its pooler."""
    parts: dict[str, int] = {}
    for name, shape in sizes:
        room, part = name.split(".")[:2]
        if room == "encoder":
            part = "embeddings" if part in ("embeddings", "position") else "layers"
        else:
            part = f"head {part}" if room == "heads" else room
        parts[part] = parts.get(part, 0) + torch.Size(shape).numel()
    return parts
