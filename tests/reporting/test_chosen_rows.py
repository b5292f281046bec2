"""Analyses of some rows only (where), and a second metric in a figure (beside)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import raysweep
from raysweep.errors import InputError


def measured(x: float, kind: int, seed: int) -> dict[str, float]:
    return {"loss": x**kind * (1 + seed), "bound": 2 * x**kind * (1 + seed)}


def sweep(storage: Path, *asked: dict[str, Any], function: Any = measured) -> raysweep.Sweep:
    return raysweep.run(
        function,
        storage=storage,
        tracking_uri="none",
        report=False,
        seeds=3,
        axes={"x": [1.0, 2.0, 4.0], "kind": [1, 2, 3]},
        analysis=list(asked),
    )


def test_an_analysis_is_made_of_the_rows_that_it_names_and_says_so(storage: Path) -> None:
    law = {"metric": "loss", "x": "x"}
    report = sweep(
        storage, {"power_law": {**law, "where": {"kind": 2}}}, {"power_law": {**law, "where": {"kind": [1, 3]}}}
    ).report()
    assert report.headline[0] == "loss grows with x to the power 2 (exact) (95 %) (only kind = 2)"
    assert report.headline[1].startswith(
        "loss grows with x to the power 1 to 3, in both settings (only kind = 1 or kind = 3); "
    )
    table = pd.read_csv(report.directory / "tables" / "power_law_2_exponents.csv")
    assert table["exponent"].tolist() == pytest.approx([1, 3])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"kind": 4}, "4 is not on the axis: 1, 2, 3"),
        ({"knd": 1}, "unknown axis 'knd'"),
        ({}, "expected axes and values of theirs"),
        ({"kind": "a"}, "expected a whole number"),
    ],
)
def test_rows_that_there_will_never_be_are_refused_before_anything_runs(
    where: dict[str, Any], said: str, storage: Path
) -> None:
    with pytest.raises(InputError) as refused:
        sweep(storage, {"power_law": {"metric": "loss", "x": "x", "where": where}})
    assert str(refused.value).startswith("analysis[0].power_law.where")
    assert said in str(refused.value)


def test_a_second_metric_is_drawn_with_each_line_and_has_a_table(storage: Path) -> None:
    asked = {"curves": {"metric": "loss", "x": "x", "beside": "bound"}}
    report = sweep(storage, asked).report()
    text = (report.directory / "report.md").read_text()
    assert "Dashes with crosses: bound." in text
    drawn = (report.directory / "figures" / "curves_loss.svg").read_text()
    assert ">bound<" in drawn
    tables = [pd.read_csv(report.directory / "tables" / f"curves_{name}.csv") for name in ("loss", "bound")]
    assert (tables[1]["mean"] / tables[0]["mean"]).tolist() == pytest.approx([2] * 9)
    alone = sweep(storage.parent / "other", {"curves": {"metric": "loss", "x": "x"}}).report()
    assert ">bound<" not in (alone.directory / "figures" / "curves_loss.svg").read_text()
