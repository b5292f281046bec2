"""The workload linear_spectrum: its engines against independent simulations and each other, and what it declares."""

import numpy as np
import pytest
from conftest import run as run_space
from mode_descent import followed, matrix_descent, multiplied
from workload_rows import columns_of

from raysweep.theory import spectrum
from raysweep.training import draws
from raysweep.workloads.linear_spectrum import WORKLOAD, closed_forms
from raysweep.workloads.linear_spectrum.flow import relax
from raysweep.workloads.linear_spectrum.tasks import diagonal, product, read

LOSSES = ("pretrain_loss", "pretrain_loss_after", "finetune_loss", "sensitivity")
SMALL = {
    "dim": 6,
    "source_spectrum": "2,1.2,0.7,0.4,0.2",
    "target_spectrum": "0.9,1.1,0.6,0.5,0.8,0.1",
    "init_scale": 0.1,
    "pretrain_length": 1.3,
}
WHOLE = {"dim": 3, "source_spectrum": "4,0.5,0.05", "target_spectrum": "1.5,1.2,0.9", "init_scale": 1e-9}


def test_spectra_are_read_as_they_are_written():
    np.testing.assert_allclose(read("power:2:0.5", 4), [2, 2 / 2**0.5, 2 / 3**0.5, 1])
    np.testing.assert_allclose(read("geometric:2:0.5:3", 5), [2, 1, 0.5, 0, 0])
    np.testing.assert_allclose(read("linear:1:3:3", 4), [1, 2, 3, 0])
    np.testing.assert_allclose(read(" 2, 1.5,1e-1 ", 4), [2, 1.5, 0.1, 0])


def columns(**values):
    return columns_of("linear_spectrum", **SMALL | values)


def run(seeds=(3,), **values):
    table = columns(**values)
    rows = len(table["dim"])
    table = {name: np.repeat(entries, len(seeds)) for name, entries in table.items()}
    return closed_forms.compute(table, np.tile(seeds, rows))


def losses(**values):
    metrics, status = run(**values)
    assert set(status) == {"ok"}
    return np.stack([metrics[name] for name in LOSSES], axis=-1)


def simulated(depth, overlap_angle, noise, penalty, finetune_lr, finetune_steps):
    """Pretraining by an ODE solver on the modes, then real matrices in random bases, stepped one by one."""
    source, target = read(SMALL["source_spectrum"], 6), read(SMALL["target_spectrum"], 6)
    start = np.full(6, SMALL["init_scale"])
    weights = followed(start, source, SMALL["pretrain_length"], depth)
    random = np.random.default_rng(11)
    axes = [np.linalg.qr(random.standard_normal((6, 6)))[0] for _ in range(depth + 1)]
    theta = np.deg2rad(overlap_angle)
    turn = np.eye(6)
    for i in range(3):
        turn[i, i] = turn[i + 3, i + 3] = np.cos(theta)
        turn[i + 3, i], turn[i, i + 3] = np.sin(theta), -np.sin(theta)
    from_task = axes[0] @ np.diag(source) @ axes[-1].T
    to_task = axes[0] @ np.diag(target) @ (axes[-1] @ turn).T
    perturbation = draws.normal(3, "perturbation", depth, 6, 6)
    layers = [axes[i] @ (np.diag(weights) + noise * perturbation[i]) @ axes[i + 1].T for i in range(depth)]
    end = multiplied(matrix_descent(layers, to_task, finetune_lr, finetune_steps, penalty))
    before, after = ((weights**depth - source) ** 2).sum(), ((end - from_task) ** 2).sum()
    return [before, after, ((end - to_task) ** 2).sum(), after - before]


@pytest.mark.parametrize(
    ("depth", "angle", "noise", "penalty"),
    [(1, 20, 0.1, 0.5), (2, 0, 0, 0), (2, 35, 0, 0.4), (2, 120, 0.05, 0), (3, 60, 0.1, 1.0), (4, 10, 0.02, 0)],
)
def test_network_is_a_direct_simulation_of_the_matrices_in_any_basis(depth, angle, noise, penalty):
    values = {"depth": depth, "overlap_angle": angle, "noise": noise, "penalty": penalty}
    values |= {"finetune_lr": 0.02, "finetune_steps": 60}
    np.testing.assert_allclose(losses(engine="network", **values)[0], simulated(**values), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("depth", "angle", "noise"), [(2, 0, 0), (2, 40, 0), (3, 0, 0), (3, 70, 0.1), (1, 30, 0.05)])
