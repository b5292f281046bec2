"""What the place of a turn is made of: the broken power law beside the splines, and what would halve its interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.curves import sample
from raysweep.fits.extremum import find_extremum
from raysweep.fits.extremum_interval import ExtremumInterval, broken_power_law_place
from raysweep.fits.sample_size import Advice, advice_words, sample_size_advice
from raysweep.fits.statistics import two_way_anova
from raysweep.reporting import fit_inflection, fit_optimum


def power_law(x: np.ndarray, fall: float, rise: float, soft: float, at: float) -> np.ndarray:
    """The formula itself, in x."""
    return 2 + 3 * x**-fall * (1 + (x / at) ** (1 / soft)) ** ((fall + rise) * soft)


@pytest.mark.parametrize(
    ("fall", "rise", "soft", "at"), [(0.3, 0.2, 0.4, 12.0), (0.5, 0.1, 0.1, 5.0), (0.1, 0.4, 1.0, 30.0)]
)
def test_a_broken_power_law_is_found_again(fall: float, rise: float, soft: float, at: float) -> None:
    x = np.geomspace(1, 256, 25)
    truth = float(np.log(at) + soft * np.log(fall / rise))
    fine = np.geomspace(1, 256, 200001)
    assert truth == pytest.approx(np.log(fine[np.argmin(power_law(fine, fall, rise, soft, at))]), abs=1e-3)
    rng = np.random.default_rng(8)
    found = []
    for _ in range(12):
        curve = power_law(x, fall, rise, soft, at) + 0.005 * rng.standard_normal(25)
        law = broken_power_law_place(np.log(x), curve, np.full(25, 0.005**2), 100)
        assert law is not None
        found.append(law)
    places, chances = np.array(found).T
    assert abs(places.mean() - truth) < 3 * places.std(ddof=1) / np.sqrt(12) + 0.02
    assert (chances > 0.01).mean() > 0.8  # it fits what it is, so the p-value is rarely small


def test_it_is_offered_from_20_points_on_and_rejected_where_the_curve_is_something_else() -> None:
    u = np.linspace(0, 5, 19)
    assert broken_power_law_place(u, (u - 2) ** 2, np.full(19, 1e-4), 50) is None
    u = np.linspace(0, 5, 30)
    stairs = np.abs(u - 2.5) + 0.3 * np.sin(6 * u)
    law = broken_power_law_place(u, stairs, np.full(30, 1e-4), 50)
    assert law is None or law[1] < 1e-3
    rng = np.random.default_rng(3)
    few = sample("broken power law", 0.44, 13, 5, 0.02, "independent", rng)
    many = sample("broken power law", 0.44, 25, 5, 0.02, "independent", rng)
    assert "broken power law" not in find_extremum(2 ** (8 * few.t), few.values, 0.95).method
    found = find_extremum(2 ** (8 * many.t), many.values, 0.95)
    assert "and a broken power law" in found.method
    assert found.low <= 2 ** (8 * 0.44) <= found.high


def rows_of(t: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    seeds, points = values.shape
    return pd.DataFrame(
        {"x": np.tile(2 ** (8 * t), seeds), "seed": np.repeat(np.arange(seeds), points), "loss": values.ravel()}
    )


@pytest.mark.slow
def test_doing_what_the_advice_says_halves_the_interval() -> None:
    """Over curves and noise, the median interval after the advice is half the one before, within a factor 1.5."""
    rng = np.random.default_rng(11)
    ratios: dict[str, list[float]] = {"draws": [], "points": []}
    for shape in ("parabola", "sum of powers", "cusp", "uneven parabola"):
        for size in (0.01, 0.03, 0.1):
            for points in (9, 13):
                for turn in (0.4, 0.55):
                    one = sample(shape, turn, points, 4, size, "independent", rng)
                    row = fit_inflection(rows_of(one.t, one.values), "x", "loss", "seed").table.iloc[0]
                    if row["status"] != "located" or not row["halved"] or row["draws_to_halve"] > 64:
                        continue
                    t = one.t
                    if row["points_to_halve"] > 0:
                        low, high = np.log2([row["points_from"], row["points_to"]]) / 8
                        inside = t[(t >= low - 1e-9) & (t <= high + 1e-9)]
                        t = np.sort(np.append(t, (inside[1:] + inside[:-1]) / 2))
                        assert len(t) == points + row["points_to_halve"]
                    fine = sample(shape, turn, 401, int(row["draws_to_halve"]), size, "independent", rng)
                    at = np.round(t * 400).astype(int)
                    better = fit_inflection(rows_of(fine.t[at], fine.values[:, at]), "x", "loss", "seed").table.iloc[0]
                    if better["status"] == "located":
                        kind = "points" if row["points_to_halve"] else "draws"
                        ratios[kind].append(
                            float(np.log(better["high"] / better["low"]) / np.log(row["high"] / row["low"]))
                        )
    said = {kind: (len(found), round(float(np.median(found)), 3)) for kind, found in ratios.items()}
    print("\nwidth after the advice over the width before:", said)
    for kind, found in ratios.items():
        assert len(found) >= 5, kind
        assert 0.5 / 1.5 <= np.median(found) <= 0.5 * 1.5, kind


@pytest.mark.parametrize("rounding", [-1e-13, 0.0, 1e-13])
def test_what_only_the_grid_leaves_open_is_halved_by_points_whatever_the_last_digit_says(rounding: float) -> None:
    class OpenGrid(ExtremumInterval):
        def noise(self, times: float = 1.0) -> tuple[float, float]:
            return 2.9, 3.1

        def grid(self, times: float = 1.0) -> tuple[float, float, bool]:
            return 2.4, 4.0, False

    u = np.arange(7.0)
    values = np.tile((u - 3) ** 2, (12, 1))
    interval = OpenGrid(u, values, two_way_anova(values), False, 0.95, (2.9, 3.1))
    assert sample_size_advice(interval, 1.6 - rounding) == Advice(12, 2, 2.0, 4.0, True)


def test_the_advice_in_words() -> None:
    nothing = float("nan")

    def words(advice: Advice) -> str:
        return advice_words(4, advice, "length", lambda value: f"{value:g}")

    assert words(Advice(16, 0, nothing, nothing, True)) == "4 times the draws (12 more) would halve it"
    assert words(Advice(4, 2, 3.0, 12.0, True)) == (
        "more draws would not halve it, 2 more values of length between 3 and 12 would"
    )
    assert words(Advice(8, 2, 3.0, 12.0, True)) == (
        "2 more values of length between 3 and 12 and 2 times the draws (4 more) would halve it"
    )
    assert words(Advice(4, 2, 3.0, 12.0, False)).startswith("more draws alone would not halve it")


def test_a_length_of_0_stays_outside_and_octaves_are_read_in_log() -> None:
    rng = np.random.default_rng(5)
    x = np.append(0.0, 2.0 ** np.arange(8))
    values = np.append(9.0, (np.arange(8) - 3.3) ** 2) + 0.05 * rng.standard_normal((5, 9))
    frame = pd.DataFrame({"x": np.tile(x, 5), "seed": np.repeat(np.arange(5), 9), "loss": values.ravel()})
    fit = fit_inflection(frame, "x", "loss", "seed")
    assert fit.status == "located"
    assert fit.low <= 2**3.3 <= fit.high
    assert any("x = 0" in note for note in fit.notes)
    short = frame[frame["x"].isin([2, 4, 8, 16, 32])]  # less than two decades of lengths are lengths too
    assert "log x" in fit_inflection(short, "x", "loss", "seed").method
    rates = short.rename(columns={"x": "lr"})
    assert fit_optimum(rates, "lr", "loss", None, "seed").low <= 2**3.3
