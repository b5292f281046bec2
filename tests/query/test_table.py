"""A table of runs made elsewhere becomes rows and a space; what is guessed of its columns is shown."""

import math

import numpy as np
import pandas as pd
import pytest
from conftest import told

from raysweep.errors import InputError
from raysweep.query.columns import rounded
from raysweep.query.table import read

RATES = [1e-4, 3e-4, 1e-3, 3e-3]


def runs(**columns):
    """Four rates at two depths, one run each."""
    table = pd.DataFrame({"lr": RATES * 2, "depth": [2] * 4 + [4] * 4, "loss": np.arange(8.0)})
    return table.assign(**columns)


def column(guesses, name):
    return guesses[guesses["column"] == name].iloc[0].to_dict()


def test_types_and_scales_are_guessed_and_can_be_overridden():
    table = read(runs(optimizer=["adam", "sgd"] * 4), ["loss"], ["lr"], ["depth", "optimizer"])
    assert [column(table.guesses, name)["type"] for name in ("lr", "depth", "optimizer")] == ["float", "int", "str"]
    assert table.space["scale"] == {"lr": "log", "depth": "linear"}
    assert read(runs(), ["loss"], ["lr"], ["depth"], scale={"lr": "linear"}).space["scale"]["lr"] == "linear"


TOOLS = ["FINISHED", "COMPLETE", "FAILED", "crashed", "PRUNED", "RUNNING", "ok", "ok"]


@pytest.mark.parametrize(
    ("words", "losses", "statuses"),
    [
        (None, [1.0, 2.0, math.inf, math.nan, None, "", 3.0, 4.0], "ok ok diverged diverged ok ok"),
        (TOOLS, [1.0, math.nan, *[1.0] * 6], "ok diverged failed failed stopped ok ok"),
        (["FINISHED"] * 8, [1.0, None, math.nan, *[1.0] * 5], "ok diverged ok ok ok ok ok"),
    ],
    ids=["not finite", "words of other tools", "finished without a value"],
)
def test_what_is_not_finite_has_diverged_and_what_has_no_value_or_goes_on_is_missing(words, losses, statuses):
    frame = runs(loss=pd.Series(losses, dtype=object), **({"state": words} if words else {}))
    table = read(frame, ["loss"], ["lr"], ["depth"], status="state" if words else "")
    assert table.rows["status"].tolist() == statuses.split()
    assert table.missing == 8 - len(statuses.split())
    assert f"{statuses.count('diverged')} not finite" in column(table.guesses, "loss")["note"]


def test_values_that_differ_by_rounding_are_one_and_shown():
    lr = [0.000345, 0.0003453, 0.00069, 0.0006905, 0.001381, 0.001381, 0.002762, 0.002762]
    table = read(runs(lr=lr, depth=[1, 2] * 4), ["loss"], ["lr"], ["depth"])
    assert table.space["axes"]["lr"] == [0.0003453, 0.00069, 0.0006905, 0.001381, 0.002762]  # two digits are not enough
    assert "0.000345 is 0.0003453" in column(table.guesses, "lr")["note"]


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        ([0.000345, 0.0003453, 0.00069], {0.000345: 0.0003453}),
        ([1.01, 1.011, 1.012, 1.013], {}),  # a fine grid
        ([0.5, 0.501], {}),  # 0.5 has one digit
        ([0.123, 0.1234, 10.0], {0.123: 0.1234}),
    ],
)
def test_only_pairs_much_closer_than_other_values_are_joined(values, joined):
    assert rounded(values) == joined


def test_axes_that_vary_together_are_zipped_and_constants_are_fixed():
    table = read(runs(width=[64] * 4 + [128] * 4, batch=32), ["loss"], ["lr"], ["depth", "width", "batch"])
    assert table.space["zip"] == [["depth", "width"]]
    assert table.space["axes"]["width"] == [64, 128]
    assert table.space["fixed"] == {"batch": 32}


def test_axes_of_a_random_search_do_not_vary_together():
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"lr": rng.uniform(size=30), "wd": rng.uniform(size=30), "loss": rng.uniform(size=30)})
    assert read(found, ["loss"], ["lr", "wd"]).space["zip"] == []
    found = found.assign(wd=1 / found["lr"])  # one falls as the other rises
    assert read(found, ["loss"], ["lr", "wd"]).space["zip"] == [["lr", "wd"]]


