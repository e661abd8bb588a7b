"""What a search tries: keys of the recipe's section, and values for them. No torch."""

from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section

Value = bool | int | float | str | None


class KeySection(Section):
    """A key and what is tried for it: listed values, or numbers from a range."""

    key: str
    """A key of the section, with dots, such as training.optimizer.lr."""
    values: tuple[Value, ...] = ()
    """The values to choose from."""
    low: float | None = None
    """The smallest number of a range (random search)."""
    high: float | None = None
    """The largest."""
    scale: Literal["linear", "log"] = "linear"
    """Whether numbers are drawn evenly, or evenly over their logarithms, as befits rates."""

    @model_validator(mode="after")
    def _values_or_range(self) -> Self:
        if bool(self.values) == (self.low is not None and self.high is not None):
            raise ValueError(f"{self.key}: give `values`, or `low` and `high`")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"{self.key}: got low {self.low:g} and high {self.high:g}, expected low below high")
        if self.scale == "log" and (self.low is None or self.low <= 0):
            raise ValueError(f"{self.key}: `scale: log` is for a range of numbers above 0")
        return self


class SearchSection(Section):
    """A search over keys of the section: dev picks, and the test set is scored once, for the winner."""

    method: Literal["random", "grid"] = "random"
    """Points drawn by seed (Bergstra and Bengio, JMLR 13, 2012), or every combination of the listed values."""
    runs: int = Field(default=10, ge=1, le=1000)
    """The budget: most fine-tunings to do, the winner's last one not counted. A grid must fit into it."""
    over: tuple[KeySection, ...] = Field(min_length=1)
    """The keys, each with its values or range."""

    @model_validator(mode="after")
    def _keys_differ(self) -> Self:
        keys = [one.key for one in self.over]
        if len(set(keys)) < len(keys):
            raise ValueError("over: each key may stand there once")
        if self.method == "grid" and any(not one.values for one in self.over):
            raise ValueError("a grid is made of listed `values`; `low` and `high` are for `method: random`")
        return self
