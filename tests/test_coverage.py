"""A reduced version of the measurement of coverage (`python -m benchmarks.coverage`)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.coverage import measured
from benchmarks.curves import NOT_TURNING, TURNING


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inflection", "optimum"])
def test_a_small_version_of_the_measurement(kind: str) -> None:
    places = (0.16, 0.31, 0.44, 0.57, 0.69)
    rows = [row for k, shape in enumerate(TURNING) for row in measured(kind, (shape, places[k % 5], 1), 5)]
    straight = [row for shape in NOT_TURNING for row in measured(kind, (shape, float("nan"), 1), 5)]
    table = pd.DataFrame(rows)
    found = table[table["status"] == "located"]
    share = float(np.mean([row["status"] == "located" for row in straight]))
    print(f"\n{kind}: covers {found['covers'].mean():.3f} of {len(found)}, median width "
          f"{found['octaves'].median():.2f} octaves; located on {share:.3f} of {len(straight)} curves that do not turn")
    assert found["covers"].mean() >= 0.92
    assert len(found) > 0.5 * len(table)
    assert found["octaves"].median() < 1.3
    assert share < 0.05
