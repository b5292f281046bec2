"""The regime of the optimal rate, held against optima that move by a known power of the length; and the factor between
the best values of two settings: what draws do to both cancels."""

import itertools

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of
from scipy.special import stdtrit

from benchmarks.real_slopes import sweeps
from raysweep import workloads
from raysweep.analyses.kinds import optimum as optimum_kind
from raysweep.analyses.kinds import regime as regime_kind
from raysweep.analyses.question import Question
from raysweep.analyses.rows import with_choice
from raysweep.fits import fit_boundary, fit_inflection, fit_optimum
from raysweep.fits.at_best_lr import change_word
from raysweep.fits.regime import fit_regime, verdict
from raysweep.fits.result import Status
from raysweep.fits.shift import fit_shift
from raysweep.fits.slope import narrowing, widening

LENGTHS = np.geomspace(1, 100, 5)
SHAPES = {
    "parabola": lambda d: d**2,
    "steep on the right": lambda d: np.exp(1.2 * d) / 1.2 - d,
    "steep on the left": lambda d: np.exp(-1.2 * d) / 1.2 + d,
}


def frame_of(
    slope, rng, draws=5, points=13, size=0.05, shape="parabola", kind="independent", centre=3e-3, lowest=(0.0, 0.0)
):
    """Losses whose best rate is centre·(length/10)^slope. lowest: what the loss at the best rate does over log length
    (linear and squared share). kind: noise of every row; of a draw, shared by all lengths; an optimum of each draw's
    own that also moves with the length."""
    rates = np.geomspace(1e-4, 1e-1, points)
    common, tilt = rng.standard_normal((draws, points)), rng.standard_normal((draws, 2))
    level = rng.standard_normal((draws, 1))
    parts = []
    for length in LENGTHS:
        t = np.log(length / 10)
        distance = np.log(rates / centre) - slope * t
        scatter = rng.standard_normal((draws, points))
        noise = {
            "independent": scatter,
            "shared": 0.8 * common + 0.6 * scatter,
            "own": (tilt[:, :1] + 0.5 * tilt[:, 1:] * t) * distance + 0.05 * scatter,
        }[kind]
        values = SHAPES[shape](distance) + lowest[0] * t + lowest[1] * t**2 + level + size * noise
        status = np.where(values.ravel() > 60, "diverged", "ok")
        parts.append(rows_of(rates, values, "lr loss", length=length, status=status))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.simulation
def test_the_interval_of_the_slope_covers_and_at_most_three_verdicts_of_a_hundred_are_wrong():
    rng = np.random.default_rng(1)
    right = {0.0: "constant", 0.3: "increasing", -0.25: "slowly decreasing", -0.8: "quickly decreasing"}
    covered, widths, decided, wrong, sweeps = [], [], 0, 0, 0
    for shape in SHAPES:
        for kind in ("independent", "shared", "own"):
            for slope, word in right.items():
                draws = int(rng.choice([3, 5, 10]))
                points, size = int(rng.choice([9, 13])), rng.choice([0.05, 0.15, 0.4])
                centre = float(np.exp(rng.uniform(np.log(2e-3), np.log(4e-3))))
                frame = frame_of(slope, rng, draws, points, size, shape, kind, centre)
                regime = fit_regime(frame, "lr", "length", "loss", "seed")
                if np.isfinite(regime.low) or np.isfinite(regime.high):
                    covered.append(regime.low <= slope <= regime.high)
                    widths.append(regime.high - regime.low)
                sweeps += 1
                decided += regime.verdict == word
                wrong += regime.verdict not in (word, Status.UNDETERMINED)
    print(f"\ncovers {np.mean(covered):.3f} of {len(covered)}, median width {np.median(widths):.2f}, {decided} told")
    assert wrong <= 0.03 * sweeps
    assert np.mean(covered) >= 0.92
    assert np.median(widths) < 0.5
    assert decided > 10


