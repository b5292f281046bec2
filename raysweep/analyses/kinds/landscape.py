"""Values that a stage logged on a grid, such as the loss on a plane through a net's weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Nothing, Outcome, Plot
from raysweep.analyses.logged import IDENTITY, OPTIONS, check_logged, check_metric, keys_of, points_of, stage_of
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, groups, spread
from raysweep.analyses.series import PANELS
from raysweep.fits.statistics import mean_band
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import OK

MIDDLE, MORE = ("middle", "middle_low", "middle_high"), ("more", "more_low", "more_high")


@dataclass(frozen=True, eq=False)
class Surfaces:
    """One metric in one setting: x (columns,), y (rows,) and, for each seed, the values (rows, columns), all finite."""

    where: Where
    metric: str
    x: np.ndarray
    y: np.ndarray
    draws: dict[int, np.ndarray]


@dataclass(frozen=True, eq=False)
class LandscapePlot(Plot):
    """The surfaces of one draw. every: how many settings there are; the figure may show fewer."""

    surfaces: Sequence[Surfaces]
    metrics: Sequence[str]
    x: str
    y: str
    seed: int
    stage: str
    every: int


def run(question: Question) -> Finding:
    """The surfaces of each setting. InputError if the stage logged other metrics than those asked for."""
    stage, metrics, x, y = stage_of(question), metrics_of(question.options), question.x, str(question.options["y"])
    points = points_of(question)
    logged = [str(name) for name in points.columns if points[name].notna().any()]
    if points.empty or not any(name in logged for name in (x, y, *metrics)):
        return question.nothing("landscape", Nothing.NOTHING_LOGGED, stage, metric=metrics[0], x=x)
    for name, key in [(x, "x"), (y, "y"), *((metric, "metrics") for metric in metrics)]:
        check_metric(name, f"analysis.landscape.{key}", question, logged)
    keys, idle = keys_of(question, "")
    good = question.rows[question.rows["status"] == OK]
    table = points[[*IDENTITY, x, y, *metrics]].merge(good[[*IDENTITY, *keys]], on=IDENTITY)
    every = [surfaces_of(where, rows, metric, x, y) for where, rows in groups(table, keys) for metric in metrics]
    every = [one for one in every if one.draws]
    if not every:
        return question.nothing("landscape", Nothing.NO_ROW_OK, metric=metrics[0], x=x)

    def plots() -> Sequence[Plot]:
        seed = int(pd.Series([seed for one in every for seed in one.draws]).mode()[0])  # that most surfaces have
        wheres = list({tuple(one.where.values()): one.where for one in every}.values())
        shown = spread(wheres, max(1, PANELS // len(metrics)))
        surfaces = [one for one in every if any(one.where == where for where in shown) and seed in one.draws]
        return [LandscapePlot(question.name, surfaces, metrics, x, y, seed, stage, len(wheres))]

    return question.finding(
        "landscape",
        [setting_row(one, every, question.level) for one in every],
        [*keys, "metric"],
        metric=metrics[0],
        facts={"stage": stage, "y": y},
        tables={f"{question.name}_values": pd.concat([of_draws(one, x, y) for one in every], ignore_index=True)},
        plots=plots,
        idle=idle,
    )


def surfaces_of(where: Where, rows: pd.DataFrame, metric: str, x: str, y: str) -> Surfaces:
    """The surfaces of the draws that logged the metric on a whole grid."""
    rows = rows[rows[[x, y, metric]].notna().all(axis=1)]
    xs, ys = np.unique(rows[x]), np.unique(rows[y])
    draws: dict[int, np.ndarray] = {}
    for (seed, *_), draw in rows.groupby(["seed", "sweep", "cell"]):
        grid = draw.pivot_table(index=y, columns=x, values=metric)
        if grid.shape == (len(ys), len(xs)) and np.isfinite(grid.to_numpy()).all():
            draws.setdefault(int(seed), grid.to_numpy(float))  # rows that share the stage have one surface
    return Surfaces(where, metric, xs.astype(float), ys.astype(float), draws)


def heights(one: Surfaces) -> tuple[np.ndarray, np.ndarray]:
    """(the value nearest to (0, 0), how much higher the mean over the grid is), in each draw."""
    place = int(np.abs(one.y).argmin()), int(np.abs(one.x).argmin())
    middle, mean = np.transpose([(grid[place], grid.mean()) for grid in one.draws.values()])
    return middle, mean - middle


def band(values: Sequence[float] | np.ndarray, level: float) -> list[float]:
    """(mean, low, high) over draws, by Student's t interval, which a single draw has not; NaN without a draw."""
    return [float(end[0]) for end in mean_band(np.array(values)[:, None], level)] if len(values) else [np.nan] * 3


def setting_row(one: Surfaces, every: Sequence[Surfaces], level: float) -> dict[str, Any]:
    """How much higher one metric is over the grid than in its middle, what it is there, and how much more it rises than
    in the setting in which it rises least, over draws that both have."""
    middle, above = heights(one)
    risen = [dict(zip(other.draws, heights(other)[1], strict=True)) for other in every if other.metric == one.metric]
    least = min(risen, key=lambda values: float(np.mean(list(values.values()))))
    pairs = [value - least[seed] for seed, value in zip(one.draws, above, strict=True) if seed in least]
    numbers = [*band(above, level), *band(middle, level), *band(pairs, level)]
    return {
        **one.where,
        "metric": one.metric,
        "outcome": Outcome.MEASURED,
        **dict(zip(("estimate", "low", "high", *MIDDLE, *MORE), numbers, strict=True)),
        "draws": len(one.draws),
    }


def of_draws(one: Surfaces, x: str, y: str) -> pd.DataFrame:
    """One line per point and draw."""
    across, along = (each.ravel() for each in np.meshgrid(one.x, one.y))
    front = {**one.where, "metric": one.metric}
    columns = [{**front, "seed": seed, x: across, y: along, "value": grid.ravel()} for seed, grid in one.draws.items()]
    return pd.concat(map(pd.DataFrame, columns), ignore_index=True)


ANALYSIS = Analysis(
    kind="landscape",
    question="What does the landscape of {metric} look like?",
    run=run,
    required={"x": allowed.one_logged, "y": allowed.one_logged},
    optional=OPTIONS,
    columns=("draws", "grid", "metric", *MIDDLE, *MORE, "seed", "value"),
    logged=True,
    check=check_logged,
)
