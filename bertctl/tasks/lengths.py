"""How long an input may be."""

from bertctl.errors import BertctlError

DEFAULT_LENGTH = 512


def longest_input(asked: int | None, limit: int, *, key: str, noted: int | None = None) -> int:
    """Word pieces of the longest input of an encoder that reads `limit`: as `asked` under `key`, else as `noted` at
    fine-tuning, else what it reads, at most 512. Errors: BertctlError if it cannot read what was asked for."""
    if asked is not None and asked > limit:
        raise BertctlError(
            f"{key}: got {asked}, but the encoder reads at most {limit} word pieces",
            hint=f"ask for {limit}, or leave {key} out",
        )
    return asked or min(noted or DEFAULT_LENGTH, limit)
