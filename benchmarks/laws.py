"""How often laws of the best rate and best pairs of two axes are covered: surfaces whose truth is known.

{ python -m benchmarks.surfaces; python -m benchmarks.laws; } > raysweep/fits/surface/COVERAGE.md
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import raysweep
from benchmarks import pairs, regimes
from benchmarks.pairs import with_noise
from benchmarks.real_rows import ROWS, SETS
from benchmarks.shares import markdown
from benchmarks.surfaces import DRAWS, NOISES, SHAPES, SPAN, bound
from raysweep.fits.result import Status
from raysweep.fits.surface.kernel import compressed
from raysweep.fits.surface.law import Place, fit_law, held_out
from raysweep.fits.surface.posterior import CAP, DEGREES, Cells, Surface, fit_surface, paths
from raysweep.fits.surface.slice_places import slice_places
from raysweep.fits.surface.slices import slices_of

TEXT = """
# Laws: how often their intervals hold the truth

Measured by `python -m benchmarks.laws {repeats}`, on the families above. 12 slices (4 widths, 3 lengths, each over a
factor of 30) of 9 rates over 8 octaves. The best rate is a product of powers of width and length, -0.8 to 0.4 each and
one in four exactly 0, with scatter between slices of 0, 0.1 or 0.3 octaves. In half of the sweeps every slice lacks a
quarter of its cells, at random; some best rates lie at an edge or beyond.

Exponents, and the best rate of a *new* slice where nothing was run: inside of the range, and at twice the largest
width and length. Told from 0: exponents of 0 that are called different from it. Width: that of the interval over that
of an oracle who knows the family, the noise and the scatter (Cramér and Rao's bound in each slice, then least
squares); its median. Without scatter intervals are wide, because 12 slices cannot show that there is none. An error
that all slices have alike comes from the form of the curve (`SHARED` in `best.py`): it widens forecasts and leaves
exponents alone. Forecasts of a hinge and the edge of stability are covered least: slices are off alike by more. Draws
of a slice that is open to a side are mirrored at that end (`MIRRORED`): else exponents are too near 0 where many best
rates lie at an end or beyond (test_oracles.py).
"""
TEXT_OF_REGIMES = """
# Regimes: how the best rate changes with the length, with one run per cell

The forms of `benchmarks/regimes.py`, each alone: 6 lengths of 9 or 13 rates, slopes from -0.9 to 0.3, noise of 0.5 to
5 % of the curve's range, in half of the sweeps mostly shared by all lengths.
"""
TEXT_OF_REAL = """
# Real rows, one or two seeds a cell

The sweeps of `benchmarks/real_rows.py`, all curves of a set as one surface, cut to one or two seeds, which all cells
share, or to a seed of its own for each cell. The truth is that of all seeds. Trainings of language models are chaotic:
cells of one seed err each on its own. In linear networks a seed moves neighbouring cells alike.
Its curve is smooth, and the interval is that of *this seed's* curve, which holds the lowest point of the mean curve too
seldom. One seed cannot show this; two do, so of two each is fitted alone, too (`_disagreement` in `slice_places.py`).
Of a sweep that ran here `inflection` and `boundary` need several draws.

Where each cell has a seed of its own, they answer from one run (zeros: RUN_ERRORS.md). Decided: located or bounded.
Those of linear networks are the hardest: noise as large as the curve, which grows along the axis.
"""
STEPLAW = Path(__file__).parents[2] / "shared" / "data" / "steplaw" / "dense.csv"
TEXT_OF_STEPLAW = """
# Step Law

