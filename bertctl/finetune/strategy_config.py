"""The recipe sections that say what is trained, how fast, and with which loss. No torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section

Projection = Literal["query", "key", "value", "output", "gate", "up", "down"]


class LoraSection(Section):
    """Low-rank adaptation (arXiv:2106.09685): the encoder stays as it is, each chosen matrix W gets a trained addition
    alpha / rank * B A. It is added to W when training ends, so the saved model is an ordinary one."""

    rank: int = Field(default=8, ge=1)
    """Rows of A, columns of B."""
    alpha: float = Field(default=16.0, gt=0)
    """The addition is multiplied by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of what goes into A."""
    projections: list[Projection] = Field(default=["query", "value"], min_length=1)
    """The matrices of every layer: query, key, value, output of attention; up, down and, where there is one, gate of
    the feed-forward layer. The paper's choice is query and value."""


class StrategySection(Section):
    """What is trained, and how fast. By default everything, at one rate."""

    freeze: Literal["embeddings", "encoder"] | Annotated[int, Field(ge=1)] | None = None
    """`embeddings`: never train them. A number N: nor the first N layers. `encoder`: nothing of it, and without
    dropout, so that only the head and its pooler learn (feature extraction)."""
    keep_states: bool = True
    """With freeze: encoder, compute its outputs once and keep them on disk until the run ends, if there is room."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Layer-wise decay d of the rate: lr for the head, lr * d for the top layer, and so on down: lr * d^(L + 1 - l) for
    layer l of L, lr * d^(L + 1) for the embeddings."""
    head_lr: float | None = Field(default=None, gt=0, lt=1e30)
    """Peak rate of the head and its pooler; the optimizer's lr if not given."""
    unfreeze_every: Literal["epoch"] | Annotated[int, Field(ge=1)] | None = None
    """Gradual unfreezing (arXiv:1801.06146): first the head alone, then one more layer from the top every so many steps
    or every epoch, the embeddings last."""
    reinit_layers: int = Field(default=0, ge=0)
    """Draw the top N layers and the pooler anew, by seed, before training (arXiv:2006.05987)."""
    lora: LoraSection | None = None
    """Train a low-rank addition to chosen matrices, and the head, in place of the encoder."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = {
            "freeze": self.freeze is not None,
            "layer_decay": self.layer_decay < 1,
            "unfreeze_every": self.unfreeze_every is not None,
            "reinit_layers": self.reinit_layers > 0,
        }
        wrong = []
        if self.freeze == "encoder":
            wrong += [
                f"freeze: encoder trains the head alone, so {key} has nothing to do"
                for key in [*given][1:]
                if given[key]
            ]
        if self.lora is not None:
            wrong += [f"lora trains no layer itself, so {key} has nothing to do" for key in given if given[key]]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def trains_encoder(self) -> bool:
        """Whether any of the encoder's own weights change."""
        return self.freeze != "encoder" and self.lora is None

    @property
    def keeps_states(self) -> bool:
        """Whether the encoder's outputs are computed once and kept."""
        return self.freeze == "encoder" and self.keep_states


EVERYTHING = StrategySection()


class LossSection(Section):
    """What is minimised, where a task's plain loss does not do."""

    exclusive = (("label_smoothing", "focal_gamma"),)  # no published loss has both

    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(ge=0)]] | None = None
    """How much an item of a class counts: by label name (those left out count 1), or `balanced`, which is items /
    (classes * items of the class). The loss is divided by the sum of the weights."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target that is spread over all classes (arXiv:1512.00567)."""
    focal_gamma: float = Field(default=0.0, ge=0)
    """Focal loss, (1 - p)^gamma times the cross-entropy of the right class at probability p (arXiv:1708.02002)."""
