"""Training: the loop, optimizers, schedules, precision, ranks, run folders."""