1,911 language models (arXiv 2503.04715), one run per cell, 17 settings of weights N and tokens D. Inside: slices whose
best rate lies in the interval that all settings of other N forecast. Cells: the second table is about cells that were
left out of the fit, a tenth at a time, up to 0.055 nats above the lowest of their slice: how many lie in their 50, 80
and 95 % intervals, and the median distance to the forecast. Regret: at the largest N, in nats above the lowest
loss there, at its best batch, mean over D, of the law from the smaller N, of the law from all of them, and of the
published law, which has seen all of them too.
"""
WIDTHS, LENGTHS = np.geomspace(1, 30, 4), np.geomspace(1, 30, 3)
RATES = 9
NEAR = 0.055
"""Nats above the lowest cell of a slice."""
SCATTERS = (0.0, 0.1, 0.3)


def law_measured(shape: str, noise: str, draws: int, number: int) -> pd.DataFrame:
    """One sweep: a row per exponent and per forecast of a new slice."""
    rng = np.random.default_rng([number, sum(map(ord, shape + noise)), draws])
    axes = np.array(list(itertools.product(WIDTHS, LENGTHS)))
    power = rng.uniform(-0.8, 0.4, 2) * (rng.random(2) > 0.25)
    scatter = rng.choice(SCATTERS)
    logs = np.log2(axes) - np.log2(axes).mean(0)
    best = SPAN / 2 + logs @ power + scatter * rng.standard_normal(len(axes))
    gain, level = 0.05 * np.exp(0.3 * rng.standard_normal(len(axes))), 3 + 0.2 * rng.standard_normal(len(axes))
    x = np.linspace(0, SPAN, RATES)
    here = rng.random((len(axes), RATES)) > 0.25 * (number % 2)
    values, information = with_noise(gain[:, None] * SHAPES[shape](x - best[:, None]), noise, draws, rng)
    variance = [
        bound(lambda move, s=s: gain[s] * SHAPES[shape](x[here[s]] - best[s] - move), information[s][here[s]], 1)[0, 0]
        for s in range(len(axes))
    ]
    seed, s, k = np.nonzero(np.broadcast_to(here, values.shape))
    frame = pd.DataFrame({"width": axes[s, 0], "length": axes[s, 1], "rate": 2 ** x[k], "seed": seed})
    frame["loss"] = (level[:, None] + values)[seed, s, k]
    found = slice_places(frame, ["rate"], "loss", ["width", "length"], turn="min")
    usable = np.array([place is not None for place in found.places])
    law = fit_law([place for place in found.places if place], np.array(found.slices.settings)[usable])
    new = np.array([np.exp(rng.uniform(0, np.log(30), 2)), (60.0, 60.0)])
    design, at = (np.column_stack([np.ones(len(one)), one]) for one in (logs, np.log2(new) - np.log2(axes).mean(0)))
    covariance = np.linalg.inv(design.T @ (design / (np.array(variance) + scatter**2)[:, None]))
    oracle = np.sqrt([*np.diag(covariance)[1:], *(np.einsum("ij,jk,ik->i", at, covariance, at) + scatter**2)])
    truth = np.r_[power, at @ np.r_[SPAN / 2, power] + scatter * rng.standard_normal(2)]
    low, high = np.full((2, 4), np.nan)
    if not law.reason:
        drawn = np.column_stack([law.coefficients[:, 1:], law.at(np.log(new), rng) / np.log(2)])
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "what": ["exponents", "exponents", "a new slice inside", "a new slice at twice the range"],
            "shape": shape,
            "noise": noise,
            "draws": draws,
            "cells missing": "a quarter" if number % 2 else "none",
            "scatter": scatter,
            "decided": not law.reason,
            "inside": (low <= truth) & (truth <= high),
            "wrong": (low > 0) | (high < 0),
            "zero": [*(power == 0), False, False],
            "ratio": (high - low) / (2 * 1.96 * oracle),
        }
    )


def law_lines(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """What was measured of laws, by group."""
    lines = []
    for key, part in table.groupby(by, sort=False):
        done = part[part["decided"]]
        lines.append(
            dict(zip(by, key, strict=True))
            | {
                "answers": len(part),
                "coverage": done["inside"].mean(),
                "told from 0": part.loc[part["zero"], "wrong"].mean(),
                "width / oracle's": done["ratio"].median(),
            }
        )
    return pd.DataFrame(lines)


def real_cut(groups: int) -> pd.DataFrame:
    """Real rows cut to few seeds: best values of each set, and the slopes of best rates over the length."""
    lines = []
    with np.load(ROWS, allow_pickle=False) as kept:
        for (name, curves), draws in itertools.product(SETS.items(), (1, 2, 0)):
            if curves.kind == "zero":
                continue
            part = {key: kept[f"{name}, {key}"] for key in ("x", "mean", "scale", "deviations", "labels")}
            truth = kept[f"{name}, reference {curves.groups[0]}"].mean(axis=1)
            values = part["mean"][:, None] + part["scale"][:, None, None] * part["deviations"].astype(np.float64)
            located, decided, inside, slopes = list[bool](), list[bool](), list[bool](), list[bool]()
            count = min(groups, values.shape[1] // (draws or 1))
            for group in range(count):
                if draws:
                    own = values[:, group * draws : (group + 1) * draws]
                else:  # each cell has a seed of its own
                    seeds = np.random.default_rng(group).integers(values.shape[1], size=values[:, :1].shape)
                    own = np.take_along_axis(values, seeds, axis=1)
                k, seed, x = (index.ravel() for index in np.indices(own.shape))
                frame = pd.DataFrame({"curve": k, "seed": seed, "x": part["x"][x], "y": own.ravel()})
                found = slice_places(frame, ["x"], "y", ["curve"], turn="min")
                for one, at in zip(found.bests, truth, strict=True):
                    located.append(one is not None and one.status == Status.LOCATED and bool(np.isfinite(at)))
                    decided.append(bool(one and one.status != Status.UNDETERMINED and np.isfinite(at)))
                    if one and decided[-1]:
                        inside.append(one.low <= at <= one.high)
                if "depth" in str(part["labels"][0]):
                    slopes += real_slopes(found.places, part["labels"], truth)
            names = {"seeds": draws or "one each", "groups": count}
            shares = {"located": np.mean(located), "decided": np.mean(decided)}
            lines.append({"curves": name} | names | shares | {"coverage": np.mean(inside) if inside else np.nan})
            if slopes:
                lines.append({"curves": "slope over the length"} | names | {"coverage": np.mean(slopes)})
    return pd.DataFrame(lines)


def real_slopes(places: Sequence[Place | None], labels: np.ndarray, truth: np.ndarray) -> list[bool]:
    """Whether the exponent of each depth's law over the length holds the slope of the best rates of all seeds."""
    depths, lengths = np.array([[float(part.split()[-1]) for part in str(label).split(",")] for label in labels]).T
    out = []
    for depth in np.unique(depths):
        own = np.flatnonzero((depths == depth) & np.array([place is not None for place in places]))
        law = fit_law([place for s in own if (place := places[s])], lengths[own][:, None])
        low, _, high, _ = law.exponents()[:, 0]
        out.append(bool(low <= np.polyfit(np.log(lengths[own]), truth[own], 1)[0] <= high))
    return out


