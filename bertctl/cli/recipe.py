"""The root of a recipe: one section for each stage that it describes. No torch."""

from collections import Counter
from pathlib import Path

from pydantic import Field, model_validator

from bertctl.build_pairs.config import BuildPairsSection
from bertctl.distill.config import DistillSection
from bertctl.evaluate.config import EvaluateSection
from bertctl.finetune.config import FinetuneSection
from bertctl.pretrain.config import PretrainSection
from bertctl.probe.config import ProbeSection
from bertctl.recipe.section import Section
from bertctl.tokenize.config import TokenizeSection

LISTED = ("finetune", "distill", "evaluate", "probe")
NO_TASK = "masked_lm"


class Recipe(Section):
    """A whole project, or the part of one that a command needs."""

    workdir: Path = Path("runs")
    """The folder below which each stage has its own, named after it, unless --out says otherwise."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Everything random follows from this number."""
    tokenize: TokenizeSection | None = None
    """Train or take a vocabulary and write the corpus as token shards."""
    build_pairs: BuildPairsSection | None = None
    """Cut the shards into training examples, with sentence pairs or without."""
    pretrain: PretrainSection | None = None
    """Train an encoder on masked tokens."""
    finetune: list[FinetuneSection] | None = None
    """Train for a task; one section, or a list of them."""
    distill: list[DistillSection] | None = None
    """Train a smaller encoder to do as a larger one; one section, or a list of them."""
    evaluate: list[EvaluateSection] | None = None
    """Score a checkpoint on data; one section, or a list of them."""
    probe: list[ProbeSection] | None = None
    """See what each layer knows; one section, or a list of them."""

    @model_validator(mode="after")
    def _names(self) -> "Recipe":
        for stage in LISTED:
            names = Counter(section_name(section) for section in getattr(self, stage) or [])
            twice = [name for name, count in names.items() if count > 1]
            if twice:
                raise ValueError(
                    f"{stage} has {names[twice[0]]} sections called `{twice[0]}`; give each its own `name`"
                )
        return self


def section_name(section: Section) -> str:
    """What a section of a list is called: its `name`, else its task, else `masked_lm`. Its folder has this name."""
    return str(getattr(section, "name", None) or getattr(section, "task", None) or NO_TASK)
