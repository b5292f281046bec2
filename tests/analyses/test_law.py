"""The analysis `law`: the best rate as a product of powers."""

import numpy as np
import pytest
from transfer_rows import rows_with

import raysweep
from raysweep.analyses.finding import Needed, Outcome
from raysweep.errors import InputError
from raysweep.fits.reasons import Reason
from raysweep.report.first_tables import first_table

WIDTHS, TOKENS, RATES = (64, 128, 256, 512), (1e9, 4e9, 16e9), np.geomspace(1e-4, 1e-1, 9)


def runs():
    """One run per cell; the best rate is 0.01 (width / 64)^-1 (tokens / 1e9)^0.25."""

    def loss(rows, random):
        best = 0.01 * (rows["width"] / 64) ** -1 * (rows["tokens"] / 1e9) ** 0.25
        return 2 + 0.1 * np.log(rows["lr"] / best) ** 2 + 0.02 * random.standard_normal(len(rows))

    return rows_with({"width": WIDTHS, "tokens": TOKENS, "lr": RATES}, 1, loss=loss)[["lr", "width", "tokens", "loss"]]


def law(frame, **options):
    asked = {"lr": "lr", "over": ["width", "tokens"], **options}
    return raysweep.analyse(frame, "loss", axes="lr", by=["width", "tokens"], questions=[{"law": asked}])


def test_a_wall_that_moves_with_an_axis_is_no_law_of_the_best_rate():
    """The best rate is 0.01 everywhere; twice that runs only with the most tokens."""

    def loss(rows, random):
        diverged = rows["lr"] > np.where(rows["tokens"] == TOKENS[-1], 0.03, 0.015)
        return (2 + 2 * np.log(rows["lr"] / 0.01) ** 2 + 0.05 * random.standard_normal(len(rows))).mask(diverged)

    rates = 0.01 * 2.0 ** np.arange(-4, 4)
    frame = rows_with({"width": WIDTHS, "tokens": TOKENS, "lr": rates}, 1, loss=loss)
    table = law(frame[["lr", "width", "tokens", "loss"]]).table
    assert ((table["low"] < 0) & (table["high"] > 0)).all()
    assert (table["high"] - table["low"] < 1).all()


def test_the_law_of_a_sweep_with_one_run_per_cell():
    laws = law(runs())
    table = laws.table
    assert table["axis"].tolist() == ["width", "tokens"]
    assert table["outcome"].tolist() == [Outcome.FALLS, Outcome.RISES]
    assert ((table["low"] < [-1, 0.25]) & (table["high"] > [-1, 0.25])).all()
    assert (table["high"] - table["low"] < 0.6).all()
    facts, values = laws[0].facts, laws[0].tables["law_values"]
    assert facts["one_out"]["of"] == 12
    assert facts["one_out"]["inside"] >= 10
    assert facts["largest_out"] == {"inside": 3, "of": 3}
    assert (values["law_low"] < values["law_high"]).all()
    (plot,) = laws[0].plots()
    (line,), (by_tokens,) = (panel.lines for panel in plot.panels)
    assert (line.along, by_tokens.along, len(line.table)) == ("width", "tokens", 12)
    assert plot.panels[0].where == {"tokens": 4e9}
    drawn = np.interp(np.log(line.table["width"]), np.log(line.fine), np.log(line.expected))
    assert np.abs(np.log(line.table["estimate"]) - drawn).max() < 0.3  # those of other tokens differ by log 16^0.25


def test_axes_that_are_not_in_the_law_have_laws_of_their_own():
    found = law(runs(), over="width")
    table, (exponents, _) = found.table, found[0].plots()
    means = exponents.panels[0].lines[0].means
    assert (exponents.x, means.x.tolist()) == ("tokens", sorted(TOKENS))
    assert means.centre.tolist() == table["estimate"].tolist()
    assert table["tokens"].tolist() == sorted(TOKENS)
    assert table["slices"].tolist() == [4, 4, 4]
    assert (table["estimate"] < -0.5).all()


def test_too_few_settings_say_how_many_a_law_takes():
    found = law(runs().query("width < 100"), over="tokens")
    (row,) = found.table.to_dict("records")
    assert (row["outcome"], row["needed"], row["needed_number"]) == (Outcome.UNDECIDED, Needed.MORE_SETTINGS, 4)
    assert first_table(found[0], found.workload).head == ["tokens", "best lr [95 %]"]


def test_bounds_alone_give_no_law():
    laws = law(runs().assign(loss=lambda frame: -frame["loss"]), over="width", where={"tokens": 1e9})
    assert set(laws[0].tables["law_values"]["outcome"]) <= {Outcome.EDGE_LOW, Outcome.EDGE_HIGH}
    (row,) = laws.table.to_dict("records")
    assert (row["outcome"], row["reason"], row["slices"]) == (Outcome.UNDECIDED, Reason.TOO_FEW_SLICES, 4)
    assert (row["needed"], np.isfinite(row["low"])) == (Needed.MORE_X, False)
    assert laws[0].facts == {"over": ["width"]}


def test_a_law_that_bounds_alone_would_give_forecasts_no_setting():
    best = {64: 1e3, 128: 1e2, 256: 10.0, 512: 0.02, 1024: 0.002}  # those of three widths are above all rates

    def loss(rows, random):
        return 0.1 * np.log(rows["lr"] / rows["width"].map(best)) ** 2 + 0.02 * random.standard_normal(len(rows))

    frame = rows_with({"width": best, "lr": RATES}, 1, loss=loss)[["width", "lr", "loss"]]
    found = raysweep.analyse(frame, "loss", "lr", "width", [{"law": {"lr": "lr", "over": "width"}}])
    table = found[0].tables["law_values"].set_index("width")
    assert table["outcome"].tolist() == [Outcome.EDGE_HIGH] * 3 + [Outcome.LOCATED] * 2
    assert (table["inside"] != "").tolist() == [True] * 3 + [False] * 2
    assert (found[0].facts["one_out"]["of"], "largest_out" in found[0].facts) == (3, False)
    (plot,) = found[0].plots()
    assert len(plot.panels[0].lines[0].table) == 5


def test_axes_that_vary_together_need_no_more_settings():
    size = runs()["width"] * runs()["tokens"] ** 0.3
    table = law(runs().assign(width=size, tokens=size**2)).table
    assert table[["reason", "needed"]].to_numpy().tolist() == [[Reason.AXES_TOGETHER, ""]] * 2


@pytest.mark.parametrize(
    ("options", "path"), [({"over": "lr"}, "over"), ({"over": "height"}, "over"), ({"lr": "loss"}, "lr")]
)
def test_a_law_of_what_is_no_axis_is_refused(options, path):
    with pytest.raises(InputError, match=rf"law.*{path}"):
        law(runs(), **options)


def test_best_rates_beyond_the_grid_do_not_flatten_the_law():
    def loss(rows, random):
        best = 0.3 * rows["width"] ** -0.5 * (rows["tokens"] / 1e8) ** -0.25  # 0.004 to 0.0375
        return 0.15 * np.log(rows["lr"] / best) ** 2 + 0.01 * random.standard_normal(len(rows))

    axes = {"width": [64, 128, 256, 512, 1024], "tokens": [1e8, 3e8, 1e9, 3e9], "lr": np.geomspace(6e-3, 0.3, 9)}
    table = law(rows_with(axes, 1, loss=loss)[[*axes, "loss"]]).table
    assert ((table["low"] < [-0.5, -0.25]) & (table["high"] > [-0.5, -0.25])).all()