@pytest.mark.simulation
def test_one_run_per_cell_names_regimes_and_no_wrong_one():
    right = {0.3: "increasing", -0.25: "slowly decreasing", -0.9: "quickly decreasing"}
    shown = []
    for seed, (slope, word) in itertools.product(range(3), right.items()):
        regime = fit_regime(frame_of(slope, np.random.default_rng(seed), draws=1), "lr", "length", "loss", "seed")
        assert regime.low < slope < regime.high
        assert regime.draws == 1
        assert regime.verdict in (word, Status.UNDETERMINED)
        centre = regime.intercept + regime.slope * np.log(10)
        assert centre == pytest.approx(np.log(3e-3), abs=0.4)
        shown.append(regime.verdict == word)
    assert sum(shown) >= 3


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.05, 0.08, "constant"),
        (0.02, 0.09, "constant"),
        (0.05, 0.4, "increasing"),
        (-0.4, -0.15, "slowly decreasing"),
        (-0.9, -0.6, "quickly decreasing"),
        (-np.inf, -0.6, "quickly decreasing"),
        (-0.7, -0.3, "undetermined"),
        (-0.3, 0.2, "undetermined"),
        (-np.inf, np.inf, "undetermined"),
    ],
)
def test_a_verdict_is_what_the_whole_interval_proves(low, high, word):
    assert verdict(low, high) == word


@pytest.mark.simulation
def test_draws_that_rise_to_the_last_rate_close_the_side_that_a_censored_length_leaves_open():
    """Five draws of a real sweep, smooth along the rate, hide where each best rate lies, not that it is on the grid."""
    real = next(each for each in sweeps() if (each["depth"], each["seeds"], each["group"]) == (1, 5, 24))
    regime = fit_regime(real["rows"], "rate", "length", "loss", "seed")
    table = regime.optimum.table
    censored = table[table["status"] == "censored_high"]
    assert len(censored) >= 6
    assert censored["high"].to_numpy() == pytest.approx(real["rows"]["rate"].max())
    lengths = np.log(table["length"])
    truth = np.polyfit(lengths, [real["reference"][length] for length in table["length"]], 1)[0]
    assert regime.low <= truth <= regime.high < 1
    assert regime.low > -0.5


@pytest.mark.simulation
def test_what_tuning_does_to_the_metric_is_followed_over_the_length():
    rng = np.random.default_rng(3)
    better = fit_regime(frame_of(-0.3, rng, lowest=(-0.5, 0.0)), "lr", "length", "loss", "seed")
    assert change_word(better.at_best_lr.over_length).startswith("improves")
    turning = fit_regime(frame_of(-0.3, rng, lowest=(0.0, 0.3)), "lr", "length", "loss", "seed")
    assert change_word(turning.at_best_lr.over_length) == "improves, then degrades"
    assert turning.at_best_lr.over_length.low <= 10 <= turning.at_best_lr.over_length.high
    frame = frame_of(-0.3, rng, size=0.02).assign(other=lambda f: 3 * np.log(f["length"]) + f["lr"] + f["seed"])
    beside = fit_regime(frame, "lr", "length", "loss", "seed", beside={"other": "min"})
    other = beside.beside["other"]
    table = other.table
    assert change_word(other.over_length) == "degrades throughout"
    expected = 3 * np.log(LENGTHS) + table["rate"] + frame["seed"].mean()  # at the tuned rate, whatever the metric
    assert np.allclose(table["mean"], expected, atol=1e-2)
    assert np.allclose(table["rate"], 3e-3 * (LENGTHS / 10) ** -0.3, rtol=0.1)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("in_domain", "pretraining", "case"),
    [
        ("falls", "falls", "quickly decreasing"),
        ("falls", "turns", "slowly decreasing"),
        ("turns", "turns", "constant"),
        ("rises", "turns", "constant"),
        ("turns", "falls", "none of the three"),
        ("falls", "noise", "undetermined"),
        ("noise", "turns", "undetermined"),
        ("falls", "turns at the end", "undetermined"),
    ],
)
def test_the_papers_case_is_told_by_the_losses_at_the_tuned_rate(in_domain, pretraining, case):
    """The rate falls slowly in all of them; what O §3.4.2 calls them follows from the losses alone."""
    rng = np.random.default_rng(11)
    runs = {
        "falls": (-0.5, 0.0),
        "turns": (0.0, 0.3),
        "rises": (0.5, 0.0),
        "noise": (0.0, 0.0),
        "turns at the end": (-0.5, 0.0),
    }
    frame = frame_of(-0.25, rng, draws=4, size=0.03, lowest=runs[in_domain]).rename(
        columns={"lr": "finetune_lr", "length": "pretrain_length", "loss": "finetune_loss_validation"}
    )
    t = np.log(frame["pretrain_length"] / 10)
    linear, squared = runs[pretraining]
    noise = 0.03 * rng.standard_normal(len(frame))
    last = (frame["pretrain_length"] == LENGTHS[-1]) & (pretraining == "turns at the end")
    frame["pretrain_loss_after"] = linear * t + squared * t**2 + noise + np.where(last, 1.2, 0.0)
    frame.loc[last, "pretrain_loss_after"] += 3 * rng.standard_normal(last.sum())  # a rise that was not shown
    frame = frame.assign(finetune_steps=50, noise=0.0, pretrain_loss=1.0)
    options = {
        "metric": "finetune_loss_validation",
        "lr": "finetune_lr",
        "length": "pretrain_length",
        "metrics": ["pretrain_loss_after"],
    }
    section = regime_kind.run(Question(frame, options, workloads.get("language"), "regime"))
    table = section.tables["regime_slopes"]
    assert table["paper_case"].tolist() == [case]


