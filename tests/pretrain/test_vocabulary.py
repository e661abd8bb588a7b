"""A checkpoint meets the vocabulary of the data: the same, a longer one, another one."""

import json

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.pretrain.run import run
from bertctl.pretrain.vocabulary import with_vocabulary
from bertctl.text.extend import with_tokens
from bertctl.text.tokenizer import Tokenizer
from bertctl.variants.extend import BIAS, NEVER, WORDS
from bertctl.variants.hf import load_model, save_model

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "##cd", "ef"]
OLD = Tokenizer(TOKENS, True, True)


@pytest.fixture
def checkpoint(tmp_path):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = Model(EncoderConfig(vocab_size=8, max_position_embeddings=8, **sizes), {"masked_lm": 0})
    save_model(tmp_path, model, OLD)
    return tmp_path, model


def test_new_tokens_are_the_means_of_their_old_pieces(checkpoint, capsys):
    folder, model = checkpoint
    longer = with_vocabulary(model, folder, with_tokens(OLD, ["abcd", "Efef"]), multiple=1)
    words = longer.get_parameter(WORDS)
    assert len(words) == 10
    assert torch.allclose(words[8], (words[5] + words[6]) / 2)
    assert torch.equal(words[9], words[OLD.unk_id])  # efef is unknown to the old vocabulary
    assert "2 new tokens start as the means of their old pieces" in capsys.readouterr().err


def test_the_same_vocabulary_leaves_the_model_as_it_is(checkpoint, capsys):
    folder, model = checkpoint
    assert with_vocabulary(model, folder, OLD, multiple=1) is model
    assert with_vocabulary(model, folder, OLD, multiple=64).config.vocab_size == 64
    assert capsys.readouterr().err == ""


def test_another_vocabulary_is_refused(checkpoint):
    folder, model = checkpoint
    swapped = Tokenizer([*TOKENS[:5], "ef", "##cd", "ab"], True, True)
    with pytest.raises(BertctlError, match="its vocabulary differs from that of the data in 2 of 8 ids") as caught:
        with_vocabulary(model, folder, swapped, multiple=1)
    assert str(folder) in caught.value.problems[0]
    with pytest.raises(BertctlError, match="normalised in another way"):
        with_vocabulary(model, folder, Tokenizer(TOKENS, False, False), multiple=1)


def test_a_checkpoint_without_a_tokenizer_is_told(checkpoint, capsys):
    folder, model = checkpoint
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink()
    assert with_vocabulary(model, folder, OLD, multiple=1) is model
    assert "holds no tokenizer" in capsys.readouterr().err


def test_a_run_pads_its_rows_and_never_predicts_them(section, tmp_path):
    training = {"steps": 3, "batch_size": 8, "optimizer": {"lr": 1e-2}, "precision": "float32"}
    run(section(pad_vocab_to_multiple_of=64, training=training), out=tmp_path / "out", seed=1)
    tokenizer = Tokenizer.load(tmp_path / "out")
    model = load_model(tmp_path / "out" / "model").model
    assert tokenizer.vocab_size < 64
    assert json.loads((tmp_path / "out" / "model" / "config.json").read_text())["vocab_size"] == 64
    assert not model.get_parameter(WORDS)[tokenizer.vocab_size :].any()
    assert (model.get_parameter(BIAS)[tokenizer.vocab_size :] == NEVER).all()
