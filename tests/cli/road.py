"""Commands as a user types them, in this process, and what they leave behind."""

import json
import math

import pytest

from bertctl.cli import app


def bertctl(*arguments):
    """Do as the command line says, which has to end well."""
    with pytest.raises(SystemExit) as caught:
        app.main([str(argument) for argument in arguments])
    assert caught.value.code == 0, arguments


def sets(prefix, tree):
    """`--set` options for every leaf of a section."""
    options = []
    for key, value in tree.items():
        inner = f"{prefix}.{key}"
        options += sets(inner, value) if isinstance(value, dict) else ["--set", f"{inner}={json.dumps(value)}"]
    return options


def training(steps, lr=4e-3):
    """So many steps of 16, whatever a task's shipped recipe says of epochs and micro-batches."""
    settings = {"steps": steps, "epochs": None, "batch_size": 16, "micro_batch_size": None}
    return {"training": {**settings, "precision": "float32", "log_every_steps": 1, "optimizer": {"lr": lr}}}


def result(folder):
    return json.loads((folder / "result.json").read_text())


def config(folder):
    return json.loads((folder / "model/config.json").read_text())


def losses(folder):
    """The training loss of every step, all of them numbers."""
    (file,) = folder.rglob("metrics.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = [line["loss"] for line in lines if line["split"] == "train"]
    assert all(map(math.isfinite, found))
    return found


def assert_falls(found, *, by):
    """The mean of the last three steps is below `by` times that of the first three."""
    assert sum(found[-3:]) < by * sum(found[:3]), found
