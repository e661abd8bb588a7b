"""An encoder with its heads: what is trained, saved and loaded.

Shapes: B batch, T tokens, N masked positions, E hidden size, V vocabulary, C labels.
"""

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder, EncoderOutput
from bertctl.encoder.init import initialise
from bertctl.encoder.unpadding import few_different
from bertctl.heads.mask_decoder import MaskDecoder
from bertctl.heads.pooling import POOLINGS, build_pooler
from bertctl.heads.table import HEADS, MaskedLMHead

Recall = Callable[[Tensor, Tensor | None, Tensor | None], EncoderOutput | None]


class Model(nn.Module):
    """`heads` maps names of `HEADS` to their number of outputs (0: the vocabulary for masked_lm, the hidden size for
    embedding). The pooler is there when a head reads a whole text through a layer of the pooling's own, or when
    `pooler` asks for it (a bare encoder saved with one). Without `drawn`, only what comes after the encoder is."""

    def __init__(
        self, config: EncoderConfig, heads: Mapping[str, int], *, pooler: bool = False, drawn: bool = True
    ) -> None:
        super().__init__()
        self.config = config
        self.head_outputs = dict(heads)
        self.encoder = Encoder(config, drawn=drawn)
        reads = {HEADS[name].reads for name in heads}
        pooled = pooler or "pooled" in reads or (config.pooling == "attention" and "vector" in reads)
        self.pooler = build_pooler(config) if pooled else None
        self.heads = nn.ModuleDict(
            {name: HEADS[name].build(config, *([count] if count else [])) for name, count in heads.items()}
        )
        self.mask_decoder = MaskDecoder(config) if config.mask_decoder and "masked_lm" in heads else None
        for part in (self.pooler, self.heads, self.mask_decoder):
            if part is not None:
                initialise(part, config)
        self.recall: Recall | None = None
        """(input_ids, attention_mask, token_type_ids) -> what a frozen encoder gave before; None if unknown."""

    def train(self, mode: bool = True) -> Self:
        """As any module, but an encoder of which nothing is trained has no dropout: its outputs are always the same."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        places: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput:
        """The encoder's output, of the last layer only at `places` if given; `logits` and `masked_logits` read it."""
        if self.recall is not None and not (output_hidden_states or output_attentions):
            known = self.recall(input_ids, attention_mask, token_type_ids)
            if known is not None:
                return known
        return self.encoder(
            input_ids,
            attention_mask,
            token_type_ids,
            places=places,
            output_hidden_states=output_hidden_states or self.mask_decoder is not None,
            output_attentions=output_attentions,
        )

    def first_tokens(self, head: str, input_ids: Tensor) -> Tensor | None:
        """Places [B] of the first tokens (of images the class tokens) among the flattened ones, if `head` reads nothing
        else; else None."""
        if HEADS[head].reads not in ("pooled", "vector") or self.config.pooling != "cls":
            return None
        return torch.arange(len(input_ids), device=input_ids.device) * self.encoder.tokens_of(input_ids)

    def places_read(self, input_ids: Tensor, masked: Tensor) -> Tensor | None:
        """The places among the flattened tokens that this model's heads read, if `masked` [N] are to be predicted; None
        if one of them reads all."""
        others = [head for head in self.head_outputs if HEADS[head].reads != "masked"]
        firsts = [self.first_tokens(head, input_ids) for head in others]
        known = [first for first in firsts if first is not None][:1]  # once, for however many heads
        places = known if len(others) == len(self.head_outputs) else [masked, *known]
        return torch.cat(places) if places and all(first is not None for first in firsts) else None

    def read(
        self, head: str, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """`logits` of a batch for one head; of the last layer only what the head reads is computed."""
        places = self.first_tokens(head, input_ids)
        return self.logits(head, self(input_ids, attention_mask, token_type_ids, places=places))

    def logits(self, head: str, output: EncoderOutput) -> Tensor:
        """[B, C] for a head that reads whole texts or images, [B, T, C] for one that reads tokens."""
        hidden = output.last_hidden_state
        reads = HEADS[head].reads
        if reads != "tokens":
            dense_too = reads == "pooled" or self.config.pooling == "attention"
            pool = self.pooler if self.pooler is not None and dense_too else POOLINGS[self.config.pooling]
            hidden = pool(hidden, output.attention_mask)
        return self.heads[head](hidden)

    def outputs(self, head: str) -> int:
        """Number of a head's outputs."""
        whole = self.config.vocab_size if HEADS[head].reads == "masked" else self.config.hidden_size
        return self.head_outputs[head] or whole

    def masked_logits(self, output: EncoderOutput, positions: Tensor) -> Tensor:
        """Vocabulary logits [N, V] at `positions` [N], indices into the flattened [B * T] tokens."""
        return self.heads["masked_lm"](self._rows(output, positions), self.encoder.embeddings.word.weight)

    def masked_loss(self, output: EncoderOutput, positions: Tensor, labels: Tensor) -> Tensor:
        """Summed cross-entropy of `masked_logits` for labels [N], in less time and memory."""
        head = self.heads["masked_lm"]
        assert isinstance(head, MaskedLMHead)
        return head.loss(self._rows(output, few_different(positions)), self.encoder.embeddings.word.weight, labels)

    def masked_pixels(self, pixel_values: Tensor, hidden_patches: Tensor) -> Tensor:
        """Images as the model draws them [B, channels, height, width] from their visible patches.

        Shapes: pixel_values [B, channels, height, width], both sides multiples of the patch size; hidden_patches [B, P]
        bool, row by row.
        """
        head, side = self.heads["masked_image"], self.config.patch_size
        output = self.encoder(pixel_values, stand_in=(hidden_patches, head.mask_token))
        return head(output.last_hidden_state, (pixel_values.shape[2] // side, pixel_values.shape[3] // side))

    def _rows(self, output: EncoderOutput, positions: Tensor) -> Tensor:
        """[N, E]: what masked tokens are predicted from, at `positions` [N] of the flattened [B * T] tokens."""
        decoder = self.mask_decoder
        states = output.last_hidden_state if decoder is None else decoder(self.encoder, output)
        return states.flatten(0, 1)[positions]
