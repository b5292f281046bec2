"""Does an interval that ends a search hold the truth 95 times of 100? A search looks often and stops when it is narrow.

    python -m benchmarks.stopping [REPLICATIONS] [zero|rate|inflection]...     # 300 for each line of the table

The slices are synthetic, so the truth is known: a zero of cos x - cos x0 over 20 angles (as of linear transfer), and
the lowest place of a parabola over 10 rates a factor 2 apart. Draws move together along a slice, as real ones do, or
have noise of their own; the noise is as large as an oracle would need `draws` for. All intervals are those that a sweep
with a precision calls 95 %, which are computed at a stricter level (`stopped_level`). Each line: how many slices
reached what was asked for, how often their interval holds the truth, how often one from as many fresh draws of the same
cells does (which no search has looked at: what is missing there is the interval's own doing), the draws of the cell
with the most, and the rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from raysweep.fits.completed import completed
from raysweep.fits.statistics import LEVEL
from raysweep.search import bracketing, racing
from raysweep.search.curves import OPEN, REACHED, Curve, Step
from raysweep.search.slices import Ask, Slice

ANGLES = np.linspace(4.5, 90, 20)
RATES = 0.001 * 2.0 ** np.arange(10)
DRAWS = (4, 10, 30, 100)  # that an oracle would need
MOST = 800
NOISES = ("smooth", "own", "skewed", "heavy")
FACTOR = 1.2


@dataclass(frozen=True)
class Stopped:
    """How the search of one slice ended.

    state: as in `Step`.
    holds: whether the interval holds the truth.
    fresh: whether that of as many fresh draws does.
    """

    state: str
    holds: bool
    fresh: bool
    draws: int
    rows: int


def noise(rng: np.random.Generator, points: int, kind: str) -> np.ndarray:
    """Noise of unit size, (MOST, points): a level, a tilt and a wave in each draw; `own`: half of the variance is each
    point's own; `skewed`: exponential; `heavy`: Student's t with 4 degrees of freedom."""
    shape = (MOST, 3)
    draws = {
        "skewed": lambda: rng.exponential(size=shape) - 1,
        "heavy": lambda: rng.standard_t(4, size=shape) / math.sqrt(2),
    }.get(kind, lambda: rng.standard_normal(shape))()
    at = np.linspace(-1, 1, points)
    smooth = draws[:, [0]] + 0.2 * draws[:, [1]] * at + 0.1 * draws[:, [2]] * np.sin(3 * at)
    return math.sqrt(0.5) * (smooth + rng.standard_normal((MOST, points))) if kind == "own" else smooth


def searched(curve: np.ndarray, x: np.ndarray, first: np.ndarray, step: Callable[[Curve], Step]) -> tuple[Curve, Step]:
    """The rows that a search asks of a slice, and its last step. curve: the values of all draws, (draws, points)."""
    counts = first
    while True:
        known = _with_counts(Curve(x, counts, curve), curve)
        found = step(known)
        if found.state != OPEN:
            return known, found
        if not (found.counts > counts).any():
            raise RuntimeError(f"the search goes on and asks for nothing: {counts}")
        counts = np.maximum(found.counts, counts)


def boundary(rng: np.random.Generator, draws: int, kind: str) -> Stopped:
    """A zero to within ± 1 degree, by draws whose zeros have the deviation for which `draws` are needed."""
    root = rng.uniform(25, 75)
    size = math.sin(math.radians(root)) * math.pi / 180 * math.sqrt(draws) / 1.96
    mean = np.cos(np.radians(ANGLES)) - math.cos(math.radians(root))
    values = mean + size * noise(rng, len(ANGLES), kind)
    ask = _ask("boundary", "boundary", ANGLES, 1.0)
    known, last = searched(values, ANGLES, bracketing.first(ask), lambda curve: bracketing.step(curve, ask))
    again = _with_counts(known, mean + size * noise(rng, len(ANGLES), kind))
    holds = [fit.low <= root <= fit.high for fit in (bracketing.fitted(known, ask), bracketing.fitted(again, ask))]
    return _stopped(known, last, *holds)


def optimum(rng: np.random.Generator, draws: int, kind: str, fit: str = "optimum") -> Stopped:
    """A best rate to within a factor 1.2; only the tilt of a draw moves its best place."""
    u = np.log(RATES)
    place, wanted = rng.uniform(u[2], u[-3]), math.log(FACTOR)
    tilt = wanted * math.sqrt(draws) / 1.96 * np.ptp(u) / 2 / 0.2  # half a unit of noise tilts by 0.2 over the axis
    mean = 0.5 * (u - place) ** 2
    values = mean + tilt * noise(rng, len(u), kind)
    ask, joint = _ask("optimum", fit, RATES, wanted), _completed if fit == "optimum" else lambda curve: curve
    known, last = searched(values, RATES, racing.first(ask), lambda curve: racing.step(joint(curve), ask))
    again = _with_counts(known, mean + tilt * noise(rng, len(u), kind))
    truth = math.exp(place)
    holds = [fit.low <= truth <= fit.high for fit in (racing.fitted(joint(each), ask) for each in (known, again))]
    return _stopped(known, last, *holds)


def _ask(kind: str, fit: str, x: np.ndarray, wanted: float) -> Ask:
    log = True if kind == "optimum" else None
    own = Slice(
        "analysis[0]", kind, fit, "y", "x", {}, tuple(range(len(x))), x, LEVEL, 1, wanted, bool(log), log, False, None
    )
    return Ask(own, MOST)


def _completed(curve: Curve) -> Curve:
    return replace(curve, values=completed([curve.values])[0])


def _with_counts(known: Curve, values: np.ndarray) -> Curve:
    """A slice with the counts of another one, and with these draws, (draws, points)."""
    draws = int(known.counts.max())
    return Curve(known.x, known.counts, np.where(np.arange(draws)[:, None] < known.counts, values[:draws], np.nan))


def _stopped(known: Curve, last: Step, holds: bool, fresh: bool) -> Stopped:
    return Stopped(last.state, bool(holds), bool(fresh), int(known.counts.max()), int(known.counts.sum()))


def measured(
    one: Callable[[np.random.Generator, int, str], Stopped], draws: int, kind: str, times: int
) -> list[Stopped]:
    """So many slices; the same everywhere."""
    return [one(np.random.default_rng([draws, NOISES.index(kind), number]), draws, kind) for number in range(times)]


def line(name: str, draws: int, kind: str, found: list[Stopped]) -> str:
    """A line of the table."""
    reached = [each for each in found if each.state == REACHED]
    shares = [float(np.mean([getattr(each, key) for each in reached])) for key in ("holds", "fresh") if reached]
    shown = [f"{share:.3f} ± {math.sqrt(share * (1 - share) / len(reached)):.3f}" for share in shares] or ["–", "–"]
    most, rows = (float(np.mean([getattr(each, key) for each in found])) for key in ("draws", "rows"))
    return (
        f"| {name} | {kind} | {draws} | {len(reached)} of {len(found)} | {' | '.join(shown)} | {most:.0f} | "
        f"{rows:.0f} |"
    )


PLACES: dict[str, Callable[[np.random.Generator, int, str], Stopped]] = {
    "zero": boundary,
    "rate": optimum,
    "inflection": partial(optimum, fit="inflection"),
}
COLUMNS = ("place", "noise", "draws that an oracle needs", "reached", "coverage", "of fresh draws", "draws", "rows")


def main() -> None:
    """Print the table."""
    times, names = int(sys.argv[1]) if len(sys.argv) > 1 else 300, sys.argv[2:] or list(PLACES)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in names:
        for kind in NOISES:
            for draws in DRAWS:
                print(line(name, draws, kind, measured(PLACES[name], draws, kind, times)), flush=True)


if __name__ == "__main__":
    main()
