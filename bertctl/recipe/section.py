"""The base of every recipe section: strict, frozen, no unknown keys, a sentence under each field."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of a recipe, checked as a whole before anything runs.

    `extra="forbid"` holds for one class only and does not reach nested models, so every nested mapping derives from
    this class too. Strict mode takes no text for a number and no 1 for true; the loader validates through JSON, where
    text may still become a path and a list a tuple (`recipe/load.py`). The docstring under a field is its
    description in the JSON Schema and in `bertctl recipes explain`.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
