"""The same rows as ever: small versions of the packaged spaces, and a storage of an earlier release gone on with."""

import json
import shutil

import numpy as np
import pandas
import pytest

import raysweep
from raysweep.space import space_files
from raysweep.space.space_files import packaged
from raysweep.stages import references
from raysweep.stages.store import Store
from tests.goldens import OLD_STORAGE, SPACES, path_of, rows_of

FLOAT64 = 1e-9  # relative: what other libraries of linear algebra leave to chance
TRAINED = 1e-6  # the same, after some steps of training at a large rate
EACH = "quickstart four_axes covariance image_regression overtraining_linear feature_capture relu_features relu_kernel"
EACH += " pretraining_epochs overtraining_language_tiny"
"""One or two of each workload; the others are for `make test-long`."""


def test_every_grid_space_has_a_golden():
    read = {name: space_files.read(path, {}) for name, path in packaged().items()}
    here = {name: each for name, each in read.items() if each.workload != "checkpoints"}  # whose models are on a hub
    assert set(SPACES) == {name for name, each in here.items() if each.search == {"grid": {}}}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EACH.split() else pytest.mark.long) for name in SPACES]
)
def test_rows_are_those_of_the_golden(name, tmp_path):
    golden, rows = pandas.read_csv(path_of(name)), rows_of(name, tmp_path)
    assert list(rows.columns) == list(golden.columns)
    for column in golden.columns:
        numbers = pandas.api.types.is_numeric_dtype(golden[column]) and golden[column].dtype != bool
        if column in ("cell", "seed", "status") or not numbers:
            expected = golden[column].where(golden[column].notna(), None)
            assert [str(value) for value in expected] == [str(value) for value in rows[column]], column
        else:
            trained = space_files.read(packaged()[name], {}).workload in ("language", "vision")
            # a difference of two losses of some nats is as near as they are
            near = {"rtol": TRAINED, "atol": TRAINED} if trained else {"rtol": FLOAT64, "atol": FLOAT64 * 1e-3}
            result = pandas.to_numeric(rows[column]).to_numpy(dtype=float)
            np.testing.assert_allclose(result, golden[column], **near, err_msg=column)


def test_a_sweep_of_an_earlier_release_is_resumed_and_its_rows_stay(tmp_path):
    storage, name = tmp_path / "sweeps", "old_linear"
    shutil.copytree(OLD_STORAGE, storage)
    before = raysweep.open(name, storage=storage).results()
    assert len(before) == 9
    after = resumed(name, storage)[0].results()
    assert len(after) == 18
    assert set(after.status) == {"ok"}
    kept = after.set_index(["cell", "seed"]).loc[list(zip(before.cell, before.seed, strict=True))].reset_index()
    for column in ("code_version", "seconds"):  # they were not computed again
        assert list(kept[column]) == list(before[column])
    rows = json.loads(path_of(name).with_suffix(".json").read_text())
    result = {f"{row.cell} {row.seed}": row.risk_finetune for row in after.itertuples()}
    assert result == pytest.approx(rows, rel=FLOAT64)


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """The storage in which the sweep of a workload whose stages have versions of their own was resumed."""
    storage = tmp_path_factory.mktemp("language") / "sweeps"
    shutil.copytree(OLD_STORAGE, storage)
    assert len(raysweep.open("old_language", storage=storage).results()) == 0
    return storage, *resumed("old_language", storage)


def test_rows_of_an_earlier_identity_are_told_of_and_computed_again(language):
    _, sweep, messages = language
    assert any("there are rows of version 4 of language" in line for line in messages)
    assert sweep.results().status.tolist() == ["ok"] * 6
    assert set(sweep.results().overlap_angle) == {90.0}


def test_stages_of_an_earlier_identity_are_told_of_once_and_computed_again_once(language):
    """Of the two sweeps that used the pretraining of an earlier release, the one that goes on lets it go."""
    storage, _, messages = language
    before, store = Store(OLD_STORAGE / "store"), Store(storage / "store")
    (old, *_), (other, *_) = ([s for s in store.files.names("refs") if s.startswith(name)] for name in ("old", "other"))
    (former,) = references.referred(before, old)
    again = resumed("old_language", storage)[1]
    for lines, count, stages in (
        (messages, 1, ["stages: 2 distinct, 2 computed, 0 reused, 0 begun again"]),
        (again, 0, []),
    ):
        assert sum("1 stage of an earlier identity" in line for line in lines) == count
        assert [line for line in lines if line.startswith("stages: ")] == stages
    assert former not in references.referred(store, old)
    assert len(references.referred(store, old)) == 2
    assert former in references.referred(store, other)
    assert former in store.stages()


def resumed(name, storage):
    """A sweep after it was resumed, and what was said."""
    messages = []
    sweep = raysweep.resume(
        name, storage=storage, tracking_uri="none", executor="inline", report=False, say=messages.append
    )
    return sweep, messages