def test_network_approaches_the_flow_in_proportion_to_its_step(depth, angle, noise):
    steps = np.array([100.0, 200.0, 400.0])
    setting = {"depth": depth, "overlap_angle": angle, "noise": noise, "penalty": 0.3}
    exact = losses(engine="flow", finetune_lr=0.02, finetune_steps=100, **setting)[0]
    stepped = losses(engine="network", finetune_lr=list(2 / steps), finetune_steps=list(steps), **setting)
    error = np.abs(stepped - exact)[:, 1:].max(1)
    assert error[0] < 0.05
    np.testing.assert_allclose(error[:-1] / error[1:], 2, rtol=0.15)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_flow_of_coupled_layers_is_the_flow_of_modes_where_nothing_couples(depth):
    weights, goal = np.array([1.1, 0.6, 0.2, 0.05]), np.array([0.9, 1.4, 0.3, 0.6])
    for time in (0.7, 4.0):
        end, status = relax(diagonal(weights[None], depth)[0], np.diag(goal), time)
        assert status == 0
        expected = spectrum.follow(weights, goal, time, depth) ** depth
        np.testing.assert_allclose(np.diag(product(end[None])[0]), expected, rtol=1e-6)


@pytest.mark.parametrize(("depth", "angle"), [(1, 0), (2, 0), (2, 50), (3, 0), (4, 0)])
def test_loss_under_noise_has_the_closed_form_as_its_mean(depth, angle):
    seeds = np.arange(3000)
    metrics, status = run(seeds, engine="network", depth=depth, overlap_angle=angle, noise=0.3)
    again, _ = run(seeds, engine="flow", depth=depth, overlap_angle=angle, noise=0.3)
    closed = WORKLOAD.closed_form(columns(depth=depth, overlap_angle=angle, noise=0.3))
    assert set(status) == {"ok"}
    assert (metrics["closed_form_valid"] == 1).all()
    for name in LOSSES[1:]:
        mean, error = metrics[name].mean(), metrics[name].std(ddof=1) / np.sqrt(len(seeds))
        assert abs(mean - closed[name][0]) < 4 * error
        np.testing.assert_allclose(again[name], metrics[name], rtol=1e-9)


def test_closed_forms_are_the_limit_of_descent_at_any_time():
    setting = {"pretrain_length": [0.0, 0.6, 1.5, 4.0, np.inf], "penalty": 0.5}
    setting |= {"finetune_steps": 20000.0, "finetune_lr": 5e-5}
    columns_closed = WORKLOAD.closed_form(columns(**setting))
    closed = np.stack([columns_closed[name] for name in LOSSES], axis=-1)
    np.testing.assert_allclose(closed, losses(engine="network", **setting), rtol=2e-3, atol=2e-4)
    np.testing.assert_array_equal(losses(engine="theory", **setting), closed)


def test_whole_modes_have_the_papers_formula_and_say_when_they_do_not():
    source, target, penalty = np.array([4.0, 0.5, 0.05]), np.array([1.5, 1.2, 0.9]), 0.25
    setting = {**WHOLE, "penalty": penalty, "finetune_lr": 0.01, "finetune_steps": 200}
    metrics, _ = run(engine="network", pretrain_length=[5.0, 18.0, 30.0], **setting)
    np.testing.assert_array_equal(metrics["learned_modes"], [1, 1, 2])
    np.testing.assert_array_equal(metrics["whole_mode_valid"], [1, 0, 1])  # at 18 the second mode is already growing
    assert metrics["closed_form_failure"][1] == 4
    for row, n in ((0, 1), (2, 2)):
        before = (((target - source) / (1 + penalty))[:n] ** 2).sum() + (source[n:] ** 2).sum()
        domain = ((penalty * (source - target) / (1 + penalty))[:n] ** 2).sum() + (target[n:] ** 2).sum()
        assert metrics["whole_mode_loss_after"][row] == pytest.approx(before)
        assert metrics["pretrain_loss_after"][row] == pytest.approx(before, rel=5e-3)
        assert metrics["whole_mode_finetune_loss"][row] == pytest.approx(domain)
        assert metrics["finetune_loss"][row] == pytest.approx(domain, rel=5e-3)
    assert (metrics["inflection_modes"] == 1).all()  # 1.2 > 2.25 · 0.5
    assert np.isnan(metrics["whole_mode_loss_after"][1])
    assert (metrics["closed_form_valid"] == 1).all()


def test_every_condition_that_fails_is_told():
    whole = {**WHOLE, "engine": "theory", "pretrain_length": 5.0}
    cases = [
        ({"finetune_steps": 200}, 0),
        ({"finetune_steps": 200, "overlap_angle": 10}, 1),
        ({"noise": 0.1, "overlap_angle": 10}, 0),
        ({"finetune_steps": 200, "noise": 0.1}, 2),
        ({"finetune_steps": 200, "finetune_lr": 0.5}, 3),
        ({"finetune_steps": 5}, 5),
        ({"finetune_steps": 2000}, 4),
        ({"finetune_steps": np.inf}, 4),
        ({"noise": 0.1, "pretrain_length": 20.2}, 4),  # the second mode is half learned at 20.37
        ({"noise": 0.1, "pretrain_length": 20.5}, 5),
    ]
    for values, code in cases:
        metrics, status = run(**whole | values)
        closed = WORKLOAD.closed_form(columns(**whole | values))
        assert metrics["closed_form_failure"][0] == code, values
        assert metrics["closed_form_valid"][0] == (code not in (1, 2, 3))
        assert np.isnan(closed["pretrain_loss_after"][0]) == (code in (1, 2, 3))
        assert np.isfinite(closed["pretrain_loss"][0])
        assert status[0] == "ok"
    assert metrics["inflection_modes"][0] == 2  # 0.5 > 2dγ² = 0.06 > 0.05
    assert np.isnan(run(**whole, finetune_steps=np.inf)[0]["inflection_modes"][0])