@pytest.mark.parametrize(("first", "ratio"), [(1.0, 4 / 8), (-1.0, (4 + 4 / 0.5) / 8)])
def test_draws_that_move_all_optima_together_narrow_a_slope_and_draws_that_turn_them_widen_it(first, ratio):
    """By hand for three lengths and five draws: draws that move all optima by the same amount say nothing of the slope;
    draws that move both ends in opposite directions add up, where independent ends give half the variance."""
    quantiles = stdtrit(1e9, np.linspace(0.0005, 0.9995, 1000))
    shape = np.array([1.0, -2.0, 0.5, 0.5, 0.0])
    moves = np.array([first * shape, 0.1 * shape, 3 * shape])  # their sizes do not count, those of the log rates do
    factor = widening(np.array([quantiles] * 3), moves, np.array([-0.5, 0.0, 0.5]), 0.95)
    assert factor == pytest.approx(np.sqrt(ratio) * stdtrit(8, 0.975) / 1.959964, rel=1e-6)


@pytest.mark.parametrize(
    ("middle", "factor"),
    [
        ([0.0, 1.0, 2.0, 3.0, 4.0], 0.830),  # on a line: (2 / 5)^(1/2) times 2.571 / 1.960, Student's t with 5 degrees
        ([0.0, 1.0, 2.0, 3.0], 1.0),  # too few to say so: (2 / 4)^(1/2) times 2.776 / 1.960 is more than 1
        ([0.0, 3.0, 0.0, 3.0, 0.0], 1.0),  # as far from a line as their intervals let expect, or further
        ([0.0, 1.0], 1.0),  # two always lie on a line
    ],
)
def test_optima_nearer_to_a_line_than_their_intervals_narrow_a_slope(middle, factor):
    quantiles = stdtrit(1e9, np.linspace(0.0005, 0.9995, 1000))
    result = narrowing(np.arange(len(middle), dtype=float), np.array(middle)[:, None] + quantiles, 0.95)
    assert result == pytest.approx(factor, abs=0.001)


@pytest.mark.simulation
def test_lengths_of_0_and_infinity_are_left_out_and_said():
    frame = frame_of(-0.3, np.random.default_rng(4))
    odd = frame.assign(length=frame["length"].replace({LENGTHS[0]: 0.0, LENGTHS[-1]: np.inf}))
    regime = fit_regime(odd, "lr", "length", "loss", "seed")
    assert (regime.located, regime.left_out) == (3, 2)
    assert regime.low <= -0.3 <= regime.high


