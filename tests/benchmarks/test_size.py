"""Work that must not grow with the number of cells, or not faster than it: counted, not timed (benchmarks/size.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import raysweep
from raysweep import workloads
from raysweep.driver.placement import Placement
from raysweep.driver.state import State
from raysweep.ledger import segments
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.packs import make_packs
from raysweep.space.schema import validate
from raysweep.sweep import Sweep

CELLS = 20_000


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the workload `empty` was asked for what a run costs, and a segment of a ledger was read."""
    counts: Counter[str] = Counter()
    monkeypatch.setitem(workloads.BUILT_IN, "empty", "benchmarks.empty")
    empty, read = workloads.get("empty"), segments.read_segment

    def cost(columns: workloads.declaration.Columns) -> workloads.declaration.Cost:
        counts["cost"] += 1
        counts["cells costed"] += len(columns["first"])
        return empty.cost(columns)

    def read_segment(path: Path) -> list[segments.Row]:
        counts["segments read"] += 1
        return read(path)

    get = workloads.get
    asked = replace(empty, cost=cost)
    monkeypatch.setattr(workloads, "get", lambda name: asked if name == "empty" else get(name))
    monkeypatch.setattr(segments, "read_segment", read_segment)
    return counts


def space(seeds: int = 1) -> dict[str, object]:
    return {
        "name": "large",
        "workload": "empty",
        "seeds": seeds,
        "axes": {"first": list(range(CELLS // 10)), "second": list(range(10))},
    }


def test_planning_asks_for_the_cost_of_groups_of_cells(counted: Counter[str], tmp_path: Path) -> None:
    asked = validate(space(seeds=3))
    cells = enumerate_cells(asked)
    state = State(asked, cells, tmp_path / "none")
    work = state.missing()
    packs = make_packs(state.workload, cells, work.indices, Placement("inline", 1, True).packing())
    assert len(cells) == CELLS
    assert work.rows == sum(map(len, packs)) == 3 * CELLS
    assert counted["cost"] == 2  # for the estimate and for the packs, one for all seeds
    assert len(packs) == 1


def test_a_large_sweep_reads_what_it_wrote_once(counted: Counter[str], storage: Path) -> None:
    def run() -> Sweep:
        return raysweep.run(
            space(), storage=storage, tracking_uri="none", report=False, executor="inline", say=lambda line: None
        )

    assert len(run().rows()) == CELLS
    assert counted["segments read"] == 2  # by the driver when it was published, and by rows()
    counted.clear()
    run()
    assert counted["segments read"] == 1
    assert counted["cost"] == 0
