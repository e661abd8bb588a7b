"""vocab.json with merges.txt, as RoBERTa was published; vocab.txt is in test_tokenizer_files.py."""

import json

import pytest
from transformers import RobertaTokenizer

from bertctl.errors import BertctlError
from bertctl.text.tokenizer import Tokenizer


@pytest.fixture
def folder(byte_bpe, tmp_path):
    byte_bpe.save(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    return tmp_path


def test_transformers_reads_the_two_files_that_we_write(byte_bpe, folder, real_texts, odd_texts):
    theirs = RobertaTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    texts = [*real_texts[:20], *odd_texts]
    ours = [ids.tolist() for ids in byte_bpe.encode_ids(texts)]
    assert theirs(texts, add_special_tokens=False)["input_ids"] == ours


@pytest.mark.parametrize("name", ["", "vocab.json", "merges.txt"])
def test_folder_and_either_file_give_the_tokenizer_of_the_json(byte_bpe, folder, name, real_texts):
    loaded = Tokenizer.load(folder / name)
    assert (loaded.tokens, loaded.special, loaded.template) == (byte_bpe.tokens, byte_bpe.special, byte_bpe.template)
    assert loaded.hash == byte_bpe.hash


def test_a_blank_in_front_is_a_setting(folder):
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    loaded = Tokenizer.load(folder)
    first = loaded.tokens[loaded.encode_ids(["the"])[0][0]]
    assert first.startswith("\u0120")
    pieces = loaded.encode(["the"])[0]
    assert (pieces.starts[0], pieces.ends[-1]) == (0, 3)


def test_what_does_not_fit_together_is_refused_with_its_place(folder):
    merges = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    broken = [*merges[:3], "\u0120 nosuchpiece", "alone", *merges[3:]]
    (folder / "merges.txt").write_text("\n".join(broken), encoding="utf-8")
    with pytest.raises(BertctlError) as caught:
        Tokenizer.load(folder)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        f"{folder / 'merges.txt'}:{n}" for n in (4, 5)
    ]
    (folder / "merges.txt").unlink()
    with pytest.raises(BertctlError, match=r"there is no merges\.txt beside it"):
        Tokenizer.load(folder)


@pytest.mark.parametrize("content", [{"a": 0, "b": 0}, {"a": 0, "b": 2}, {"a": "x"}])
def test_ids_with_gaps_are_refused(folder, content):
    (folder / "vocab.json").write_text(json.dumps(content))
    with pytest.raises(BertctlError, match=r"vocab\.json: expected pieces with the ids 0 to"):
        Tokenizer.load(folder)


def test_sentencepiece_alone_says_how_to_convert_it(tmp_path):
    (tmp_path / "spm.model").write_bytes(b"\n\x0e\n\x05<unk>")
    with pytest.raises(BertctlError, match=r"neither tokenizer\.json") as caught:
        Tokenizer.load(tmp_path)
    assert "spm.model is SentencePiece's own form" in caught.value.hint
