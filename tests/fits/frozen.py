"""Small data sets and what every fit gives for them. `python -m tests.fits.frozen` writes frozen.csv anew.

The posteriors are sampled, and a last digit can decide a step of the sampler. Numbers are therefore computed with the
instructions that every x86 machine since 2013 has, whatever the machine.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from raysweep.fits import comparison
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.correlation import difference, explained, of_ranks
from raysweep.fits.optimum import fit_inflection, fit_optimum
from raysweep.fits.power_law import fit_meeting, fit_power_law
from raysweep.fits.regime import fit_regime
from raysweep.fits.shift import fit_shift
from raysweep.fits.trend import fit_trend

TABLE = Path(__file__).with_name("frozen.csv")
COMMON = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}
T = np.linspace(0, 1, 9)
NUMBERS = ["estimate", "low", "high"]


def rows(x, mean, seed, draws=5, size=0.05, kind="own"):
    """Draws of a mean curve, with noise of this size: `own` of every row, a `tilt` of each draw, of `heavy` tails, or
    `none`; each draw has a level of its own of half that size."""
    rng = np.random.default_rng(seed)
    level, scatter = rng.standard_normal((draws, 1)), rng.standard_normal((draws, len(x)))
    noise = {
        "own": scatter + level / 2,
        "tilt": level * np.linspace(-1, 1, len(x)) + 0.1 * scatter + level[::-1] / 2,
        "heavy": rng.standard_cauchy((draws, len(x))),
        "none": 0 * scatter,
    }[kind]
    y = (mean + size * noise).ravel()
    return pd.DataFrame({"x": np.tile(x, draws), "seed": np.repeat(np.arange(draws), len(x)), "y": y, "status": "ok"})


def lost(frame, where, status="diverged"):
    return frame.assign(status=np.where(where, status, "ok"), y=frame["y"].where(~where))


ZEROS = {
    "straight": (rows(T, 0.4 - T, 1), {}),
    "straight, tilted draws": (rows(T, 0.6 - T, 2, kind="tilt"), {}),
    "straight, 20 draws": (rows(T, 0.55 - T, 3, draws=20, size=0.2), {}),
    "two draws": (rows(T, 0.5 - T, 4, draws=2, size=0.02), {}),
    "kink": (rows(T, np.where(T < 0.45, 0.45 - T, 4 * (0.45 - T)), 5), {}),
    "step": (rows(T, np.tanh((0.52 - T) / 0.02), 6), {}),
    "rising on a log axis": (rows(np.geomspace(1, 1000, 9), T - 0.37, 7), {}),
    "two crossings": (rows(T, (T - 0.25) * (T - 0.75) * 4, 8, size=0.03), {}),
    "beyond the upper edge": (rows(T, 1.2 - T, 9), {}),
    "beyond the lower edge": (rows(T, -0.2 - T, 10), {}),
    "noise alone": (rows(T, 0 * T, 11), {}),
    "positive everywhere": (rows(T, 1 + 0 * T, 12), {}),
    "down to zero": (rows(T, np.maximum(0.5 - T, 0), 13), {}),
    "heavy tails": (rows(T, 0.4 - T, 14, draws=12, kind="heavy"), {}),
    "diverging at one end": (rows(T, 0.4 - T + 1e3 * (T == 0), 15), {}),
    "missing rows": (lost(rows(T, 0.43 - T, 16), pd.Series(np.arange(45) % 7 == 3), "failed"), {}),
    "one exact draw": (rows(T, np.cos(2 * T) - 0.5, 17, draws=1, kind="none"), {"exact": True}),
    "too few points": (rows(T[:2], 0.1 - T[:2], 18), {}),
}
TURNS = {
    "parabola": (rows(T + 1, 4 * (T - 0.42) ** 2, 21), {}),
    "parabola on a log axis": (rows(10 ** (3 * T - 4), 4 * (T - 0.58) ** 2, 22), {}),
    "maximum, tilted draws": (rows(T + 1, -4 * (T - 0.5) ** 2, 23, kind="tilt"), {"turn": "max"}),
    "uneven": (rows(10 ** (3 * T - 4), np.exp(5 * (T - 0.4)) / 5 - T, 24, draws=3), {}),
    "corner": (rows(T + 1, np.where(T < 0.45, 0.7 * (0.45 - T), 2 * (T - 0.45)), 25, size=0.02), {}),
    "wall": (rows(T + 1, -0.3 * T + (T > 0.7), 26, size=0.01), {}),
    "falling to the end": (rows(T + 1, -2 * T, 27), {}),
    "rising from the start": (rows(T + 1, 2 * T**2, 28), {}),
    "beyond the upper edge": (rows(10 ** (3 * T), (T - 1.2) ** 2, 29, size=0.01), {}),
    "beyond the lower edge": (rows(10 ** (3 * T), (T + 0.2) ** 2, 30, size=0.01), {}),
    "noise alone": (rows(T + 1, 0 * T, 31), {}),
    "diverged from a rate on": (
        lost(frame := rows(10 ** (3 * T - 4), 4 * (T - 0.6) ** 2, 32), (frame["x"] > 1e-2) & (frame["seed"] > 0)),
        {},
    ),
    "a cliff": (rows(10 ** (3 * T - 4), 2 * (T - 0.4) ** 2 + 1e4 * np.maximum(T - 0.7, 0) ** 2, 33), {}),
    "one exact draw": (rows(T + 1, np.exp(3 * (T - 0.4)) / 3 - T, 34, draws=1, kind="none"), {"exact": True}),
    "equal draws": (rows(T + 1, np.abs(T - 0.5), 35, kind="none"), {}),
    "too few points": (rows(T[:4] + 1, (T[:4] - 0.2) ** 2, 36), {}),
    "missing rows": (lost(rows(T + 1, 4 * (T - 0.42) ** 2, 37), pd.Series(np.arange(45) % 11 == 3), "failed"), {}),
}
INFINITE = {
    "best at infinity": rows(np.append(2.0 ** np.arange(8), np.inf), np.append((np.arange(8) - 3) ** 2 / 9, -1), 41),
    "zero set apart": rows(np.append(0, 2.0 ** np.arange(8)), np.append(9, (np.arange(8) - 3.3) ** 2 / 9), 42),
}
LINES = {
    "rising": (rows(T + 1, T, 51), {}),
    "falling, tilted draws": (rows(T + 1, -T, 52, size=0.2, kind="tilt"), {}),
    "falling over decades": (rows(10 ** (3 * T), -T, 53, draws=3), {}),
    "noise alone": (rows(T + 1, 0 * T, 54), {}),
    "down and up": (rows(T + 1, 4 * (T - 0.4) ** 2, 55), {}),
    "equal draws": (rows(T + 1, 2 * T, 56, kind="none"), {}),
    "one draw": (rows(T + 1, T, 57, draws=1), {}),
}


def powers(exponent, seed, bend=0.0, **options):
    """Rows of a power law over two decades, and its level."""
    x = np.geomspace(1e-4, 1e-2, 7)
    frame = rows(x, exponent * np.log(x) + bend * np.log(x) ** 2, seed, **options)
    return frame.assign(y=np.exp(frame["y"]), level=np.exp(exponent * np.log(1.3e-3) + 0.05 * frame["seed"]))


POWERS = {
    "square root": powers(0.5, 61),
    "falling, tilted draws": powers(-1.2, 62, kind="tilt"),
    "bent": powers(0.5, 63, bend=0.1),
    "equal draws": powers(0.75, 64, kind="none"),
    "one draw": powers(0.75, 65, draws=1),
    "not positive": powers(0.75, 66).assign(y=lambda each: each["y"] - 1),
}


def rates(slope, seed, draws=4, centre=3e-3, size=0.1):
    """Losses over rates at four lengths, whose best rate is centre · length^slope."""
    at, parts = np.geomspace(1e-4, 1e-1, 9), []
    for k, length in enumerate((1.0, 3.0, 10.0, 30.0)):
        loss = (np.log(at / centre) - slope * np.log(length)) ** 2 / 4
        parts.append(rows(at, loss, seed + 100 * k, draws=draws, size=size).assign(length=length))
    return pd.concat(parts, ignore_index=True)


def of_slices(data, fit, by=""):
    """A row for each slice; with several slices also their intervals for all at once."""
    for line in fit.table.to_dict("records"):
        row = {"data": f"{data}, {by} = {line[by]:g}" if by else data}
        yield row | {name: line[name] for name in ("status", "reason", *NUMBERS)}
        if by:
            at_once = {end: line[f"{end}_simultaneous"] for end in ("low", "high")}
            yield {"data": f"{row['data']}, all at once", "status": line["status"], **at_once}


def of_one(data, fit, estimate):
    """A row of a fit of one number, which is its attribute `estimate`."""
    return {"data": data, "reason": fit.reason, "estimate": getattr(fit, estimate), "low": fit.low, "high": fit.high}


def boundaries():
    for data, (frame, options) in ZEROS.items():
        yield from of_slices(data, fit_boundary(frame, "x", None, "y", "seed", **options))
    slices = [rows(T, root - T, 19, draws=8, kind="tilt").assign(slice=root) for root in (0.3, 0.5, 0.6)]
    yield from of_slices("slices", fit_boundary(pd.concat(slices), "x", "slice", "y", "seed"), "slice")


def inflections():
    for data, (frame, options) in TURNS.items():
        yield from of_slices(data, fit_inflection(frame, "x", "y", "seed", advise=False, **options))
    for data, frame in INFINITE.items():
        yield from of_slices(data, fit_inflection(frame, "x", "y", "seed", advise=False))


def optima():
    for data, (frame, options) in TURNS.items():
        yield from of_slices(data, fit_optimum(frame, "x", "y", None, "seed", advise=False, **options))
    yield from of_slices("rates", fit_optimum(rates(-0.3, 71), "x", "y", "length", "seed", advise=False), "length")


def regimes():
    steep = rates(-1.0, 74, centre=2e-2)
    for data, frame in {
        "constant": rates(0.0, 72),
        "slowly decreasing": rates(-0.3, 73, draws=6, size=0.03),
        "censored": steep,
        "censored, diverging": lost(steep, steep["x"] > 0.06),
        "two lengths": (few := rates(0.3, 75))[few["length"] < 5],
    }.items():
        regime = fit_regime(frame, "x", "length", "y", "seed")
        yield of_one(data, regime, "slope") | {"status": regime.verdict}
        for line in regime.at_best_lr.table.to_dict("records"):
            yield {"data": f"{data}, loss at length {line['length']:g}", "estimate": line["mean"]} | {
                end: line[end] for end in ("low", "high")
            }


def shifts():
    one = rates(-0.2, 76)
    for data, other in {"other noise": rates(-0.2, 77, centre=5e-3), "same draws": one.assign(x=2 * one["x"])}.items():
        shift = fit_shift(one, other, "x", "y", "length", "seed")
        yield {"data": data, "estimate": shift.factor, "low": shift.low, "high": shift.high}


def trends():
    for data, (frame, options) in LINES.items():
        trend = fit_trend(frame, "x", "y", "seed", **options)
        yield of_one(data, trend, "slope")
        for name in ("p_value", "p_against", "p_along", "p_throughout", "move", "back"):
            yield {"data": f"{data}, {name}", "estimate": getattr(trend, name)}


def power_laws():
    for data, frame in POWERS.items():
        law = fit_power_law(frame, "x", "y", "seed")
        yield of_one(data, law, "exponent")
        yield {"data": f"{data}, bend", "estimate": law.bend, "low": law.bend_low, "high": law.bend_high}


def meetings():
    for data, frame in POWERS.items():
        yield of_one(data, fit_meeting(frame, "x", "y", "level", "seed"), "place")


def correlations():
    x, noise = np.random.default_rng(81).standard_normal((2, 3, 12))
    for data, y in {"half": x + noise, "none": noise, "a line": 3 - 2 * x, "few units": (x + noise)[:, :3]}.items():
        yield of_one(data, explained(x[:, : y.shape[1]], y), "r_squared")
        yield {"data": f"{data}, rank"} | dict(zip(NUMBERS, of_ranks(x[0, : y.shape[1]], y[0]), strict=True))
    yield {"data": "difference"} | dict(zip(NUMBERS, difference(x + noise, x, x + 2 * noise), strict=True))


def comparisons():
    one, other = rows(T, 0 * T, 91, draws=6), rows(T, 0.2 * T, 92, draws=6)
    pairs = comparison.paired(one, other, ["x"], "y")
    for line in comparison.per_cell(pairs, ["x"]).to_dict("records"):
        yield {"data": f"x = {line['x']:g}", "status": line["status"], "estimate": line["difference"]} | {
            end: line[end] for end in ("low", "high")
        }
    whole = comparison.over_cells(pairs, ["x"])
    yield {"data": "all cells", "estimate": whole.mean, "low": whole.low, "high": whole.high}


FITS = {
    each.__name__: each
    for each in (
        *(boundaries, inflections, optima, regimes, shifts, trends),
        *(power_laws, meetings, correlations, comparisons),
    )
}


def table():
    """What every fit gives: data, status, reason, estimate, low, high."""
    blank = {"data": "", "status": "", "reason": ""}
    lines = [{"fit": name, **blank, **line} for name, fit in FITS.items() for line in fit()]
    return pd.DataFrame(lines, columns=["fit", "data", "status", "reason", *NUMBERS])


def write(path):
    subprocess.run([sys.executable, "-m", "tests.fits.frozen", path], env={**os.environ, **COMMON}, check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        table().to_csv(sys.argv[1], index=False)
    else:
        write(TABLE)
