import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bertctl
from bertctl import signals
from bertctl.cli import app
from bertctl.errors import BertctlError, EnvironmentFault, NonFinite, WorkerLost

COMMAND = [sys.executable, "-m", "bertctl"]
HERE = os.pathsep.join([str(Path(bertctl.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_help_names_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    assert [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line[:3].strip()] == list(
        app.COMMANDS
    )
    assert call()[:2] == (0, out)


@pytest.mark.parametrize("command", app.COMMANDS)
def test_every_command_has_help(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert f"bertctl {command}" in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["tokenise"], "Did you mean 'tokenize'?"),
        (["pretrain", "--nope"], "no such option: --nope"),
        (["pretrain"], "got no recipe"),
        (["run"], "got no recipe"),
        (["predict"], "missing argument"),
        (["pretrain", "none.yaml"], "none.yaml: no such recipe"),
        (["pretrain", "--set", "x"], "--set x: got no `=`"),
        (["tokenize", "--vocab-size", "-3", "--corpus", "x"], "got -3, expected 1 or more"),
        (["tokenize", "--vocab-size", "many"], "invalid value for '--vocab-size'"),
        (["finetune", "--task", "nre"], "got `nre`, expected"),
        (
            ["finetune", "--task", "ner", "--search", "none.yaml"],
            "--search none.yaml: got no such file, expected a YAML",
        ),
        (["finetune", "--task", "ner", "--search", "."], "--search .: got a folder, expected a YAML file"),
        (["distill", "teacher"], "no student"),
        (["predict", "m", "--output", "x", "--long-text", "no"], "--long-text: got `no`"),
        (["predict", "m", "--out", "no/such/folder.jsonl"], "there is no such folder"),
        (["predict", "m", "--out", "."], "is a folder, expected a file"),
        (["predict", "m", "labelled.tsv"], "labelled.tsv: got tsv, expected lines of text"),
        (["predict", "m", "no.tsv", "--format", "text"], "no.tsv: no such file"),
        (["recipes", "nope"], "nope: no such recipe"),
        (["recipes", "explain", "pretrain.trainin"], "did you mean `pretrain.training`?"),
    ],
)
def test_bad_usage_exits_with_2_and_one_line(call, arguments, word):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    errors = [line for line in err.splitlines() if not line.startswith("hint: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert word in errors[0]


def raiser(error):
    def then(_stage):
        raise error

    return then


class PanicException(BaseException):
    """As pyo3 raises it from a Rust panic."""


class OutOfMemoryError(RuntimeError):
    """As torch.cuda raises it."""


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (BertctlError("f:3: bad", hint="good"), 2, "error: f:3: bad\nhint: good"),
        (EnvironmentFault("full"), 3, "error: full"),
        (NonFinite("loss is nan"), 4, "error: loss is nan"),
        (WorkerLost("rank 1"), 5, "error: rank 1"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 3, "error: /x/y: No space left on device"),
        (PermissionError(errno.EACCES, "no", "/x"), 3, "error: /x: Permission denied"),
        (OSError(errno.EROFS, "ro"), 3, "Read-only file system"),
        (MemoryError(), 3, "not enough memory"),
        (OutOfMemoryError("CUDA out of memory"), 3, "not enough memory: CUDA out of memory"),
        (ZeroDivisionError("oops"), 1, "ZeroDivisionError: oops"),
        (PanicException("rust"), 1, "PanicException: rust"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(fake, call, recipe, error, code, word):
    fake.then = raiser(error)
    got, out, err = call("tokenize", recipe)
    assert (got, out) == (code, "")
    assert word in err
    assert ("Traceback" in err) == (code == 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_has_its_exit_code(fake, call, recipe, number, code):
    def then(_stage):
        signals.request(number)
        signals.check("testing")

    fake.then = then
    assert call("tokenize", recipe)[0] == code


def test_verbose_shows_where_an_error_came_from(fake, call, recipe):
    fake.then = raiser(BertctlError("bad"))
    assert "Traceback" in call("tokenize", recipe, "--verbose")[2]


def test_neither_terminal_codes_nor_secrets_reach_the_terminal(fake, call, recipe):
    fake.then = raiser(BertctlError("label \x1b[31mred, http://me:secret@host, hf_" + "a" * 30))
    for arguments in (["--verbose"], []):
        err = call("tokenize", recipe, *arguments)[2]
        assert "\x1b" not in err
        assert "secret" not in err
        assert "aaaaa" not in err
        assert "http://***@host" in err


def run(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": HERE, **options.pop("env", {})}
    return subprocess.run([*COMMAND, *map(str, arguments)], env=environment, timeout=60, check=False, **options)


# `explain` fits into a buffer that is written at the end; `schema` meets the closed pipe inside the command.
@pytest.mark.parametrize("command", ["recipes explain", "recipes schema"])
def test_a_closed_pipe_is_no_error(command):
    script = f"{sys.executable} -m bertctl {command} | head -1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": HERE}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[1] == "0"
    assert done.stderr == ""


def shell(script, folder):
    return subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PYTHONPATH": HERE},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_work_goes_on_when_nobody_reads_its_notes(tmp_path):
    (tmp_path / "c.txt").write_text("One line. Two lines.\n" * 50)
    stage = f"{sys.executable} -m bertctl tokenize --corpus c.txt --vocab-size 60 --out t --json"
    script = f"{{ sleep 1; {stage}; }} 2> >(true) >result.json; echo $?"
    done = shell(script, tmp_path)
    assert done.stdout == "0\n"
    assert (tmp_path / "t" / "manifest.json").exists()
    assert (tmp_path / "result.json").read_text().startswith("{")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_without_a_stderr_results_stay_alone_on_stdout_and_exit_codes_hold(tmp_path, stderr):
    (tmp_path / "r.yaml").write_text("workdir: w\npretrain: {}\n")
    command = f"{sys.executable} -m bertctl pretrain"
    script = f"{command} r.yaml --dry-run --json {stderr} >result.json; echo $?; {command} none.yaml {stderr}; echo $?"
    done = shell(script, tmp_path)
    assert done.stdout == "0\n2\n"
    assert json.loads((tmp_path / "result.json").read_text())["workdir"] == "w"


def test_ctrl_c_while_the_command_line_loads_ends_without_a_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    path = os.pathsep.join([str(tmp_path), HERE])
    done = run("recipes", capture_output=True, text=True, env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bertctl: stopped by SIGINT\n")


def test_a_full_disk_behind_stdout_is_told():
    with open("/dev/full", "w") as full:
        done = run("recipes", "explain", stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr.endswith("No space left on device\n")
    assert done.stderr.count("\n") == 1


def test_results_are_utf_8_whatever_the_locale(tmp_path):
    (tmp_path / "r.yaml").write_text("workdir: größe\npretrain: {}\n", encoding="utf-8")
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("pretrain", tmp_path / "r.yaml", "--dry-run", capture_output=True, env=environment)
    assert done.returncode == 0
    assert done.stdout.decode("utf-8").startswith("workdir: größe\n") or 'workdir: "größe"' in done.stdout.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)])
def test_a_real_signal_ends_a_command_that_waits_for_its_input(tmp_path, number, code):
    out = tmp_path / "out"
    arguments = ["tokenize", "--corpus", "-", "--vocab-size", "100", "--out", out]
    environment = {**os.environ, "PYTHONPATH": HERE}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        while not (out / "recipe.yaml").exists():  # written when the signals are watched and the work begins
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(number)
        err = process.stderr.read()  # standard input stays open: it must not be its end that ends the command
        process.wait(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in err
    assert (b"Ctrl-C again ends at once" in err) == (number == signal.SIGINT)
    assert not out.exists()
