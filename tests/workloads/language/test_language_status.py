"""Which rows are diverged, and which weights early stopping keeps."""

from __future__ import annotations

import numpy as np
import pytest
from language_rows import compute, files, table
from spaces import STEP, language_space

import raysweep
from raysweep.fits.draws import usable
from raysweep.stages.store import Store

pytestmark = pytest.mark.usefixtures("one_thread")


def test_early_stopping_keeps_weights_at_least_as_good_on_validation(store):
    rows = [
        {"finetune_lr": 0.02, "finetune_steps": 20, "finetune_schedule": "constant", "early_stopping": looks}
        for looks in (0, 5)
    ]
    metrics, _ = compute(table(*rows), np.zeros(2, int), Store(store))
    assert metrics["finetune_loss_validation"][1] <= metrics["finetune_loss_validation"][0]


@pytest.mark.long
def test_a_loss_that_ends_above_its_start_is_no_status(tmp_path):
    """Overtraining itself: the longer the pretraining, the lower the start, until the same rate ends above it."""
    lengths = [5, 640]
    space = language_space(
        {"pretrain_length": [steps * STEP for steps in lengths], "finetune_lr": [0.0192]},
        {"target": "grammar:0.1", "finetune_steps": 30},
        seeds=2,
    )
    frame = raysweep.run(
        space, storage=tmp_path, executor="inline", tracking_uri="none", report=False, say=lambda line: None
    ).results()
    assert frame["status"].tolist() == ["ok"] * 4
    rise = (frame["finetune_loss"] - frame["finetune_loss_before"]).groupby(frame["pretrain_length"])
    risen = rise.agg(["min", "max"]).to_numpy()
    assert risen[0].max() < -0.5
    assert risen[1].min() > 0.05
    used, dropped = usable(frame, "finetune_loss", ["pretrain_length", "seed"])  # what means and fits are made from
    assert (len(used), dropped) == (4, {})
    assert frame["finetune_loss"].max() < 6


@pytest.mark.long
def test_what_early_stopping_keeps_is_what_is_judged(store):
    """Weight decay so strong that, once warmed up, weights double each step until they are no numbers. What was kept
    before is a model as any other."""
    rows = [
        {
            "finetune_weight_decay": 3e3,
            "finetune_schedule": "constant_warmup",
            "finetune_steps": 200,
            "pretrain_length": 160.0 * STEP,
            "early_stopping": looks,
        }
        for looks in (0, 200, 1)
    ]
    metrics, status = compute(table(*rows), np.zeros(3, int), Store(store))
    assert status.tolist() == ["diverged", "ok", "diverged"]  # of the last the one look comes when all is lost
    kept = {name: values[1] for name, values in metrics.items()}
    assert abs(kept["finetune_loss"] - kept["finetune_loss_before"]) < 0.5


@pytest.mark.long
def test_a_pretraining_that_ends_above_its_start_is_ok_and_one_without_a_finite_loss_is_not(tmp_path):
    """Finite all along (2), or until a number is none (1e30); trained, perturbed or looked at with Hessians."""
    rows = [
        {"pretrain_lr": rate, **then}
        for rate in (2.0, 1e30, 2e-3)
        for then in ({}, {"noise": 1.0, "finetune_steps": 0}, {"finetune_steps": 0, "sharpness_iterations": 4})
    ]
    metrics, status = compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert status.tolist() == ["ok"] * 3 + ["diverged"] * 3 + ["ok"] * 3
    assert len(Store(tmp_path).stages()) == 3
    assert metrics["pretrain_loss"][0] > 6.5  # it began at 6.4
    assert (metrics["pretrain_loss"][6:] < 6).all()
    before = files(tmp_path)
    _, again = compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert again.tolist() == status.tolist()
    assert files(tmp_path) == before
