"""The best rate where nothing was computed: forecast, frozen, and scored against rows that come later."""

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep import plain_json
from raysweep.analyses.finding import Outcome
from raysweep.analyses.held_out import place
from raysweep.commands import forecasts
from raysweep.errors import InputError
from raysweep.fits.surface.law import Place, fit_law
from raysweep.query import importing, table
from raysweep.query.forecasting import VERSION, digest, forecast, score
from raysweep.query.subjects import Places, here

LAW = {"law": {"metric": "loss", "lr": "lr", "over": ["width", "tokens"]}}
AT = {"width": 512, "tokens": 16e9}


def grid(**axes):
    """Every combination of these values, a column for each axis."""
    return pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)


def imported(storage, name, widths, analysis=LAW, turn=0.0):
    """One run per cell: the best rate is 0.01 (width / 64)^-1 (tokens / 1e9)^0.25, times e^turn."""
    rows = grid(lr=np.geomspace(1e-4, 1e-1, 9), width=widths, tokens=[1e9, 4e9, 16e9])
    best = 0.01 * (rows["width"] / 64) ** -1 * (rows["tokens"] / 1e9) ** 0.25 * np.exp(turn)
    noise = np.random.default_rng(len(widths)).standard_normal(len(rows))
    rows["loss"] = 2 + 0.1 * np.log(rows["lr"] / best) ** 2 + 0.02 * noise
    read = table.read(rows, ["loss"], ["lr", "width", "tokens"], questions=[analysis], name=name)
    return importing.create(read, storage)


def test_settings_far_below_one_are_told_apart():
    small = pd.DataFrame({"eps": [1e-9, 2e-9, 1e-9 * (1 + 1e-12)]})
    assert here(small, {"eps": 1e-9}).tolist() == [True, False, True]


def test_a_turn_of_which_only_a_bound_is_known_lies_beyond_the_bound_not_beyond_the_edge():
    row = {"outcome": Outcome.BOUND_HIGH, "estimate": np.nan, "low": 3.0, "high": np.inf}
    above = place(row, np.log([1.0, 100.0]), 0.95)
    assert (above.low, above.high, above.above) == (0.0, pytest.approx(np.log(3)), 1.0)
    below = place(row | {"outcome": Outcome.BOUND_LOW, "low": 0.0, "high": 30.0}, np.log([1.0, 100.0]), 0.95)
    assert (below.low, below.below) == (pytest.approx(np.log(30)), 1.0)


@pytest.mark.parametrize(
    "analysis", [LAW, pytest.param({"optimum": {"metric": "loss", "x": "lr"}}, marks=pytest.mark.long)]
)
def test_a_forecast_holds_the_best_rate_of_a_width_that_was_not_run(storage, analysis):
    sweep = imported(storage, "small", [64, 128, 256], analysis)
    made = forecast(sweep, AT)
    (one,) = made["forecasts"]
    assert one["low"] < 0.01 / 8 * 16**0.25 < one["high"]
    assert one["high"] / one["low"] < 8
    assert one["outside"] == {"width": pytest.approx(2)}
    later = score(made, imported(storage, "all", [64, 128, 256, 512]))
    (score_of,) = later["scores"]
    assert score_of.items() >= {"of": "best lr", "inside": 1, "settings": 1, "signs_right": 1, "signs_of": 1}.items()
    assert 0 < score_of["crps"] < 0.5


@pytest.mark.long
def test_a_data_frame_forecasts_as_a_sweep_of_its_rows_does(storage):
    sweep = imported(storage, "small", [64, 128, 256])
    law = {"law": {"lr": "lr", "over": ["width", "tokens"]}}
    found = raysweep.analyse(sweep.results().assign(c=1), "loss", ["lr", "c"], ["width", "tokens"], [law])
    made, several = forecast(sweep, AT)["forecasts"][0], found.forecast(width=[128, 512], tokens=16e9)
    assert several["outside"].tolist() == [1, pytest.approx(2)]
    assert several.loc[1, ["estimate", "low", "high"]].tolist() == [made[name] for name in ("estimate", "low", "high")]
    nested = {"width": [[1, 2], [3, 4]], "tokens": 1}
    ragged = {"width": [1, 2], "tokens": [1, 2, 3]}
    for wrong, problem in ((ragged, "at: "), (nested, "at: expected a number"), ({"width": 1}, "missing tokens")):
        with pytest.raises(InputError, match=problem):
            found.forecast(**wrong)


