"""The `build_pairs` section. No torch."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section

SecondSegment = Literal["next_sentence", "sentence_order", "none"]
DEFAULT_LENGTH = 128


class LengthSection(Section):
    """One phase of pretraining: examples of one length."""

    sequence_length: int = Field(ge=8)
    """Most tokens of an example, [CLS] and [SEP] included."""
    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    """Name of the phase, which `pretrain.phases` can refer to."""


class BuildPairsSection(Section):
    """How documents become training examples."""

    exclusive = (("sequence_length", "phases"),)

    tokens: Path | None = None
    """The folder that tokenize wrote; workdir/tokenize if not given."""
    sequence_length: int | None = Field(default=None, ge=8)
    """Most tokens of an example, [CLS] and [SEP] included, for a single phase; 128 if no `phases` are given."""
    phases: tuple[LengthSection, ...] = ()
    """Several lengths in the order of training, such as 128 and then 512; instead of `sequence_length`."""
    second_segment: SecondSegment = "next_sentence"
    """`next_sentence`: half of the second segments are random (BERT); `sentence_order`: half of the pairs are swapped
    (ALBERT); `none`: one segment, packed with full sentences (RoBERTa)."""
    short_sequence_probability: float = Field(default=0.1, ge=0, le=1)
    """Share of pairs that aim at a random shorter length, so that training sees short inputs; not used with `none`."""
    cross_documents: bool = False
    """With `none`: fill examples across the ends of documents, without a mark between them."""
    duplicates: int = Field(default=1, ge=1)
    """Times the corpus is gone through for the train split, with other cuts and partners each time. Not needed for
    masks: they are drawn anew in every epoch."""
    held_out_fraction: float = Field(default=0.02, ge=0, le=0.5)
    """Share of the documents that training never sees, for its own evaluation."""

    @model_validator(mode="after")
    def _phases_fit(self) -> Self:
        names = [phase.name for phase in self.phases]
        if len(set(names)) < len(names):
            raise ValueError(f"phases have the names {', '.join(names)}, expected each name once")
        if self.cross_documents and self.second_segment != "none":
            raise ValueError("`cross_documents` needs `second_segment: none`; a pair never crosses documents")
        return self

    def lengths(self) -> list[LengthSection]:
        """The phases, also when only a length or nothing is given."""
        length = self.sequence_length or DEFAULT_LENGTH
        return list(self.phases) or [LengthSection(sequence_length=length, name=str(length))]
