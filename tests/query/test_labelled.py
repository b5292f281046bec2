"""The rows of a sweep as a labelled data set."""

import sys

import numpy as np
import pandas as pd
import pytest

from raysweep.errors import InputError
from raysweep.main import main
from raysweep.query import exporting, importing, table

xarray = pytest.importorskip("xarray")


def imported(storage):
    """Six rates by two widths, where depth and tokens go with width, and two seeds; one cell was not computed."""
    grid = [(lr, width, seed) for lr in np.geomspace(1e-3, 1e-1, 6) for width in (64, 128) for seed in (0, 1)]
    rows = pd.DataFrame(grid, columns=["lr", "width", "seed"]).assign(depth=lambda frame: frame["width"] / 16)
    rows["loss"], rows["tokens"] = rows["lr"] * rows["width"] + rows["seed"], rows["width"] * 10**9
    read = table.read(rows.iloc[2:], ["loss"], ["lr", "width", "depth", "tokens"], seed="seed", name="rates")
    return importing.create(read, storage)


def test_a_row_stands_at_its_axes_and_seed(storage, tmp_path):
    sweep = imported(storage)
    main(["results", "rates", "--storage", str(storage), "--format", "xarray", "-o", str(tmp_path / "rows.nc")])
    found = xarray.load_dataset(tmp_path / "rows.nc")
    assert dict(found.sizes) == {"lr": 6, "width": 2, "seed": 2}
    assert float(found["loss"].sel(width=128, seed=1).isel(lr=5)) == pytest.approx(0.1 * 128 + 1)
    assert found["depth"].sel(width=128).item() == 8
    assert found["tokens"].sel(width=128).item() == 128e9
    assert int(found["loss"].isnull().sum()) == 2
    assert found["status"].isel(lr=0, width=0, seed=0).item() == ""
    assert found.attrs["sweep"] == sweep.name


def test_without_xarray_the_error_names_the_package(storage, monkeypatch):
    sweep = imported(storage)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(InputError, match=r"raysweep\[xarray\]"):
        exporting.dataset(sweep.results(), [sweep])


def test_names_stand_along_the_booleans_that_they_go_with(storage):
    rows = {
        "lr": [1, 2] * 2,
        "adam": [True, True, False, False],
        "optimizer": ["adam"] * 2 + ["sgd"] * 2,
        "loss": range(4),
    }
    sweep = importing.create(table.read(rows, ["loss"], ["lr", "adam", "optimizer"], name="named"), storage)
    found = exporting.dataset(sweep.results(), [sweep])
    assert found["optimizer"].sel(adam=True).item() == "adam"
    assert found["loss"].sel(adam=False, lr=2).item() == 3


def test_a_grid_that_is_nearly_empty_is_refused(storage, monkeypatch):
    monkeypatch.setattr(exporting, "LARGEST", 20)
    sweep = imported(storage)
    with pytest.raises(InputError, match="24 places for 22 rows"):
        exporting.dataset(sweep.results(), [sweep])
