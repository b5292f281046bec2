"""`symmetric: true`: a draw is the mean over the sign choices that leave its distribution unchanged."""

from itertools import product

import numpy as np
import pytest
from workload_rows import columns_of, solved

from benchmarks.symmetric import zeros
from raysweep import workloads
from raysweep.training import draws
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK

SEEDS = np.arange(3)
SIGNS = list(product([1, -1], repeat=2))


def computed(workload, seeds, **values):
    """All metrics of the rows of every cell, with every seed, shape (cells, seeds) each; and their statuses."""
    columns = {name: np.repeat(each, len(seeds)) for name, each in columns_of(workload, **values).items()}
    cells = len(columns["symmetric"]) // len(seeds)
    metrics, status = solved(workload, columns, np.tile(seeds, cells))
    return {name: each.reshape(cells, len(seeds)) for name, each in metrics.items()}, status


def flipped(workload, normal, first, second):
    """Draws of a workload with both signs."""

    def drawn(seed, role, *shape):
        alternating = np.where(np.arange(shape[0]) % 2 == 0, first, second).reshape(-1, *[1] * (len(shape) - 1))
        signs = {
            "linear_transfer": {"teachers": np.array([[1], [first]]), "noise": second},
            "linear_covariance": {"shift": first, "noise": second},
            "linear_spectrum": {"perturbation": alternating},
        }
        return normal(seed, role, *shape) * signs[workload].get(role, 1)

    return drawn


TRANSFER = {"dim": 6, "gamma": [0.5, 0.5, 1.5, 0.5, 0.01], "noise": [0.3, 0.3, 0.3, 0, 0.3], "overlap_angle": 50}
FEW_STEPS = {"finetune_steps": 25, "finetune_lr": 0.05, "pretrain_length": 3, "init_scale": 0.3}
CASES = {
    "limit": ("linear_transfer", {**TRANSFER, "depth": [1, 2, 2, 3, 2]}),
    "frozen": ("linear_transfer", {**TRANSFER, "depth": 3, "frozen_layers": [1, 2, 2, 1, 1]}),
    "flow": (
        "linear_transfer",
        {"dim": 6, "gamma": [0.5, 1.5], "noise": 0.3, "overlap_angle": 50, "engine": "flow", **FEW_STEPS},
    ),
    "network": ("linear_transfer", {**TRANSFER, "engine": "network", **FEW_STEPS}),
    "covariance": (
        "linear_covariance",
        {"dim": 8, "spectrum": "2:3,0.5", "gamma": [0.4, 0.4, 1.5], "noise": [0.3, 0, 0.3], "depth": [1, 2, 1]},
    ),
    "perturbed": ("linear_spectrum", {"dim": 4, "noise": 0.2, "depth": [1, 2, 3, 5]}),
    "perturbed and tuned": (
        "linear_spectrum",
        {"dim": 4, "noise": 0.2, "depth": [1, 2, 3], "engine": "network", "finetune_steps": 20},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_symmetric_draw_is_the_mean_of_four_plain_draws(case, monkeypatch):
    """The plain draws are computed one after the other, from data that were flipped by hand."""
    name, values = CASES[case]
    metrics, status = computed(name, SEEDS, symmetric=True, **values)
    normal, single = draws.normal, []
    for signs in SIGNS:
        with monkeypatch.context() as patched:
            patched.setattr(draws, "normal", flipped(name, normal, *signs))
            single.append(computed(name, SEEDS, **values))
    assert set(status) == {"ok"} == {word for _, words in single for word in words}
    averaged = workloads.get(name).symmetry.metrics
    for metric in averaged:
        four = np.array([each[metric] for each, _ in single])
        close = 1e-12 if case == "flow" else 1e-15  # its integrator takes rows together, in chunks
        np.testing.assert_allclose(metrics[metric], four.mean(0), rtol=0, atol=close, err_msg=metric)
        np.testing.assert_allclose(metrics[f"{metric}_sign_spread"], four.std(0), rtol=1e-7, atol=1e-9, err_msg=metric)
    for metric in single[0][0].keys() - set(averaged):
        np.testing.assert_array_equal(metrics[metric], single[0][0][metric], err_msg=metric)


def test_plain_rows_beside_symmetric_ones_stay_as_they_are():
    both, _ = computed("linear_transfer", SEEDS, dim=6, noise=0.3, symmetric=[False, True, False])
    plain, _ = computed("linear_transfer", SEEDS, dim=6, noise=0.3, symmetric=[False, False, False])
    for name, values in plain.items():
        np.testing.assert_array_equal(both[name][[0, 2]], values[[0, 2]], err_msg=name)
    assert np.isnan(both["risk_scratch_sign_spread"][[0, 2]]).all()
    assert (both["risk_scratch_sign_spread"][1] > 0).all()
    assert not any(name.endswith("_sign_spread") for name in plain)


@pytest.mark.parametrize(("gamma", "least"), [(0.1, 6), (0.5, 15), (0.9, 60)])
def test_the_zero_of_a_symmetric_draw_varies_far_less(gamma, least):
    """At d = 500 the factors are those of `python -m benchmarks.symmetric`."""
    plain, symmetric = (zeros(100, 40, gamma, 0.2, 2, option) for option in (False, True))
    assert plain.var() > least * symmetric.var()


def test_a_symmetric_draw_costs_what_it_takes():
    """One factorization serves all choices; trained layers train each. Without noise or at 180° a sign is idle."""
    workload = workloads.get("linear_transfer")

    def ratio(**values):
        plain, symmetric = (
            workload.cost(columns_of("linear_transfer", symmetric=option, **values)).seconds for option in (False, True)
        )
        return symmetric / plain

    assert ratio(dim=500, gamma=0.9, noise=0.2) < 1.01
    trained = {"dim": 60, "engine": "network", "finetune_steps": 10_000, "finetune_lr": np.geomspace(0.001, 0.01, 90)}
    assert 3 < ratio(noise=0.2, **trained) <= 4
    assert 1.5 < ratio(noise=0, **trained) <= 2
    assert ratio(noise=0, overlap_angle=180, **trained) == 1


def test_a_symmetric_draw_ends_as_its_worst_choice():
    def compute(columns, seeds):
        value = 1 + columns["first"] + 10 * columns["second"]
        lost, slow = value < -9.5, columns["first"] < 0
        status = np.where(lost, DIVERGED, np.where(slow, NOT_CONVERGED, OK)).astype(object)
        return {"value": np.where(lost, np.nan, value)}, status

    columns = {"symmetric": np.array([True, True, False, True]), "first": np.array([0.5, 0.5, 0.5, 0.0])}
    columns["second"] = np.array([1.0, 0, 1, 0])
    signs = {name: columns[name] != 0 for name in ("first", "second")}
    metrics, status = symmetric.averaged(compute, columns, np.arange(4), signs, ["value"])
    assert status.tolist() == [NOT_CONVERGED, NOT_CONVERGED, OK, OK]
    assert metrics["value"].tolist() == [1.0, 1.0, 11.5, 1.0]
    assert metrics["value_sign_spread"][[0, 1, 3]] == pytest.approx([np.sqrt(100.25), 0.5, 0])
    columns["second"][0] = 1.1
    metrics, status = symmetric.averaged(compute, columns, np.arange(4), signs, ["value"])
    assert status[0] == DIVERGED
    assert np.isnan(metrics["value"][0])
