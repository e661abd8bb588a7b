"""The encoder: embeddings, a stack of blocks, and what comes out.

Shapes: B batch, T tokens, H heads, E hidden size, L layers.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertctl.encoder.block import Block
from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.convolution import Convolution
from bertctl.encoder.embeddings import Embeddings, StandIn
from bertctl.encoder.init import NothingDrawn, initialise
from bertctl.encoder.norms import build_norm
from bertctl.encoder.patches import PatchEmbeddings
from bertctl.encoder.patterns import Pattern, layer_patterns
from bertctl.encoder.positions import build_position
from bertctl.encoder.sharing import build_layers
from bertctl.encoder.unpadding import Packing, few_different, find_packing


@dataclass(frozen=True)
class EncoderOutput:
    """last_hidden_state [B, T, E]; if asked for: hidden_states, L + 1 of [B, T, E], number 0 the embedding output and
    number L equal to last_hidden_state; attentions, L of [B, H, T, T]. attention_mask [B, T] bool is the one given; at
    its padding all states are zeros."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    attention_mask: Tensor | None = None


class Encoder(nn.Module):
    """A bidirectional Transformer encoder made of the parts that its config names. If not `drawn`, its weights mean
    nothing until they are read from a file; drawing BERT-base's takes 7 s on one core."""

    def __init__(self, config: EncoderConfig, *, drawn: bool = True) -> None:
        super().__init__()
        with nullcontext() if drawn else NothingDrawn():
            self._build(config)
        if drawn:
            initialise(self, config)

    def _build(self, config: EncoderConfig) -> None:
        self.config = config
        self.position = build_position(config)
        self.embeddings: Any = PatchEmbeddings(config) if config.image_size else Embeddings(config)
        self.patterns = layer_patterns(config)
        self.layers = nn.ModuleList(build_layers(config, lambda n: Block(config, first=n == 0)))
        self.convolution = Convolution(config) if config.conv_kernel_size else None
        self.final_norm = build_norm(config, config.hidden_size) if config.norm_place == "pre" else None
        self.gradient_checkpointing = False

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        places: Tensor | None = None,
        stand_in: StandIn | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput:
        """Encode ids, or images if the config has an `image_size`.

        Shapes: input_ids, token_type_ids [B, T] int64, or in place of ids pixels [B, channels, height, width], whose
        tokens are the class token and the patches; attention_mask [B, T], true or 1 = real token, None = all real.
        `places` [N]: the only ones of the flattened [B * T] tokens whose last state is wanted, none of them twice; the
        others' are then zeros, and what only they need is not computed (all are, if more states or attentions are asked
        for). `stand_in`: embeddings to be hidden. Errors: ValueError if there are more tokens than positions.
        """
        key_mask = None if attention_mask is None else attention_mask.bool()
        hidden = self.embeddings(input_ids, token_type_ids, self.position, stand_in)
        shape, packing = hidden.shape, None
        if self.convolution is None and not output_attentions:  # these two are of whole rows
            packing = find_packing(key_mask, self.config.num_attention_heads)
        if packing is not None:
            hidden = packing.pack(hidden)
        states: list[Tensor] = [hidden]
        attentions: list[Tensor | None] = []
        if output_hidden_states or output_attentions or (self.convolution is not None and len(self.layers) == 1):
            places = None
        for number, (layer, pattern) in enumerate(zip(self.layers, self.patterns, strict=True), start=1):
            wanted = places if number == len(self.layers) else None
            hidden, weights = self._run(layer, hidden, key_mask, pattern, output_attentions, wanted, packing)
            if self.convolution is not None and not attentions:
                hidden = self.convolution(states[0], hidden, key_mask)
            states.append(hidden)
            attentions.append(weights)
        if self.final_norm is not None:
            states[-1] = self.final_norm(hidden)
        if places is not None:
            states = [spread(states[-1], places, shape)]
        elif packing is not None:
            states = [packing.unpack(state) for state in (states if output_hidden_states else states[-1:])]
        if key_mask is not None:
            states = [state.masked_fill(~key_mask.unsqueeze(-1), 0.0) for state in states]
        return EncoderOutput(
            last_hidden_state=states[-1],
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(w for w in attentions if w is not None) if output_attentions else None,
            attention_mask=key_mask,
        )

    def tokens_of(self, inputs: Tensor) -> int:
        """T for what `forward` reads: ids [B, T], or pixels [B, C, height, width], their patches and a class token."""
        if inputs.ndim == 2:
            return inputs.shape[1]
        side = self.config.patch_size
        return 1 + (inputs.shape[2] // side) * (inputs.shape[3] // side)

    def _run(
        self,
        layer: nn.Module,
        hidden: Tensor,
        key_mask: Tensor | None,
        pattern: Pattern,
        want_weights: bool,
        places: Tensor | None,
        packing: Packing | None,
    ) -> tuple[Tensor, Tensor | None]:
        """One layer; under gradient checkpointing its inside is computed again in the backward pass, not kept."""
        rows = places if places is None or packing is None else packing.rows_of(places)
        rows = rows if rows is None else few_different(rows)
        given = (hidden, key_mask, self.position, pattern, want_weights, rows, packing)
        if self.gradient_checkpointing and self.training:
            hidden, weights = checkpoint(layer, *given, use_reentrant=False)
        else:
            hidden, weights = layer(*given)
        return hidden if places is None else hidden[: len(places)], weights


def spread(rows: Tensor, places: Tensor, shape: Sequence[int]) -> Tensor:
    """[B, T, E], which is `shape`: `rows` [N, E] at `places` [N] of the flattened tokens, zeros elsewhere."""
    return rows.new_zeros(shape).flatten(0, 1).index_copy(0, places, rows).view(shape)
