"""Chooses cells with Optuna's ask and tell, over the values on the axes or within ranges: by its default sampler (TPE),
or by its Gaussian process (`sampler: gp`).

The study is kept in memory and replayed from the ledger each time, with a fixed seed and in rounds of fixed size. So it
asks for the same cells however often the sweep is interrupted. A round is asked for as a batch: Optuna takes account of
the cells of a round that have no result yet.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.search.draws import ATTEMPTS
from raysweep.space.axes import absent, in_range
from raysweep.trial.threads import limited

if TYPE_CHECKING:
    import optuna

    from raysweep.plan.cells import Cells
    from raysweep.search.draws import Draws
    from raysweep.space.schema import Space

ROUND = 8  # cells that are asked for in one round
DIGITS = 9  # of a mean, as the Gaussian process gets it: the last digits of a row may depend on its pack
Suggested = tuple[Any, dict[str, Any]]
"""A trial of Optuna's, and its cell as {axis: value}."""
Ask = Callable[[int], list[Suggested]]
"""Asks for so many cells."""
Tell = Callable[[Any, float | None], None]
"""Tells a trial's mean; None if there is no such cell."""


def rounds(space: Space, cells: Cells, draws: Draws, *, metric: str, count: int, sampler: str) -> list[list[int]]:
    """The cells of all rounds that the known draws decide, at most `count` of them, in the order in which they are
    asked for. For a space with ranges new ones are placed in the table.

    metric: the metric to optimize.
    sampler: tpe or gp.
    """
    import optuna

    count = min(count, cells.most)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    direction = "maximize" if space.declaration.maximized(metric) else "minimize"
    worst = -math.inf if direction == "maximize" else math.inf
    ask, tell = (_gaussian_process if sampler == "gp" else _tpe)(space, cells, direction)
    positions = {place: i for i, place in enumerate(zip(*(cells.columns[name] for name in space.axes), strict=True))}

    def place(suggested: dict[str, Any]) -> int | None:
        if space.ranges:
            return cells.place(space, suggested)
        return positions.get(tuple(suggested[name] for name in space.axes))

    chosen: list[int] = []
    every_round: list[list[int]] = []
    for _ in range(ATTEMPTS * count):
        asked = [(trial, place(cell)) for trial, cell in ask(min(ROUND, max(count - len(chosen), 1)))]
        if not asked:
            break  # there are no other cells
        new = [cell for cell in dict.fromkeys(cell for _, cell in asked) if cell is not None and cell not in chosen]
        every_round.append(new[: count - len(chosen)])
        chosen += every_round[-1]
        if len(chosen) >= count or any(cell is not None and draws(cell, metric) is None for _, cell in asked):
            break
        for trial, cell in asked:
            values = draws(cell, metric) if cell is not None else None
            # no cell: it is excluded. No values: it is as bad as can be, otherwise the study would ask for it again.
            tell(trial, None if values is None else float(np.mean(values)) if len(values) else worst)
    return every_round


def _tpe(space: Space, cells: Cells, direction: str) -> tuple[Ask, Tell]:
    import optuna

    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))

    def ask(size: int) -> list[Suggested]:
        return [(trial, _suggested(trial, space)) for trial in (study.ask() for _ in range(size))]

    def tell(trial: optuna.Trial, mean: float | None) -> None:
        study.tell(trial, mean, state=optuna.trial.TrialState.FAIL if mean is None else None)

    return ask, tell


def _gaussian_process(space: Space, cells: Cells, direction: str) -> tuple[Ask, Tell]:
    """Each round has a study of its own, with the trials before it. What it suggests is kept with the cells: a
    suggestion takes a tenth of a second, and all rounds are replayed before each further one."""
    import optuna

    samplers, states = optuna.samplers, optuna.trial.TrialState
    trials: list[optuna.trial.FrozenTrial] = []
    before: list[dict[str, Any]] = []

    def ask(size: int) -> list[Suggested]:
        key = (size, *(trial.value for trial in trials))
        if key not in cells.suggested:
            study = optuna.create_study(
                direction=direction, sampler=samplers.GPSampler(seed=len(trials), n_startup_trials=ROUND)
            )
            study.add_trials(trials)
            others = optuna.create_study(sampler=samplers.RandomSampler(seed=len(trials)))
            with limited(1), warnings.catch_warnings():  # the last digits must not depend on how many cores there are
                warnings.filterwarnings("ignore", "Clip non-finite values")  # as bad as the worst cell: as it should be
                cells.suggested[key] = _new(study, others, space, size, before)
        before.extend(cell for _, cell in cells.suggested[key])
        return cells.suggested[key]

    def tell(trial: optuna.Trial, mean: float | None) -> None:
        trials.append(
            optuna.trial.create_trial(
                state=states.FAIL if mean is None else states.COMPLETE,
                params=trial.params,
                distributions=trial.distributions,
                value=None if mean is None else float(f"{mean:.{DIGITS}g}"),
            )
        )

    return ask, tell


def _new(
    study: optuna.Study, others: optuna.Study, space: Space, size: int, before: list[dict[str, Any]]
) -> list[Suggested]:
    """At most `size` cells that were not asked for before. A random one stands for each that the study repeats: given
    the same mean again, the Gaussian process would take it for a second measurement."""
    suggested: list[Suggested] = []
    for _ in range(size):
        for attempt in range(ATTEMPTS * ROUND):
            trial = (others if attempt else study).ask()
            cell = _suggested(trial, space)
            if cell not in before and all(cell != other for _, other in suggested):
                suggested.append((trial, cell))
                break
    return suggested


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