def test_several_runs_of_a_cell_are_asked_about():
    twice = pd.concat([runs(run=0), runs(run=1)], ignore_index=True)
    with pytest.raises(InputError, match=r"rows 1, 9 have the same values on all axes; they differ in run"):
        read(twice, ["loss"], ["lr"], ["depth"])
    with pytest.raises(InputError, match=r"they differ in seed, which may"):
        read(twice.rename(columns={"run": "seed"}), ["loss"], ["lr"], ["depth"])
    with pytest.raises(InputError, match="run: rows 1, 9 have the same seed$"):
        read(twice.assign(run=0), ["loss"], ["lr"], ["depth"], seed="run")
    with pytest.raises(InputError, match="scale: unknown axis 'rate'"):
        read(runs(), ["loss"], ["lr"], ["depth"], scale={"rate": "log"})
    assert read(twice, ["loss"], ["lr"], ["depth"], seed="run").space["seeds"] == [0, 1]
    flags = twice.assign(run=[False] * 8 + [True] * 8)
    assert read(flags, ["loss"], ["lr"], ["depth"], seed="run").rows["seed"].tolist() == [0] * 8 + [1] * 8
    assert read(twice, ["loss"], ["lr"], ["depth"], repeats=True).rows["seed"].tolist() == [0] * 8 + [1] * 8


def test_the_order_of_a_table_says_nothing_of_its_repeats():
    """Of a table sorted by the metric the best runs of all cells would be one draw, and its noise a difference."""
    rng = np.random.default_rng(0)
    many = pd.concat([runs(loss=rng.normal(size=8)) for _ in range(6)], ignore_index=True)
    orders = (many, many.sort_values("loss"), many[::-1])
    every = [read(some, ["loss"], ["lr"], ["depth"], repeats=True).rows for some in orders]
    draws = [rows.set_index(["lr", "depth", "loss"])["seed"].sort_index() for rows in every]
    assert draws[0].tolist() == draws[1].tolist() == draws[2].tolist()
    means = draws[0].reset_index("loss").groupby("seed")["loss"].mean()
    assert sorted(means.index) == [*range(6)]
    assert means.std() < 0.6  # 1/8**0.5 for draws at random, 1.3 for those in order
    ties = pd.concat([runs(loss=[0.5] * 8), runs(loss=[0.25] * 8), runs(loss=[0.25] * 8)])
    best = read(ties, ["loss"], ["lr"], ["depth"], repeats=True).rows.query("loss == 0.5")["seed"]
    assert best.nunique() > 1


def test_a_run_that_is_listed_twice_is_no_second_draw():
    with pytest.raises(InputError, match=r"rows 1, 9 are equal in all columns.* drop 8 rows or add a column"):
        read(pd.concat([runs(), runs()], ignore_index=True), ["loss"], ["lr"], ["depth"], repeats=True)


def test_seeds_that_only_number_the_runs_are_no_shared_draws():
    twice = pd.concat([runs(), runs()], ignore_index=True)
    for run in (range(16), [*range(4)] * 2 + [*range(4, 8)] * 2):  # or in each depth the same run of a rate
        table = read(twice.assign(run=run), ["loss"], ["lr"], ["depth"], seed="run")
        assert table.rows["seed"].tolist() == [0] * 8 + [1] * 8
        assert table.guesses.set_index("column").loc["run", "note"]
    once = runs().assign(run=range(8))  # one run per cell
    assert read(once, ["loss"], ["lr"], ["depth"], seed="run").space["seeds"] == [0]


def test_axes_that_are_only_names_stay_texts():
    table = read(runs(), ["loss"], ["lr"], ["depth"], labels=["depth"])
    assert (column(table.guesses, "depth")["type"], table.space["axes"]["depth"]) == ("str", ["2", "4"])
    days = pd.date_range("2026-01-01", periods=2, tz="Europe/Berlin").repeat(4)
    assert column(read(runs(depth=days), ["loss"], ["lr"], ["depth"]).guesses, "depth")["type"] == "str"
    versions = read(runs(depth=["1_0"] * 4 + ["2_1"] * 4), ["loss"], ["lr"], ["depth"])
    assert versions.space["axes"]["depth"] == ["1_0", "2_1"]  # no numbers


def test_integers_beyond_floats_are_not_joined():
    wide = pd.Series([2**53] * 4 + [2**53 + 1] * 4)
    with pytest.raises(InputError, match=r"depth: has integers beyond 2\^53 \(--labels depth takes them as names"):
        read(runs(depth=wide), ["loss"], ["lr"], ["depth"])
    assert read(runs(depth=wide), ["loss"], ["lr"], ["depth"], labels=["depth"]).rows["depth"].nunique() == 2
    twice = pd.concat([runs(draw=2**62), runs(draw=2**62 + 1)], ignore_index=True)
    assert read(twice, ["loss"], ["lr"], ["depth"], seed="draw").space["seeds"] == [2**62, 2**62 + 1]


def test_a_setting_without_a_value_is_refused_or_a_name():
    for gap in (None, math.nan):
        frame = runs(depth=pd.Series([2] * 4 + [gap] * 4, dtype=object))
        with pytest.raises(InputError, match="depth: row 5 has no value of it"):
            read(frame, ["loss"], ["lr"], ["depth"])
        assert read(frame, ["loss"], ["lr"], ["depth"], labels=["depth"]).space["axes"]["depth"] == ["2", "none"]