def test_settings_without_a_choice_of_rate_are_left_out_of_optimum_and_regime():
    """Rows that are only perturbed have a rate as a parameter and nothing to choose: one setting is left, not three."""
    settings = [(rate, 50, 0.0) for rate in (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)] + [(1e-3, 0, 0.5), (1e-3, 0, 1.0)]
    rows = [
        (length, *setting, seed)
        for length in (1024.0, 2048.0, 4096.0, 8192.0)
        for setting in settings
        for seed in range(3)
    ]
    frame = pd.DataFrame(rows, columns=["pretrain_length", "finetune_lr", "finetune_steps", "noise", "seed"])
    frame["status"] = "ok"
    frame["finetune_loss_validation"] = np.log(frame["finetune_lr"] / 4e-3) ** 2 + 0.01 * frame["seed"] + frame["noise"]

    def asked(kind, **options):
        options |= {"metric": "finetune_loss_validation"}
        return kind.run(Question(frame, options, workloads.get("language"), "any"))

    assert len(asked(regime_kind, lr="finetune_lr", length="pretrain_length", by=["noise"]).table) == 1
    optimum = asked(optimum_kind, x="finetune_lr", by=["pretrain_length", "noise"])
    assert len(optimum.table) == 4
    assert (next(iter(optimum.tables.values()))["noise"] == 0).all()
    perturbed = frame[frame["noise"] > 0]
    assert len(with_choice(perturbed, "finetune_lr", ["noise"])) == len(perturbed)


@pytest.mark.parametrize("kind", [float, object])
def test_a_frame_without_a_row_is_undetermined_in_every_fit(kind):
    """As a filter leaves it that nothing passes."""
    frame = pd.DataFrame({name: pd.Series([], dtype=kind) for name in ("lr", "length", "loss", "seed")})
    for by in (None, "length", ["length"]):
        fit = fit_optimum(frame, "lr", "loss", by, "seed")
        assert (fit.status, fit.rows) == (Status.UNDETERMINED, 0)
        assert {"estimate", "status", "diverged_from", *([by] if isinstance(by, str) else by or [])} <= {*fit.table}
    for y in (None, "length"):
        assert fit_boundary(frame, "lr", y, "loss", "seed").status == Status.UNDETERMINED
    assert fit_inflection(frame, "length", "loss", "seed").status == Status.UNDETERMINED
    assert fit_regime(frame, "lr", "length", "loss", "seed").verdict == Status.UNDETERMINED


# The factor between two settings


def shift(one, other):
    return fit_shift(one, other, "lr", "loss", "length", "seed")


def setting(seed, centre=3e-3, size=0.1):
    """Four draws at two lengths and eleven rates, a factor 2 apart."""
    frame = frame_of(-0.2, np.random.default_rng(seed), 4, 11, size, "steep on the right", centre=centre)
    return frame[frame["length"].isin(LENGTHS[1:3])]


@pytest.mark.simulation
def test_the_interval_covers_the_factor_as_often_as_it_says_where_noise_is_what_blurs_it():
    result = []
    for k in range(80):
        centre = float(np.exp(np.random.default_rng([k, 9]).uniform(np.log(2e-3), np.log(4e-3))))
        result.append(shift(setting([k, 1], centre, 0.5), setting([k, 2], 1.7 * centre, 0.5)))
    result = [one for one in result if one.slices == 2]
    assert len(result) > 40
    assert 0.88 <= np.mean([one.low <= 1.7 <= one.high for one in result]) < 1


@pytest.mark.simulation
def test_what_draws_do_to_both_settings_cancels():
    one, other = setting([1], size=0.4), setting([2], size=0.4)
    alike = shift(one, one.assign(lr=one["lr"] * 2))
    assert alike.factor == pytest.approx(2)
    apart = shift(one, other)
    assert alike.high / alike.low == pytest.approx(1)
    assert apart.high / apart.low > 1.5
    back = shift(other, one)
    assert (back.factor, back.low, back.high) == pytest.approx((1 / apart.factor, 1 / apart.high, 1 / apart.low))


@pytest.mark.simulation
def test_where_one_is_not_located_both_are_left_out():
    one, other = setting([1]), setting([2], 6e-3)
    first = other["length"] == LENGTHS[1]
    falling = other.assign(loss=np.where(first, -np.log(other["lr"]), other["loss"]))
    result = shift(one, falling)
    assert (result.slices, result.left_out) == (1, 1)
    assert result.factor == shift(one[one["length"] == LENGTHS[2]], other[~first]).factor
    nowhere = shift(one, other.assign(loss=-np.log(other["lr"])))
    assert nowhere.slices == 0
    assert np.isnan(nowhere.factor)
