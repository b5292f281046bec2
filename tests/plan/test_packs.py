"""Rows that are cut apart are estimated at what they will take: what they share is done in each pack, or kept in the
store. (What memory has to do with it is in test_stages.py.)"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import QUIET
from spaces import STEP, language_space, small_space, written

from raysweep import workloads
from raysweep.driver.placement import Placement
from raysweep.driver.progress import duration
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.cost import estimate
from raysweep.plan.packs import Packing, make_packs
from raysweep.plan.row_stages import RowStages
from raysweep.space.schema import validate
from raysweep.workloads.declaration import Cost


def packs_of(workers, seeds, shared, row):
    """Of 40 rows a draw that share so many seconds and take so many each, kept nowhere."""
    space = validate(small_space(axes={"gamma": {"linspace": [0.1, 4, 40]}}, seeds=seeds))
    workload = replace(
        workloads.get("linear_transfer"), cost=lambda columns: Cost(shared + row * len(columns["gamma"]), 1e6)
    )
    rows = {seed: np.arange(40) for seed in range(seeds)}
    packs = make_packs(workload, enumerate_cells(space), rows, Packing(workers, floor=1.0))
    packed = [(seed, cell) for pack in packs for seed, cell in zip(pack.seeds, pack.cells, strict=True)]
    assert sorted(packed) == [(seed, cell) for seed in range(seeds) for cell in range(40)]
    for pack in packs:
        assert pack.seconds == pytest.approx(shared * len(set(pack.seeds)) + row * len(pack))
    return packs


def test_rows_are_cut_apart_where_that_ends_the_whole_earlier():
    assert [len(pack) for pack in packs_of(2, 1, 0.0, 1.0)] == [8] * 5
    assert [(len(pack), pack.seconds) for pack in packs_of(2, 1, 10.0, 1.0)] == [(20, 30.0)] * 2  # whole: 50 s
    assert [len(pack) for pack in packs_of(1, 1, 10.0, 1.0)] == [40]  # there is nobody to share it with
    assert [len(pack) for pack in packs_of(1, 1, 0.1, 1.0)] == [40]  # however little is done again
    assert len(packs_of(1, 1, 0.0, 1.0)) == 3  # nothing is
    assert [len(pack) for pack in packs_of(2, 1, 100.0, 0.1)] == [40]  # nothing to speak of would be shared out
    assert [len(pack) for pack in packs_of(2, 20, 100.0, 5.0)] == [40] * 20  # all are busy as it is
    assert {len(pack) for pack in packs_of(2, 20, 1.0, 20.0)} == {8}  # what is done again is next to nothing


def test_a_pretraining_that_several_packs_need_is_a_pack_of_its_own_before_them():
    space = validate(
        language_space(
            axes={"finetune_lr": {"geomspace": [1e-4, 1e-2, 30]}, "pretrain_length": [4000 * STEP]},
            fixed={"finetune_steps": 2000},
        )
    )
    cells, workload, rows = enumerate_cells(space), workloads.get("language"), {0: np.arange(30)}
    first, *packs = make_packs(workload, cells, rows, Packing(workers=2, floor=1.0))
    assert len(packs) > 3
    assert sum(pack.seconds for pack in (first, *packs)) == pytest.approx(estimate(workload, cells, rows)[0], rel=1e-6)
    (pretraining,) = RowStages(workload, cells.columns).of_row(0, 0)
    assert first.stages == (pretraining.id,)
    assert first.seconds == pytest.approx(pretraining.cost.seconds)
    assert len(first) == 0
    assert sum(map(len, packs)) == 30
    assert {pack.after for pack in packs} == {(first.id,)}
    there = make_packs(workload, cells, rows, Packing(workers=2, floor=1.0), there={pretraining.id})
    assert not any(pack.stages or pack.after for pack in there)
    assert sum(pack.seconds for pack in there) == pytest.approx(sum(pack.seconds for pack in packs))


def test_a_dry_run_says_what_its_packs_take(call, storage, tmp_path):
    """The distance of two data sets is worked out in every pack anew."""
    asked = small_space(
        axes={"overlap_angle": {"linspace": [2, 80, 40]}},
        seeds=1,
        fixed={"dim": 3000, "gamma": 0.01, "distance_samples": 1000},
    )
    cells = enumerate_cells(validate(asked))
    packs = make_packs(workloads.get("linear_transfer"), cells, {0: np.arange(40)}, Placement("ray", 2, True).packing())
    whole, _ = estimate(workloads.get("linear_transfer"), cells, {0: np.arange(40)})
    seconds = sum(pack.seconds for pack in packs)
    assert len(packs) == 2
    assert seconds > 1.2 * whole
    result = call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--workers", 2, "--dry-run")
    assert f"{duration(seconds)} of one core" in result.out
    assert f"estimated {duration(15 + max(pack.seconds for pack in packs))} in Ray Tune" in result.out
