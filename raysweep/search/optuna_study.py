"""Chooses cells with Optuna's ask and tell: its default sampler (TPE) over the values on the axes, or within ranges.

The study is kept in memory and replayed from the ledger each time, with a fixed seed and in rounds of fixed size. So it
asks for the same cells however often the sweep is interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.search import ATTEMPTS
from raysweep.space.axes import absent, in_range

if TYPE_CHECKING:
    import optuna

    from raysweep.plan.cells import Cells
    from raysweep.search import Draws
    from raysweep.space.schema import Space

ROUND = 8  # cells that are asked for in one round


def rounds(space: Space, cells: Cells, draws: Draws, *, metric: str, count: int) -> list[list[int]]:
    """The cells of all rounds that the known draws decide, at most `count` of them, in the order in which they are
    asked for. For a space with ranges new ones are placed in the table.

    metric: the metric to optimize.
    """
    import optuna

    count = min(count, cells.most)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    direction = "maximize" if space.declaration.maximized(metric) else "minimize"
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))
    positions = {place: i for i, place in enumerate(zip(*(cells.columns[name] for name in space.axes), strict=True))}

    def place(trial: optuna.Trial) -> int | None:
        suggested = _suggested(trial, space)
        if space.ranges:
            return cells.place(space, suggested)
        return positions.get(tuple(suggested[name] for name in space.axes))

    chosen: list[int] = []
    found: list[list[int]] = []
    for _ in range(ATTEMPTS * count):
        asked: list[tuple[optuna.Trial, int | None]] = []
        while len(asked) < min(ROUND, max(count - len(chosen), 1)):
            trial = study.ask()
            asked.append((trial, place(trial)))
        new = [cell for cell in dict.fromkeys(cell for _, cell in asked) if cell is not None and cell not in chosen]
        found.append(new[: count - len(chosen)])
        chosen += found[-1]
        if len(chosen) >= count or any(cell is not None and draws(cell, metric) is None for _, cell in asked):
            break
        for trial, cell in asked:
            values = draws(cell, metric) if cell is not None else np.empty(0)
            if values is None or len(values) == 0:  # the cell is excluded or has no ok draw
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, float(np.mean(values)))
    return found


def _suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """The cell that a trial suggests, {axis: value}. It is not asked for a value of an axis that is absent there."""
    cell: dict[str, Any] = {}
    for group in _in_order(space):
        parameter, values = space.declaration.by_name[group[0]], space.axes[group[0]]
        if all(name in space.when and name in absent(space.when, cell) for name in group):
            number = 0
        elif group[0] in space.ranges:
            suggest = trial.suggest_int if parameter.type is int or parameter.whole else trial.suggest_float
            value = suggest(group[0], values[0], values[1], log=space.ranges[group[0]] == "log")
            cell[group[0]] = in_range(parameter, values, value)
            continue
        elif len(group) == 1 and parameter.categorical:
            number = trial.suggest_categorical(group[0], list(range(len(values))))
        else:
            number = trial.suggest_int(group[0], 0, len(values) - 1)
        cell |= {name: space.axes[name][number] for name in group}
    return space.settled(cell)


def _in_order(space: Space) -> list[tuple[str, ...]]:
    """The groups of axes that move together, each after those on which it depends."""
    order = list(space.when)
    return sorted(
        space.groups(), key=lambda group: max(order.index(name) + 1 if name in order else 0 for name in group)
    )
