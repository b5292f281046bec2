"""Chooses cells with Optuna's ask and tell: its default sampler (TPE) over the values on the axes.

The study is kept in memory and replayed from the ledger each time, with a fixed seed and in rounds of fixed size. So it
asks for the same cells however often the sweep is interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.space.axes import absent

if TYPE_CHECKING:
    import optuna

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
    positions = {place: i for i, place in enumerate(zip(*(cells.columns[name] for name in space.axes), strict=True))}
    chosen: list[int] = []
    for _ in range(ATTEMPTS * count):
        asked: list[tuple[optuna.Trial, int]] = []
        while len(asked) < min(ROUND, max(count - len(chosen), 1)):
            trial = study.ask()
            suggested = _suggested(trial, space)
            asked.append((trial, positions.get(tuple(suggested[name] for name in space.axes), -1)))
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


def _suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """The cell that a trial suggests, {axis: value}. It is not asked for a value of an axis that is absent there."""
    cell: dict[str, Any] = {}
    for group in _in_order(space):
        if all(name in space.when and name in absent(space.when, cell) for name in group):
            number = 0
        elif len(group) == 1 and space.declaration.by_name[group[0]].categorical:
            number = trial.suggest_categorical(group[0], list(range(len(space.axes[group[0]]))))
        else:
            number = trial.suggest_int(group[0], 0, len(space.axes[group[0]]) - 1)
        cell |= {name: space.axes[name][number] for name in group}
    return space.settled(cell)


def _in_order(space: Space) -> list[tuple[str, ...]]:
    """The groups of axes that move together, each after those on which it depends."""
    order = list(space.when)
    return sorted(
        space.groups(), key=lambda group: max(order.index(name) + 1 if name in order else 0 for name in group)
    )