def test_the_flow_takes_any_rate_whose_time_is_the_same():
    fast, slow = losses(engine="flow", finetune_lr=[2.0, 0.002], finetune_steps=[1.0, 1000.0])
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


def test_training_to_convergence_ends_at_the_goal_and_stuck_modes_stay():
    endless = {"finetune_steps": np.inf, "finetune_lr": 0.05}
    for engine in ("flow", "network"):
        values = losses(engine=engine, overlap_angle=[0.0, 30.0], noise=[0.0, 0.1], **endless)
        np.testing.assert_allclose(values[:, 2], 0, atol=1e-13)
    # a mode that pretraining left at exactly 0 is never learned, and that is an end too
    stuck = {"dim": 2, "source_spectrum": "1", "target_spectrum": "1.5,0.7", "pretrain_length": np.inf}
    end = losses(engine="network", **stuck, **endless)[0]
    np.testing.assert_allclose(end, [0, 0.25, 0.49, 0.25], atol=1e-7)


def test_a_number_of_steps_is_a_budget_and_training_without_end_is_not():
    """One layer, and a step by which every distance grows by a tenth: finite after 300 steps, and not at the end."""
    setting = {"engine": "network", "depth": 1, "dim": 3, "finetune_lr": 1.05}
    setting |= {"source_spectrum": "2,1.2,0.7", "target_spectrum": "1"}
    metrics, status = run(finetune_steps=[300.0, 10_000.0, np.inf, 0.0], **setting)
    assert status.tolist() == ["ok", "diverged", "diverged", "ok"]
    assert metrics["finetune_loss"][0] == pytest.approx(1.1**600 * metrics["finetune_loss"][3], rel=1e-6)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_bound_on_the_rate_is_where_descent_starts_to_diverge_or_swing(depth):
    setting = {
        "engine": "network",
        "finetune_steps": 3000.0,
        "target_spectrum": "1.9,1.1,0.6,0.5,0.2,0",
        "depth": depth,
    }
    setting |= {"pretrain_length": np.inf, "penalty": 0.5}
    metrics, _ = run(**setting)
    bound = metrics["finetune_lr_bound"][0]
    if depth == 2:
        assert bound == pytest.approx(1 / (2 * (1.9 + 0.5 * 2.0)))
    below, above = run(finetune_lr=[0.98 * bound, 1.05 * bound], **setting)[0]["finetune_loss"]
    source, target = read(SMALL["source_spectrum"], 6), read("1.9,1.1,0.6,0.5,0.2,0", 6)
    assert below == pytest.approx((((target - source) / 3) ** 2).sum(), rel=1e-6)  # λ/(1+λ) = 1/3
    assert above != pytest.approx(below, rel=1e-3)


def test_under_the_assumptions_of_the_paper_a_packaged_space_shows_what_its_theorems_say(storage):
    """O Thm 4.6 and 4.7: the assumptions, checked on the spectra, and each statement on the rows that were trained."""
    sweep = run_space(storage, "overtraining_linear_ordered")
    table = sweep.results()
    source, target = (read(sweep.space.fixed[name], 8) for name in ("source_spectrum", "target_spectrum"))
    assert (np.diff(source) < 0).all()
    assert (np.diff(target) < 0).all()
    assert (target / source)[1:].min() > 1.4  # (α, 1)-misaligned
    assert 4 * table["finetune_lr"].max() * (table["penalty"].max() + 2) * max(target) < 1  # Assumption A.8
    table = table[table["seed"] == 0]
    assert set(table["status"]) == {"ok"}
    turns = {}
    for (_, penalty), rows in table.groupby(["finetune_lr", "penalty"]):
        assert rows["learned_modes"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert (rows["sensitivity"] > 0).all()
        assert (np.diff(rows["sensitivity"]) > 0).all()  # Thm 4.6
        losses = rows["pretrain_loss_after"].to_numpy()
        last = 1 + int(losses.argmin())  # Thm 4.7(1): from there on it only rises
        assert (np.diff(losses)[last - 1 :] > 0).all()
        assert set(rows["inflection_modes"]) == {last}
        turns.setdefault(penalty, set()).add(last)
    assert turns == {0: {3}, 0.5: {3}, 1: {4}, 2: {5}, 3: {6}}  # Thm 4.7(2), and what it costs:
    for _, rows in table.groupby(["finetune_lr", "pretrain_length"]):
        assert (np.diff(rows.sort_values("penalty")["finetune_loss"]) > 0).all()
