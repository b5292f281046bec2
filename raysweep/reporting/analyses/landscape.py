"""The landscape analysis: values that a stage logged on a grid, such as the loss on a plane through a net's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, spread
from raysweep.errors import unknown
from raysweep.fits.statistics import mean_band
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.landscape import Surface, landscape_figure
from raysweep.report.names import plain, settings
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd

PANELS = 6
"""The most settings that a figure shows, one in a row."""


@dataclass(frozen=True)
class Seen:
    """The surfaces of one metric in one setting: x, y and, for each seed, the values (y, x)."""

    values: tuple[Any, ...]
    metric: str
    x: np.ndarray
    y: np.ndarray
    draws: dict[int, np.ndarray]


def landscape_section(asked: Question) -> Section:
    """Figure and table of one `landscape` entry. InputError if the stage logged other metrics than those asked for."""
    import pandas as pd

    stage = asked.options.get("stage", asked.workload.chain.names[0])
    metrics, x, y = metrics_of(asked.options), asked.x, str(asked.options["y"])
    title = f"Landscape: {' and '.join(metrics)} over {plain(x)} and {plain(y)}"
    every = asked.curves() if asked.curves else asked.rows.iloc[:0].assign(stage="")
    points = every[every["stage"] == stage]
    logged = [name for name in points.columns if points[name].notna().any()]
    if points.empty or not any(name in logged for name in (x, y, *metrics)):
        return Section(title, f"{stage} logged no landscape in these rows")
    for name, key in [(x, "x"), (y, "y"), *((metric, "metrics") for metric in metrics)]:
        if name not in logged:
            raise unknown(f"analysis.landscape.{key}", f"metric that {stage} logged", name, logged)
    place = asked.workload.chain.names.index(stage)
    keys = [name for name in asked.keys("") if name in asked.workload.chain.known[place]]
    good = asked.rows[asked.rows["status"] == "ok"]
    identity = ["sweep", "cell", "seed"]
    table = points[[*identity, x, y, *metrics]].merge(good[[*identity, *keys]], on=identity)
    found = [seen(values, rows, metric, x, y) for values, rows in groups(table, keys) for metric in metrics]
    found = [one for one in found if one.draws]
    if not found:
        return Section(title, f"no row with a landscape of {stage} is ok")
    seed = shared_seed(found)
    shown = spread(list(dict.fromkeys(one.values for one in found)), PANELS)
    surfaces = [
        Surface(settings(keys, one.values, asked.workload), one.metric, one.x, one.y, one.draws[seed])
        for one in found
        if one.values in shown and seed in one.draws
    ]
    caption = (
        f"{' and '.join(metrics)} of {stage} in draw {seed}, on one scale: + is the middle of the plane, × the lowest "
        "point on the grid."
    )
    figure, told = landscape_figure(surfaces, metrics, x, y, asked.workload)
    lines = [line(one, keys, asked) for one in found]
    best, worst = (pick(found, key=lambda one: float(np.mean(above(one)))) for pick in (min, max))
    told_of, detail = headline(best, worst, varying(found, keys), asked)
    return Section(
        title,
        told_of,
        [
            f"The figure shows a single draw, {seed}: other draws have other directions. The table has the means over "
            f"all ok draws of what the values are in the middle, and of how much higher they are on average over the "
            f"grid; {asked.percent} intervals are Student's t over draws."
        ],
        [Drawing(asked.name, f"{caption} {told}".strip(), figure)],
        lines,
        {f"{asked.name}_values": pd.concat([of_draws(one, keys, x, y) for one in found], ignore_index=True)},
        detail=detail,
    )


def seen(values: tuple[Any, ...], rows: pd.DataFrame, metric: str, x: str, y: str) -> Seen:
    """The surfaces of the draws that logged the metric on a whole grid."""
    rows = rows[rows[[x, y, metric]].notna().all(axis=1)]
    xs, ys = np.unique(rows[x]), np.unique(rows[y])
    draws: dict[int, np.ndarray] = {}
    for (seed, *_), draw in rows.groupby(["seed", "sweep", "cell"]):
        grid = draw.pivot_table(index=y, columns=x, values=metric)
        if grid.shape == (len(ys), len(xs)) and np.isfinite(grid.to_numpy()).all():
            draws.setdefault(int(seed), grid.to_numpy(float))  # rows that share the stage have one surface
    return Seen(values, metric, xs.astype(float), ys.astype(float), draws)


def shared_seed(found: list[Seen]) -> int:
    """The first seed that most surfaces have."""
    counts: dict[int, int] = {}
    for one in found:
        for seed in one.draws:
            counts[seed] = counts.get(seed, 0) + 1
    return min(counts, key=lambda seed: (-counts[seed], seed))


def middle(one: Seen) -> np.ndarray:
    """The value nearest to (0, 0) in each draw."""
    place = int(np.abs(one.y).argmin()), int(np.abs(one.x).argmin())
    return np.array([grid[place] for grid in one.draws.values()])


def above(one: Seen) -> np.ndarray:
    """How much higher the mean over the grid is than the middle, in each draw."""
    return np.array([grid.mean() for grid in one.draws.values()]) - middle(one)


def with_interval(values: np.ndarray, level: float) -> str:
    """The mean over draws with Student's interval."""
    if len(values) < 2:
        return f"{number(values.mean())} (a single draw)"
    mean, low, high = (float(each[0]) for each in mean_band(values[:, None], level))
    return interval(mean, low, high)


