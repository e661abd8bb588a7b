"""Every family of encoders at a tiny size, how it is pretrained, and texts that a tiny encoder learns."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers

from tests.text.families import unigram
from tests.toys import BAD, FILLER, GOOD, TOPICS

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DEEP = {"num_hidden_layers": 4}  # of families whose layers differ
NEAR = {"relative_buckets": 8, "relative_max_distance": 16}
DEBERTA = {"name": "deberta-v2", "size": "xsmall", **NEAR}


@dataclass(frozen=True)
class Family:
    """`saved_as`: the `model_type` after pretraining and after fine-tuning. `from_checkpoint`: pretraining goes on from
    one that transformers made, together with its vocabulary."""

    encoder: dict
    vocabulary: str = "wordpiece"
    second_segment: str = "none"
    objective: dict = field(default_factory=dict)
    from_checkpoint: bool = False
    saved_as: tuple[str, str] = ("bertctl", "bertctl")


FAMILIES = {
    "bert": Family({"name": "bert"}, second_segment="next_sentence", saved_as=("bert", "bert")),
    "roberta": Family({"name": "roberta"}, "byte_bpe", saved_as=("roberta", "roberta")),
    "albert": Family({}, "albert", "sentence_order", from_checkpoint=True, saved_as=("albert", "albert")),
    "distilbert": Family({"name": "distilbert"}, saved_as=("distilbert", "distilbert")),
    "electra": Family(
        {"name": "electra", "size": "small", "embedding_size": 16},
        objective={"name": "replaced_token", "generator_width": 0.5},
        saved_as=("electra", "electra"),
    ),
    "modernbert": Family(
        {"name": "modernbert", "attention_window_tokens": 4, **DEEP},
        "byte_bpe",
        saved_as=("modernbert", "modernbert"),
    ),
    "mpnet": Family({"name": "mpnet"}, "mpnet", saved_as=("mpnet", "mpnet")),
    "deberta-v2": Family({}, "deberta", from_checkpoint=True, saved_as=("deberta-v2", "deberta-v2")),
    "deberta-v2, mask decoder": Family(
        {**DEBERTA, "mask_decoder": True}, "deberta", saved_as=("bertctl", "deberta-v2")
    ),
    "deberta-v3": Family(
        DEBERTA,
        "deberta",
        objective={"name": "replaced_token", "generator_width": 0.5, "embedding_sharing": "disentangled"},
        saved_as=("bertctl", "deberta-v2"),
    ),
    "t5": Family({"name": "bert", "position": "none", "relative_position": "bucketed", **NEAR}),
    "transformer": Family({"name": "transformer"}),
    "free": Family(
        {
            "name": "bert",
            **DEEP,
            "position": "rotary",
            "norm": "rms",
            "norm_place": "pre",
            "feed_forward": "glu",
            "attention": ["full", "local", "linear", "local_global"],
            "attention_window_tokens": 4,
        },
        second_segment="sentence_order",
    ),
}


def classified(count: int, seed: int) -> str:
    """TSV: three good or bad words among filler."""
    generator = np.random.default_rng(seed)
    rows = ["text\tlabel"]
    for number in range(count):
        words = [*generator.choice((GOOD, BAD)[number % 2], 3), *generator.choice(FILLER, generator.integers(1, 4))]
        rows.append(f"{' '.join(generator.permutation(words))}\t{('pos', 'neg')[number % 2]}")
    return "\n".join(rows) + "\n"


def write_checkpoint(kind: str, texts: list[str], folder: Path) -> None:
    """A tokenizer as transformers builds it and, where pretraining goes on from it, a model with random weights."""
    sizes = {**SIZES, "max_position_embeddings": 128, "initializer_range": 0.1}
    model = None
    if kind == "albert":
        tokenizer = transformers.AlbertTokenizer(vocab=unigram(texts, ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]))
        more = {"embedding_size": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = transformers.AlbertConfig(vocab_size=len(tokenizer), pad_token_id=0, **sizes, **more)
        model = transformers.AlbertForPreTraining
    elif kind == "deberta":
        tokenizer = transformers.DebertaV2Tokenizer(vocab=unigram(texts, ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]))
        more = {"relative_attention": True, "position_buckets": 8, "max_relative_positions": 16, "type_vocab_size": 0}
        more |= {"norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "legacy": False}
        more |= {"position_biased_input": False}
        config = transformers.DebertaV2Config(vocab_size=len(tokenizer), **sizes, **more)
        model = transformers.DebertaV2ForMaskedLM
    else:
        words = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *TOPICS, *GOOD, *BAD, *FILLER, "<mask>"]
        tokenizer = transformers.MPNetTokenizer(vocab={word: number for number, word in enumerate(words)})
    tokenizer.save_pretrained(folder)
    if model is not None:
        torch.manual_seed(0)
        model(config).save_pretrained(folder)
