"""What differs between the rows of a report is never averaged nor joined: several sweeps, and searches that are sparse;
and several sweeps on the same draws are compared draw by draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from auditing import reading
from conftest import Outcome, refused, run
from test_report import TRANSFER, rows_of, space_of

import raysweep
from raysweep.analyses.design import Design
from raysweep.reporting.report import write_report
from raysweep.sweep import report

METRIC = "transferability_finetune"
LENGTHS = np.geomspace(0.3, 30, 16).round(4).tolist()


def asked(
    name: str, depth: int, lengths: list[float], kinds: tuple[str, ...] = ("inflection",), **changes: Any
) -> dict[str, Any]:
    """A space over pretraining lengths at one depth."""
    fixed = {"dim": 60, "noise": 0.2, "depth": depth, "overlap_angle": 40, **changes.pop("fixed", {})}
    return {
        "name": name,
        "workload": "linear_transfer",
        "axes": {"pretrain_length": lengths},
        "fixed": fixed,
        "seeds": 8,
        "analysis": [{kind: {"metric": METRIC, "x": "pretrain_length"}} for kind in kinds],
        **changes,
    }


def reported(call: Callable[..., Outcome], storage: Path, *names: str) -> tuple[Outcome, str, Path]:
    """What `report` says of these sweeps, the text that it writes, and the tables."""
    home = storage / "report"
    done = call("report", *names, "--storage", storage, "-o", home)
    assert done.code == 0, done.err
    return done, (home / "report.md").read_text(encoding="utf-8"), home / "tables"


def test_sweeps_that_differ_in_a_fixed_parameter_are_a_curve_each(call: Callable[..., Outcome], storage: Path) -> None:
    # No length is in both: rows that meet nowhere would pass for one curve, which turns in every draw.
    kinds = ("inflection", "trend", "boundary")
    run(storage, asked("shallow", 1, LENGTHS[::2], kinds))
    run(storage, asked("deep", 8, LENGTHS[1::2], kinds))
    done, text, tables = reported(call, storage, "shallow", "deep")
    for name in ("inflection_turns", "trend_trends", "boundary_zeros"):
        table = pd.read_csv(tables / f"{name}.csv")
        assert table["depth"].tolist() == [1, 8], name
        assert (table["points"] == 8).all(), name
    assert "depth L 1, 8" in text
    assert "pretraining length (`pretrain_length`) from 0.3 to 30 flow time (16 values)" in text
    assert (
        "`shallow` has pretraining length (`pretrain_length`) from 0.3 to 22.07 flow time (8 values), depth = 1" in text
    )
    assert "`deep` has pretraining length (`pretrain_length`) from 0.4078 to 30 flow time (8 values), depth = 8" in text
    fixed = next(line for line in text.splitlines() if line.startswith("- Fixed: "))
    assert "depth" not in fixed
    assert "dim 60" in fixed
    (line,) = [line for line in done.out.splitlines() if line.endswith(": deep (depth = 8) less shallow (depth = 1).")]
    assert line.startswith("No cell in common, so give both sweeps some of the same values and run them again")
    assert not list(tables.glob("comparison*"))


@pytest.mark.parametrize("kind", ["inflection", "boundary", "trend", "optimum"])
def test_a_sparse_search_is_not_pooled_along_an_axis(tmp_path: Path, kind: str) -> None:
    axes = {"overlap_angle": np.linspace(9, 90, 10).tolist(), "gamma": [0.2, 0.4, 0.6, 0.8, 1.2], "noise": [0.0, 0.2]}
    frame = rows_of(TRANSFER, axes, {}, 6, 0.02)
    place = frame["overlap_angle"].rank(method="dense").astype(int) % 5
    found = frame[
        (frame["gamma"].rank(method="dense").astype(int) % 5 == place)
        & (frame["noise"] == 0.2 * (frame["overlap_angle"] > 50))
    ]
    assert found.groupby("overlap_angle")["gamma"].nunique().eq(1).all()
    entry = {kind: {"metric": METRIC, "x": "overlap_angle"}}
    (said,) = write_report(found, space_of("linear_transfer", axes, {}, [entry]), tmp_path, sweep="s").headline
    assert said.startswith(f"nothing to fit for {kind} over overlap angle, because ")
    assert "gamma, noise" in said
    assert not list(tmp_path.glob("tables/*"))
    curves = {"curves": {"metric": METRIC, "x": "overlap_angle"}}
    write_report(found, space_of("linear_transfer", axes, {}, [curves]), tmp_path, sweep="s")
    assert "rows differ in gamma, noise too" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_search_by_optuna_is_fitted_within_equal_settings_only(call: Callable[..., Outcome], storage: Path) -> None:
    axes = {
        "overlap_angle": np.linspace(9, 90, 10).tolist(),
        "gamma": [0.2, 0.6, 1.2],
        "depth": [1, 2, 4],
        "noise": [0.0, 0.1, 0.4],
    }
    run(
        storage,
        {
            "name": "sought",
            "workload": "linear_transfer",
            "axes": axes,
            "fixed": {"dim": 40},
            "seeds": 4,
            "search": {"optuna": {"metric": METRIC, "cells": 30}},
            "analysis": [{"boundary": {"metric": METRIC, "x": "overlap_angle"}}],
        },
    )
    _, _, tables = reported(call, storage, "sought")
    zeros = pd.read_csv(tables / "boundary_zeros.csv")
    assert not zeros.duplicated(["gamma", "depth", "noise"]).any()
    assert zeros["points"].sum() == 30


def test_axes_that_move_together_are_one_curve(tmp_path: Path) -> None:
    axes = {"pretrain_length": [float(v) for v in np.geomspace(0.2, 12, 9)], "noise": [0.1 * k for k in range(9)]}
    whole = rows_of(TRANSFER, axes, {"dim": 200}, 8, 0.003)
    step = whole["noise"].rank(method="dense")
    frame = whole[whole["pretrain_length"].rank(method="dense") == step]
    entry = {"trend": {"metric": "risk_scratch", "x": "pretrain_length"}}
    space = {**space_of("linear_transfer", axes, {}, [entry]), "zip": [["pretrain_length", "noise"]]}
    write_report(frame, space, tmp_path, sweep="s")
    trends = pd.read_csv(tmp_path / "tables" / "trend_trends.csv")
    assert trends["points"].tolist() == [9]
    assert "noise" not in trends.columns


def test_what_two_sweeps_zip_differently_is_not_joined() -> None:
    def zipped(lengths: list[float], noise: list[float], depth: int = 1) -> dict[str, Any]:
        return {
            "axes": {"pretrain_length": lengths, "noise": noise},
            "zip": [["pretrain_length", "noise"]],
            "fixed": {"depth": depth},
        }

    one = zipped([1, 2, 3], [0.1, 0.2, 0.3])
    known = ["pretrain_length"]
    assert Design((one,)).follows("noise", known)
    assert Design((one, zipped([3, 4], [0.3, 0.4]))).follows("noise", known)  # they go on from each other
    assert not Design((one, zipped([3, 4], [0.5, 0.4]))).follows("noise", known)
    assert not Design((one, zipped([1.5, 2.5], [0.9, 0.8]))).follows("noise", known)  # nothing says they are one line
    assert not Design((one, {"axes": {"pretrain_length": [4]}, "fixed": {"noise": 0.4}})).follows("noise", known)
    assert not Design((zipped([1, 1, 2], [0.1, 0.2, 0.3]),)).follows("noise", known)
    deep = zipped([1, 2, 3], [0.3, 0.2, 0.1], depth=8)
    assert not Design((one, deep)).follows("noise", known)
    assert Design((one, deep)).follows("noise", [*known, "depth"])  # a curve each


def test_sweeps_on_the_same_draws_are_compared_draw_by_draw(call: Callable[..., Outcome], storage: Path) -> None:
    shallow, deep = (run(storage, asked(name, depth, LENGTHS[:6])) for name, depth in (("shallow", 1), ("deep", 8)))
    done, text, tables = reported(call, storage, "shallow", "deep")
    keys = ["pretrain_length", "seed"]
    both = shallow.results().merge(deep.results(), on=keys, suffixes=("_1", "_8"))
    difference = both[f"{METRIC}_8"] - both[f"{METRIC}_1"]
    expected = difference.groupby(both["pretrain_length"]).agg(["mean", "sem"])
    found = pd.read_csv(tables / f"comparison_{METRIC}.csv")
    assert found["difference"].to_numpy() == pytest.approx(expected["mean"].to_numpy())
    assert (found["high"] - found["low"]).to_numpy() == pytest.approx(2 * 2.3646243 * expected["sem"].to_numpy())
    assert (found["draws"] == 8).all()
    assert (found["status"] == "lower").all()
    assert (found["low_simultaneous"] < found["low"]).all()
    assert done.out.startswith("Gain by fine-tuning, deep (depth = 8) less shallow (depth = 1), is -")
    assert "clearly higher in 0, lower in 6 of 6 cells (Holm)" in done.out
    assert "pointwise" in text
    assert (storage / "report" / "figures" / f"comparison_{METRIC}.png").stat().st_size > 5000


def test_what_cannot_be_compared_in_pairs_is_said(call: Callable[..., Outcome], storage: Path) -> None:
    run(storage, asked("shallow", 1, LENGTHS[:4]))
    run(storage, asked("others", 8, LENGTHS[:4], seeds=[20, 21, 22]))
    run(storage, asked("again", 1, LENGTHS[2:5]))
    done, _, tables = reported(call, storage, "shallow", "others")
    (line,) = [
        line for line in done.out.splitlines() if line.endswith(": others (depth = 8) less shallow (depth = 1).")
    ]
    assert line.startswith("No seed in common")
    assert not list(tables.glob("comparison*"))
    done, _, _ = reported(call, storage, "shallow", "again")
    assert (
        "again less shallow, is 0 in every draw of 2 cells; "
        "not compared, without a partner in the other: 2 cells of shallow and 1 cell of again" in done.out
    )
    done, text, _ = reported(call, storage, "shallow", "shallow")  # one sweep, named twice
    assert "Comparison" not in text


def test_what_each_sweep_asks_is_answered(call: Callable[..., Outcome], storage: Path) -> None:
    run(storage, asked("shallow", 1, LENGTHS[:6]))
    run(storage, asked("deep", 8, LENGTHS[:6], ("inflection", "trend"), description="Does depth help?"))
    _, text, tables = reported(call, storage, "shallow", "deep")
    assert sorted(table.stem for table in tables.iterdir()) == [
        f"comparison_{METRIC}",
        "inflection_turns",
        "trend_trends",
    ]
    assert "Does depth help?" in text


def steps_of(depth: int, noise: list[float], name: str, kind: str, **changes: Any) -> dict[str, Any]:
    """A space over the noise that asks for its best value, or the regime's."""
    options = {"metric": METRIC, **({"x": "noise"} if kind == "optimum" else {"lr": "noise", "length": "gamma"})}
    axes = {"noise": noise, **({"gamma": [0.2, 0.5, 1.0]} if kind == "regime" else {})}
    return {
        "name": name,
        "workload": "linear_transfer",
        "axes": axes,
        "fixed": {"dim": 30, "depth": depth},
        "seeds": 2,
        "analysis": [{kind: options}],
        **changes,
    }


