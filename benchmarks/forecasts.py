"""How often forecasts of a loss hold a new value: curves whose truth is known.

python -m benchmarks.forecasts 60
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.shares import markdown
from raysweep.query.loss_curves import fit_losses

LONGER = (2, 4)
"""Lengths beyond the range, in times of the longest."""
NOISES = (0.01, 0.03, 0.1)
LENGTHS, SPANS, CURVES, DRAWS = (6, 8, 12), (16, 64, 256, 1024), (1, 4), (1, 5)
Curve = Callable[[np.ndarray], np.ndarray]


def power_law(rng: np.random.Generator, _: float) -> Curve:
    """All curves: over the log of the length, from 0 to `span`."""
    a, drop = rng.uniform(0.1, 1), rng.uniform(0.3, 2)
    return lambda u: drop * np.exp(-a * u)


def logarithm(rng: np.random.Generator, span: float) -> Curve:
    drop = rng.uniform(0.3, 2) / span
    return lambda u: -drop * u


def broken_power_law(rng: np.random.Generator, span: float) -> Curve:
    (a, b), place, width = rng.uniform(0.1, 1, 2), rng.uniform(0.1, 1) * span, rng.uniform(0.1, 0.6)
    drop = rng.uniform(0.3, 2)
    return lambda u: drop * np.exp(-a * u - (b - a) * width * np.logaddexp(0, (u - place) / width))


def two_powers(rng: np.random.Generator, span: float) -> Curve:
    """A U-shape that turns between 0.3 and 1.1 of the range."""
    a, b, place = rng.uniform(0.2, 1), rng.uniform(0.2, 1.2), rng.uniform(0.3, 1.1) * span
    drop = rng.uniform(0.3, 2)
    rise = drop * a / b * np.exp(-(a + b) * place)
    return lambda u: drop * np.exp(-a * u) + rise * np.exp(b * u)


def hyperbola(rng: np.random.Generator, span: float) -> Curve:
    """A U-shape with sides that are straight in the log of the length."""
    (a, b), place, size = rng.uniform(0.3, 1, 2), rng.uniform(0.3, 1.1) * span, rng.uniform(0.3, 2)
    return lambda u: size * np.sqrt(1 + ((u - place) * np.where(u < place, a, b)) ** 2)


def parabola(rng: np.random.Generator, span: float) -> Curve:
    place, size = rng.uniform(0.3, 1.1) * span, rng.uniform(0.03, 0.3)
    return lambda u: size * (u - place) ** 2


def stretched_exponential(rng: np.random.Generator, span: float) -> Curve:
    power, place, drop = rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.8) * span, rng.uniform(0.3, 2)
    return lambda u: drop * np.exp(-np.exp(power * (u - place)))


def to_a_floor(rng: np.random.Generator, span: float) -> Curve:
    """Exponential in the length itself."""
    place, drop = rng.uniform(0.5, 1) * span, rng.uniform(0.3, 2)
    return lambda u: drop * np.exp(-np.exp(u - place))


def power_and_exponential(rng: np.random.Generator, span: float) -> Curve:
    fast, slow = to_a_floor(rng, span), power_law(rng, span)
    return lambda u: fast(u) + slow(u)


def logistic(rng: np.random.Generator, span: float) -> Curve:
    """From one level to another."""
    power, place, drop = rng.uniform(0.5, 2), rng.uniform(0.2, 1) * span, rng.uniform(0.3, 2)
    return lambda u: drop / (1 + np.exp(power * (u - place)))


def sum_of_power_laws(rng: np.random.Generator, _: float) -> Curve:
    (a, b), (first, second) = rng.uniform(0.05, 1.5, 2), rng.uniform(0.1, 2, 2)
    return lambda u: first * np.exp(-a * u) + second * np.exp(-b * u)


def lowest_of_rates(rng: np.random.Generator, _: float) -> Curve:
    """A power law at the best rate, of which a grid has only near ones: the best drifts from one to the next."""
    a, drop, drift = rng.uniform(0.1, 1), rng.uniform(0.3, 2), rng.uniform(0.1, 0.6)
    place, rise = rng.uniform(0, 1), rng.uniform(0.05, 0.3) * drop
    return lambda u: drop * np.exp(-a * u) + rise * ((place + drift * u) % 1 - 0.5) ** 2


def faster_and_faster(rng: np.random.Generator, span: float) -> Curve:
    """A fall that is steeper at each factor of the length than at the one before."""
    rate, drop = rng.uniform(0.5, 2) / span, rng.uniform(0.3, 2)
    return lambda u: -drop * np.exp(rate * u)


OWN = {
    "power law": power_law,
    "logarithm": logarithm,
    "broken power law": broken_power_law,
    "two powers (U)": two_powers,
    "logistic": logistic,
    "falls faster and faster": faster_and_faster,
    "exponential to a floor": to_a_floor,
    "stretched exponential": stretched_exponential,
    "power law and exponential": power_and_exponential,
}
OTHERS = {
    "hyperbola (U)": hyperbola,
    "parabola (U)": parabola,
    "sum of power laws": sum_of_power_laws,
    "lowest of a grid of rates": lowest_of_rates,
}


def measured(name: str, number: int) -> pd.DataFrame:
    """One sweep: a row per curve and length at which it is forecast."""
    rng = np.random.default_rng([number, *map(ord, name)])
    span, lengths = np.log(rng.choice(SPANS)), int(rng.choice(LENGTHS))
    noise, draws, logs = rng.choice(NOISES), int(rng.choice(DRAWS)), np.linspace(0, span, lengths)
    at = np.r_[rng.uniform(0, span), span + np.log(LONGER)]
    curves = [(OWN | OTHERS)[name](rng, span) for _ in range(int(rng.choice(CURVES)))]
    ranges = [float(np.ptp(curve(logs))) for curve in curves]
    errors = [noise * size / np.sqrt(draws) for size in ranges]
    losses = [3 + curve(logs) + e * rng.standard_normal(lengths) for curve, e in zip(curves, errors, strict=True)]
    truth = [3 + curve(at) + e * rng.standard_normal(len(at)) for curve, e in zip(curves, errors, strict=True)]
    lines = []
    for one, values, size in zip(fit_losses([(logs, each) for each in losses]), truth, ranges, strict=True):
        low, middle, high = np.quantile(one.at(at, rng), [0.025, 0.5, 0.975], axis=0)
        lines.append(
            pd.DataFrame(
                {
                    "form": name,
                    "where": ["inside", *(f"at {longer} times the longest" for longer in LONGER)],
                    "lengths": lengths,
                    "noise": noise,
                    "draws": draws,
                    "curves": len(curves),
                    "inside": (low <= values) & (values <= high),
                    "width": (high - low) / size,
                    "error": np.abs(middle - values) / size,
                }
            )
        )
    return pd.concat(lines, ignore_index=True)


def lines_of(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Coverage, median width and median error by a column."""
    lines = []
    for value, part in table.groupby(by, sort=False):
        line = {by: value, "forecasts": len(part) // (1 + len(LONGER))}
        for where, own in part.groupby("where", sort=False):
            line |= {f"{where}": own["inside"].mean()}
        lines.append(line | {"width inside": part.loc[part["where"] == "inside", "width"].median()})
    return pd.DataFrame(lines)


def report(repeats: int) -> str:
    """The tables, as Markdown."""
    parts = []
    for title, names in (("Forms of the average", OWN), ("Other forms", OTHERS)):
        table = pd.concat([measured(name, k) for name in names for k in range(repeats)], ignore_index=True)
        parts += [
            f"## {title}",
            *(
                markdown(lines_of(table.assign(all="all"), by))
                for by in ("all", "form", "noise", "draws", "lengths", "curves")
            ),
        ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
