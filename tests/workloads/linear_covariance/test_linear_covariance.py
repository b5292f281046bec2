"""`linear_covariance`: exact end points; closed forms against draws; T's bound."""

import numpy as np
import pytest
from linear_rows import end_point
from workload_rows import table_of

from raysweep.theory import covariance, transfer
from raysweep.training import draws
from raysweep.workloads.linear_covariance import closed_forms, engines
from raysweep.workloads.linear_covariance.closed_forms import SHIFTS, read

DIM = 24
SPECTRA = ("1.5:5,0.3", "2:3,1:4,0.05", "7", "0.1:20,4:4")


def columns(*rows):
    return table_of("linear_covariance", *({"dim": DIM, **row} for row in rows))


def task(row, seed):
    """Inputs, labels, source, target and the eigenvalues of a row."""
    values, counts = read(row["spectrum"], DIM)
    eigenvalues = np.repeat(values, counts.astype(int))
    directions = engines.vectors(seed, DIM, row["spectrum"])
    target = row["target_norm"] * directions[:, engines.TARGET]
    source = target - row["shift_norm"] * directions[:, 2 + SHIFTS.index(row["shift"])]
    n = round(row["gamma"] * DIM)
    inputs = draws.normal(seed, "inputs", n, DIM) * np.sqrt(eigenvalues)
    return inputs, inputs @ target + row["noise"] * draws.normal(seed, "noise", n), source, target, eigenvalues


def test_risks_are_those_of_exact_end_points_whatever_the_row():
    stream, rows = np.random.default_rng(0), []
    for i in range(60):
        spectrum = SPECTRA[i % len(SPECTRA)]
        shift = SHIFTS[i % 3] if "," in spectrum else ("top", "all")[i % 2]
        norms = {"shift_norm": float(stream.uniform(0, 3)), "target_norm": float(stream.uniform(0.1, 3))}
        rows.append({"spectrum": spectrum, "shift": shift, **norms, "noise": float(stream.choice([0.0, 0.4]))})
        rows[-1]["gamma"] = float(stream.choice([0.04, 0.25, 0.5, 0.9, 1.0, 1.1, 1.5]))
        rows[-1]["depth"] = int(stream.choice([1, 2, 5]))
    seeds = np.arange(len(rows)) % 3
    metrics, status = engines.compute(columns(*rows), seeds)
    assert set(status) == {"ok"}
    for i, row in enumerate(rows):
        inputs, labels, source, target, eigenvalues = task(row, int(seeds[i]))
        norm = np.linalg.norm(source)
        ends = (end_point(inputs, labels, source / norm, c, row["depth"]) for c in (norm, 0.0))
        finetuned, scratch = ((end - target) ** 2 @ eigenvalues for end in ends)
        size = finetuned + scratch + 1e-6
        assert abs(metrics["risk_finetune"][i] - finetuned) < 1e-9 * size, row
        assert abs(metrics["risk_scratch"][i] - scratch) < 1e-9 * size, row
        assert metrics["transferability_finetune"][i] == metrics["risk_scratch"][i] - metrics["risk_finetune"][i]


# Closed forms


@pytest.mark.parametrize("counts", [[1000.0], [50.0, 950.0], [1.0, 9.0, 990.0]])
def test_kappa_solves_its_equation(counts):
    values = np.array([30.0, 0.3, 1e-6][: len(counts)])
    n = np.array([1.0, 10.0, 300.0, 999.0, 999.999, 1000.0])
    kappa = covariance.resolvent(values, np.array(counts), n)
    total = (values / (values + kappa[:, None])) @ np.array(counts)
    np.testing.assert_allclose(total, n, rtol=1e-12)


