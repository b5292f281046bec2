"""The rows of a sweep as an Optuna study, read by Optuna and imported again, and as a labelled data set."""

import sys

import numpy as np
import optuna
import pandas as pd
import pytest
from conftest import ok, refused

import raysweep
from raysweep.errors import InputError
from raysweep.main import main
from raysweep.query import exporting, importing, sources, table
from raysweep.query.exporting import to_optuna
from raysweep.query.report import report


def imported(storage, name="rates", higher=0.0):
    """A sweep of twelve rows, one of which diverged."""
    rows = pd.DataFrame(
        {
            "lr": np.repeat([1e-3, 1e-2, 1e-1], 4),
            "optimizer": ["adam", "sgd"] * 6,
            "seed": [0, 0, 1, 1] * 3,
            "loss": [*(np.arange(11.0) + higher), np.inf],
            "accuracy": np.linspace(0, 1, 12),
        }
    )
    read = table.read(rows, ["loss", "accuracy:maximize"], ["lr", "optimizer"], seed="seed", name=name)
    return importing.create(read, storage)


def test_a_study_has_every_row_and_comes_back_as_it_went(storage, tmp_path):
    sweep, url = imported(storage), f"sqlite:///{tmp_path}/study.db"
    assert to_optuna(sweep, url) == 12
    study = optuna.load_study(study_name="rates", storage=url)
    assert study.best_value == 0.0
    assert study.best_params == {"lr": 1e-3, "optimizer": "adam"}
    assert [trial.state.name for trial in study.trials].count("FAIL") == 1
    back = sources.load(f"optuna:{url}#rates")
    finished = sweep.results().query("status == 'ok'")
    assert sorted(back["loss"].dropna()) == sorted(finished["loss"])
    assert sorted(back["accuracy"].dropna()) == sorted(sweep.results()["accuracy"])


def test_another_metric_may_be_the_value_and_nothing_is_overwritten(storage, tmp_path, call):
    sweep, url = imported(storage), f"sqlite:///{tmp_path}/study.db"
    to_optuna(sweep, url, "accuracy", "second")
    study = optuna.load_study(study_name="second", storage=url)
    assert study.direction.name == "MAXIMIZE"
    asked = ("--axes", "lr,optimizer", "--seed", "seed", "--storage", storage, "--from", f"optuna:{url}#second")
    ok(call("import", "back", *asked, "--metric", "accuracy"))
    assert raysweep.open("back", storage).workload.maximized("accuracy")
    wrong = "accuracy:minimize contradicts the source, which says accuracy:maximize"
    refused(call("import", "again", *asked, "--metric", "accuracy:minimize"), "", wrong)
    with pytest.raises(InputError, match="there is a study second"):
        to_optuna(sweep, url, "accuracy", "second")
    with pytest.raises(InputError, match="did you mean accuracy"):
        to_optuna(sweep, url, "acuracy")
    ok(call("export", "rates", "--to", f"optuna:{url}", "--storage", storage))
    assert call("export", "rates", "--to", "wandb:x", "--storage", storage).code == 2


def test_two_imports_of_the_same_axes_and_metrics_are_compared(storage):
    one, other = imported(storage), imported(storage, "higher", 2.0)
    table = one.compare(other).table
    assert table.loc[table["metric"] == "loss", "difference"].tolist() == [2.0] * 6


xarray = pytest.importorskip("xarray")


def labelled(storage):
    """Six rates by two widths, where depth and tokens go with width, and two seeds; one cell was not computed."""
    grid = [(lr, width, seed) for lr in np.geomspace(1e-3, 1e-1, 6) for width in (64, 128) for seed in (0, 1)]
    rows = pd.DataFrame(grid, columns=["lr", "width", "seed"]).assign(depth=lambda frame: frame["width"] / 16)
    rows["loss"], rows["tokens"] = rows["lr"] * rows["width"] + rows["seed"], rows["width"] * 10**9
    read = table.read(rows.iloc[2:], ["loss"], ["lr", "width", "depth", "tokens"], seed="seed", name="rates")
    return importing.create(read, storage)


def test_a_row_stands_at_its_axes_and_seed(storage, tmp_path):
    sweep = labelled(storage)
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
    sweep = labelled(storage)
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
    sweep = labelled(storage)
    with pytest.raises(InputError, match="24 places for 22 rows"):
        exporting.dataset(sweep.results(), [sweep])


def test_rows_of_two_tables_are_no_draws_of_one_cell(storage, tmp_path):
    done = report([imported(storage), imported(storage, "other", higher=100.0)], tmp_path)
    assert done.findings[1].table[["sweep", "estimate"]].iloc[0].tolist() == ["rates", 1.0]
