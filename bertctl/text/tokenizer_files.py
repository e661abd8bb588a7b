"""Tokenizer files of BERT's kind: what `vocab.txt`, `tokenizer.json` and `tokenizer_config.json` say, and writing them.

Only WordPiece with BERT's normaliser and pre-tokeniser is read: with any other kind, word starts and whole-word masks
would be quietly wrong, so it is refused here, before anything is built on it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertctl.errors import BertctlError, raise_problems

if TYPE_CHECKING:
    from bertctl.text.tokenizer import Tokenizer

ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
NO_LIMIT = 1000000000000000019884624838656  # transformers' own way to say that a tokenizer sets no length limit


def read(source: Path, *, lowercase: bool | None, strip_accents: bool | None) -> dict[str, Any]:
    """The arguments of `Tokenizer` for a vocab.txt, a tokenizer.json or a folder (tokenizer.json first).

    A vocab.txt beside a tokenizer_config.json follows it; a bare one follows the switches given, and for one not given
    it counts as uncased if no piece has an upper-case letter (an uncased model's vocabulary cannot have one).
    """
    file = _file_of(source)
    settings = _settings(file.parent)
    special = _special_names(settings)
    if file.suffix == ".json":
        found = _from_specification(file, special)
    else:
        found = _from_vocabulary(file, special, settings, lowercase, strip_accents)
    missing = [name for name in special.values() if name not in found["tokens"]]
    if missing:
        raise BertctlError(f"{file}: has no {', '.join(missing)}, expected all of {', '.join(special.values())}")
    _raise_if_more_than_rows(file, len(found["tokens"]))
    _raise_if_switches_differ(file, found, lowercase, strip_accents)
    return found


def write(tokenizer: "Tokenizer", folder: Path) -> None:
    """Three files that `transformers.AutoTokenizer` loads, and old tools too."""
    _write_json(folder / "tokenizer.json", tokenizer.specification(with_special=True))
    (folder / "vocab.txt").write_bytes("".join(f"{token}\n" for token in tokenizer.tokens).encode())
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.handle_chinese_chars,
        "model_max_length": NO_LIMIT,
        **{f"{role}_token": name for role, name in tokenizer.special.items()},
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_bytes((json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def _file_of(source: Path) -> Path:
    if source.is_file():
        return source
    for folder in (source, source / "model"):  # a run's folder stands for its model
        for name in ("tokenizer.json", "vocab.txt"):
            if (folder / name).is_file():
                return folder / name
    what = "has neither tokenizer.json nor vocab.txt" if source.is_dir() else "does not exist"
    raise BertctlError(f"{source}: {what}; expected a vocab.txt, a tokenizer.json or a folder with one of them")


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, over the older special_tokens_map.json; empty if there is neither."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= _read_json(folder / name)
    return settings


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise BertctlError(f"{path}: got bytes that are not JSON ({error}), expected a JSON object") from None
    if not isinstance(value, dict):
        raise BertctlError(f"{path}: got a JSON {type(value).__name__}, expected an object")
    return value


def _special_names(settings: Mapping[str, Any]) -> dict[str, str]:
    names = {}
    for role, usual in ROLES.items():
        value = settings.get(f"{role}_token") or usual
        names[role] = value["content"] if isinstance(value, dict) else value
    return names


def _from_specification(file: Path, special: dict[str, str]) -> dict[str, Any]:
    content = _read_json(file)
    kinds = {part: (content.get(part) or {}).get("type") for part in ("model", "normalizer", "pre_tokenizer")}
    expected = {"model": "WordPiece", "normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
    raise_problems(
        [
            f"{file}: {part} is {kinds[part]}, expected {expected[part]}"
            for part in expected
            if kinds[part] != expected[part]
        ],
        hint="bertctl reads tokenizers of BERT's kind; train one with `bertctl tokenize`",
    )
    normalizer, model = content["normalizer"], content["model"]
    accents = normalizer.get("strip_accents")
    return {
        "tokens": _tokens(file, model["vocab"], content.get("added_tokens") or []),
        "lowercase": normalizer["lowercase"],
        "strip_accents": normalizer["lowercase"] if accents is None else accents,
        "special": special,
        "added": tuple(e for e in content.get("added_tokens") or [] if e["content"] not in special.values()),
        "clean_text": normalizer["clean_text"],
        "handle_chinese_chars": normalizer["handle_chinese_chars"],
        "longest_word": model["max_input_chars_per_word"],
        "continues": model["continuing_subword_prefix"],
    }


def _tokens(file: Path, vocabulary: Mapping[str, int], added: list[dict[str, Any]]) -> list[str]:
    """Pieces by id; tokens that were added after training sit behind the vocabulary, and keep their ids."""
    by_id = {i: token for token, i in vocabulary.items()} | {entry["id"]: entry["content"] for entry in added}
    gaps = [i for i in range(len(by_id)) if i not in by_id]
    if gaps:
        raise BertctlError(f"{file}: got no piece for id {gaps[0]}, expected ids 0 to {len(by_id) - 1} without a gap")
    return [by_id[i] for i in range(len(by_id))]


def _from_vocabulary(
    file: Path, special: dict[str, str], settings: Mapping[str, Any], lowercase: bool | None, accents: bool | None
) -> dict[str, Any]:
    tokens = _read_vocabulary(file)
    said = settings.get("do_lower_case")
    uncased = not any(token != token.lower() for token in tokens if token not in special.values() and token[:1] != "[")
    lower = said if said is not None else lowercase if lowercase is not None else uncased
    strip = settings.get("strip_accents")
    return {
        "tokens": tokens,
        "lowercase": lower,
        "strip_accents": strip if strip is not None else accents if accents is not None else lower,
        "special": special,
        "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
    }


def _read_vocabulary(file: Path) -> list[str]:
    """One piece a line; only LF ends a line, since U+2028 and U+0085 can be pieces and must not shift the ids."""
    data = file.read_bytes()
    try:
        lines = data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise BertctlError(f"{file}: got a byte that is not UTF-8 at {error.start}, expected UTF-8 text") from None
    tokens = [line.removesuffix("\r") for line in lines]
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


def _raise_if_more_than_rows(file: Path, pieces: int) -> None:
    """Beside a model's config.json: a piece without a row in the embeddings would end in an index error, far away."""
    config = file.parent / "config.json"
    rows = _read_json(config).get("vocab_size") if config.is_file() else None
    if isinstance(rows, int) and pieces > rows:
        raise BertctlError(f"{file}: has {pieces:,} pieces, expected at most {rows:,}, the vocab_size of {config}")


def _raise_if_switches_differ(
    file: Path, found: Mapping[str, Any], lowercase: bool | None, accents: bool | None
) -> None:
    asked = {"lowercase": lowercase, "strip_accents": accents}
    raise_problems(
        [
            f"{file}: the tokenizer was made with {name}={found[name]}, but the recipe asks for {name}={value}"
            for name, value in asked.items()
            if value is not None and value != found[name]
        ],
        hint="leave the switch out: a vocabulary only works with the normalisation it was made for",
    )
