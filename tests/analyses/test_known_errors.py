"""Standard errors that a workload declares for a metric, as lm-eval gives for accuracies, reach a report's fits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from transfer_rows import rows_with

import raysweep
from raysweep import workloads
from raysweep.analyses.finding import Outcome
from raysweep.analyses.findings import one_finding
from raysweep.analyses.series import CurvesPlot
from raysweep.report.clauses import fall_words
from raysweep.report.first_tables import first_table
from raysweep.report.sentences import sentence
from raysweep.workloads.declaration import Metric, Workload

LENGTHS, RATES = np.geomspace(1e9, 1e12, 12), (1e-5, 1e-4)
ENTRIES = [
    {"inflection": {"metric": "task_accuracy", "x": "pretrain_length", "by": ["finetune_lr"]}},
    {"optimum": {"metric": "task_accuracy", "x": "pretrain_length", "by": ["finetune_lr"]}},
    {"best": {"metric": "task_accuracy"}},
]


def rows(error, seeds=1):
    """Accuracies that rise to 1e11 tokens and fall behind, without noise, and their errors."""

    def accuracy(rows, _):
        return 0.7 - 0.05 * np.log10(rows["pretrain_length"] / 1e11) ** 2

    axes = {"pretrain_length": LENGTHS, "finetune_lr": RATES}
    return rows_with(axes, seeds, task_accuracy=accuracy).assign(task_accuracy_error=error)


def finding_of(frame, entry):
    axes = {"pretrain_length": LENGTHS.tolist(), "finetune_lr": list(RATES)}
    return one_finding(frame, {"name": "s", "workload": "checkpoints", "axes": axes, "fixed": {}}, entry, "s")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: next(iter(entry)))
def test_declared_errors_enter_a_finding_as_those_that_analyse_is_told(entry):
    (kind, options), frame = next(iter(entry.items())), rows(0.01)
    declared = finding_of(frame, entry)
    by = [name for name in ("finetune_lr",) if kind != "best"]
    axes = ["pretrain_length", *(["finetune_lr"] if kind == "best" else [])]
    question = [{kind: {name: value for name, value in options.items() if name != "metric"}}]
    answer = raysweep.analyse(
        frame.drop(columns=["sweep", "cell", "status", "seed"]),
        "task_accuracy:maximize",
        axes,
        by=by,
        questions=question,
        error="task_accuracy_error",
    )
    numbers = [name for name in answer.table.select_dtypes("number") if name in declared.table]
    assert len(numbers) > 2
    pd.testing.assert_frame_equal(declared.table[numbers], answer.table[numbers], check_dtype=False)


@pytest.mark.parametrize("entry", ENTRIES[:2], ids=lambda entry: next(iter(entry)))
def test_an_error_of_0_counts_as_the_smallest_other(entry):
    frame = rows(0.01)
    whole = finding_of(frame, entry).table
    frame.loc[3, "task_accuracy_error"] = 0.0
    pd.testing.assert_frame_equal(finding_of(frame, entry).table, whole)
    assert set(whole["outcome"]) == {Outcome.LOCATED}


def test_a_larger_declared_error_leaves_a_turn_undetermined():
    small, large = (finding_of(rows(error), ENTRIES[0]) for error in (0.005, 0.1))
    assert small.table["outcome"].tolist() == [Outcome.LOCATED] * 2
    assert small.table["low"].max() <= 1e11 <= small.table["high"].min()
    assert large.table["outcome"].tolist() == [Outcome.UNCLEAR] * 2
    assert (small.facts["method"], large.facts["method"]) == ("known_turns", "known_turns")
    true = 0.05 * np.log10(LENGTHS[-1] / 1e11) ** 2
    assert float(fall_words(small)) == pytest.approx(true, abs=0.01)
    assert f"(then falls by {fall_words(small)})" in sentence(small, workloads.get("checkpoints"))


def test_a_figure_of_turns_and_a_table_of_them_have_the_same_intervals():
    finding, workload = finding_of(rows(0.005), ENTRIES[0]), workloads.get("checkpoints")
    (plot,) = (one for one in finding.plots() if isinstance(one, CurvesPlot))
    table = first_table(finding, workload, 8)
    for line, row in zip((line for panel in plot.panels for line in panel.lines), finding.table.index, strict=True):
        assert line.place[1:3] == tuple(finding.table.loc[row, ["low", "high"]])
        assert table.rows[row][1].endswith(f"[{line.place[1]:.2e}, {line.place[2]:.2e}]".replace("e+", "e"))
        low, high = table.rows[row][1].split(" [")[1].strip("]").split(", ")
        assert f"(95 %: {low} to {high})" in sentence(replace(finding, table=finding.table.loc[[row]]), workload)


def test_with_several_draws_their_scatter_is_the_noise():
    frame = rows(0.1, seeds=4)
    frame["task_accuracy"] += np.random.default_rng(0).normal(0, 0.003, len(frame))
    finding = finding_of(frame, ENTRIES[0])
    assert "method" not in finding.facts
    assert finding.table["outcome"].tolist() == [Outcome.LOCATED] * 2


def test_an_error_that_is_no_metric_is_refused():
    workload = workloads.get("checkpoints")
    with pytest.raises(ValueError, match="metric accuracy has the error acc_stderr, which is no metric"):
        Workload("w", "", 1, workload.parameters, (Metric("accuracy", "", error="acc_stderr"),), stages=workload.stages)