def test_without_a_covariance_it_is_the_limit_that_f_has():
    """F Thm 3.5: (1-γ)|θ|² + σ²γ/(1-γ), and above d the exact expectation; s scales the bias and leaves the noise."""
    dim, gamma, noise, scale = 800.0, np.array([0.1, 0.5, 0.9]), 0.7, 3.0
    for eigenvalue in (1.0, scale):
        length = np.full((3, 1), 2.0)
        risks = covariance.risk(np.array([eigenvalue]), np.array([dim]), gamma * dim, noise, 0 * length, length, length)
        np.testing.assert_allclose(risks, eigenvalue * 2 * (1 - gamma) + noise**2 * gamma / (1 - gamma), rtol=1e-10)
    above = np.array([dim + 2, 2 * dim])
    risks = covariance.risk(np.array([scale]), np.array([dim]), above, noise, *[np.zeros((2, 1))] * 3)
    np.testing.assert_allclose(risks, transfer.scratch_risk(above, dim, noise, 1.0), rtol=1e-12)


@pytest.mark.parametrize("spectrum", ["1.5:20,0.3", "4:10,1:90,0.1", "0.2:300,5"])
def test_means_over_draws_are_the_limit_to_a_few_in_a_hundred(spectrum):
    """At d = 400: within 2 % and four standard errors, at every depth, shift and noise; twice as near at twice d."""
    rows = [
        {"dim": 400, "spectrum": spectrum, "shift": shift, "shift_norm": 0.8, "gamma": gamma, "noise": noise}
        | {"depth": depth}
        for shift in ("top", "bottom", "all")
        for gamma in (0.1, 0.5, 0.8, 1.2)
        for noise in (0.0, 0.3)
        for depth in (1, 4)
    ]
    draws = 40
    table = columns(*rows * draws)
    metrics, _ = engines.compute(table, np.repeat(np.arange(draws), len(rows)))
    expected = closed_forms.risks(columns(*rows))
    for name in ("risk_scratch", "risk_finetune"):
        each = metrics[name].reshape(draws, len(rows))
        error = each.std(0, ddof=1) / np.sqrt(draws)
        assert (np.abs(each.mean(0) - expected[name]) <= 0.02 * expected[name] + 4 * error).all(), name


def test_where_no_expectation_exists_it_is_inf_and_without_noise_0():
    for noise, expected in ((0.5, [np.inf, np.inf]), (0.0, [0.0, 0.0])):
        risks = closed_forms.risks(
            columns(*({"dim": 20, "spectrum": "2:3,1", "gamma": n / 20, "noise": noise} for n in (20, 21)))
        )
        assert risks["risk_scratch"].tolist() == expected
        assert risks["risk_finetune"].tolist() == expected


def test_without_samples_the_source_is_kept_whole():
    rows = columns(
        *({"dim": 20, "spectrum": "2:5,1", "gamma": 0.0, "shift": "top", "depth": depth} for depth in (1, 3))
    )
    risks = closed_forms.risks(rows)
    np.testing.assert_allclose(risks["risk_finetune"], 2.0)
    np.testing.assert_allclose(risks["risk_scratch"], 0.25 * 2 + 0.75)


def test_t_bound_is_its_formula_and_bounds_the_draws():
    """Written out once for T's own figure; no draw of fine-tuning lies above it."""
    each = [("top", 5), ("top", 50), ("top", 150), ("bottom", 5), ("bottom", 50), ("bottom", 150)]
    rows = [{"dim": 200, "spectrum": "1.5:10,0.3", "shift": shift, "gamma": n / 200} for shift, n in each]
    metrics, _ = engines.compute(columns(*rows), np.zeros(6, int))
    trace = 10 * 1.5 + 190 * 0.3
    for i, n in enumerate((5, 50, 150)):
        g = 1.5 * max((trace / (n * 1.5)) ** 0.5, trace / (n * 1.5), n**-0.5, 1 / n)
        assert metrics["bound_thm42"][i] == pytest.approx(2 * g**3 / 1.5**2)
        assert metrics["bound_thm42"][3 + i] == pytest.approx(2 * g)
    assert (metrics["risk_finetune"] < metrics["bound_thm42"]).all()
    assert np.isnan(closed_forms.bounds(columns({"dim": 20, "spectrum": "1:5,2"}))).all()
