"""The coverage table of the docs: a reduced version of its measurement, and that it meets what is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import raysweep.fits
from benchmarks.coverage import measured
from benchmarks.curves import NOT_TURNING, TURNING

TABLE = Path(raysweep.fits.__file__).with_name("COVERAGE.md")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inflection", "optimum"])
def test_a_small_version_of_the_measurement(kind: str) -> None:
    places = (0.16, 0.31, 0.44, 0.57, 0.69)
    rows = [row for k, shape in enumerate(TURNING) for row in measured(kind, (shape, places[k % 5], 1), 5)]
    straight = [row for shape in NOT_TURNING for row in measured(kind, (shape, float("nan"), 1), 5)]
    table = pd.DataFrame(rows)
    found = table[table["status"] == "located"]
    share = float(np.mean([row["status"] == "located" for row in straight]))
    print(
        f"\n{kind}: covers {found['covers'].mean():.3f} of {len(found)}, median width "
        f"{found['octaves'].median():.2f} octaves; located on {share:.3f} of {len(straight)} curves that do not turn"
    )
    assert found["covers"].mean() >= 0.92
    assert len(found) > 0.5 * len(table)
    assert found["octaves"].median() < 1.3
    assert share < 0.05


def test_the_table_in_the_docs_meets_what_is_asked_for() -> None:
    text = TABLE.read_text(encoding="utf-8")
    pooled = [float(share) for share in re.findall(r"coverage pooled \*\*([\d.]+)\*\*", text)]
    straight = [float(share) for share in re.findall(r"do not turn: located \*\*([\d.]+)\*\*", text)]
    assert (len(pooled), len(straight)) == (2, 2)
    assert min(pooled) >= 0.92
    assert max(straight) < 0.05
    lowest = re.findall(r"measured again with other draws:\n\n(.*?)\n\n", text, re.S)
    for block in lowest:
        header, _, *lines = (line.strip("| ").split(" | ") for line in block.splitlines())
        assert min(float(line[header.index("coverage")]) for line in lines) >= 0.88
