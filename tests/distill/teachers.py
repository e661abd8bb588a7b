"""Small teachers with random weights, and students of them."""

import torch

from bertctl.distill.student import build_student
from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HEADS = {"masked_lm": 0, "sentence_pair": 2}


def tokenizer(*words: str, lowercase: bool = False) -> Tokenizer:
    return Tokenizer([*SPECIAL, *words], lowercase=lowercase, strip_accents=False)


WORDS_OF_TEACHER = tokenizer(*"abcdefghijklmno")


def config(**changes) -> EncoderConfig:
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
    return EncoderConfig(**{**sizes, "intermediate_size": 32, "max_position_embeddings": 24, **changes})


def teacher_of(heads=HEADS, **changes) -> Model:
    torch.manual_seed(5)
    model = Model(config(**changes), heads)
    for parameter in model.parameters():  # norms and biases too, so that an uncopied tensor shows
        torch.nn.init.normal_(parameter)
    return model


def build(spec, teacher: Model, *, heads=None, layer_map=None, words=WORDS_OF_TEACHER, seed=0):
    heads = teacher.head_outputs if heads is None else heads
    return build_student(spec, teacher, words, heads=heads, layer_map=layer_map, seed=seed)
