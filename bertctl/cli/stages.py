"""The stages in their order, where their work is found, and what feeds what. No torch."""

from typing import NamedTuple


class Stage(NamedTuple):
    """One row: the module whose `run` does the work, and for each input field the stage whose output it defaults to."""

    module: str
    inputs: dict[str, str]


STAGES: dict[str, Stage] = {
    "tokenize": Stage("bertctl.tokenize.run", {}),
    "build_pairs": Stage("bertctl.build_pairs.run", {"tokens": "tokenize"}),
    "pretrain": Stage("bertctl.pretrain.run", {"pairs": "build_pairs", "tokens": "tokenize"}),
    "finetune": Stage("bertctl.finetune.run", {"model": "pretrain"}),
    "distill": Stage("bertctl.distill.run", {"teacher": "pretrain", "pairs": "build_pairs", "tokens": "tokenize"}),
    "evaluate": Stage("bertctl.evaluate.run", {"model": "pretrain", "pairs": "build_pairs", "tokens": "tokenize"}),
    "probe": Stage("bertctl.probe.run", {"model": "pretrain"}),
}

# Stages whose input is a model of the task itself where the section names a task: the one that finetune made.
TASK_MODEL = {"distill": "teacher", "evaluate": "model"}

# Stages that are done or not begun, with nothing between: `--resume` of a finished one has nothing to do.
UNDIVIDED = ("tokenize", "build_pairs")

# Stages whose new result takes the place of an older one in the folder; the others refuse a folder with work in it.
REPLACED = ("evaluate", "probe")
