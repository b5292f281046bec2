"""The analysis `agreement`: does the experiment have the means of the closed form?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Nothing, Outcome, Plot
from raysweep.analyses.outcomes import takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import MEANS, heavy_rows, means_table, parameters_of, varying
from raysweep.fits.comparison import FEWEST, Joint, joint, student_coverage
from raysweep.fits.reasons import Reason
from raysweep.fits.statistics import LEVEL, t_quantile
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space.analyses import metrics_of

DOUBTFUL = 1e-3  # a difference with a larger p-value may be chance: other seeds would tell
SKEWED = 1.0  # above this skewness, Student's t intervals of about 20 draws clearly cover too little


@dataclass(frozen=True, eq=False)
class AgreementPlot(Plot):
    """The cells of a metric against its closed form. table: see `scored`. test: of all cells at once."""

    metric: str
    table: pd.DataFrame
    test: Joint


def run(question: Question) -> Finding:
    """One setting per metric, by default each that has a closed form: the mean difference to it over all cells, in
    standard deviations of a draw. Cells whose draws have no variance are left out."""
    frame, workload = question.rows, question.workload
    asked = metrics_of(question.options) or [one.name for one in workload.metrics if f"{one.name}_theory" in frame]
    every = parameters_of(frame, workload)
    keys = varying(every, frame) or every[:1]
    tables: dict[str, pd.DataFrame] = {}
    tests: dict[str, Joint | None] = {}
    for metric in (name for name in asked if f"{name}_theory" in frame):
        light = frame[~heavy_rows(frame, metric, workload)]
        table = means_table(light, keys, metric, workload)
        table = table[np.isfinite(table["theory"].astype(float)) & (table["draws"] > 1)] if len(table) else table
        if len(table):
            tables[metric], tests[metric] = scored(table), joint(differences(light, keys, metric))
    missing = [name for name in asked if name not in tables]
    if not tables:
        return question.nothing("agreement", Nothing.NO_CLOSED_FORM, ", ".join(missing))
    tested = sum(test is not None for test in tests.values())
    return question.finding(
        "agreement",
        [{"metric": metric, **setting(tables[metric], test, tested)} for metric, test in tests.items()],
        ["metric"],
        metric=next(iter(tables)) if len(asked) == 1 else "",
        facts={"missing": missing} if missing else {},
        tables={f"{question.name}_{metric}": table for metric, table in tables.items()},
        plots=lambda: [
            AgreementPlot(f"{question.name}_{metric}", metric, tables[metric], test)
            for metric, test in tests.items()
            if test
        ],
    )


def setting(table: pd.DataFrame, test: Joint | None, metrics: int) -> dict[str, Any]:
    """The row of one metric. metrics: how many are tested; p-values are corrected for them (Bonferroni).

    inside_95: the share of cells whose interval holds the closed form. expected_95: the share to expect if the closed
    form is right, for skewed draws. If draws do not vary, each cell must agree up to rounding.
    """
    from scipy.special import ndtr

    draws, inside = int(table["draws"].max()), float(table["inside_95"].mean())
    row: dict[str, Any] = {"cells": len(table), "draws": draws, "inside_95": inside}
    if test is None:
        few = {"outcome": Outcome.UNDECIDED, "reason": Reason.TOO_FEW_DRAWS, **takes(Needed.MORE_DRAWS, draws)}
        return row | (few if draws < FEWEST else {"outcome": Outcome.AGREES if inside == 1 else Outcome.DIFFERS})
    chance = min(1.0, 2 * metrics * float(ndtr(-abs(test.z))))
    differs, half = chance < 1 - LEVEL, t_quantile(LEVEL, test.draws - 1) * test.error
    row |= {"outcome": Outcome.DIFFERS if differs else Outcome.AGREES, "estimate": test.mean}
    row |= {"low": test.mean - half, "high": test.mean + half, "z": test.z, "p_value": chance}
    row |= takes(Needed.MORE_DRAWS, draws) if differs and chance > DOUBTFUL else {}
    if abs(test.skewness) > SKEWED:
        row["expected_95"] = student_coverage(round(abs(test.skewness), 1), int(table["draws"].median()))
    return {**row, "skewness": test.skewness}


def differences(frame: pd.DataFrame, keys: list[str], metric: str) -> np.ndarray:
    """Value minus closed form, shape (draws, cells); NaN where a draw has no usable value."""
    good = frame.assign(difference=frame[metric].astype(float) - frame[f"{metric}_theory"].astype(float))
    good = good[(good["status"] == "ok") & np.isfinite(good["difference"])]
    table = good.assign(cell=good.groupby(keys, dropna=False).ngroup())
    return table.pivot_table(index="seed", columns="cell", values="difference").to_numpy(float)


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """Add to a table of means z and whether Student's 95 % interval contains the closed form; if all draws are equal,
    whether they agree with it up to rounding."""
    from scipy.special import stdtrit

    difference = table["mean"] - table["theory"]
    rounding = 1e-9 * np.maximum(table["theory"].abs(), 1e-3)
    real = table["standard_error"] > 1e-3 * rounding
    z = np.where(real, difference / table["standard_error"].where(real, 1.0), np.nan)
    limit = stdtrit(table["draws"].to_numpy(float) - 1, 0.975)
    inside = np.where(real, np.abs(np.nan_to_num(z)) <= limit, difference.abs() <= rounding)
    return table.assign(z=z, inside_95=inside.astype(bool))


ANALYSIS = Analysis(
    kind="agreement",
    question="Do theory and experiment agree?",
    run=run,
    optional={"metrics": allowed.metrics},
    columns=(*MEANS, "cell", "difference", "inside_95", "z"),
)
