"""Vocabularies in the forms from before tokenizer.json: `vocab.txt`, and `vocab.json` with `merges.txt`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertctl.errors import BertctlError, raise_problems
from bertctl.text.algorithms import GPT2_WORDS, ByteBpe, WordPiece
from bertctl.text.special import special_names, usual_template

VERSION = "#version: 0.2"


def read_vocab_txt(
    file: Path, settings: Mapping[str, Any], lowercase: bool | None, accents: bool | None
) -> dict[str, Any]:
    """The arguments of `Tokenizer` for WordPiece with BERT's rules."""
    tokens = _pieces(file)
    special = special_names(settings, tokens)
    said = settings.get("do_lower_case")
    uncased = not any(token != token.lower() for token in tokens if token not in special.values() and token[:1] != "[")
    lower = said if said is not None else lowercase if lowercase is not None else uncased
    strip = settings.get("strip_accents")
    return {
        "tokens": tokens,
        "lowercase": lower,
        "strip_accents": strip if strip is not None else accents if accents is not None else lower,
        "special": special,
        "algorithm": WordPiece(handle_chinese_chars=settings.get("tokenize_chinese_chars", True)),
        "template": usual_template(special),
    }


def write_vocab_txt(file: Path, tokens: Sequence[str]) -> None:
    """One piece a line."""
    file.write_bytes("".join(f"{token}\n" for token in tokens).encode())


def _pieces(file: Path) -> list[str]:
    """One piece a line; only LF ends a line, since U+2028 and U+0085 can be pieces and must not shift the ids."""
    tokens = _lines(file)
    first: dict[str, int] = {}
    problems = []
    for number, token in enumerate(tokens, 1):
        if not token:
            problems.append(f"{file}:{number}: got a blank line, expected a piece")
        elif first.setdefault(token, number) != number:
            problems.append(
                f"{file}:{number}: got {token!r} again, first seen on line {first[token]}; expected each piece once"
            )
    raise_problems(problems)
    return tokens


def _lines(file: Path) -> list[str]:
    data = file.read_bytes()
    try:
        lines = data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise BertctlError(f"{file}: got a byte that is not UTF-8 at {error.start}, expected UTF-8 text") from None
    return [line.removesuffix("\r") for line in lines]


def read_byte_bpe(
    file: Path, vocabulary: Mapping[str, Any], merges: Path, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of `Tokenizer` for byte-level BPE as GPT-2 and RoBERTa have it."""
    by_id = {number: token for token, number in vocabulary.items() if isinstance(number, int)}
    if sorted(by_id) != list(range(len(vocabulary))):
        raise BertctlError(f"{file}: expected pieces with the ids 0 to {len(vocabulary) - 1}, each id once")
    tokens = [by_id[number] for number in range(len(by_id))]
    special = special_names(settings, tokens)
    words = {**GPT2_WORDS, "add_prefix_space": bool(settings.get("add_prefix_space", False))}
    return {
        "tokens": tokens,
        "lowercase": False,
        "strip_accents": False,
        "special": special,
        "algorithm": ByteBpe(_merges(merges, vocabulary), pre_tokenizer=words),
        "template": usual_template(special),
    }


def _merges(file: Path, vocabulary: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    pairs, problems = [], []
    for number, line in enumerate(_lines(file), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        unknown = [piece for piece in (left, right, left + right) if piece not in vocabulary]
        if unknown:
            problems.append(f"{file}:{number}: got {line!r}, expected two pieces that make a third; no {unknown[0]!r}")
        pairs.append((left, right))
    raise_problems(problems)
    return tuple(pairs)


def write_byte_bpe(folder: Path, ids: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
    """vocab.json and merges.txt."""
    (folder / "vocab.json").write_bytes((json.dumps(ids, ensure_ascii=False) + "\n").encode())
    lines = [VERSION, *(f"{left} {right}" for left, right in merges)]
    (folder / "merges.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
