"""The base of every recipe section: strict, frozen, no unknown keys, a sentence under each field."""

from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails


class Section(BaseModel):
    """A mapping of a recipe, checked as a whole before anything runs.

    `extra="forbid"` holds for one class only and does not reach nested models, so every nested mapping derives from
    this class too. Strict mode takes no text for a number and no 1 for true; the loader validates through JSON, where
    text may still become a path and a list a tuple (`recipe/load.py`). The docstring under a field is its
    description in the JSON Schema and in `bertctl recipes explain`.

    `exclusive` has groups of fields of which one at most may be given; what the command line sets takes the place of
    the others in a recipe.
    """

    exclusive: ClassVar[tuple[tuple[str, ...], ...]] = ()

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="after")
    def _one_of_each_group(self) -> Self:
        for group in self.exclusive:
            given = [name for name in group if getattr(self, name) != type(self).model_fields[name].default]
            if len(given) > 1:
                raise ValueError(f"give {' or '.join(given)}, not both")
        return self


def raise_at(problems: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
    """Raise, in a validator of a section, each (path from the section on, sentence); do nothing if there are none. A
    `ValueError` would be one problem, and stand at the section itself."""
    details: list[InitErrorDetails] = [
        {"type": "value_error", "loc": path, "input": None, "ctx": {"error": ValueError(text)}}
        for path, text in problems
    ]
    if details:
        raise ValidationError.from_exception_data("section", details)
