"""The rows of a sweep as an Optuna study, read by Optuna and imported again."""

import numpy as np
import optuna
import pandas as pd
import pytest
from conftest import ok, refused

import raysweep
from raysweep.errors import InputError
from raysweep.query import importing, sources, table
from raysweep.query.exporting import to_optuna


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
