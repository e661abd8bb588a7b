"""Further tokens for a vocabulary: a tokenizer that knows them, and what they were before in its old pieces.

Ids of the old pieces stay as they are, so that a model's embeddings can follow (`variants/extend.py`).
"""

import dataclasses
from collections.abc import Sequence
from itertools import zip_longest

from bertctl.errors import BertctlError, raise_problems
from bertctl.text.special import added_token
from bertctl.text.tokenizer import Tokenizer


def with_tokens(tokenizer: Tokenizer, new: Sequence[str]) -> Tokenizer:
    """The tokenizer with `new` tokens behind its own, each found where it stands as a word, after normalisation.

    Errors: BertctlError naming every token that is empty, given twice or there already.
    """
    problems = []
    for place, token in enumerate(new):
        if not token or token != token.strip():
            problems.append(f"add_tokens: got {token!r}, expected text without blanks at its ends")
        elif token in tokenizer.ids or token in new[:place]:
            problems.append(f"add_tokens: got {token!r}, which the vocabulary has already")
    raise_problems(problems)
    entries = [_entry(tokenizer, number, token) for number, token in enumerate(new, tokenizer.vocab_size)]
    return dataclasses.replace(
        tokenizer,
        tokens=[*tokenizer.tokens, *new],
        added=(*tokenizer.added, *entries),
    )


def _entry(tokenizer: Tokenizer, number: int, token: str) -> dict[str, object]:
    """Where pieces hold the blank in front of a word, so does a whole word."""
    flags = {"single_word": True, "normalized": True, "special": False}
    return {**added_token(number, token), **flags, "lstrip": tokenizer.algorithm.blanks_in_pieces}


def old_pieces(tokenizer: Tokenizer, new: Sequence[str]) -> list[list[int]]:
    """For each new token its ids in `tokenizer`, which does not know it yet, as a word inside a text; at least one."""
    return tokenizer.encode_words([new])[0]


def tokens_beyond(old: Tokenizer, old_name: object, new: Tokenizer, new_name: object) -> list[str]:
    """The tokens that `new` has behind all those of `old`; none if the two are the same.

    Errors: BertctlError if they differ in anything else that decides which ids a text gets.
    """
    more = new.tokens[old.vocab_size :]
    if more and with_tokens_left_out(new, len(more)).hash == old.hash:
        return more
    same_vocabulary(old, old_name, new, new_name)
    return []


def with_tokens_left_out(tokenizer: Tokenizer, count: int) -> Tokenizer:
    """The tokenizer without its last `count` tokens."""
    kept = tokenizer.tokens[: tokenizer.vocab_size - count]
    return dataclasses.replace(
        tokenizer,
        tokens=kept,
        added=tuple(entry for entry in tokenizer.added if entry["id"] < len(kept)),
    )


def same_vocabulary(one: Tokenizer, name: object, other: Tokenizer, other_name: object) -> None:
    """Refuse two tokenizers that give a text different ids.

    Errors: BertctlError with the first id that differs and how many do, or the switches that differ.
    """
    pairs = list(zip_longest(one.tokens, other.tokens, fillvalue="(none)"))
    differing = [number for number, (left, right) in enumerate(pairs) if left != right]
    if differing:
        left, right = pairs[differing[0]]
        problem = (
            f"{name}: its vocabulary differs from that of {other_name} in {len(differing):,} of {len(pairs):,} ids; "
            f"the first is id {differing[0]}, {left!r} and {right!r}"
        )
        raise BertctlError(problem, hint="models and data must share one tokenizer")
    if one.hash != other.hash:
        raise BertctlError(
            f"{name}: the same vocabulary as {other_name}, but text is normalised in another way (lower case, accents)"
        )
