"""Rows of the linear transfer workload with metrics that a test makes, and the finding of an entry about them."""

import itertools

import numpy as np
import pandas as pd

from raysweep import workloads
from raysweep.analyses.findings import one_finding

TRANSFER = workloads.get("linear_transfer")


def rows_with(axes, draws, **metrics):
    """One row per cell and seed; a metric is a function of the rows' axes and seeds, and of a random generator."""
    cells = pd.DataFrame(itertools.product(*axes.values()), columns=list(axes))
    cells["cell"] = [f"c{place}" for place in range(len(cells))]
    frame = cells.merge(pd.DataFrame({"seed": range(draws)}), how="cross").assign(sweep="s", status="ok")
    random = np.random.default_rng(0)
    return frame.assign(**{name: values(frame, random) for name, values in metrics.items()})


def finding_of(frame, axes, kind, **options):
    """The finding of one entry of a sweep over these axes."""
    space = {"name": "s", "workload": "linear_transfer", "axes": dict(axes), "fixed": {}}
    return one_finding(frame, space, {kind: options}, "s")
