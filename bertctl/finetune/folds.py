"""k-fold cross-validation for small data: every example of train and dev is scored once, by a model that never saw it.

The pooled score has the interval of a test set of this size. The spread over folds is shown as it is; it has no
unbiased estimate, since folds share training data (Bengio and Grandvalet, JMLR 5, 2004).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertctl.artifacts.folder import write_whole
from bertctl.console import note
from bertctl.errors import BertctlError
from bertctl.finetune.result import BASELINES, words
from bertctl.finetune.several import RUNS, VARIANTS, Project, Trial, best_of, dev_of
from bertctl.metrics.seeds import over_seeds
from bertctl.tasks.audit import folded
from bertctl.tasks.scores import scores_of
from bertctl.tasks.splits import hold_out, source
from bertctl.tasks.strata import strata


def cross_validate(project: Project) -> tuple[dict[str, Any], Path]:
    """Train and score each fold; the model of the fold with the best dev score is kept.

    The result has the pooled scores, and of each variant and baseline the values, mean and deviation over folds.
    Errors: BertctlError if there are too few texts.
    """
    task, examples = project.task, [*project.splits.train, *project.splits.dev]
    if project.splits.test:
        note(f"{len(project.splits.test):,} test examples are left alone: with folds, train and dev are scored")
    member = fold_of_each(project, examples)
    trials = [fold(project, examples, member, number) for number in range(max(member) + 1)]
    results = []
    for trial in trials:
        note(f"{trial.name} of {len(trials)}: {len(trial.splits.test):,} examples are scored")
        results.append(project.train(trial))
    pooled = {name: pool(project, examples, member, results, name) for name in VARIANTS if name in results[0]}
    best = best_of([dev_of(result) for result in results])
    shown = [name for name in (*BASELINES, *VARIANTS) if results[0].get(name) is not None]
    result: dict[str, Any] = {
        "task": task.name,
        "metric": task.metric,
        "scored_split": "folds",
        "folds": len(trials),
        **{name: over_folds(results, name) for name in shown},
        **pooled["pretrained"],
        "labels": project.labels,
        "examples": len(examples),
        "chosen_fold": best + 1,
        "data": {"notes": list(project.splits.notes)},
    }
    for name, scores in pooled.items():
        result[name] |= scores["metrics"][task.metric]
    show(result, shown)
    return result, project.folder(trials[best].name)


def fold_of_each(project: Project, examples: Sequence[Any]) -> list[int]:
    """The fold of every example, from 0: dealt out by seed, label after label, equal texts (folded) together."""
    folds, task = project.section.folds or 1, project.task
    texts = [folded(task.key(example)) for example in examples]
    fold_of_text: dict[tuple[str, ...], int] = {}
    for places in strata(task, examples, project.seed):
        for place in places:
            fold_of_text.setdefault(texts[place], len(fold_of_text) % folds)
    if len(fold_of_text) < 2 * folds:
        got = f"{len(fold_of_text)} different texts"
        raise BertctlError(f"{source(project.section.data)}: got {got}, expected at least 2 for each of {folds} folds")
    return [fold_of_text[text] for text in texts]


def fold(project: Project, examples: Sequence[Any], member: Sequence[int], number: int) -> Trial:
    """The trial in which the examples of one fold are the test set; dev is held out from the others."""
    test = [example for example, own in zip(examples, member, strict=True) if own == number]
    rest = [example for example, own in zip(examples, member, strict=True) if own != number]
    train, dev = hold_out(project.task, rest, project.section.data.dev_share, project.seed)
    section = project.section.model_copy(update={"folds": None})
    return Trial(f"fold-{number + 1}", section, replace(project.splits, train=train, dev=dev, test=test))


def pool(
    project: Project, examples: Sequence[Any], member: Sequence[int], results: Sequence[dict[str, Any]], variant: str
) -> dict[str, Any]:
    """All examples, each with the prediction of the fold that it is in, scored together; the predictions are kept."""
    rows = []
    for number, result in enumerate(results):
        run = project.folder(f"fold-{number + 1}") / RUNS / f"{variant}-seed{result[variant]['seed']}"
        rows.append((run / "predictions-test.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    in_turn = [iter(lines) for lines in rows]
    lines = [next(in_turn[number]) for number in member]
    if project.writes:
        write_whole(project.out / f"predictions-{variant}.jsonl", "".join(f"{line}\n" for line in lines))
    return scores_of(project.task, examples, [json.loads(line) for line in lines], project.labels)


def over_folds(results: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """What each fold gave, with mean and standard deviation; `value` is the mean, for want of pooled predictions."""
    values = over_seeds([result[name]["value"] for result in results])
    folds = [
        {"fold": number, "value": result[name]["value"], "examples": result["test_examples"]}
        for number, result in enumerate(results, 1)
    ]
    return {
        "value": values["mean"],
        "low": None,
        "high": None,
        "mean": values["mean"],
        "std": values["std"],
        "degenerate_runs": sum(result[name].get("degenerate_runs", 0) for result in results),
        "folds": folds,
    }


def show(result: dict[str, Any], names: Sequence[str]) -> None:
    """The result in a few lines for the person who watches."""
    for name in names:
        found = result[name]
        over = f"mean of {result['folds']} folds {words(found['mean'])} ± {words(found['std'])}"
        pooled = (
            ""
            if found["low"] is None
            else f"{words(found['value'])} ({words(found['low'])} to {words(found['high'])}); "
        )
        note(f"{result['task']} {result['metric']}, {name.replace('_', ' ')}: {pooled}{over}")
