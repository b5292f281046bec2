"""Chooses cells with Optuna's ask and tell: its default sampler (TPE) over the values on the axes.

The study is kept in memory and replayed from the ledger each time, with a fixed seed and in rounds of fixed size. So it
asks for the same cells however often the sweep is interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from raysweep.plan.cells import Cells
    from raysweep.search import Draws
    from raysweep.space.schema import Space

ROUND = 8  # cells that are asked for in one round
ATTEMPTS = 20  # suggestions for each new cell, because the sampler may repeat cells of a small grid


def wanted(space: Space, cells: Cells, draws: Draws, *, metric: str, count: int) -> list[int]:
    """The cells of all rounds that the known draws decide, at most `count` of them.

    metric: the metric to optimize.
    """
    import optuna

    count = min(count, len(cells))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    direction = "maximize" if space.declaration.maximized(metric) else "minimize"
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))
    groups = space.groups()
    positions = {tuple(cells.columns[group[0]][i] for group in groups): i for i in range(len(cells))}
    chosen: list[int] = []
    for _ in range(ATTEMPTS * count):
        asked: list[tuple[optuna.Trial, int]] = []
        while len(asked) < min(ROUND, max(count - len(chosen), 1)):
            trial = study.ask()
            place = tuple(
                space.axes[group[0]][trial.suggest_int(group[0], 0, len(space.axes[group[0]]) - 1)] for group in groups
            )
            asked.append((trial, positions.get(place, -1)))
        chosen += [cell for cell in dict.fromkeys(cell for _, cell in asked) if cell >= 0 and cell not in chosen]
        if len(chosen) >= count or any(cell >= 0 and draws(cell, metric) is None for _, cell in asked):
            break
        for trial, cell in asked:
            values = draws(cell, metric) if cell >= 0 else np.empty(0)
            if values is None or len(values) == 0:  # the cell is excluded or has no ok draw
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, float(np.mean(values)))
    return sorted(chosen[:count])
