"""What an unquoted scalar means: the YAML 1.2 core schema (source: yaml.org/spec/1.2.2, section 10.3.2).

PyYAML's own resolver is YAML 1.1, where `1e-4` is text, `no` is false and `010` is 8. Here `1_000` is taken for 1000
too, and what could mean two things is refused.
"""

import math
import re
from typing import Any

INTEGER = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def resolve(text: str) -> Any:
    """The value of a plain (unquoted) scalar under the core schema.

    Errors: ValueError with a sentence, for a leading zero and for numbers that are not finite.
    """
    if text in WORDS:
        return WORDS[text]
    if LEADING_ZERO.fullmatch(text):
        raise ValueError(f"got `{text}`, expected a number without a leading zero (in quotes, if it is text)")
    if INTEGER.fullmatch(text) and len(text) <= 400:
        return int(text)  # int() takes the underscores of 1_000
    if BASED.fullmatch(text) and len(text) <= 400:
        return int(text, 0)
    if NOT_FINITE.fullmatch(text) or (FLOAT.fullmatch(text) and not math.isfinite(float(text))):
        raise ValueError(f"got `{text[:40]}`, expected a finite number")
    return float(text) if FLOAT.fullmatch(text) else text