def warmed(heat: float, seed: int) -> dict[str, float]:
    return {"loss": (heat - 0.3) ** 2 + 0.01 * seed}


def test_a_scale_that_another_sweep_has_no_place_on_is_refused(call: Callable[..., Outcome], storage: Path) -> None:
    def warm(name: str, heat: list[float], scale: str = "") -> None:
        usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
        asked = {
            "analysis": [{"optimum": {"metric": "loss", "x": "heat"}}],
            **({"scale": {"heat": scale}} if scale else {}),
        }
        raysweep.run(warmed, name=name, axes={"heat": heat}, seeds=2, storage=storage, **asked, **usual)

    heat = [0.1, 0.2, 0.4, 0.8, 1.6]
    warm("apart", heat, "log")
    warm("cold", [0.0, *heat])
    warm("frozen", [-0.1, *heat])
    for names in (("apart", "frozen"), ("frozen", "apart")):
        home = storage / "refused"
        refused(
            call("report", *names, "--storage", storage, "-o", home),
            "scale.heat: expected no value below 0 on an axis that is read in log, got -0.1 in frozen; ",
        )
        assert not home.exists()
    reported(call, storage, "apart", "cold")  # 0 stands beside the axis
    warm("apart", heat, "linear")  # what the line advises
    reported(call, storage, "apart", "frozen")


