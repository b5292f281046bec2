"""The differences of two sweeps on the same draws."""

import numpy as np
import pandas as pd
import pytest
from transfer_rows import rows_with

import raysweep
from raysweep.analyses.comparison import compared, joined
from raysweep.analyses.finding import Outcome
from raysweep.analyses.findings import designed
from raysweep.fits.comparison import UNCLEAR, paired, per_cell
from raysweep.fits.surface.single_runs import run_errors
from raysweep.report.notes import left_alone

AXES = {"overlap_angle": [10.0, 40.0, 70.0]}


def sweep(depth, shift, angles, seeds=8):
    """Draws share their noise with those of the other sweep."""

    def risk(rows, random):
        return shift * rows["overlap_angle"] + random.standard_normal(seeds)[rows["seed"]]

    return rows_with({"overlap_angle": angles}, seeds, risk_scratch=risk).assign(depth=depth, sweep=f"L{depth}")


def difference(*frames):
    spaces = [
        {
            "name": name,
            "workload": "linear_transfer",
            "axes": {"overlap_angle": sorted(set(frame["overlap_angle"]))},
            "fixed": {"depth": int(frame["depth"].iloc[0])},
            "analysis": [{"curves": {"metric": "risk_scratch", "x": "overlap_angle"}}],
        }
        for frame in frames
        for name in set(frame["sweep"])
    ]
    names = [str(space["name"]) for space in spaces]
    return compared(pd.concat(frames, ignore_index=True), *designed(spaces, names))


def test_what_draws_share_cancels_and_cells_without_a_partner_are_left_out():
    finding = difference(sweep(2, 0.0, [10.0, 40.0, 70.0]), sweep(3, 0.01, [10.0, 40.0, 80.0]))
    (row,) = finding.table.to_dict("records")
    assert (row["outcome"], row["sweep"], row["metric"]) == (Outcome.HIGHER, "L3", "risk_scratch")
    assert [row["estimate"], row["low"], row["high"]] == pytest.approx([0.25] * 3)
    assert (row["higher"], row["lower"], row["alone_here"], row["alone_there"]) == (2, 0, 1, 1)
    assert finding.tables["comparison_risk_scratch"]["difference"].to_numpy() == pytest.approx([0.1, 0.4])
    assert len(list(finding.plots())) == 1
    assert len(left_alone(finding)) == 1  # what it leaves out is said
    more = pd.concat([sweep(3, 0.01, [10.0, 70.0]), sweep(3, 0.01, [70.0], 9).tail(1)])  # and a draw of one cell alone
    finding = difference(sweep(2, 0.0, [10.0, 70.0], 9), more)
    assert finding.table[["estimate", "draws"]].values.tolist() == [[pytest.approx(0.4), 9]]


def test_sweeps_of_single_runs_made_elsewhere_are_compared_whatever_their_seeds():
    lr, size = (each.ravel() for each in np.meshgrid(np.geomspace(1e-4, 1e-2, 8), [1, 2, 4]))
    cells, rng = pd.DataFrame({"lr": lr, "size": size}), np.random.default_rng(0)
    loss = 2 + 0.1 * np.log(lr / 1e-3) ** 2 + 0.02 * rng.standard_normal((2, 24)) - [[0.0], [0.03]]
    given = [(lr, loss[0], None), (np.float32(lr), loss[1], "se")]  # one has no known errors, one fewer digits
    runs = [raysweep.analyse(cells.assign(lr=x, loss=y, se=0.02), "loss", list(cells), error=e) for x, y, e in given]
    frame = pd.concat([one.results().assign(sweep="ab"[k], seed=k) for k, one in enumerate(runs)])
    finding = compared(frame, *designed([{**runs[k].space.as_dict(), "name": "ab"[k]} for k in (0, 1)], ["a", "b"]))
    (row,) = finding.table.to_dict("records")
    assert (row["outcome"], row["cells"], finding.facts["method"]) == (Outcome.LOWER, 24, "run_errors")
    assert finding.tables["comparison_loss"]["size"].nunique() == 3  # an axis may have this name
    assert row["low"] < -0.03 < row["high"] < 0
    assert joined(pd.DataFrame({"sweep": ["a", "a", "b"], "t": [1e9, 1e9 + 1, 1e9]}), ["t"])["t"].nunique() == 2


@pytest.mark.parametrize("seed", [19, 25, 28])  # with noise that varies along five rates a cell was told from its equal
def test_of_few_rates_no_cell_is_told_from_its_equal(seed):
    rng, (sweep, slices, x) = np.random.default_rng(seed), (each.ravel() for each in np.indices((2, 3, 5)))
    cells = pd.DataFrame(
        {"sweep": sweep, "slice": slices, "x": x, "draws": 1, "standard_error": np.nan, "status": "ok"}
    )
    cells["mean"] = 4 * (x / 4 - rng.uniform(0.3, 0.7, 3)[slices]) ** 2 + 0.05 * rng.standard_normal(30)
    cells["error"] = run_errors(cells, "x", ["sweep", "slice", "x"], turn="min", logarithmic=False)
    pairs = paired(cells[sweep == 0], cells[sweep == 1], ["slice", "x"], "mean", "error")
    assert set(per_cell(pairs, ["slice", "x"], error="error", degrees=4.0)["status"]) == {UNCLEAR}


def test_sweeps_without_a_seed_or_a_cell_in_common_are_not_compared():
    one, other = sweep(2, 0.0, [10.0, 40.0]), sweep(3, 0.0, [10.0, 40.0])
    assert difference(one, other.assign(seed=other["seed"] + 100)).facts["nothing"] == "no_seed_shared"
    assert difference(one, sweep(3, 0.0, [70.0, 80.0])).facts["nothing"] == "no_cell_shared"
    assert difference(one, other).table["outcome"].tolist() == [Outcome.NO_EFFECT]