def headline(best: Seen, worst: Seen, keys: dict[str, int], asked: Question) -> tuple[str, str]:
    """(where a metric rises least and most above its middle, by how much more in the draws of both), in words."""
    low, high = (with_interval(above(one), asked.level) for one in (best, worst))
    if best is worst:
        return f"{best.metric} is on average {low} above its middle", ""
    first, second = said(best, keys, asked), said(worst, keys, asked)
    if best.metric != worst.metric:
        text = f"{best.metric} rises least, with {first}, and {worst.metric} most, with {second}"
        return text, f"{low} and {high} above the middle on average"
    values = dict(zip(worst.draws, above(worst), strict=True))
    pairs = [values[seed] - value for seed, value in zip(best.draws, above(best), strict=True) if seed in values]
    text = f"{low} against {high} above the middle on average"
    if len(pairs) < 2:
        return f"{best.metric} rises least with {first}, most with {second}", text
    mean, least, most = (float(each[0]) for each in mean_band(np.array(pairs)[:, None], asked.level))
    verdict = "less with {} than with {}" if least > 0 else "not clearly less with {} than with {}"
    difference = f"difference {interval(mean, least, most)} ({asked.percent}, same draws)"
    return f"{best.metric} rises {verdict.format(first, second)}", f"{text}, {difference}"


def said(one: Seen, keys: dict[str, int], asked: Question) -> str:
    """A setting in words. keys: with their places among its values."""
    return settings(keys, [one.values[place] for place in keys.values()], asked.workload) or "the one setting"


def varying(found: list[Seen], keys: list[str]) -> dict[str, int]:
    """The keys that tell the settings apart, with their places among the values of a setting."""
    return {key: place for place, key in enumerate(keys) if len({one.values[place] for one in found}) > 1}


def line(one: Seen, keys: list[str], asked: Question) -> dict[str, str]:
    """One metric in one setting as a row of formatted text."""
    return {
        **{plain(key): number(value) for key, value in zip(keys, one.values, strict=True)},
        "metric": one.metric,
        f"in the middle [{asked.percent}]": with_interval(middle(one), asked.level),
        f"above it on average [{asked.percent}]": with_interval(above(one), asked.level),
        "grid": f"{len(one.x)} x {len(one.y)}",
        "draws": counted(len(one.draws), "draw"),
    }


def of_draws(one: Seen, keys: list[str], x: str, y: str) -> pd.DataFrame:
    """One line per point and draw."""
    import pandas as pd

    across, along = np.meshgrid(one.x, one.y)
    parts = [
        pd.DataFrame({"metric": one.metric, "seed": seed, x: across.ravel(), y: along.ravel(), "value": grid.ravel()})
        for seed, grid in one.draws.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    for place, (key, value) in enumerate(zip(keys, one.values, strict=True)):
        table.insert(place, key, value)
    return table
