"""Speed between two log lines."""

from dataclasses import dataclass, field

from bertctl.console import throughput
from bertctl.training.loop import Step


@dataclass
class Meter:
    """Adds up the real tokens and the seconds of steps: evaluation and saving between steps do not count."""

    tokens: int = 0
    seconds: float = 0.0
    total_tokens: int = field(default=0)
    total_seconds: float = field(default=0.0)

    def add(self, step: Step) -> None:
        """Count a step."""
        self.tokens += step.tokens
        self.seconds += step.seconds
        self.total_tokens += step.tokens
        self.total_seconds += step.seconds

    def lap(self) -> float:
        """Tokens per second since the last lap, which starts a new one."""
        rate = throughput(self.tokens, self.seconds)
        self.tokens, self.seconds = 0, 0.0
        return rate

    def overall(self) -> float:
        """Tokens per second since the start."""
        return throughput(self.total_tokens, self.total_seconds)
