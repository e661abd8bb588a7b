"""A checkpoint's model for the vocabulary of the data: the same one, or one with tokens added behind it."""

from pathlib import Path

from bertctl.console import note
from bertctl.heads.model import Model
from bertctl.text.extend import old_pieces, tokens_beyond
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.tokenizer_files import NAMES
from bertctl.variants.extend import extended, rounded_up


def with_vocabulary(model: Model, folder: Path, tokenizer: Tokenizer, *, multiple: int) -> Model:
    """`model`, read from `folder`, with rows for all tokens of the data; new ones are the mean of their old pieces.

    Errors: BertctlError if an id means something else in the checkpoint than in the data.
    """
    rows = rounded_up(max(model.config.vocab_size, tokenizer.vocab_size), multiple)
    if not any((folder / name).is_file() for name in NAMES):
        note(f"init_from: {folder} holds no tokenizer; its ids are taken to mean what they mean in the data")
        return model
    old = Tokenizer.load(folder)
    new = tokens_beyond(old, folder, tokenizer, "the data")
    if new:
        note(f"init_from: {len(new):,} new tokens start as the means of their old pieces")
    if not new and rows == model.config.vocab_size:
        return model
    return extended(model, old_pieces(old, new), used=old.vocab_size, rows=rows)