@pytest.mark.parametrize(("kind", "value"), [("optimum", np.inf), ("regime", -1.0)])
def test_rates_of_another_sweep_that_cannot_be_fitted_are_said(kind: str, value: float, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"noise": [0.1, 0.2, 0.4, 0.8, 1.6], "gamma": [0.2, 0.5, 1.0]}
    one, other = (
        rows_of(TRANSFER, {**axes, "noise": values}, {}, 3, 0.02).assign(sweep=name)
        for name, values in (("one", axes["noise"]), ("other", [value]))
    )
    other["cell"] += " of the other"
    space = space_of("linear_transfer", axes, {}, steps_of(1, [], "s", kind)["analysis"])
    further = space_of("linear_transfer", {"gamma": axes["gamma"]}, {"noise": value}, [])
    made = write_report(
        pd.concat([one, other], ignore_index=True), space, tmp_path, sweep="one, other", further=[further]
    )
    assert made.headline[0].startswith(f"{kind}: ")
    assert made.headline[0].endswith(f"got {value}")
    assert not list(tmp_path.glob(f"tables/{kind}*"))


def test_a_sweep_whose_every_row_is_at_infinity_is_a_curve_without_places(
    call: Callable[..., Outcome], storage: Path
) -> None:
    kinds = ("inflection", "trend", "boundary", "curves")
    run(storage, asked("shallow", 1, LENGTHS[::3], kinds))
    run(
        storage,
        {
            **asked("endless", 8, [], ()),
            "axes": {"noise": [0.1, 0.2]},
            "fixed": {"dim": 60, "depth": 8, "pretrain_length": float("inf")},
        },
    )
    _, _, tables = reported(call, storage, "shallow", "endless")
    assert sorted(pd.read_csv(tables / "boundary_zeros.csv")["points"]) == [0, 0, 6]


