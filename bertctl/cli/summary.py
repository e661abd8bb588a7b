"""What `bertctl run` leaves behind: `summary.json` for programs and a table for people, made of the stages' results."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bertctl.cli.plan import Job
from bertctl.console import duration

Results = Sequence[tuple[Job, dict[str, Any]]]

ALWAYS_BY_NAME = ("finetune",)
# What the table shows of a result, in words; a key that a result does not have is passed over.
SHOWN = {
    "documents": "documents",
    "tokens": "tokens",
    "vocab_size": "vocabulary",
    "fertility": "pieces per word",
    "train_examples": "training examples",
    "parameters": "parameters",
    "tokens_per_second": "tokens/s",
    "mlm_loss": "held-out MLM loss",
    "unigram_entropy": "unigram entropy",
    "mlm_accuracy": "MLM accuracy",
    "replaced_token_accuracy": "replaced-token accuracy",
    "replaced_token_precision": "replaced-token precision",
    "replaced_token_recall": "replaced-token recall",
    "masked_pixel_loss": "held-out loss of hidden pixels",
    "visible_mean_loss": "loss of drawing the visible mean",
    "metric": "scored by",
    "majority_baseline": "majority class",
    "bag_of_words": "bag of words",
    "length_baseline": "lengths alone",
    "from_scratch": "from scratch",
    "pretrained": "pretrained",
    "parameters_teacher": "teacher's parameters",
    "parameters_student": "student's parameters",
    "speedup": "times faster",
    "teacher": "teacher",
    "student": "student",
    "retained": "of the teacher's metric kept",
    "best_layer": "best layer",
    "selectivity": "selectivity",
}

SHOWN_OF_A_LAYER = {"accuracy": "accuracy", "control_accuracy": "control", "selectivity": "selectivity"}
BETTER_SHOWN = {"pretrained", "retained"}  # results that have a summary of their metrics
MOST_METRICS = 4


def summarise(results: Results, seconds: float) -> dict[str, Any]:
    """stage -> result, or stage -> name -> result.

    By name: finetune always; the other stages that may be listed, if there are several sections or the one has a name.
    """
    summary: dict[str, Any] = {"seconds": round(seconds, 2)}
    for job, result in results:
        several = sum(other.stage == job.stage for other, _ in results) > 1
        named = getattr(job.section, "name", None) is not None
        if job.name and (several or named or job.stage in ALWAYS_BY_NAME):
            summary.setdefault(job.stage, {})[job.name] = result
        else:
            summary[job.stage] = result
    return summary


def as_text(summary: dict[str, Any]) -> str:
    """Strict JSON: a number that is not finite is a bug and not for the reader to find."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def show_table(results: Results) -> None:
    """One row a job, on stderr: what came out of it and how long it took."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=False)
    for name in ("stage", "result", "time"):
        table.add_column(name, overflow="fold", justify="right" if name == "time" else "left")
    for job, result in results:
        table.add_row(job.label, "\n".join(lines_of(result)), duration(float(result.get("seconds") or 0)))
    Console(stderr=True, markup=False, emoji=False, highlight=False).print(table)


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """The numbers of a result that `SHOWN` has words for, in its order; a line for each phase and each probed layer."""
    for key, words in SHOWN.items():
        value = result.get(key)
        if value is not None and not isinstance(value, (dict, list)):
            yield f"{words} {_number(value)}"
        elif isinstance(value, dict) and "value" in value:
            yield f"{words} {_with_interval(value)}"
    if "metrics" in result and not BETTER_SHOWN & result.keys():
        for name, metric in list(result["metrics"].items())[:MOST_METRICS]:
            yield f"{name} {_with_interval(metric)}"
    phases = result.get("phases")
    for name, phase in phases.items() if isinstance(phases, dict) else ():
        counts = [f"{split} {_number(phase[split]['examples'])}" for split in ("train", "held_out") if split in phase]
        yield f"phase {name}: examples {', '.join(counts)}"
    for layer in result.get("layers") or []:
        if isinstance(layer, dict):
            shown = [f"{words} {_number(layer[key])}" for key, words in SHOWN_OF_A_LAYER.items() if key in layer]
            yield f"layer {layer.get('layer', '?')}: {', '.join(shown)}"


def _with_interval(value: dict[str, Any]) -> str:
    if value["value"] is None:
        return f"undefined ({value.get('reason', 'no reason given')})"
    low, high = value.get("low"), value.get("high")
    interval = f" ({_number(low)} to {_number(high)})" if low is not None and high is not None else ""
    return _number(value["value"]) + interval + _over_seeds(value)


def _over_seeds(value: dict[str, Any]) -> str:
    """What all seeds gave, if there are several and all have the metric."""
    if len(value.get("seeds") or []) < 2 or value.get("mean") is None or value.get("std") is None:
        return ""
    return f", mean of {len(value['seeds'])} seeds {_number(value['mean'])} ± {_number(value['std'])}"


def _number(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,.0f}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
