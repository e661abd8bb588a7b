"""Learning-rate schedules as pure functions of the step."""

import math

from bertctl.training.config import ScheduleSection


def warmup_length(section: ScheduleSection, steps: int) -> int:
    """Length of the warm-up in steps."""
    if section.warmup_steps is not None:
        return section.warmup_steps
    return round((0.1 if section.warmup_fraction is None else section.warmup_fraction) * steps)


def lr_share(section: ScheduleSection, step: int, steps: int) -> float:
    """The learning rate of step number `step` (the first is 1) of `steps`, as a share of the peak.

    The warm-up reaches the peak at its last step. linear, cosine and wsd would reach final_fraction at step
    `steps` + 1, so that no step is wasted on a rate of zero.
    """
    warmup = warmup_length(section, steps)
    if step <= warmup:
        return step / warmup
    final = section.final_fraction
    if section.name == "constant":
        return 1.0
    if section.name == "wsd":
        decay = max(1, round(section.decay_fraction * steps))
        start = max(warmup, steps - decay)
        progress = max(0, step - start) / (steps + 1 - start)
        return 1.0 - (1.0 - final) * progress
    progress = (step - warmup) / (steps + 1 - warmup)
    curve = 1.0 - progress if section.name == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return final + (1.0 - final) * curve