def test_slices_spread_differently_have_one_scale(call: Callable[..., Outcome], storage: Path) -> None:
    run(storage, asked("shallow", 1, LENGTHS[::3], ("trend",)))
    run(storage, asked("deep", 8, [1.0, 2.0, 3.0, 4.0], ()))
    _, text, tables = reported(call, storage, "shallow", "deep")
    assert pd.read_csv(tables / "trend_trends.csv")["logarithmic"].nunique() == 1
    assert text.count("slope per ") == 1


def test_sweeps_of_one_name_from_several_storages_are_told_apart(storage: Path, tmp_path: Path) -> None:
    places = [tmp_path / place for place in ("here", "there", "elsewhere")]
    sweeps = [run(place, asked("s", depth, LENGTHS[:4])) for depth, place in enumerate(places, 1)]
    headline = report(sweeps, tmp_path / "report").headline
    here, there, elsewhere = (place / "s" for place in places)
    assert f"{there} (depth = 2) less {here} (depth = 1)" in headline[-1]
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {here}, {there}, {elsewhere}\n")
    assert f"`{elsewhere}` has depth = 3" in text
    tables = {path.name for path in (tmp_path / "report" / "tables").glob("comparison*")}
    assert tables == {f"comparison__2_{METRIC}.csv", f"comparison__3_{METRIC}.csv"}
    twice = report([sweeps[0], sweeps[0]], tmp_path / "twice")
    assert len(twice.headline) == 1


def test_a_sweep_and_parts_of_it_are_told_apart(storage: Path, tmp_path: Path) -> None:
    whole = run(storage, asked("s", 1, LENGTHS[:6]))
    parts = [run(storage, asked("s", 1, lengths)) for lengths in (LENGTHS[:2], LENGTHS[2:5])]
    assert all(part.is_part for part in parts)
    said = report([whole, parts[0]], tmp_path / "one").headline[-1]
    assert (
        "s (part 1) less s, is 0 in every draw of 2 cells; not compared, without a partner in the other: 4 cells of s"
        in said
    )
    text = (report([*parts, whole], tmp_path / "all").directory / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# s (part 1), s (part 2), s\n")
    assert report([parts[0]]).directory.name == "report-part"


def test_each_ledger_is_read_once(call: Callable[..., Outcome], storage: Path) -> None:
    for name, depth in (("shallow", 1), ("deep", 8)):
        run(storage, asked(name, depth, LENGTHS[:2]))
    written = sorted(storage.glob("*/ledger/*.jsonl"))
    assert {path.parents[1].name for path in written} == {"shallow", "deep"}
    with reading("ledger") as read:
        assert call("results", "shallow", "deep", "--storage", storage).code == 0
    assert sorted(read) == written
    with reading("ledger") as read:
        reported(call, storage, "shallow", "deep")
    assert sorted(read) == written


def test_the_steps_of_a_report_are_known_from_the_first(storage: Path) -> None:
    sweeps = [
        run(storage, asked(name, depth, LENGTHS[:4], ("inflection", "trend")))
        for name, depth in (("shallow", 1), ("deep", 8))
    ]
    steps: list[tuple[int, int]] = []
    for several, of in ((sweeps[:1], 4), (sweeps, 6)):
        steps.clear()
        report(several, storage / "report", on_step=lambda *step: steps.append(step))
        assert steps == [(done, of) for done in range(of + 1)]
