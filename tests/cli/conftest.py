"""Commands with stages that only write a file, so that what is tested is the command line."""

import json
import sys
import types

import pytest

from bertctl import signals
from bertctl.cli import app, identity, stages


class FakeStages:
    """Stands for every stage's run module; remembers its calls, and does `then` before it writes."""

    def __init__(self):
        self.calls = []
        self.then = lambda stage: None

    def run_of(self, stage):
        def run(section, *, out, seed, resume=False):
            self.calls.append((stage, section, out, seed, resume))
            self.then(stage)
            out.mkdir(parents=True, exist_ok=True)
            (out / "data.txt").write_text(f"{stage} {seed}")
            result = {"seconds": 1.5, "documents": 3}
            (out / "result.json").write_text(json.dumps(result))
            return result

        return run

    def names(self):
        return [f"{stage}:{out.name}" if out.name != stage else stage for stage, _, out, _, _ in self.calls]


@pytest.fixture
def fake(monkeypatch):
    fakes = FakeStages()
    for stage, row in stages.STAGES.items():
        module = types.ModuleType(f"fake_{stage}")
        module.run = fakes.run_of(stage)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(stages.STAGES, stage, row._replace(module=module.__name__))
    monkeypatch.setattr(signals, "install", lambda: None)
    monkeypatch.setattr(identity, "code_hash", lambda: "this code")  # not the source that is being edited meanwhile
    signals.clear()
    yield fakes
    signals.clear()


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as caught:
            app.main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return caught.value.code, said.out, said.err

    return call


RECIPE = """# bertctl run r.yaml
workdir: work
seed: 7
tokenize: {corpus: {files: [text.txt]}, vocab_size: 100}
build_pairs: {sequence_length: 64}
pretrain: {encoder: {size: tiny}, training: {steps: 5}}
finetune:
  - {task: ner, data: {path: d}}
  - {task: pos, data: {path: d}}
distill: {task: ner, data: {path: d}}
evaluate: {task: ner, data: {path: d}}
probe: {task: pos, data: {path: d}}
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "text.txt").write_text("some text\n")
    (tmp_path / "d").write_text("a O\n")
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE)
    return "r.yaml"