def steplaw() -> pd.DataFrame:
    """Forecasts of the best rates of Step Law."""
    read = raysweep.analyse(pd.read_csv(STEPLAW), "smooth loss", ["lr", "bs"], ["N", "D"], questions=[])
    runs = read.results()  # rates that were rounded are one
    found = slice_places(runs, ["lr", "bs"], "smooth loss", ["N", "D"], turn="min")
    axes, places = np.array(found.slices.settings), [place for place in found.places if place]
    rng, largest = np.random.default_rng(0), axes[:, 0] == axes[:, 0].max()
    hits = np.concatenate([held_out(places, axes, axes[:, 0] == n, 0.95) for n in np.unique(axes[:, 0])])
    ways = {"published": [1.79 * n**-0.713 * d**0.307 for n, d in axes[largest]]}
    for way, used in (("from the smaller N", ~largest), ("from all", largest | ~largest)):
        law = fit_law([places[s] for s in np.flatnonzero(used)], axes[used])
        ways[way] = np.exp(np.median(law.at(np.log(axes[largest]), rng, new=False), axis=0)).tolist()
    line = {"settings": len(axes), "inside": f"{int(hits.sum())} of {len(hits)}"}
    for way, rates in ways.items():
        regrets = []
        for (n, d), rate in zip(axes[largest], rates, strict=True):
            here = runs[(runs["N"] == n) & (runs["D"] == d)].groupby("lr")["smooth loss"].min()
            regrets.append(float(np.interp(rate, here.index, here)) - here.min())
        line[f"regret, {way}, 1e-3 nats"] = 1e3 * np.mean(regrets)
    return pd.DataFrame([line])


