"""How far fine-tuning moves, and what the quadratic model says of it (O App. D): held against closed forms."""

import numpy as np
import pytest
import torch
from language_rows import QUICK, columns_of, compute, pretrained

from raysweep.stages.store import Store
from raysweep.workloads.language import corpus, evaluation
from raysweep.workloads.language.model_config import config_of

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


@pytest.mark.long
def test_half_the_trace_is_what_noise_costs_on_average(store):
    """On the language model itself, over the noises of many draws at one model."""
    row = {name: values[0] for name, values in columns_of({}, **QUICK).items()}
    shape = config_of(row)
    weights = pretrained(row, 0, Store(store))["weights"]
    held_out = corpus.mixture_of(row).source.held_out("test", 16, shape.context)
    quadratic = evaluation.quadratic_of(weights, held_out, shape)
    changes = []
    for seed in range(120):
        noise = np.concatenate([part.noise(seed).ravel() for part in shape.parts()])
        changes.append(quadratic.change(0.5 * torch.tensor(noise, dtype=torch.float32)))
    result = evaluation.curvature(quadratic, shape, 60, 0)["hessian_trace"]
    error = np.std(changes) / np.sqrt(len(changes))
    assert np.mean(changes) == pytest.approx(0.5 * 0.5**2 * result, abs=4 * error)
    assert 0.5 * 0.5**2 * result > 6 * error
