"""What the page lets a reader explore of learning curves: every setting's mean, band and seeds over its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.rows import spread
from raysweep.fits.draws import log_axis
from raysweep.report.figures.scales import asinh_width
from raysweep.report.names import axis_label, plain, settings
from raysweep.reporting.analyses.explored import labels, plain_number, rounding

if TYPE_CHECKING:
    from raysweep.analyses.kinds.learning_curves import Curve as Setting
    from raysweep.analyses.question import Question

POINTS = 60  # a curve has so many points at most: enough for the eye, few enough for a small file


def explored_learning(
    found: Sequence[Setting], keys: Sequence[str], metric: str, asked: Question, called: str
) -> dict[str, Any]:
    """The learning curves of a metric, one per setting of the keys, in the form of `explored.explored`.

    found: at least one has points. called: what the steps are, for the axis.
    """
    workload = asked.workload
    made = [one for one in found if len(one.x)]
    x = np.unique(np.concatenate([one.x for one in made]))
    numbers = [key for key in keys if not workload.by_name[key].categorical]
    return {
        "metric": axis_label(metric, workload),
        "name": metric,
        "x": called,
        "axis": called,
        "unit": "",
        "log": log_axis(x),
        "width": asinh_width(np.concatenate([one.stacked.ravel() for one in made])),
        "categories": [],
        "keys": [{"label": axis_label(key, workload), "number": key in numbers, "log": False} for key in keys],
        "along": -1,
        "what": "",
        "percent": asked.percent,
        "grids": [[]],
        "settings": [curve(one, keys, numbers, asked) for one in made],
    }


def curve(one: Setting, keys: Sequence[str], numbers: Sequence[str], asked: Question) -> dict[str, Any]:
    """One setting: its mean, band and draws at up to `POINTS` of its steps."""
    kept = np.array(spread(range(len(one.x)), POINTS))
    rounded = rounding(one.stacked)
    low, high = (np.where(np.isfinite(end), end, one.mean) for end in (one.low, one.high))
    return {
        "said": settings(keys, one.values, asked.workload) or plain(asked.x),
        "values": list(labels(one.values)),
        "at": [plain_number(value) if key in numbers else None for key, value in zip(keys, one.values, strict=True)],
        "x": [plain_number(value) for value in one.x[kept]],
        "mean": rounded(one.mean[kept]),
        "low": rounded(low[kept]),
        "high": rounded(high[kept]),
        "median": False,
        "seeds": list(one.seeds),
        "draws": [rounded(draw) for draw in one.stacked[:, kept]],
        "theory": [0, []],
    }