def turning(storage, name, widths):
    """Losses that turn at step 4000 (width / 64)^0.5."""
    rows = grid(width=widths, step=np.geomspace(500, 128e3, 11), seed=range(4))
    noise = np.random.default_rng(0).standard_normal(len(rows))
    rows["loss"] = 2 + 0.1 * np.log(rows["step"] / (4000 * (rows["width"] / 64) ** 0.5)) ** 2 + 0.04 * noise
    asked = [{"inflection": {"x": "step"}}]
    read = table.read(rows, ["loss"], ["step", "width"], questions=asked, seed="seed", name=name)
    return importing.create(read, storage)


@pytest.mark.long
def test_a_turn_is_forecast_frozen_and_scored_too(storage, tmp_path):
    sweep, file = turning(storage, "small", [64, 128, 256, 512]), tmp_path / "turn.json"
    assert forecasts.forecast(sweep, {"width": 2048}, file)[0].startswith("width = 2048: turning step ")
    made = plain_json.loads(file.read_bytes())
    (one,) = made["forecasts"]
    assert one["low"] < 4000 * 32**0.5 < one["high"]
    assert one["high"] / one["low"] < 10
    assert one["outside"] == {"width": pytest.approx(4)}
    assert one["exponents"]["width"] == pytest.approx(0.5, abs=0.15)
    later = score(made, turning(storage, "all", [64, 128, 256, 512, 2048]))
    assert later["scores"][0].items() >= {"of": "turning step", "inside": 1, "settings": 1, "signs_right": 1}.items()
    losses = forecast(sweep, {"step": 256e3})
    assert losses["not_forecast"] == {
        "turning step": "--at: step is where loss turns; name the axes that its place depends on"
    }
    for one, width in zip(losses["forecasts"], (64, 128, 256, 512), strict=True):
        assert one.items() >= {"of": "loss", "where": {"width": width}, "along": "step", "settings": 11}.items()
        assert one["low"] < 2 + 0.1 * np.log(256e3 / (4000 * (width / 64) ** 0.5)) ** 2 < one["high"] < one["low"] + 1
        assert one["families"]["U-shape"] > 0.9
    with pytest.raises(InputError, match="above 0"):
        forecast(sweep, {"width": float("inf")})


def test_what_cannot_be_scored_is_counted_by_its_reason(storage, tmp_path):
    rows = grid(lr=np.geomspace(1e-4, 1e-1, 7), batch=[1, 2, 3, 4], seed=range(3), width=[64])
    best = rows["batch"].map({1: 0.003, 2: 30, 3: 30, 4: np.nan})
    noise = np.random.default_rng(0).standard_normal(len(rows))
    rows["loss"] = 2 + np.nan_to_num(0.1 * np.log(rows["lr"] / best) ** 2) + 0.01 * noise
    read = table.read(rows, ["loss"], ["lr", "batch", "width"], seed="seed", name="later")
    one = dict(zip(("estimate", "low", "high", "inside_estimate"), (0.003, 0.001, 0.009, 0.004), strict=True))
    one |= {"of": "best lr", "quantiles": [0.003] * 99, "outside": {"width": 2.0}}
    made = {"version": VERSION, "at": {"width": 64.0}, "level": 0.95, "place": "best"}
    made |= {"law": {"metric": "loss", "lr": "lr", "over": ["width"]}}
    made |= {"forecasts": [{**one, "where": {"batch": value}} for value in range(1, 7)]}
    file = tmp_path / "forecast.json"
    file.write_text(plain_json.dumps(made | {"digest": digest(made)}))
    lines = forecasts.score(file, importing.create(read, storage))
    assert lines[1].startswith("best lr: 1 of 1 inside")
    assert lines[2:] == [
        "best lr: 2 of 6 not scored: at the largest tried",
        "best lr: 1 of 6 not scored: undecided",
        "best lr: 2 of 6 not scored: no usable rows",
    ]


