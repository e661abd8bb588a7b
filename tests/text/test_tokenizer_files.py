"""Tokenizer files in both directions, and what is refused."""

import json

import pytest
from transformers import AutoTokenizer

from bertctl.errors import BertctlError
from bertctl.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_vocabulary(folder, tokens, end="\n"):
    path = folder / "vocab.txt"
    path.write_bytes("".join(token + end for token in tokens).encode())
    return path


def test_folder_file_and_vocabulary_give_one_tokenizer(minilm, minilm_folder):
    for source in ("tokenizer.json", "vocab.txt"):
        assert Tokenizer.load(minilm_folder / source).hash == minilm.hash


@pytest.mark.parametrize("switches", [(True, True), (True, False), (False, False)])
def test_auto_tokenizer_reads_what_we_write(minilm, odd_texts, tmp_path, switches):
    ours = Tokenizer(minilm.tokens, lowercase=switches[0], strip_accents=switches[1])
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    texts = [text for text in odd_texts if "[" not in text]
    assert [list(ids) for ids in ours.encode_ids(texts)] == theirs(texts, add_special_tokens=False)["input_ids"]
    pair = theirs("one", "two")
    assert pair["input_ids"][0] == ours.cls_id
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]
    assert theirs("[MASK]", add_special_tokens=False)["input_ids"] == [ours.mask_id]


def test_saving_twice_gives_the_same_bytes(trained, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Tokenizer.load(tmp_path / "a").save(tmp_path / name) if name == "b" else trained.save(tmp_path / name)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_odd_line_ends_do_not_shift_ids(tmp_path):
    """transformers#860: U+2028 and U+0085 can be pieces, and only LF ends a line."""
    path = write_vocabulary(tmp_path, [*SPECIAL, "a", "\u2028", "\u0085", "b"], end="\r\n")
    tokens = Tokenizer.load(path, lowercase=True).tokens
    assert tokens == [*SPECIAL, "a", "\u2028", "\u0085", "b"]


def test_a_piece_given_twice_is_refused_with_both_lines(tmp_path):
    path = write_vocabulary(tmp_path, [*SPECIAL, "a", "b", "a", "b"])
    with pytest.raises(BertctlError) as caught:
        Tokenizer.load(path)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [f"{path}:8", f"{path}:9"]
    assert "line 6" in caught.value.problems[0]


def test_a_blank_line_and_a_missing_special_token_are_refused_with_the_file(tmp_path):
    path = write_vocabulary(tmp_path, [*SPECIAL, "a", "", "b"])
    with pytest.raises(BertctlError, match=r"vocab\.txt:7: got a blank line"):
        Tokenizer.load(path)
    path = write_vocabulary(tmp_path, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])
    with pytest.raises(BertctlError, match=r"vocab\.txt: has no \[MASK\]"):
        Tokenizer.load(path)


def test_more_pieces_than_the_model_has_rows_are_refused(trained, tmp_path):
    trained.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": trained.vocab_size}))
    assert Tokenizer.load(tmp_path).hash == trained.hash
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": trained.vocab_size - 1}))
    with pytest.raises(BertctlError, match=r"pieces, expected at most .* the vocab_size of .*config\.json"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(("spare", "warned"), [(1000, False), (1001, True)])
def test_many_rows_without_a_piece_are_told(trained, tmp_path, capsys, spare, warned):
    trained.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": trained.vocab_size + spare}))
    Tokenizer.load(tmp_path)
    assert ("the vocabulary of another model?" in capsys.readouterr().err) is warned


def test_the_folder_of_a_run_stands_for_its_model(trained, tmp_path):
    (tmp_path / "model").mkdir()
    trained.save(tmp_path / "model")
    assert Tokenizer.load(tmp_path).hash == trained.hash


@pytest.mark.parametrize(("extra", "lowercase"), [(["word", "##s"], True), (["Word", "##s"], False)])
def test_a_bare_vocabulary_is_cased_if_a_piece_is(tmp_path, extra, lowercase):
    path = write_vocabulary(tmp_path, [*SPECIAL, "[unused1]", *extra])
    assert Tokenizer.load(path).lowercase is lowercase


def test_a_bare_vocabulary_follows_the_switches_given(tmp_path):
    path = write_vocabulary(tmp_path, [*SPECIAL, "word"])
    loaded = Tokenizer.load(path, lowercase=True, strip_accents=False)
    assert (loaded.lowercase, loaded.strip_accents) == (True, False)


def test_switches_that_disagree_are_refused(minilm_folder):
    with pytest.raises(BertctlError, match="lowercase=True, but the recipe asks for lowercase=False"):
        Tokenizer.load(minilm_folder, lowercase=False)


def test_special_tokens_keep_their_names_and_ids(tmp_path):
    path = write_vocabulary(tmp_path, ["a", "<s>", "</s>", "<pad>", "<unk>", "<mask>"])
    names = {"cls_token": "<s>", "sep_token": {"content": "</s>"}, "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**names, "do_lower_case": True}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"unk_token": "<unk>", "mask_token": "<mask>"}))
    loaded = Tokenizer.load(path)
    assert (loaded.cls_id, loaded.sep_id, loaded.pad_id, loaded.unk_id, loaded.mask_id) == (1, 2, 3, 4, 5)


def test_added_tokens_keep_their_ids_and_meaning(minilm_folder, tmp_path):
    theirs = AutoTokenizer.from_pretrained(minilm_folder)
    theirs.add_tokens(["covfefe"])
    theirs.add_tokens(["<user>"], special_tokens=True)
    theirs.save_pretrained(tmp_path)
    ours = Tokenizer.load(tmp_path)
    assert ours.vocab_size == 30524
    assert (
        ours.encode_ids(["so covfefe it"])[0].tolist() == theirs("so covfefe it", add_special_tokens=False)["input_ids"]
    )
    user = theirs.convert_tokens_to_ids("<user>")
    assert user in ours.special_ids
    assert user not in ours.encode_ids(["<user> hi"])[0]
    assert ours.encode(["<user> hi"], allow_special=True)[0].ids[0] == user


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"type": "WordLevel"}}, "model is WordLevel, expected WordPiece, BPE, Unigram"),
        ({"model": {"type": "BPE"}}, "pre_tokenizer is BertPreTokenizer, expected ByteLevel with BPE"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer is Metaspace, expected BertPreTokenizer"),
        ({"normalizer": None}, "normalizer is None, expected BertNormalizer"),
    ],
)
def test_other_kinds_are_refused_before_whole_words_go_wrong(minilm, tmp_path, change, message):
    """huggingface/transformers#11768: whole-word masks were wrong for weeks with other kinds."""
    minilm.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | change))
    with pytest.raises(BertctlError, match=message):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"model"', '{"model": {"type": "WordPiece"}}', "\x00\xff", "[" * 100_000]
)
def test_damaged_tokenizer_files_are_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(BertctlError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)


def test_a_missing_source_says_what_was_expected(tmp_path):
    with pytest.raises(BertctlError, match=r"neither tokenizer\.json nor vocab\.txt"):
        Tokenizer.load(tmp_path)
    with pytest.raises(BertctlError, match="does not exist"):
        Tokenizer.load(tmp_path / "nowhere")
