"""The analysis `law`: the best rate as a product of powers."""

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.finding import Needed, Outcome
from raysweep.errors import InputError
from raysweep.fits.reasons import Reason

WIDTHS, TOKENS, RATES = (64, 128, 256, 512), (1e9, 4e9, 16e9), np.geomspace(1e-4, 1e-1, 9)


def runs(seed=0):
    """One run per cell; the best rate is 0.01 (width / 64)^-1 (tokens / 1e9)^0.25."""
    rng = np.random.default_rng(seed)
    out = {"lr": [], "width": [], "tokens": [], "loss": []}
    for width in WIDTHS:
        for tokens in TOKENS:
            best = 0.01 * (width / 64) ** -1 * (tokens / 1e9) ** 0.25
            for lr in RATES:
                loss = 2 + 0.1 * np.log(lr / best) ** 2 + 0.02 * rng.standard_normal()
                for name, value in {"lr": lr, "width": width, "tokens": tokens, "loss": loss}.items():
                    out[name].append(float(value))
    return out


def law(frame, **options):
    asked = {"lr": "lr", "over": ["width", "tokens"], **options}
    return raysweep.analyse(frame, "loss", axes="lr", by=["width", "tokens"], questions=[{"law": asked}])


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
    assert [len(panel.lines) for panel in plot.panels] == [3]


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
    frame = {
        name: [v for v, w in zip(values, runs()["width"], strict=True) if w < 100] for name, values in runs().items()
    }
    table = law(frame, over="tokens").table
    assert table["outcome"].tolist() == [Outcome.UNDECIDED]
    assert (table.loc[0, "needed"], table.loc[0, "needed_number"]) == (Needed.MORE_SETTINGS, 4)


def test_bounds_alone_give_no_law():
    laws = law({**runs(), "loss": [-one for one in runs()["loss"]]}, over="width", where={"tokens": 1e9})
    assert set(laws[0].tables["law_values"]["outcome"]) <= {Outcome.EDGE_LOW, Outcome.EDGE_HIGH}
    (row,) = laws.table.to_dict("records")
    assert (row["outcome"], row["reason"], row["slices"]) == (Outcome.UNDECIDED, Reason.TOO_FEW_SLICES, 4)
    assert (row["needed"], np.isfinite(row["low"])) == (Needed.MORE_X, False)
    assert laws[0].facts == {"over": ["width"]}


def test_a_law_that_bounds_alone_would_give_forecasts_no_setting():
    best = {64: 1e3, 128: 1e2, 256: 10.0, 512: 0.02, 1024: 0.002}  # those of three widths are above all rates
    noise, frame = np.random.default_rng(0), []
    for width, place in best.items():
        loss = 0.1 * np.log(RATES / place) ** 2 + 0.02 * noise.standard_normal(len(RATES))
        frame += [{"lr": lr, "width": width, "loss": value} for lr, value in zip(RATES, loss, strict=True)]
    found = raysweep.analyse(pd.DataFrame(frame), "loss", "lr", "width", [{"law": {"lr": "lr", "over": "width"}}])
    table = found[0].tables["law_values"].set_index("width")
    assert table["outcome"].tolist() == [Outcome.EDGE_HIGH] * 3 + [Outcome.LOCATED] * 2
    assert (table["inside"] != "").tolist() == [True] * 3 + [False] * 2
    assert found[0].facts["one_out"]["of"] == 3
    assert "largest_out" not in found[0].facts
    (plot,) = found[0].plots()
    assert len(plot.panels[0].lines[0].table) == 5


def test_axes_that_vary_together_need_no_more_settings():
    one = runs()
    size = [width * tokens**0.3 for width, tokens in zip(one["width"], one["tokens"], strict=True)]
    frame = {"lr": one["lr"], "loss": one["loss"], "width": size, "tokens": [value**2 for value in size]}
    table = law(frame).table
    assert table["reason"].tolist() == [Reason.AXES_TOGETHER] * 2
    assert table["needed"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("options", "path"), [({"over": "lr"}, "over"), ({"over": "height"}, "over"), ({"lr": "loss"}, "lr")]
)
def test_a_law_of_what_is_no_axis_is_refused(options, path):
    with pytest.raises(InputError, match=rf"law.*{path}"):
        law(runs(), **options)
