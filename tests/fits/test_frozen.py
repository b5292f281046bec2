"""Every fit gives what it gave before: to be written anew (`python -m tests.fits.frozen`) where a change is meant."""

import platform

import numpy as np
import pandas as pd
import pytest

from tests.fits.frozen import NUMBERS, TABLE, write


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the numbers are those of x86 instructions")
def test_fits_give_what_the_frozen_table_says(tmp_path):
    write(tmp_path / "now.csv")
    frozen, now = (pd.read_csv(path, keep_default_na=False, dtype=str) for path in (TABLE, tmp_path / "now.csv"))
    words = ["fit", "data", "status", "reason"]
    pd.testing.assert_frame_equal(now[words], frozen[words])
    numbers, expected = (table[NUMBERS].replace("", "nan").to_numpy(float) for table in (now, frozen))
    wrong = ~np.isclose(numbers, expected, rtol=1e-9, atol=1e-12, equal_nan=True).all(axis=1)
    assert not wrong.any(), f"{now[wrong]}\ninstead of\n{frozen[wrong]}"