def test_outside_is_measured_at_the_same_values_of_the_other_axes():
    axes = np.array([[1, 10], [1, 20], [1, 40], [4, 10], [4, 20]])
    draws = np.random.default_rng(0).standard_normal((5, 100))
    law = fit_law([Place(one, -9, 9, 0, 0) for one in draws], axes)
    for width, tokens, outside in (
        (4, 100, (1, 5)),
        (1, 100, (1, 2.5)),
        (2, 100, (1, 2.5)),  # no setting has width 2
        (8, 40, (8, 1)),
        (8, 100, (2, 2.5)),
    ):
        at = {"width": width, "tokens": tokens}
        (ahead,) = Places([*at], [], pd.DataFrame(), [({}, law)]).forecasts(at)
        assert np.exp(np.abs(ahead.logs - ahead.inside))[0] == pytest.approx(outside)


@pytest.mark.long
def test_a_forecast_that_fails_is_said_to(storage):
    made = forecast(imported(storage, "small", [64, 128, 256]), AT)
    later = score(made, imported(storage, "moved", [64, 128, 512], turn=1.7))
    (score_of,) = later["scores"]
    assert score_of.items() >= {"inside": 0, "settings": 1, "signs_right": 0}.items()
    assert score_of["crps"] > 0.5


def lengths(storage, name, tokens, widths=(64, 128, 256)):
    """Three runs a cell. The lowest loss over the rates, at width w and t tokens, is 2 + w^-0.3 t^-0.25."""
    rows = grid(lr=np.geomspace(1e-4, 1e-1, 7), width=widths, tokens=tokens, seed=range(3))
    loss = 2 + (rows["width"] / 64) ** -0.3 * rows["tokens"] ** -0.25
    noise = np.random.default_rng(0).standard_normal(len(rows))
    rows["loss"] = loss + 0.05 * np.log(rows["lr"] / 0.01 * (rows["width"] / 128)) ** 2 + 0.01 * noise
    asked = [LAW] if len(tokens) > 1 else []
    read = table.read(rows, ["loss"], ["lr", "width", "tokens"], questions=asked, seed="seed", name=name)
    return importing.create(read, storage)


def test_a_loss_is_forecast_at_the_best_rate_frozen_and_scored(storage, tmp_path):
    known, file = np.geomspace(1, 100, 7), tmp_path / "loss.json"
    sweep = lengths(storage, "small", known)
    lines = forecasts.forecast(sweep, {"tokens": 200, "width": 128}, file)
    assert lines[0].startswith("tokens = 200, width = 128: best lr 0.0")
    assert lines[2].startswith("tokens = 200, width = 128: loss 2.")
    assert lines[3].startswith("  power law ")
    assert lines[4] == "  tokens lies 2 times outside of what was computed"
    made = plain_json.loads(file.read_bytes())
    rate, loss = made["forecasts"]
    assert (rate["of"], loss["of"], made["version"], made["not_forecast"]) == ("best lr", "loss", 3, {})
    assert loss["low"] < 2 + 2**-0.3 * 200**-0.25 < loss["high"] < loss["low"] + 0.15
    assert sum(loss["families"].values()) == pytest.approx(1)
    later = forecasts.score(file, lengths(storage, "all", np.r_[known, 200]))
    assert later[1].startswith("tokens = 200, width = 128: loss forecast 2.")
    assert later[3].startswith("loss: 1 of 1 inside; CRPS 0.0")
    assert later[3].endswith("; direction right in 1 of 1")


