"""The closed forms against Monte Carlo, differential equations, iteration and papers' numbers; letters of papers."""

import itertools
import re
from pathlib import Path

import limits
import numpy as np
import pytest
from linear_rows import columns, z_score
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

from raysweep import theory, workloads
from raysweep.theory import finetune, papers, pretraining, transfer


def test_scratch_risk_is_infinite_only_with_noise_next_to_the_threshold():
    n = np.array([17, 18, 19, 20, 21, 22, 23])
    assert np.isinf(transfer.scratch_risk(n, 20, 0.1)).tolist() == [False, False, True, True, True, False, False]
    assert transfer.scratch_risk(n, 20, 0.0) == pytest.approx([0.15, 0.1, 0.05, 0, 0, 0, 0])
    assert transfer.scratch_risk(0, 20, 0.5, 2.0) == 4.0


@pytest.mark.parametrize(
    ("n", "ridge", "angle"), [(9, 0.0, 35), (9, 0.3, 35), (1, 0.2, 120), (2, 1.5, 70), (40, 0.05, 10)]
)
def test_linear_risk_is_the_mean_over_draws_of_a_retrained_last_layer(n, ridge, angle):
    random, d, depth, scale = np.random.default_rng(n), 6, 3, 0.4
    v = random.standard_normal(d)
    features = scale ** ((depth - 1) / depth) * np.outer(np.eye(d)[0], v / np.linalg.norm(v))
    risks, target = [], 1.2 * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle)), 0, 0, 0, 0])
    for _ in range(6000):
        inputs = random.standard_normal((n, d))
        labels = inputs @ target + 0.5 * random.standard_normal(n)
        seen = inputs @ features
        last = np.linalg.lstsq(
            np.vstack([seen, np.sqrt(n * ridge) * np.eye(d)]), np.append(labels, np.zeros(d)), rcond=1e-10
        )[0]
        risks.append(np.sum((features @ last - target) ** 2))
    expected = transfer.linear_risk(angle, n, 0.5, 1.2, transfer.effective_ridge(np.array(ridge), depth, np.log(scale)))
    assert abs(z_score(risks, expected)) < 4


def test_linear_risk_edges():
    assert np.isinf(transfer.linear_risk(45, [1, 2], 0.0)).all()
    assert transfer.linear_risk([0, 180], 1, 0.0) == pytest.approx([0, 0], abs=0)
    assert transfer.linear_risk(30, 0, 0.5, 2.0, 0.7) == pytest.approx(4.0)
    tiny = transfer.linear_risk(40, [5, 50, 5000], 0.3, 1.0, 1e-12)
    assert tiny == pytest.approx(transfer.linear_risk(40, [5, 50, 5000], 0.3), rel=1e-9)
    assert transfer.linear_risk(40, 3, 0.3, 1.0, 1e9) == pytest.approx(1.0, rel=1e-6)


def test_ridge_risk_of_figure_2():
    """F Fig. 2: θ = π/8, from 0.147 at λ = 0 to 0.267 at λ = 0.6, and the finite-n form tends to it."""
    penalties = np.linspace(0, 0.6, 7)
    limit = 1 - np.cos(np.pi / 8) ** 2 * (1 + 2 * penalties) / (1 + penalties) ** 2  # F Thm 3.8, eq. 15
    assert limit[[0, -1]] == pytest.approx([0.1465, 0.2665], abs=1e-3)
    assert (np.diff(limit) > 0).all()
    assert transfer.linear_risk(22.5, 10**7, 0.2, 1.0, penalties) == pytest.approx(limit, abs=1e-6)


def test_frozen_layers_without_spread():
    form = transfer.closed_form(
        columns(gamma=0.01, dim=100, overlap_angle=[0.0, 180.0, 180.0], depth=[3, 3, 2], frozen_layers=1)
    )
    assert form["risk_finetune"] == pytest.approx([0, 1, 0], abs=0)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 30, 1000])
def test_squared_norm_is_the_fixed_point(depth):
    random = np.random.default_rng(depth)
    p, q, c = random.uniform(0.01, 1, 50), random.uniform(0.001, 3, 50), random.uniform(0.01, 2, 50)
    s = q.copy()
    for _ in range(40000):
        s = c ** (2 / depth) * s ** ((depth - 1) / depth) * p + q
    assert np.exp(finetune.log_squared_norm(np.log(c), depth, p, q)) == pytest.approx(s, rel=1e-9)


def test_rescaling_at_its_edges():
    assert finetune.rescaling(np.log(0.3), 1, [0.5, 0.0], [2.0, 0.0]) == pytest.approx([0.3, 0.3])
    assert finetune.rescaling(np.log(0.3), [2, 9], 1.0, 0.0) == pytest.approx([0.3, 0.3])  # no data: nothing moves
    assert limits.rescaling(0.4, 0.0, [1, 2, 7, 1000]) == pytest.approx(1.0, rel=1e-12)
    gamma = np.array([0.4, 0.8])
    many_layers = np.sqrt(1.5**2 + 0.7**2 / (1 - gamma))  # T Thm 5.2, eq. 6
    assert limits.rescaling(gamma, 0.7, 1000, 0.0, 1.5) == pytest.approx(many_layers, rel=5e-3)
    assert finetune.rescaling(-1000 * np.log(100), 1000, 1.0, 0.25) == pytest.approx(0.01 * 0.5, rel=1e-2)


