"""Tokenizer files in and out: which file of a folder counts, what its settings say, and writing them.

Read are `tokenizer.json` (`tokenizer_json.py`), and the older `vocab.txt` and `vocab.json` with `merges.txt`
(`vocabulary_files.py`). What none of the three algorithms can do is refused here, before anything is built on it: word
starts and whole-word masks would be quietly wrong.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertctl.console import warn
from bertctl.errors import BertctlError, raise_problems
from bertctl.text import tokenizer_json, vocabulary_files
from bertctl.text.algorithms import ByteBpe, WordPiece
from bertctl.text.special import BERT_TEMPLATE

if TYPE_CHECKING:
    from bertctl.text.tokenizer import Tokenizer

NAMES = ("tokenizer.json", "vocab.txt", "vocab.json")
MOST_SPARE_ROWS = 1000
"""BERT's cased and uncased vocabularies, of 28,996 and 30,522 pieces, are further apart; padded rows are fewer."""
NO_LIMIT = 1000000000000000019884624838656  # transformers' own way to say that a tokenizer sets no length limit


def read(file: Path, *, lowercase: bool | None, strip_accents: bool | None) -> dict[str, Any]:
    """The arguments of `Tokenizer` for one of its files.

    A vocab.txt beside a tokenizer_config.json follows it; a bare one follows the switches given, and for one not given
    it counts as uncased if no piece has an upper-case letter (an uncased model's vocabulary cannot have one).
    """
    settings = _settings(file.parent)
    if file.suffix == ".txt":
        found = vocabulary_files.read_vocab_txt(file, settings, lowercase, strip_accents)
    else:
        content = read_json(file)
        whole = "model" in content or file.name == "tokenizer.json"
        found = tokenizer_json.read(file, content, settings) if whole else _byte_bpe(file, content, settings)
    special = found["special"]
    missing = [name for name in special.values() if name not in found["tokens"]]
    if missing:
        raise BertctlError(f"{file}: has no {', '.join(missing)}, expected all of {', '.join(special.values())}")
    _compare_with_rows(file, len(found["tokens"]))
    _raise_if_switches_differ(file, found, lowercase, strip_accents)
    return found


def write(tokenizer: "Tokenizer", folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json, which `transformers.AutoTokenizer` loads; vocab.txt, or vocab.json and
    merges.txt, for old tools."""
    _write_json(folder / "tokenizer.json", tokenizer.specification())
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    algorithm = tokenizer.algorithm
    if isinstance(algorithm, WordPiece):
        vocabulary_files.write_vocab_txt(folder / "vocab.txt", tokenizer.tokens)
        if tokenizer.template == BERT_TEMPLATE:
            settings["tokenizer_class"] = "BertTokenizer"
        settings |= {"do_lower_case": tokenizer.lowercase, "strip_accents": tokenizer.strip_accents}
        settings["tokenize_chinese_chars"] = algorithm.handle_chinese_chars
    elif isinstance(algorithm, ByteBpe):
        vocabulary_files.write_byte_bpe(folder, tokenizer.ids, algorithm.merges)
    if tokenizer.template.second_type == 0:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    settings["model_max_length"] = NO_LIMIT
    settings |= {f"{role}_token": name for role, name in tokenizer.special.items()}
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_bytes((json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def file_of(source: Path) -> Path:
    """The file that counts of a folder, of a run's folder (which stands for its model), or `source` itself.

    Errors: BertctlError if there is none.
    """
    if source.name == "merges.txt" and source.is_file():
        return source.with_name("vocab.json")
    if source.is_file():
        return source
    for folder in (source, source / "model"):
        for name in NAMES:
            if (folder / name).is_file():
                return folder / name
    what = f"has neither {' nor '.join(NAMES)}" if source.is_dir() else "does not exist"
    models = sorted(path.name for path in source.glob("*.model")) if source.is_dir() else []
    raise BertctlError(
        f"{source}: {what}; expected one of these or a folder with one of them",
        hint=f"{models[0]} is SentencePiece's own form: load it with transformers.AutoTokenizer and save it, which "
        "writes a tokenizer.json"
        if models
        else None,
    )


def _byte_bpe(file: Path, content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    merges = file.with_name(file.name.replace("vocab.json", "merges.txt"))
    if merges == file or not merges.is_file():
        raise BertctlError(
            f"{file}: is no tokenizer.json, and there is no merges.txt beside it; expected one of the two"
        )
    return vocabulary_files.read_byte_bpe(file, content, merges, settings)


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, over the older special_tokens_map.json; empty if there is neither."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= read_json(folder / name)
    return settings


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object. Errors: BertctlError."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BertctlError(f"{path}: got bytes that are not JSON ({error}), expected a JSON object") from None
    if not isinstance(value, dict):
        raise BertctlError(f"{path}: got a JSON {type(value).__name__}, expected an object")
    return value


def _compare_with_rows(file: Path, pieces: int) -> None:
    """Beside a model's config.json: a piece without a row in the embeddings would end in an index error, far away; many
    rows without a piece are a sign of another model's vocabulary."""
    config = file.parent / "config.json"
    rows = read_json(config).get("vocab_size") if config.is_file() else None
    if isinstance(rows, int) and pieces > rows:
        raise BertctlError(f"{file}: has {pieces:,} pieces, expected at most {rows:,}, the vocab_size of {config}")
    if isinstance(rows, int) and rows - pieces > MOST_SPARE_ROWS:
        warn(f"{file}: has {pieces:,} pieces for {rows:,} rows in {config}; is it the vocabulary of another model?")


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
