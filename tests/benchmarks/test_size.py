"""Work that must not grow with the number of cells, or not faster than it: counted, not timed (benchmarks/size.py)."""

from dataclasses import replace

import pytest
from auditing import reading
from conftest import run

from benchmarks import empty
from raysweep.driver.placement import Placement
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.packs import make_packs
from raysweep.query.state import State
from raysweep.space.schema import validate

CELLS = 20_000


COSTED = []
"""Of how many cells the workload below was asked what a run costs, each time that it was."""


def cost(columns):
    COSTED.append(len(columns["first"]))
    return empty.WORKLOAD.cost(columns)


WORKLOAD = replace(empty.WORKLOAD, cost=cost)


@pytest.fixture
def costed(bring):
    """The list above, empty, and the workload on the path."""
    bring(empty=f"{__name__}:WORKLOAD")
    COSTED.clear()
    return COSTED


def space(seeds=1):
    return {
        "name": "large",
        "workload": "empty",
        "seeds": seeds,
        "axes": {"first": list(range(CELLS // 10)), "second": list(range(10))},
    }


def test_planning_asks_for_the_cost_of_groups_of_cells(costed, tmp_path):
    asked = validate(space(seeds=3))
    cells = enumerate_cells(asked)
    state = State(asked, cells, tmp_path / "none")
    work = state.missing()
    packs = make_packs(state.workload, cells, work.indices, Placement("inline", 1, True).packing())
    assert len(cells) == CELLS
    assert work.rows == sum(map(len, packs)) == 3 * CELLS
    assert len(costed) == 2  # for the estimate and for the packs, one for all seeds
    assert len(packs) == 1


@pytest.mark.long
def test_a_large_sweep_reads_what_it_wrote_once(costed, storage):
    with reading("ledger") as read:
        assert len(run(storage, space()).rows()) == CELLS
    assert len(read) == 2  # by the driver when it was published, and by rows()
    costed.clear()
    with reading("ledger") as read:
        run(storage, space())
    assert len(read) == 1
    assert costed == []
