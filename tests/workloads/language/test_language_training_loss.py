"""What fine-tuning and pretraining do to their training loss, and which weights early stopping keeps."""

from __future__ import annotations

import numpy as np
import pytest
from language_rows import compute, files, identity, row, table
from spaces import STEP, language_space

import raysweep
from raysweep.fits.draws import usable
from raysweep.stages.store import Store
from raysweep.workloads.language.pretraining import mean_rise

pytestmark = pytest.mark.usefixtures("one_thread")
RISE = "pretrain_training_loss_rise"


def test_early_stopping_keeps_weights_at_least_as_good_on_validation(store):
    rows = [
        {"finetune_lr": 0.02, "finetune_steps": 20, "finetune_schedule": "constant", "early_stopping": looks}
        for looks in (0, 5)
    ]
    metrics, _ = compute(table(*rows), np.zeros(2, int), Store(store))
    assert metrics["finetune_loss_validation"][1] <= metrics["finetune_loss_validation"][0]


@pytest.mark.long
def test_a_training_loss_that_ends_above_its_start_is_a_metric_and_no_status(tmp_path):
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
    risen = frame.groupby("pretrain_length")["finetune_training_loss_rise"].agg(["min", "max"]).to_numpy()
    assert risen[0].max() < -0.5
    assert risen[1].min() > 0.05
    used, dropped = usable(frame, "finetune_loss", ["pretrain_length", "seed"])  # what means and fits are made from
    assert (len(used), dropped) == (4, {})
    assert frame["finetune_loss"].max() < 6


@pytest.mark.long
def test_how_far_a_training_loss_rose_says_what_held_out_text_says(store):
    """Fine-tuned on the source itself: nothing to gain, at small rates nothing lost, at large ones what was learned."""
    kinds = [
        (1e-6, "constant"),
        (1e-5, "constant"),
        (1e-4, "cosine"),
        (3e-4, "cosine"),
        (5e-4, "constant"),
        (5e-3, "constant"),
        (5e-3, "cosine"),
        (3e-2, "constant"),
    ]
    rows = [
        {
            "overlap_angle": 0.0,
            "finetune_lr": rate,
            "finetune_steps": 30,
            "finetune_schedule": schedule,
            "pretrain_length": 160.0 * STEP,
        }
        for rate, schedule in kinds
    ]
    for seed in range(3):
        metrics, status = compute(table(*rows), np.full(len(rows), seed), Store(store))
        assert status.tolist() == ["ok"] * 8
        for name in ("finetune_training_loss_rise", "sensitivity"):
            assert metrics[name][:5].max() < 0.1 < metrics[name][5:].min()


def test_a_rise_is_that_of_the_same_batches():
    text = np.random.default_rng(0).standard_normal(10)  # batches differ by far more than any rise
    for rise in (-1.0, 0.0, 1e-6, 50.0, np.nan, np.inf):
        np.testing.assert_allclose(mean_rise(text, text + rise), rise, atol=1e-14)
    assert np.isnan(mean_rise(text + np.inf, text + np.inf))


@pytest.mark.long
def test_what_early_stopping_keeps_is_what_is_judged(store):
    """Weight decay so strong that, once warmed up, weights double each step until they are no numbers. What was kept
    before is a model as any other, and the loss that rose is that of what was kept."""
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
    shifted = kept["finetune_loss"] - kept["finetune_loss_before"]
    assert abs(shifted) < 0.5
    assert kept["finetune_training_loss_rise"] == pytest.approx(shifted, abs=0.1)


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
    rise = metrics["pretrain_training_loss_rise"]
    assert metrics["pretrain_loss"][0] > 6.5  # it began at 6.4
    assert (rise[:3] == rise[0]).all()
    assert rise[0] > 0
    assert (rise[6:] < -0.2).all()
    before = files(tmp_path)
    _, again = compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert again.tolist() == status.tolist()
    assert files(tmp_path) == before


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_what_a_pretraining_did_to_its_training_loss_is_measured_once_and_kept_with_it(tmp_path, schedule):
    parameters = {"finetune_steps": 0, "pretrain_schedule": schedule}
    measured, output = Store(tmp_path / "measured"), Store(tmp_path / "told")
    first, _ = compute(table(parameters), np.zeros(1, int), measured)
    assert first["pretrain_training_loss_rise"] < -0.2
    stage = identity(row(**parameters), 0)
    kept = {each: measured.fetch(each) for each in measured.stages()}
    assert [each for each, entry in kept.items() if RISE in entry.meta["metrics"]] == [stage]  # no trunk is looked at
    meta = {**kept[stage].meta, "metrics": {**kept[stage].meta["metrics"], RISE: 7.0}}
    output.publish(stage, kept[stage].tensors(), meta)
    again, _ = compute(table(parameters), np.zeros(1, int), output)
    assert again["pretrain_training_loss_rise"] == 7  # as it stands there: what is kept is believed
