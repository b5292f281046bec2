"""Every fit gives what it gave before: to be written anew (`python -m tests.fits.frozen`) where a change is meant.

What it gave holds the places that the data were made with.
"""

import platform

import numpy as np
import pandas as pd
import pytest

from tests.fits.frozen import NUMBERS, TABLE, write

EACH = ("", ", all at once")
ZEROS = {"straight": 0.4, "straight, tilted draws": 0.6, "straight, 20 draws": 0.55, "two draws": 0.5, "kink": 0.45}
ZEROS |= {"step": 0.52, "rising on a log axis": 1000**0.37, "two crossings": 0.25, "one exact draw": np.pi / 6}
ZEROS |= {"beyond the upper edge": 1.2, "beyond the lower edge": -0.2, "diverging at one end": 0.4}
ZEROS |= {"missing rows": 0.43} | {f"slices, slice = {root}{more}": root for root in (0.3, 0.5, 0.6) for more in EACH}
TURNS = {"parabola": 1.42, "parabola on a log axis": 10**-2.26, "maximum, tilted draws": 1.5, "uneven": 10**-2.8}
TURNS |= {"corner": 1.45, "wall": 1.7, "rising from the start": 1.0, "diverged from a rate on": 10**-2.2}
TURNS |= {"beyond the upper edge": 10**3.6, "beyond the lower edge": 10**-0.6, "a cliff": 10**-2.8}
TURNS |= {"one exact draw": 1.4, "equal draws": 1.5, "missing rows": 1.42}
RATES = {f"rates, length = {length}{more}": 3e-3 * length**-0.3 for length in (1, 3, 10, 30) for more in EACH}
SLOPES = {"constant": 0.0, "slowly decreasing": -0.3, "censored": -1.0, "censored, diverging": -1.0}
PLACES = {"boundaries": ZEROS, "inflections": {**TURNS, "zero set apart": 2**3.3}, "optima": TURNS | RATES}
PLACES |= {"regimes": SLOPES, "shifts": {"other noise": 5 / 3, "same draws": 2.0}}
PLACES |= {"power_laws": {"square root": 0.5, "equal draws": 0.75}}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the numbers are those of x86 instructions")
def test_fits_give_what_the_frozen_table_says(tmp_path):
    write(tmp_path / "now.csv")
    frozen, now = (pd.read_csv(path, keep_default_na=False, dtype=str) for path in (TABLE, tmp_path / "now.csv"))
    words = ["fit", "data", "status", "reason"]
    pd.testing.assert_frame_equal(now[words], frozen[words])
    numbers, expected = (table[NUMBERS].replace("", "nan").to_numpy(float) for table in (now, frozen))
    wrong = ~np.isclose(numbers, expected, rtol=1e-9, atol=1e-12, equal_nan=True).all(axis=1)
    assert not wrong.any(), f"{now[wrong]}\ninstead of\n{frozen[wrong]}"


@pytest.mark.parametrize("fit", PLACES)
def test_frozen_intervals_hold_the_places_that_the_data_were_made_with(fit):
    frozen = pd.read_csv(TABLE).query("fit == @fit").set_index("data")
    for data, place in PLACES[fit].items():
        assert frozen.low[data] * (1 - 1e-9) <= place <= frozen.high[data] * (1 + 1e-9), data