def test_finetune_numbers_where_the_paper_fails():
    """F Thm 3.9 (eq. 17), (γ-1)(1 - 2 cos θ), holds without noise alone: here it would be 0.170."""
    assert limits.transferability(22.5, 0.8, 1.0, 5) == pytest.approx(-0.057, abs=5e-4)
    angles = np.array([10, 60, 85])
    printed = 0.7 * (2 * np.cos(np.deg2rad(angles)) - 1)
    assert limits.transferability(angles, 0.3, 0.0, 4) == pytest.approx(printed, abs=1e-12)


@pytest.mark.parametrize(("depth", "noise"), [(1, 0.5), (2, 0.0), (3, 0.5)])
def test_inflection_is_the_scale_of_best_transfer(depth, noise):
    angle, gamma = 40.0, 0.6
    best = minimize_scalar(
        lambda log_c: -limits.transferability(angle, gamma, noise, depth, log_c),
        bounds=(-12, 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert best.x == pytest.approx(limits.inflection_log_scale(angle, depth, gamma, noise), abs=1e-4)
    assert -best.fun == pytest.approx((1 - gamma) * np.cos(np.deg2rad(angle)) ** 2, rel=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize(("start", "norm"), [(0.4, 1.0), (0.3, 2.5), (0.9, 0.7), (1.5, 0.7)])
def test_pretrained_scale_follows_the_flow(depth, start, norm):
    times = np.array([0.0, 0.05, 0.4, 1.5])
    flow = solve_ivp(
        lambda _, c: depth * c ** (2 - 2 / depth) * (norm - c),
        (0, times[-1]),
        [start**depth],
        t_eval=times,
        rtol=1e-12,
        atol=1e-14,
        method="DOP853",
    ).y[0]
    assert pretraining.scale(times, depth, start, norm) == pytest.approx(flow, rel=1e-9)
    assert pretraining.source_loss(times, depth, start, norm) == pytest.approx((flow - norm) ** 2 / 2, rel=1e-6)


def test_pretrained_scale_at_its_extremes():
    assert pretraining.scale(np.inf, [1, 2, 40], [0.01, 3.0, 1.0], 0.8) == pytest.approx(0.8)
    assert pretraining.log_scale(10.0, 1000, 0.01) == pytest.approx(1000 * np.log(0.01))
    # depth 2 from 1e-20 is a logistic; depth 3 leaves a tiny start at a known time
    time = 30.0
    assert pretraining.scale(time, 2, 1e-10) == pytest.approx(1 / (1 + (1e20 - 1) * np.exp(-2 * time)), rel=1e-10)
    assert pretraining.source_loss(40.0, 2, 0.5) == pytest.approx((3 * np.exp(-80)) ** 2 / 2, rel=1e-10)
    assert pretraining.scale([0.0, 5.0], 2, 1.0) == pytest.approx([1.0, 1.0])


def test_closed_form_covers_every_corner_without_nan():
    gamma, angle, depth = np.meshgrid(
        [0.001, 0.02, 0.5, 0.98, 1.0, 1.02, 2.0], [0.0, 45.0, 90.0, 180.0], [1, 2, 1000], indexing="ij"
    )
    cells = {"gamma": gamma.ravel(), "overlap_angle": angle.ravel(), "depth": depth.ravel(), "dim": 50}
    for noise, length in itertools.product((0.0, 0.5), (0.0, 3.0, np.inf)):
        form = transfer.closed_form(columns(**cells, noise=noise, pretrain_length=length))
        for name, values in form.items():
            assert not np.isnan(values).any(), name
        assert np.isfinite(form["transferability_finetune"]).all()


# The letters of papers


def test_letters_are_found_where_they_cite():
    assert papers.cited("no paper: OK, D, a Table, F1 and T. M") == []
    everything = "sharper than T's bound, after O Fig. 3 left, 4, and D §3 (F Thm 3.9, M Lemma 1)"
    assert papers.cited(everything) == list("FTODM")
    assert papers.legend("nothing") == ""
    assert papers.legend("O §4, F Fig. 1") == (
        "papers: F is Features are fate; O is Overtrained Language Models Are Harder to Fine-Tune"
    )


def test_the_titles_are_those_of_the_theory_sheet():
    sheet = " ".join((Path(theory.__file__).parent / "THEORY.md").read_text().split())
    for letter, title in papers.PAPERS.items():
        assert f"{letter}: " in sheet
        assert title in sheet


def test_the_list_of_workloads_says_which_papers_their_letters_mean():
    """A letter stands there with words of its title."""
    outputs = [workloads.get(name).summary for name in workloads.names()]
    named = [pair for text in outputs for pair in re.findall(r"\b([FTODM]), ([^,;)]+)", text)]
    assert {letter for letter, _ in named} == set(papers.PAPERS)
    assert all(words in papers.PAPERS[letter] for letter, words in named)
    assert sum(len(re.findall(r"\b[FTODM]\b", text)) for text in outputs) == len(named)