def test_a_loss_goes_on_along_one_axis_only(storage):
    sweep = lengths(storage, "small", np.geomspace(1, 100, 7))
    made = forecast(sweep, {"tokens": 200, "width": 512})
    assert made["not_forecast"] == {
        "loss": "--at: losses go on along one axis, and tokens and width were not computed there"
    }
    made = forecast(sweep, {"tokens": 100, "width": 512})
    assert made["not_forecast"] == {"loss": "--at: fewer than 5 values of width in every setting"}
    assert [one["of"] for one in made["forecasts"]] == ["best lr"]
    made = forecast(sweep, {"tokens": 200})
    assert [(one["of"], one["where"]) for one in made["forecasts"]] == [("loss", {"width": w}) for w in (64, 128, 256)]
    assert made["not_forecast"] == {"best lr": "--at: missing width; the law is over width, tokens"}


def test_a_sweep_of_the_new_length_alone_scores_a_forecast(storage):
    sweep = lengths(storage, "small", np.geomspace(1, 100, 7))
    later = score(forecast(sweep, {"tokens": 200, "width": 128}), lengths(storage, "later", np.array([200.0])))
    assert [(one["of"], one["settings"]) for one in later["scores"]] == [("best lr", 1), ("loss", 1)]
    made = forecast(sweep, {"tokens": 200})
    one_setting = score(made, lengths(storage, "one_setting", np.array([200.0]), widths=(128,)))
    assert [one["where"] for one in one_setting["settings"]] == [{"width": 128}]
    assert one_setting["scores"][0].items() >= {"of": "loss", "inside": 1}.items()


def test_a_sweep_that_cannot_score_is_named(storage):
    made = forecast(imported(storage, "small", [64, 128, 256]), AT)
    rows = imported(storage, "all", [64, 128, 512]).results()
    for columns, axes, problem in (
        ({"loss": "value"}, ["lr", "width", "tokens"], "other: has no metric loss"),
        ({"tokens": "length"}, ["lr", "width", "length"], "other: has no axis tokens"),
    ):
        frame = rows.rename(columns=columns)
        found = raysweep.analyse(frame, columns.get("loss", "loss"), axes, name="other")
        with pytest.raises(InputError, match=problem):
            score(made, found)


def test_what_is_not_forecast_of_a_data_frame_has_its_reason(storage):
    rows = lengths(storage, "small", np.geomspace(1, 100, 7)).results()
    found = raysweep.analyse(rows, "loss", "lr", ["width", "tokens"], [{"optimum": {"x": "lr"}}], seed="seed")
    apart = "--at: losses go on along one axis, and width and tokens were not computed there"
    assert found.forecast(width=512, tokens=200).attrs["not_forecast"] == {"loss": apart}
    both = found.forecast(width=128, tokens=200)
    assert (both["of"].tolist(), both.attrs["not_forecast"]) == (["best lr", "loss"], {})
    with pytest.raises(InputError, match="at: expected a value of an axis"):
        found.forecast()
    with pytest.raises(InputError, match="lr is what is forecast"):
        found.forecast(lr=0.3)


def test_what_has_no_law_was_never_varied_or_is_no_number_has_no_forecast(storage):
    sweep = imported(storage, "small", [64, 128, 256])
    alone = imported(storage, "one", [64], {"optimum": {"metric": "loss", "x": "lr"}})
    for of, at, problem in (
        (sweep, {"width": 512}, "missing tokens"),
        (sweep, {"height": 1}, "height"),
        (sweep, {"lr": 1, **AT}, "lr is not in the law"),
        (sweep, {"width": -1, "tokens": 1e9}, "above 0"),
        (alone, {"tokens": 1e10}, "no law of the best lr"),
    ):
        with pytest.raises(InputError, match=problem):
            forecast(of, at)
    frame = pd.DataFrame({"lr": [0.1, 0.2] * 2, "model": ["a", "a", "b", "b"], "loss": [1.0, 2.0, 3.0, 4.0]})
    texts = raysweep.analyse(frame, "loss", "lr", "model", [{"optimum": {"x": "lr"}}])
    with pytest.raises(InputError, match="model is no axis of numbers"):
        texts.forecast(model=3)
    frame = grid(step=range(1, 8), size=[6, 8]).assign(acc=lambda f: f["step"] * (f["size"] - f["step"]) * 1.0)
    maximized = raysweep.analyse(frame, "acc:maximize", "step", "size", [{"inflection": {"x": "step"}}])
    with pytest.raises(InputError, match="no law of the turning step"):
        maximized.forecast(size=16)


