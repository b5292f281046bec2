"""Learning-rate schedules: step -> multiple of the peak rate. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Callable

WARMUP = 0.1  # share of all steps
ANNEAL = 0.1  # last share of a wsd length; the rate falls to zero in it
TRUNK_WARMUP = 50  # steps; lengths that share a trunk share its warm-up
GRID_PER_OCTAVE = 4  # trunk stages per doubling of the length
FIRST_TRUNK = 16  # steps

Factor = Callable[[int], float]


def warmed(step: int, warmup: int) -> float:
    """Linear warm-up: (step+1)/warmup, at most 1. The first step already has a rate above 0."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def schedule(kind: str, steps: int, warmup: int = 0) -> Factor:
    """A function from a step to a multiple of the peak rate.

    kind: cosine (falls to zero), constant (no warm-up) or constant_warmup.
    warmup: steps; 0 stands for a tenth of all steps.
    """
    warm = 0 if kind == "constant" else warmup or math.ceil(WARMUP * steps)

    def factor(step: int) -> float:
        if kind != "cosine" or step < warm:
            return warmed(step, warm)
        return 0.5 * (1 + math.cos(math.pi * (step - warm + 1) / max(1, steps - warm + 1)))

    return factor


def trunk_and_anneal(steps: int, warmup: int = 0) -> tuple[int, Factor]:
    """The step at which a wsd length leaves the trunk, and the function from a step to a multiple of the peak rate.

    Up to that step the function is the same for every length.
    """
    branch = steps - math.ceil(ANNEAL * steps)
    warm = warmup or TRUNK_WARMUP

    def factor(step: int) -> float:
        return warmed(step, warm) * (1.0 if step < branch else (steps - step) / (steps - branch + 1))

    return branch, factor


def trunk_steps(branch: int) -> list[int]:
    """The steps up to a branching point at which trunks are kept: a geometric grid, the same for all lengths."""
    octaves = int(math.log2(branch)) + 1 if branch else 0
    start = round(GRID_PER_OCTAVE * math.log2(FIRST_TRUNK))
    grid = {round(2 ** (index / GRID_PER_OCTAVE)) for index in range(start, octaves * GRID_PER_OCTAVE + 1)}
    return sorted(step for step in grid if step <= branch)