def test_tensors_of_one_number_are_numbers_and_times_are_none():
    columns = {name: [np.array(value) for value in runs()[name]] for name in ("lr", "depth", "loss")}
    for frame in (columns, pd.DataFrame(columns)):
        pd.testing.assert_frame_equal(
            read(frame, ["loss"], ["lr"], ["depth"]).rows, read(runs(), ["loss"], ["lr"], ["depth"]).rows
        )
    for loss in (pd.to_timedelta(runs()["loss"]), pd.to_datetime(runs()["loss"]), runs()["loss"] + 1j):
        with pytest.raises(InputError, match="loss: expected numbers, got "):
            read(runs(loss=loss), ["loss"], ["lr"], ["depth"])


def test_a_column_with_the_words_of_tools_is_the_status_and_an_empty_text_says_there_is_none():
    frame = runs(State=["finished"] * 5 + ["running", "crashed", "not_converged"])
    table = read(frame, ["loss"], ["lr"], ["depth"])
    assert table.rows["status"].tolist() == ["ok"] * 5 + ["failed", "not_converged"]
    assert (table.missing, column(table.guesses, "State")["role"]) == (1, "status")
    assert read(frame, ["loss"], ["lr"], ["depth"], status="").missing == 0
    assert read(runs(State="Bavaria"), ["loss"], ["lr"], ["depth"]).missing == 0


def test_a_run_without_any_setting_is_missing():
    above = pd.concat([runs().astype(object), pd.DataFrame({"loss": [0.0]})], ignore_index=True)
    above = above.astype(object).where(above.notna(), None)
    table = read(above, ["loss"], ["lr"], ["depth"])
    assert (len(table.rows), table.missing) == (8, 1)
    above.loc[8, "depth"] = 2
    with pytest.raises(InputError, match="lr: row 9 has no value of it"):
        read(above, ["loss"], ["lr"], ["depth"])


def test_words_for_nothing_are_missing_and_their_line_is_told():
    losses = ["1", "NA", "null", "None", "nan", "inf", "2", "x"]
    frame = runs(loss=losses).set_axis(pd.RangeIndex(2, 10, name="line"))
    table = read(frame[:7], ["loss"], ["lr"], ["depth"])
    assert table.missing == 3
    assert table.rows["status"].tolist() == ["ok", "diverged", "diverged", "ok"]
    with pytest.raises(InputError, match="loss: expected numbers, got 'x' in line 9"):
        read(frame, ["loss"], ["lr"], ["depth"])


def test_runs_that_all_failed_are_counted_by_their_words():
    frame = runs(state=["FAILED"] * 6 + ["KILLED"] * 2)
    with pytest.raises(InputError, match="gain: no run has it, and none has finished: 6 FAILED, 2 KILLED"):
        read(frame, ["gain"], ["lr"], ["depth"], status="state")
    with pytest.raises(InputError, match="los: unknown column 'los'; did you mean loss"):
        read(frame.assign(state="FINISHED"), ["los"], ["lr"], ["depth"], status="state")


@pytest.mark.parametrize(
    ("table", "arguments", "line"),
    [
        (runs(), (["los"], ["lr"], ["depth"]), "los: unknown column 'los'; did you mean loss?"),
        (runs(loss="much"), (["loss"], ["lr"], ["depth"]), "loss: expected numbers, got 'much' in row 1"),
        (runs(lr=1e-3), (["loss"], ["lr"], ["depth"]), "lr: expected an axis with several values"),
        (runs(loss=None), (["loss"], ["lr"], ["depth"]), "loss: no run has a value"),
        (runs(loss=np.arange(8.0) * 1e-170), (["loss"], ["lr"], ["depth"]), "loss: no value is as large as 1e-150"),
        (runs(), (["loss:max"], ["lr"], ["depth"]), "metric: expected minimize or maximize"),
        (
            runs(lr=["1e-4", "auto", *RATES, 0.01, 0.1]),
            (["loss"], ["lr"], ["depth"]),
            "lr: expected numbers, got 'auto'",
        ),
        (runs(lr=["0,1", "0,2"] * 4), (["loss"], ["lr"], ["depth"]), "lr: expected numbers, got '0,1' in row 1"),
        (runs().set_axis(["lr", "lr", "loss"], axis=1), (["loss"], ["lr"]), "lr: several columns have this name"),
        (runs(), (["loss"], ["lr", "lr"], ["depth"]), "lr: this column is used twice"),
        (runs().rename(columns={"lr": "_lr"}), (["loss"], ["_lr"]), "_lr: names that begin with _"),
        (runs().set_axis(["lr", "", "loss"], axis=1), (["loss"], ["lr"], [""]), "'': expected a column with a print"),
        (3, (["loss"], ["lr"]), "table: expected a data frame"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(table, arguments, line):
    with told(line):
        read(table, *arguments)
