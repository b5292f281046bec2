"""What a report says of rows that are not there, not good, or not as well known as was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raysweep
from raysweep.commands.status import in_words
from raysweep.ledger import sweep_record
from raysweep.numbers import interval
from raysweep.sweep import Sweep, report


def loss(x: float, seed: int) -> float:
    """A valley."""
    return (x - 2) ** 2 + 0.01 * seed


def run(tmp_path: Path, function: Callable[..., Any], name: str, seeds: int = 5) -> Sweep:
    """The sweep of a function over x."""
    return raysweep.run(
        function,
        axes={"x": [1, 2, 3, 4]},
        seeds=seeds,
        name=name,
        report=False,
        storage=tmp_path,
        tracking_uri="none",
        executor="inline",
        say=lambda text: None,
    )


def test_the_report_of_an_interrupted_sweep_says_how_many_rows_are_missing(tmp_path: Path) -> None:
    sweep = run(tmp_path, loss, "half", seeds=20)
    assert "How sure: 20 seeds in each of 4 cells" in "\n".join(sweep.report().answer)
    segments = sorted((sweep.folder / sweep_record.LEDGER).glob("*.jsonl*"))
    kept = raysweep.open("half", tmp_path).results()
    assert len(segments) > 1
    segments[-1].unlink()
    sweep = raysweep.open("half", tmp_path)
    there = len(sweep.results())
    assert 0 < there < len(kept) == 80
    answer = sweep.report().answer
    assert answer[-2].startswith(f"How sure: so far only {there} of 80 rows; ")


@pytest.mark.parametrize("ending", ["fails", "diverges"])
def test_where_no_row_is_ok_everything_is_open(ending: str, tmp_path: Path) -> None:
    def ends(x: float, seed: int) -> float:
        if ending == "fails":
            raise ValueError("too\n  much")
        return np.nan

    sweep = run(tmp_path, ends, ending)
    answer = sweep.report().answer
    assert "no row is ok" in answer[0].lower()
    assert answer[-1].startswith("Undecided: Everything that was asked")


def test_a_failed_row_is_said_with_its_whole_message_and_in_order(tmp_path: Path) -> None:
    def raises(x: float, seed: int) -> float:
        raise ValueError("too\n  much")

    found = run(tmp_path, raises, "raises").failures()
    order = {cell: place for place, cell in enumerate(raysweep.open("raises", tmp_path).cells.ids)}
    keys = [(order[row["cell"]], row["seed"]) for row in found]
    assert keys == sorted(keys)
    assert len(keys) == 20
    assert in_words(found[0]) == f"cell {found[0]['cell']} seed {found[0]['seed']}: ValueError: too much"


def test_what_a_function_may_not_return_is_said_without_the_name_of_our_error(tmp_path: Path) -> None:
    def varying(x: float, seed: int) -> dict[str, float]:
        return {"loss": 1.0} if seed < 3 else {"los": 1.0}

    (first, *_) = run(tmp_path, varying, "varying").failures()
    assert in_words(first).endswith(": varying returned los; expected loss, as the first row did")


@pytest.mark.parametrize("pointwise", [False, True])
def test_a_precision_that_is_missed_is_undecided_by_the_intervals_that_were_asked_for(
    pointwise: bool, tmp_path: Path
) -> None:
    sweep = raysweep.run(
        "quickstart",
        seeds=12,
        precision={"boundary": 0.3, "pointwise": pointwise},
        storage=tmp_path,
        tracking_uri="none",
        executor="inline",
        report=False,
        say=lambda text: None,
    )
    written = sweep.report()
    sure, undecided = written.answer[-2:]
    table = sweep.fit(boundary={"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}).table
    located = table[table["status"] == "located"]
    after = "" if pointwise else "_simultaneous"
    halves = (located[f"high{after}"] - located[f"low{after}"]) / 2
    missed = int((halves > 0.3003).sum())
    assert missed > 0
    widest = located.loc[halves.idxmax()]
    known = interval(widest["estimate"], widest[f"low{after}"], widest[f"high{after}"])
    assert f"the widest {known}° (95 %{'' if pointwise else ', all at once'})" in sure
    asked = "Break-even overlap angle of gain by fine-tuning to within ± 0.3°, as asked for"
    assert f"{asked}, in {missed} of {len(table)} settings" in undecided


def test_a_report_of_two_sweeps_leaves_that_of_the_first_alone(tmp_path: Path) -> None:
    first, second = run(tmp_path, loss, "first"), run(tmp_path, loss, "second", seeds=3)
    own = first.report().directory
    text = (own / "report.md").read_text()
    both = report([first, second])
    assert both.directory == own / "with-second"
    assert (own / "report.md").read_text() == text
