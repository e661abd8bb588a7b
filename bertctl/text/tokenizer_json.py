"""What a tokenizer.json says: one of three algorithms, its special tokens, and how they stand around segments."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertctl.errors import BertctlError
from bertctl.text.algorithms import Algorithm, ByteBpe, Unigram, WordPiece, kinds
from bertctl.text.special import added_token, names_in, special_names, template_of, usual_template

Content = Mapping[str, Any]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
LONGEST_SHOWN = 200  # characters of a damaged entry
CUTTERS = {"WordPiece": "BertPreTokenizer", "BPE": "ByteLevel", "Unigram": "Metaspace"}


def read(file: Path, content: Content, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Tokenizer`. Errors: BertctlError for a tokenizer of another kind, or a damaged file."""
    try:
        _refuse_others(file, content)
        return _read(file, content, settings)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, StopIteration) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BertctlError(f"{file}: is not as the tokenizers library writes it: {what}") from None


def _refuse_others(file: Path, content: Content) -> None:
    """Word starts are known for these kinds only, and whole-word masks would be quietly wrong with another."""
    kind = _kind(content)
    if kind not in CUTTERS:
        raise _other(f"{file}: model is {kind}, expected {', '.join(CUTTERS)}")
    cutters = [part.get("type") for part in kinds(content.get("pre_tokenizer"))]
    if CUTTERS[kind] not in cutters or (kind == "WordPiece" and len(cutters) > 1):
        got = ", ".join(map(str, cutters)) or None
        raise _other(f"{file}: pre_tokenizer is {got}, expected {CUTTERS[kind]} with {kind}")
    normalizer = (content.get("normalizer") or {}).get("type")
    if kind == "WordPiece" and normalizer != "BertNormalizer":
        raise _other(f"{file}: normalizer is {normalizer}, expected BertNormalizer with {kind}")


def _other(problem: str) -> BertctlError:
    known = "BERT's WordPiece, byte-level BPE (RoBERTa, ModernBERT) and Unigram (ALBERT, DeBERTa-v2)"
    return BertctlError(problem, hint=f"bertctl reads {known}; or train a vocabulary with `bertctl tokenize`")


def _kind(content: Content) -> str:
    """Old files do not name the model's kind."""
    model = content["model"]
    guessed = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
    return str(model.get("type") or guessed)


def _read(file: Path, content: Content, settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, model, added = _kind(content), content["model"], _added(content)
    learned = [piece for piece, _ in model["vocab"]] if kind == "Unigram" else model["vocab"]
    tokens = _tokens(file, learned, added)
    unk = tokens[model["unk_id"]] if kind == "Unigram" else model.get("unk_token")
    said = names_in(content.get("post_processor")) | ({"unk": unk} if unk else {})
    whole = [entry["content"] for entry in added if entry["special"]]
    special = special_names(settings, tokens, said=said, preferred=whole)
    names = {*whole, *special.values()}
    ends = [number for number, token in enumerate(tokens) if token in names]
    return {
        "tokens": tokens,
        **_switches(content.get("normalizer")),
        "special": special,
        "added": _further(added, special),
        "algorithm": READERS[kind](content, max(ends, default=-1) + 1),
        "template": template_of(content.get("post_processor"), special) or usual_template(special),
    }


def _added(content: Content) -> list[Content]:
    """The added tokens, each with all that the library wants to know. Errors: ValueError, KeyError."""
    entries: list[Content] = content.get("added_tokens") or []
    for entry in entries:
        kinds_of = [type(entry[name]) for name in ("id", "content", *FLAGS)]
        if kinds_of != [int, str, *[bool] * len(FLAGS)]:
            raise ValueError(f"got the added token {str(dict(entry))[:LONGEST_SHOWN]}")
    return entries


def _tokens(file: Path, learned: Mapping[str, int] | Sequence[str], added: Sequence[Content]) -> list[str]:
    """Pieces by id; tokens that were added after training sit behind the vocabulary, and keep their ids."""
    by_id = {i: token for token, i in learned.items()} if isinstance(learned, Mapping) else dict(enumerate(learned))
    by_id |= {entry["id"]: entry["content"] for entry in added}
    gaps = [i for i in range(len(by_id)) if i not in by_id]
    if gaps:
        raise BertctlError(f"{file}: got no piece for id {gaps[0]}, expected ids 0 to {len(by_id) - 1} without a gap")
    return [by_id[i] for i in range(len(by_id))]


def _switches(normalizer: Content | None) -> dict[str, bool]:
    """Whether the normaliser folds case and removes accents, as far as its parts have names for it."""
    found = {"lowercase": False, "strip_accents": False}
    for part in kinds(normalizer):
        if part["type"] == "BertNormalizer":
            accents = part.get("strip_accents")
            return {"lowercase": part["lowercase"], "strip_accents": part["lowercase"] if accents is None else accents}
        found["lowercase"] |= part["type"] == "Lowercase"
        found["strip_accents"] |= part["type"] == "StripAccents"
    return found


def _further(added: Sequence[Content], special: Mapping[str, str]) -> tuple[Content, ...]:
    """Entries besides the five special tokens, and those of them that say more than their name (`<mask>` may take in
    the blank before it)."""
    entries = [{**entry, "special": entry["special"] or entry["content"] in special.values()} for entry in added]
    plain = [added_token(entry["id"], entry["content"]) for entry in entries if entry["content"] in special.values()]
    return tuple(entry for entry in entries if entry not in plain)


def _word_piece(content: Content, held: int) -> Algorithm:
    normalizer, model = content["normalizer"], content["model"]
    return WordPiece(
        clean_text=normalizer["clean_text"],
        handle_chinese_chars=normalizer["handle_chinese_chars"],
        longest_word=model["max_input_chars_per_word"],
        continues=model["continuing_subword_prefix"],
    )


def _byte_bpe(content: Content, held: int) -> Algorithm:
    model = content["model"]
    if model.get("dropout"):
        raise ValueError(f"dropout is {model['dropout']}, expected none: a text must always give the same pieces")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    return ByteBpe(
        merges=tuple((left, right) for left, right in pairs),
        normalizer=content.get("normalizer"),
        pre_tokenizer=content["pre_tokenizer"],
        options={name: value for name, value in model.items() if name not in ("type", "vocab", "merges")},
    )


def _unigram(content: Content, held: int) -> Algorithm:
    """The model has to hold the special tokens, `held` pieces at least: left out of the text's own library, they would
    move what was added behind them. What was added gets the lowest score."""
    model = content["model"]
    scores = [float(score) for _, score in model["vocab"]]
    signs = [part["replacement"] for part in kinds(content["pre_tokenizer"]) if part["type"] == "Metaspace"]
    return Unigram(
        scores=(*scores, *[min(scores)] * (held - len(scores))),
        unk_id=model["unk_id"],
        normalizer=content.get("normalizer"),
        pre_tokenizer=content["pre_tokenizer"],
        decoder=content.get("decoder"),
        byte_fallback=bool(model.get("byte_fallback", False)),
        blank=signs[0],
    )


READERS: dict[str, Callable[[Content, int], Algorithm]] = {
    "WordPiece": _word_piece,
    "BPE": _byte_bpe,
    "Unigram": _unigram,
}
