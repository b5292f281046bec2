"""Learning-rate schedules: step -> multiple of the peak rate. Imports nothing heavy."""

import math
from collections.abc import Callable

WARMUP = 0.1  # share of all steps
ANNEAL = 0.1  # last share of a wsd length; the rate falls to zero in it
TRUNK_WARMUP = 50  # steps; lengths that share a trunk share its warm-up
GRID_PER_OCTAVE = 4  # trunk stages per doubling of the length
FIRST_TRUNK = 16  # steps

Factor = Callable[[int], float]


def branch(steps: int) -> int:
    """The step at which a wsd length leaves the trunk, which is the same for all lengths."""
    return steps - math.ceil(ANNEAL * steps)


def schedule(kind: str, steps: int, warmup: int = 0) -> Factor:
    """A function from a step to a multiple of the peak rate.

    kind: cosine (falls to zero), constant (no warm-up), constant_warmup, or wsd (falls to zero from its branch on).
    warmup: steps of linear warm-up, (step+1)/warmup: the first one has a rate above 0. 0 stands for a tenth of all
        steps, and with wsd for TRUNK_WARMUP.
    """
    usual = TRUNK_WARMUP if kind == "wsd" else math.ceil(WARMUP * steps)
    warm, left = 0 if kind == "constant" else warmup or usual, branch(steps)

    def factor(step: int) -> float:
        rise = min(1.0, (step + 1) / warm) if warm else 1.0
        if kind == "wsd" and step >= left:
            return rise * ((steps - step) / (steps - left + 1))
        if kind != "cosine" or step < warm:
            return rise
        return 0.5 * (1 + math.cos(math.pi * (step - warm + 1) / max(1, steps - warm + 1)))

    return factor


def trunk_steps(steps: int) -> list[int]:
    """The steps at which the trunk of a wsd length is kept: a geometric grid, the same for all lengths."""
    last, start = branch(steps), round(GRID_PER_OCTAVE * math.log2(FIRST_TRUNK))
    octaves = int(math.log2(last)) + 1 if last else 0
    grid = {round(2 ** (index / GRID_PER_OCTAVE)) for index in range(start, octaves * GRID_PER_OCTAVE + 1)}
    return sorted(step for step in grid if step <= last)
