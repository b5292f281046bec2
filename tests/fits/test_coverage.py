"""The intervals of places are as wide as they say: a small version of `benchmarks/coverage`, and its table."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import raysweep.fits
from benchmarks import boundaries, held_out_lines, steps
from benchmarks.shares import stretched
from benchmarks.turns import COLLECTIONS, OCTAVES, described, measured

TABLE = Path(raysweep.fits.__file__).with_name("COVERAGE.md")


def as_wide_as_they_say(table, factor=1.0):
    """Whether the coverage of the intervals, `factor` times as wide, is one that 95 % intervals can have by chance; and
    that of their inner halves, 0.67 if estimates err as a normal distribution, lies between 0.5 and 0.85."""
    count = int((table["status"] == "located").sum())
    least = binom.ppf(0.001, count, 0.95) / count
    return stretched(table, factor) >= least and 0.5 <= stretched(table, factor / 2) <= 0.85


@pytest.mark.simulation
@pytest.mark.parametrize(("module", "every"), [(boundaries, 1), (held_out_lines, 5), (steps, 5)])
def test_intervals_hold_zeros_whatever_the_curve_the_noise_and_the_number_of_draws(module, every):
    def lines(name, repeats):
        return itertools.islice(module.lines(name, repeats), 0, None, every)

    table = boundaries.measure(lines, list(module.CURVES), repeats=1, workers=1)
    held = table[table["located"]]
    print(held["covers"].mean(), *(held.groupby(by)["covers"].mean() for by in ("curve", "kind", "noise", "draws")))
    assert len(held) >= 0.95 * len(table)
    assert held["covers"].mean() >= 0.92
    for by in ("kind", "noise", "draws", "points"):
        assert held.groupby(by)["covers"].mean().min() >= 0.88
    for _, part in held.groupby("curve"):
        assert part["covers"].sum() >= binom.ppf(0.01, len(part), 0.95)
    if module is steps:  # nothing says where in its cell a zero lies
        assert held["cells"].median() <= 1 + 1e-9
    if module is boundaries:
        assert held[held["kind"].isin(boundaries.OWN)]["ratio"].median() < 0.9  # to pointwise tests
        line = held[(held["curve"] == "straight") & (held["kind"] == "shift")]
        known = 2 * 1.96 * line["noise"] / np.sqrt(line["draws"])  # the width where slope and variance are known
        assert (line["cells"] / (line["points"] - 1) / known).median() < 1.5


@pytest.mark.simulation
def test_intervals_of_turns_are_neither_too_narrow_nor_too_wide_and_what_does_not_turn_is_not_located():
    turning, straight = [], []
    for name, collection in COLLECTIONS.items():
        for k, family in enumerate(collection.families):
            turns = family in collection.turning
            # of turns that are not near the ends of the axis
            numbers = range(24 + (7 * k) % 6, 84, 7) if turns else range(k % 5, 12, 6)
            each = [measured(name, family, numbers, kind, narrow=False) for kind in ("inflection", "optimum")]
            (turning if turns else straight).extend(each)
    table, others = described(pd.concat(turning, ignore_index=True)), pd.concat(straight, ignore_index=True)
    for kind, part in table.groupby("kind"):
        result = part[part["status"] == "located"]
        print(kind, len(part), len(result), result["covers"].mean(), stretched(part, 0.5))
        assert as_wide_as_they_say(part)
        assert result["covers"].mean() >= 0.92
        assert min(result.groupby(by)["covers"].mean().min() for by in ("seeds", "points", "size")) >= 0.88
        assert not as_wide_as_they_say(part, 0.5)
        assert not as_wide_as_they_say(part, 2)
        assert len(result) >= 0.7 * len(part)
        assert (result["high"] - result["low"]).median() < 0.2 * OCTAVES
        assert (others[others["kind"] == kind]["status"] == "located").sum() <= 1


def test_the_table_in_the_docs_says_of_every_bar_whether_it_is_met():
    lines = re.findall(r"^\| (.+?) \| (.+?) \| ([\d.]+|nan).*? \| (yes|\*\*no\*\*) \|$", TABLE.read_text(), re.M)
    assert len(lines) >= 6
    for what, asked, measured_number, met in lines:
        bounds = [float(number) for number in re.findall(r"[\d.]+", asked)]
        low, high = (0.0, bounds[0]) if "≤" in asked else (bounds[0], bounds[-1] if "to" in asked else float("inf"))
        assert (low <= float(measured_number) <= high) == (met == "yes"), what
