"""The stage `tokenize`: text in, token shards and their vocabulary out."""

import json
import time
from pathlib import Path
from typing import Any

from bertctl import console
from bertctl.artifacts.folder import lock, whole_folder
from bertctl.artifacts.shards import KIND, TokenShardWriter
from bertctl.errors import BertctlError
from bertctl.text.tokenizer import Tokenizer
from bertctl.tokenize.config import TokenizeSection
from bertctl.tokenize.documents import Documents
from bertctl.tokenize.encode import Tally, write_documents
from bertctl.tokenize.vocabulary import vocabulary


def run(section: TokenizeSection, *, out: Path, seed: int, resume: bool = False) -> dict[str, Any]:
    """Write the folder `out`: token shards, tokenizer files, result.json. `seed` is not used: nothing here is drawn.

    A new vocabulary takes two readings of the corpus, an existing one takes one; nothing is kept of a run that was
    stopped, so `resume` starts over. Memory: one shard, one batch of documents, the word counts (bounded).
    Errors: BertctlError for text that cannot be read, a vocabulary that does not fit, or a corpus without a word.
    """
    started = time.monotonic()
    inputs: dict[str, str] = {}
    facts: dict[str, Any] = {}
    with lock(out), whole_folder(out, kind=KIND, inputs=inputs, facts=facts) as temp:
        readings = 1 if section.vocabulary else 2
        with Documents(section.corpus, readings=readings, folder=temp.parent) as documents:
            tokenizer, facts_learned = vocabulary(section, documents, temp)
            tokenizer.save(temp)
            counts, tally, seconds = _write(section, documents, tokenizer, temp)
        inputs |= {"corpus": tally.digest.hexdigest(), "vocabulary": tokenizer.hash}
        facts |= {
            "vocab_size": tokenizer.vocab_size,
            "splitter": section.sentences,  # `sentences` is their number
            "language": section.language,
            **counts,
        }
        result = _result(tokenizer, facts_learned, counts, tally, seconds) | {"seconds": time.monotonic() - started}
        (temp / "result.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    _show(result)
    return result


def _write(
    section: TokenizeSection, documents: Documents, tokenizer: Tokenizer, folder: Path
) -> tuple[dict[str, int], Tally, float]:
    """Write the shards; returns the writer's counts, ours, and the seconds it took."""
    writer = TokenShardWriter(folder, vocab_size=tokenizer.vocab_size, tokens_per_shard=section.tokens_per_shard)
    tally, began = Tally(), time.monotonic()
    passing = documents.counted("tokenizing", tally)
    write_documents(passing, tokenizer, writer, tally, splitter=section.sentences, language=section.language)
    counts, seconds = writer.close(), time.monotonic() - began
    if not tally.tokens:
        raise BertctlError(
            "the corpus holds no word: the tokenizer's rules leave nothing of its control characters and blanks"
        )
    return counts, tally, seconds


def _result(
    tokenizer: Tokenizer, learned: dict[str, Any], counts: dict[str, int], tally: Tally, seconds: float
) -> dict[str, Any]:
    return {
        "vocab_size": tokenizer.vocab_size,
        **learned,
        "algorithm": tokenizer.algorithm.name,
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "documents_read": tally.documents_read,
        **counts,
        "words": tally.words,
        "bytes": tally.bytes,
        "unknown_rate": tally.unknown / tally.tokens,
        "fertility": tally.tokens / tally.words,
        "bytes_per_second": console.throughput(tally.bytes, seconds),
        "tokens_per_second": console.throughput(tally.tokens, seconds),
    }


def _show(result: dict[str, Any]) -> None:
    learned = result["vocab_size"] - result.get("tokens_added", 0)
    asked = result.get("vocab_size_asked", learned)
    if learned != asked:
        console.note(f"vocabulary: {learned:,} pieces; {asked:,} were asked for, the corpus has no more")
    empty = result["documents_read"] - result["documents"]
    left_out = f" ({empty:,} without a word left out)" if empty else ""
    console.note(
        f"{result['tokens']:,} tokens in {result['sentences']:,} sentences of {result['documents']:,} documents"
        f"{left_out}; {result['fertility']:.3f} pieces a word, {result['unknown_rate']:.3%} unknown, "
        f"{result['bytes_per_second'] / 1e6:.1f} MB/s"
    )
