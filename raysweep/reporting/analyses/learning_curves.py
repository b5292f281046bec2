"""The curves analysis along training: what a stage logged at each step, as means over draws with a band."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.learning_curves import Curve, LearningLine, learned, points_table
from raysweep.analyses.question import Question
from raysweep.analyses.series import laid_out as arranged
from raysweep.errors import unknown
from raysweep.fits.draws import log_axis
from raysweep.ledger.curves import STEP
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.learning_curves import learning_figure
from raysweep.report.names import plain, settings
from raysweep.reporting.analyses.explored_learning import explored_learning
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import DIVERGED

if TYPE_CHECKING:
    pass


def learning_curves_section(asked: Question) -> Section:
    """Figures and tables of one `curves` entry with x: step or x: share.

    InputError if the stage logged other metrics than the one that is asked for.
    """
    stage = asked.options.get("stage", asked.workload.chain.names[0])
    called = asked.options.get("called")
    title = f"Learning curves: {stage} over {asked.x if asked.x == STEP else 'the share of its steps'}"
    if called:
        title = f"What {stage} logged, by {called}"
    every = asked.curves() if asked.curves else asked.rows.iloc[:0].assign(stage="")
    points = every[every["stage"] == stage]
    if points.empty:
        return Section(title, f"{stage} logged nothing in these rows, so there are no learning curves to show")
    fixed = ("sweep", "cell", "seed", "status", "stage", STEP)
    logged = [name for name in points.columns if name not in fixed and points[name].notna().any()]
    chain = asked.workload.chain
    place = chain.names.index(stage)
    until = chain.stages[place].until if chain.stages[place].points is not None else ""
    keys = [name for name in asked.keys(asked.x) if name in chain.known[place] and name != until]
    shared = [name for name in asked.keys(asked.x) if name not in chain.known[place]]
    rows = asked.rows[["sweep", "cell", "seed", "status", *keys]]
    drawings, tables, shown = [], {}, list[dict[str, str]]()
    headlines, notes = [], [how(asked)]
    explored: list[Callable[[], dict[str, Any]]] = []
    for metric in metrics_of(asked.options):
        if metric not in logged:
            option = "metric" if asked.options.get("metric") == metric else "metrics"
            raise unknown(f"analysis.curves.{option}", f"metric that {stage} logged", metric, logged)
        found = learned(rows, points, keys, metric, asked)
        name = f"{asked.name}_{metric}"
        tables[name] = points_table(found, keys, asked.x)
        drawings += drawn(found, keys, stage, metric, asked, name)
        if any(len(one.x) for one in found):
            explored.append(partial(explored_learning, found, keys, metric, asked, steps_called(asked)))
        shown += [shown_row(one, keys, metric, asked) for one in found]
        headlines.append(in_words(found, keys, stage, metric, asked))
        notes += left_out_words(found, metric)
    if until in asked.keys(asked.x):
        notes.append(
            f"{plain(until)} only says how far {stage} goes: rows that differ in it have one curve, which is shown as "
            "far as the longest of them went."
        )
    if shared:
        notes.append(
            f"{stage} does not depend on {', '.join(map(plain, shared))}: rows that differ only in this share a curve."
        )
    first, *others = headlines
    return Section(
        title, first, notes, drawings, shown, tables, means_only=True, explored=explored, detail="; ".join(others)
    )


def words_of(one: Curve) -> list[str]:
    """The statuses of the draws that are not ok."""
    return [status for status, _, _ in one.left_out]


def drawn(found: list[Curve], keys: list[str], stage: str, metric: str, asked: Question, name: str) -> list[Drawing]:
    """The figure; an empty list if no setting has a point."""
    visible = [one for one in found if len(one.x) or one.left_out]
    every = np.unique(np.concatenate([x for one in visible for x in (one.x, *(x for _, x, _ in one.left_out))]))
    if not len(every):
        return []
    scale = asked.options.get("scale")
    positive = every[every > 0]
    log = log_axis(positive, True) if scale == "log" else log_axis(every, False if scale else None)

    panels = arranged([(one.values, one) for one in visible], keys[:1], keys[1:], LearningLine)
    shown = sum(len(panel.lines) for panel in panels)
    called = asked.options.get("called")
    caption = f"{metric} of {stage} against {called or ('its step' if asked.x == STEP else 'the share of its steps')}: "
    caption += f"mean over ok draws; band: {asked.percent} at each point by itself."
    if any(one.left_out for one in visible):
        caption += (
            " Dashed: draws that are not ok, up to a cross at their last finite value; beyond the scale of the means "
            "they run along its edge."
        )
    if shown < len(visible):
        caption += f" {shown} of {counted(len(visible), 'setting')} are shown; the table has all."
    if log and len(positive) < len(every):
        caption += " The logarithmic axis leaves out 0."
    words = {word for one in visible for word in words_of(one)}
    label = "diverged draw" if words == {DIVERGED} else "draw that is not ok"
    return [
        Drawing(
            name,
            caption,
            learning_figure(panels, steps_called(asked), metric, log, asked.percent, label, asked.workload),
        )
    ]


def steps_called(asked: Question) -> str:
    """What the steps are, for an axis."""
    return asked.options.get("called") or ("step" if asked.x == STEP else "share of the steps")


def in_words(found: list[Curve], keys: list[str], stage: str, metric: str, asked: Question) -> str:
    """Where the curves end, in one sentence."""
    if not any(len(one.x) for one in found):
        return f"no draw with {metric} of {stage} is ok"
    there = [one for one in found if len(one.x) and not one.lost]
    if not there:
        return f"most draws with {metric} of {stage} diverged or failed in every setting"
    bad = sum(len(one.left_out) for one in found)
    total = bad + sum(len(one.seeds) for one in found)
    ending = f" ({asked.percent} over draws)"
    if bad:
        ending += f"; {bad:,} of {counted(total, 'draw')} left out, because they are not ok"
    best, worst = (pick(there, key=lambda one: float(one.mean[-1])) for pick in (min, max))
    if best is worst or len(there) == 1:
        x = asked.options.get("called", asked.x)
        first = f"{number(best.mean[0])} at {x} {number(best.x[0])}"
        return f"{metric} of {stage} goes from {first} to {end_of(best)} at {x} {number(best.x[-1], 6)}{ending}"
    at_best, at_worst = (settings(keys, one.values, asked.workload) for one in (best, worst))
    return (
        f"{metric} of {stage} ends lowest with {at_best}: at {end_of(best)}; highest, at {end_of(worst)}, with "
        f"{at_worst}{ending}"
    )


def end_of(one: Curve) -> str:
    """The last mean with its interval, and how many draws are ok if not all are."""
    few = f" ({len(one.seeds)} of {one.computed} draws ok)" if len(one.seeds) < one.computed else ""
    if not np.isfinite(one.low[-1]):
        return f"{number(one.mean[-1])}{few or ' (a single draw)'}"
    return interval(one.mean[-1], one.low[-1], one.high[-1]) + few


def shown_row(one: Curve, keys: list[str], metric: str, asked: Question) -> dict[str, str]:
    """One setting as a row of formatted text: where its curve begins and ends."""
    out = {plain(key): number(value) for key, value in zip(keys, one.values, strict=True)}
    out["metric"] = metric
    out[asked.options.get("called", f"{asked.x}s")] = (
        f"{number(one.x[0], 6)} to {number(one.x[-1], 6)}" if len(one.x) else "–"
    )
    out["first mean"] = number(one.mean[0]) if len(one.x) else "–"
    out[f"last mean [{asked.percent}]"] = end_of(one) if len(one.x) else "–"
    out["draws"] = str(len(one.seeds))
    out["left out"] = ", ".join(f"{count} {plain(word)}" for word, count in Counter(words_of(one)).items()) or "–"
    return out


def how(asked: Question) -> str:
    """How means and bands were made, in words."""
    return (
        "Each mean is over the ok draws, at the points that all of them logged. Its band is Student's t over draws: it "
        f"holds the expected value with {asked.percent} at each point by itself, not everywhere at once; a single draw "
        "has none."
    )


def left_out_words(found: list[Curve], metric: str) -> list[str]:
    """Which draws are in no mean, in words; an empty list if there are none."""
    words = Counter(word for one in found for word in words_of(one))
    if not words:
        return []
    listed = ", ".join(f"{count:,} {plain(word)}" for word, count in words.items())
    return [f"In no mean of {metric}: {counted(words.total(), 'draw')} ({listed}), which the figure shows dashed."]