def one_more(surface: Surface, s: int, point: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of what one new run gives at a point (1, d), in the units of y above the best cell of the slice."""
    values, hypers = paths(surface, s, point, 1024, rng), surface.samples[0].hypers
    height = np.clip(values, 0, compressed(np.array(CAP)))
    error = np.sqrt(hypers.one_run(surface.scaled(point), height) * surface.scale[s, 0])
    return surface.heights(s, values + error * rng.standard_t(DEGREES, values.shape))


def left_out(parts: int = 10) -> pd.DataFrame:
    """Cells of Step Law that were left out, against what the others say of them."""
    runs = raysweep.analyse(pd.read_csv(STEPLAW), "smooth loss", ["lr", "bs"], ["N", "D"], questions=[]).results()
    every = slices_of(runs, ["lr", "bs"], "smooth loss", ["N", "D"], turn="min", logarithmic=[True, True])
    cells, rng, lines = every.cells, np.random.default_rng(0), list[dict[str, float]]()
    part = rng.integers(parts, size=len(cells.y))
    for out in range(parts):
        gone = (part == out) & ~cells.diverged
        surface = fit_surface(Cells(**{name: values[~gone] for name, values in vars(cells).items()}))
        for cell in np.flatnonzero(gone):
            s, value = int(cells.slices[cell]), float(cells.y[cell])
            drawn = surface.floor[s] + one_more(surface, s, cells.x[cell][None], rng)[:, 0]
            height = value - cells.y[(cells.slices == s) & ~cells.diverged].min()
            away = 2 * abs(float((drawn < value).mean()) - 0.5)
            lines.append({"height": height, "away": away, "distance": abs(value - float(np.median(drawn)))})
    table = pd.DataFrame(lines)
    near = table[table["height"] <= NEAR]
    inside = {f"inside {level:.0%}": float((near["away"] <= level).mean()) for level in (0.5, 0.8, 0.95)}
    return pd.DataFrame([{"cells": len(near)} | inside | {"distance, 1e-3 nats": 1e3 * near["distance"].median()}])


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    few = range(-(-repeats // 4))
    jobs = itertools.product(SHAPES, NOISES, DRAWS, range(repeats))
    laws = pd.concat([law_measured(*job) for job in jobs], ignore_index=True)
    parts = [TEXT.format(repeats=repeats)]
    parts += [law_lines(laws, by) for by in (["what"], ["what", "shape"], ["what", "noise"], ["what", "draws"])]
    parts += [law_lines(laws, ["what", other]) for other in ("cells missing", "scatter")]
    jobs = itertools.product(pairs.PAIRS | pairs.OPEN_PAIRS, NOISES, DRAWS, few)
    two = pd.concat([pairs.measured(*job) for job in jobs], ignore_index=True)
    turning = two[two["shape"].isin(list(pairs.PAIRS))]
    parts += [pairs.TEXT, *(pairs.lines_of(turning, by) for by in (["axis"], ["shape", "axis"], ["noise"], ["draws"]))]
    parts += ["Surfaces without a best batch:", pairs.lines_of(two[~two["turns"]], ["shape", "draws"]).iloc[:, :4]]
    jobs = itertools.product(regimes.SLOPES, regimes.FORMS, [1], range(-(-repeats // 2)))
    found = pd.DataFrame([regimes.few_judged(*job) for job in jobs])
    parts += [TEXT_OF_REGIMES, regimes.few_lines_of(found).drop(columns="seeds")]
    parts += [TEXT_OF_REAL, real_cut(5 * repeats)]
    if STEPLAW.exists():
        parts += [TEXT_OF_STEPLAW, steplaw(), left_out()]
    return "\n\n".join(part if isinstance(part, str) else markdown(part) for part in parts)


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 2))
