"""Reports of plain functions: whatever their arguments and metrics are called, and however large their numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import raysweep


def swept(function: Any, storage: Path, **keywords: Any) -> raysweep.Sweep:
    """The sweep of a function, without MLflow and not yet with a report."""
    return raysweep.run(function, storage=storage, tracking_uri="none", report=False, **keywords)


def test_every_metric_has_its_own_files_inside_the_report(storage: Path) -> None:
    names = ["val/loss", "val_loss", "Val_loss", "m/../../../../pwn", "m" * 100]

    def train(lr: float, seed: int) -> dict[str, float]:
        return {name: lr * place + seed for place, name in enumerate(names)}

    asked = [{"curves": {"metrics": names, "x": "lr"}}]
    sweep = swept(train, storage, axes={"lr": [0.1, 0.2]}, seeds=2, analysis=asked)
    before = {path for path in storage.parent.rglob("*") if sweep.folder / "report" not in (path, *path.parents)}
    report = sweep.report()
    after = {path for path in storage.parent.rglob("*") if sweep.folder / "report" not in (path, *path.parents)}
    assert after == before
    tables = [path for path in report.files if path.suffix == ".csv"]
    assert [pd.read_csv(path)["mean"].tolist() for path in tables] == [
        pytest.approx([0.1 * place + 0.5, 0.2 * place + 0.5]) for place in range(len(names))
    ]
    assert {path.parent.name for path in report.files} == {"figures", "tables", "report"}
    assert len({path.name.casefold() for path in report.files}) == len(report.files) == 3 * len(names) + 2
    assert (report.directory / "report.html").read_text().count("data:image/png;base64,") == len(names)
