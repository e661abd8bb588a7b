"""What fine-tuning reports: the chosen run with its interval, all runs over the seeds, and what guessing scores."""

from typing import Any

from bertctl.console import note
from bertctl.finetune.baselines import linear_baselines
from bertctl.finetune.data import TaskData
from bertctl.metrics.seeds import over_seeds
from bertctl.tasks.scores import majority_baseline

BASELINES = ("majority_baseline", "bag_of_words", "length_baseline")
OF_A_RUN = ("seed", "steps", "best_step", "degenerate", "tokens_per_second", "seconds")


def choose(runs: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """The run with the best dev metric, the first of equal ones; the test set has no say."""
    return max(runs, key=lambda run: float("-inf") if run["dev"][metric] is None else run["dev"][metric])


def summarise(
    data: TaskData, runs: dict[str, list[dict[str, Any]]], chosen: dict[str, Any], *, baselines: bool
) -> dict[str, Any]:
    """The stage's result. `pretrained` and `from_scratch` have the value and 95% interval of the run that dev chose,
    and, over the seeds, every value, mean and standard deviation."""
    task, scored = data.task, data.splits.test or data.splits.dev
    result = {
        "task": task.name,
        "metric": task.metric,
        "scored_split": data.scored,
        "majority_baseline": majority_baseline(task, data.splits.train, scored, data.labels),
        **(linear_baselines(data) if baselines else {}),
        **{variant: over_runs(done, task.metric) for variant, done in runs.items()},
        "metrics": chosen["metrics"],
        **{key: value for key, value in chosen.items() if key not in (*OF_A_RUN, "dev", "split", "metrics")},
        "labels": data.labels,
        **{f"{split}_examples": len(examples) for split, examples in data.splits.items()},
        "truncated": {split: counts["truncated"] for split, counts in data.truncated.items()},
        **({"windows": data.truncated} if data.limits.windows else {}),
        "max_length": data.limits.max_length,
        "data": data.audit,
        "chosen_seed": chosen["seed"],
        "tokens_per_second": chosen["tokens_per_second"],
    }
    show(result, runs)
    return result


def over_runs(runs: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """One variant: the chosen run's score with its interval, and what all seeds gave."""
    chosen = choose(runs, metric)
    seeds = over_seeds([run["metrics"][metric]["value"] for run in runs])
    return {
        **chosen["metrics"][metric],
        "seed": chosen["seed"],
        "mean": seeds["mean"],
        "std": seeds["std"],
        "seeds": [
            {**{key: run[key] for key in OF_A_RUN}, "value": run["metrics"][metric]["value"], "dev": run["dev"][metric]}
            for run in runs
        ],
        "degenerate_runs": sum(run["degenerate"] for run in runs),
    }


def show(result: dict[str, Any], runs: dict[str, list[dict[str, Any]]]) -> None:
    """The result in a few lines for the person who watches."""
    if result["scored_split"] == "dev":
        note("no test data: the numbers below are of dev, which also picked the weights, so they are a little too good")
    what = f"{result['task']} {result['scored_split']} {result['metric']}"
    for name in (*BASELINES, *runs):
        found = result.get(name)
        if found is None:
            continue
        spread = (
            f"; mean of {len(runs[name])} seeds {words(found['mean'])} ± {words(found['std'])}"
            if name in runs and len(runs[name]) > 1
            else ""
        )
        interval = f" ({words(found['low'])} to {words(found['high'])})" if found["low"] is not None else ""
        note(f"{what}, {name.replace('_', ' ')}: {words(found['value'])}{interval}{spread}")
    note("in brackets: 95% intervals, a bootstrap over the examples")


def words(value: float | None) -> str:
    """Four places, or what an undefined metric is called."""
    return "undefined" if value is None else f"{value:.4f}"