def test_a_frozen_forecast_is_never_overwritten_and_a_changed_one_is_refused(storage, tmp_path):
    sweep, file = imported(storage, "small", [64, 128, 256]), tmp_path / "forecast.json"
    forecasts.forecast(sweep, AT, file)
    made = plain_json.loads(file.read_bytes())
    with pytest.raises(InputError, match="is there already"):
        forecasts.forecast(sweep, AT, file)
    (frozen,) = (line for line in forecasts.forecast(sweep, AT) if line.startswith("frozen: "))
    (dated,) = (storage / "small" / "forecasts").iterdir()
    assert frozen.endswith(dated.name)
    assert plain_json.loads(dated.read_bytes())["forecasts"] == made["forecasts"]
    assert plain_json.loads(file.read_bytes()) == made
    with pytest.raises(InputError, match="changed"):
        score({**made, "rows": 7}, sweep)
    with pytest.raises(InputError, match="has no best lr at width = 512, tokens = 1.6e"):
        score(made, sweep)
    file.write_text("[1]")
    with pytest.raises(InputError, match="forecast.json: was changed"):
        forecasts.score(file, sweep)


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_computed(storage, tmp_path, call, monkeypatch):
    imported(storage, "small", [64, 128, 256])
    monkeypatch.setattr("raysweep.query.forecasting.forecast", lambda *_: pytest.fail("it computes"))
    file = tmp_path / "file"
    file.touch()
    for target, problem in ((file, "is there already; name another"), (file / "x.json", "cannot be written")):
        told = call("forecast", "small", "--at", "width=512,tokens=2", "-o", str(target), "--storage", str(storage))
        assert (told.code, problem in told.err) == (2, True)
    assert file.read_text() == ""


def test_a_constant_of_the_forecast_that_varies_later_chooses_its_rows(storage):
    rows = lengths(storage, "small", np.geomspace(1, 100, 7)).results()
    later = lengths(storage, "later", np.array([200.0])).results()
    shifted = later.assign(loss=later["loss"] + 1, batch=64)

    def sweep(frame, name):
        axes = [axis for axis in ("lr", "width", "tokens", "batch", "warmup") if axis in frame]
        asked = [LAW] if frame["tokens"].nunique() > 1 else []
        return importing.create(table.read(frame, ["loss"], axes, questions=asked, seed="seed", name=name), storage)

    made = forecast(sweep(rows.assign(batch=32), "constant"), {"tokens": 200, "width": 128})
    alone = score(made, sweep(later, "alone"))
    both = score(made, sweep(pd.concat([shifted, later.assign(batch=32)]), "both"))
    assert both["settings"] == alone["settings"]
    with pytest.raises(InputError, match="other: has no rows with batch = 32"):
        score(made, sweep(shifted, "other"))
    with pytest.raises(InputError, match="new: varies warmup, of which the forecast says nothing"):
        score(made, sweep(pd.concat([later.assign(warmup=1), later.assign(warmup=2)]), "new"))


@pytest.mark.parametrize("text", ["width", "width=big", "=3", "tokens=2"])
def test_a_value_that_is_no_number_or_there_twice_is_refused(text):
    with pytest.raises(InputError, match="--at"):
        forecasts.values([text, "tokens=1"])
