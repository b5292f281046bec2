"""How far fine-tuning moves, and what the quadratic model says of it (O App. D): held against closed forms."""

import numpy as np
import pytest
from language_rows import QUICK, columns_of, compute

from raysweep.stages.store import Store

CURVED = {"sharpness_iterations": 2}
pytestmark = pytest.mark.usefixtures("one_thread")


def measured(store, *rows, **usual):
    metrics, status = compute(columns_of(*rows, **{**QUICK, **usual}), np.zeros(len(rows), int), Store(store))
    assert (status == "ok").all()
    return metrics


def test_a_model_between_two_is_measured_there(store):
    shares = [0.0, 0.25, 0.5, 1.0]
    metrics = measured(store, *({"interpolation": share, "noise": 1.0} for share in shares), **CURVED)
    alone = measured(store, {"noise": 1.0}, **CURVED)
    for name, values in metrics.items():
        np.testing.assert_array_equal(values[3], alone[name][0], err_msg=name)
    assert metrics["sensitivity"][0] == metrics["distance_moved"][0] == metrics["quadratic_sensitivity"][0] == 0
    np.testing.assert_allclose(metrics["distance_moved"], metrics["distance_moved"][3] * np.array(shares), rtol=1e-5)
    assert metrics["finetune_loss"][0] == metrics["finetune_loss_before"][0]


def test_half_of_a_noise_is_the_noise_of_half_the_strength(store):
    metrics = measured(
        store, {"noise": 1.0, "interpolation": 0.5}, {"noise": 0.5}, {"noise": 0.5}, finetune_steps=0, **CURVED
    )
    for name, values in metrics.items():
        np.testing.assert_allclose(values[0], values[1], rtol=1e-3, atol=2e-6, err_msg=name)
    assert metrics["sensitivity"][1] > 0.005
    np.testing.assert_allclose(metrics["trace_sensitivity"], 0.5 * 0.5**2 * metrics["hessian_trace"])


def test_real_and_quadratic_change_differ_by_what_is_said_to_be_beyond(store):
    rows = [{"finetune_lr": lr} for lr in (1e-3, 1e-2)] + [{"noise": 4.0, "finetune_steps": 0}]
    metrics = measured(store, *rows, **CURVED)
    beyond = metrics["sensitivity"] - metrics["quadratic_sensitivity"]
    np.testing.assert_allclose(metrics["sensitivity_beyond_quadratic"], beyond, atol=2e-6)
    assert (np.abs(beyond) > 1e-4).all()
