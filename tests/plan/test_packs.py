"""What a plan says of packs and stages, their number and their time: rows that are cut apart, and random chains counted
by hand. (What memory has to do with it is in test_stages.py.)"""

import itertools
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import QUIET
from made_up_chain import COST, SPAN, random_workload, row_cost, span_cost, stage, table, workload
from spaces import STEP, language_space, small_space, written

from raysweep import workloads
from raysweep.driver import stage_plan
from raysweep.driver.placement import Placement
from raysweep.driver.progress import duration
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.plan.cost import estimate
from raysweep.plan.packs import Packing, make_packs
from raysweep.plan.row_stages import RowStages
from raysweep.space.resources import Resources
from raysweep.space.schema import validate
from raysweep.stages.store import Store
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
    axes = {"finetune_lr": {"geomspace": [1e-4, 1e-2, 30]}, "pretrain_length": [4000 * STEP]}
    space = validate(language_space(axes=axes, fixed={"finetune_steps": 2000}))
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
    fixed = {"dim": 3000, "gamma": 0.01, "distance_samples": 1000}
    asked = small_space(axes={"overlap_angle": {"linspace": [2, 80, 40]}}, seeds=1, fixed=fixed)
    cells = enumerate_cells(validate(asked))
    packs = make_packs(workloads.get("linear_transfer"), cells, {0: np.arange(40)}, Placement("ray", 2, True).packing())
    whole, _ = estimate(workloads.get("linear_transfer"), cells, {0: np.arange(40)})
    seconds = sum(pack.seconds for pack in packs)
    assert len(packs) == 2
    assert seconds > 1.2 * whole
    result = call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--workers", 2, "--dry-run")
    assert f"{duration(seconds)} of one core" in result.out
    assert f"estimated {duration(15 + max(pack.seconds for pack in packs))} in Ray Tune" in result.out


def planned(made, rows, seeds, keep, folder):
    """The plan of these rows, and their estimate."""
    cells = Cells(
        table(made, *rows), [str(i) for i in range(len(rows))], [Resources()], np.zeros(len(rows), int), len(rows)
    )
    indices = {seed: np.arange(len(rows)) for seed in seeds}
    state = SimpleNamespace(workload=made, cells=cells, space=SimpleNamespace(keep=keep))
    pending = SimpleNamespace(indices=indices)
    return stage_plan.build(state, pending, Store(folder)), estimate(made, cells, indices, keep)


def stages_of(made, row, seed):
    """The stages of a row: the name of each, all that it depends on, and its cost."""
    result = []
    past = (seed,)
    expected = {}
    for index, part in enumerate(made.chain.stages):
        expected |= {name: row[name] for name in made.chain.parameters[index]}
        values = tuple(sorted((name, value) for name, value in expected.items() if name != part.until))
        if part.points is None:
            past = (*past, (part.name, values))
            result.append((part.name, past, COST))
            continue
        for before, point in itertools.pairwise((0.0, *part.points(row))):
            past = (*past, (part.name, values, point))
            result.append((part.name, past, COST + SPAN * (point - before)))
    return result


def check(made, rows, seeds, keep, folder):
    plan, (seconds, _) = planned(made, rows, seeds, keep, folder)
    paths = [stages_of(made, row, seed) for row in rows for seed in seeds]
    distinct = {path: (name, cost) for chain in paths for name, path, cost in chain}
    counted = Counter()
    for kind, counts in plan.kinds.items():
        counted[kind[-1]] += counts.distinct
        assert counts.new == counts.distinct
        assert counts.kept == (made.chain.names.index(kind[-1]) in made.chain.kept(keep))
    assert +counted == Counter(name for name, _ in distinct.values())
    assert plan.seconds == pytest.approx(sum(cost for _, cost in distinct.values()))
    if not made.chain.kept():  # each row's own work is paid for in the packs of one seed
        assert seconds == pytest.approx(plan.seconds)
    last = max(made.chain.kept() or made.chain.kept(keep), default=-1)
    shared = {stage.name for stage in made.chain.stages[: last + 1]}
    again = sum(cost for chain in paths for name, _, cost in chain if name in shared)
    assert plan.plain == pytest.approx(again + sum(cost for name, cost in distinct.values() if name not in shared))


@pytest.mark.parametrize("number", range(60))
def test_a_plan_counts_and_prices_each_distinct_stage_once(number, tmp_path):
    draw = random.Random(number)
    made = random_workload(draw, costs=True)
    names = [parameter.name for parameter in made.parameters]
    drawn = [{name: draw.randint(0, 3) for name in names} for _ in range(8)]
    rows = list({tuple(row.values()): row for row in drawn}.values())
    keep = tuple(name for name in made.chain.names if draw.random() < 0.4)
    check(made, rows, draw.sample(range(5), draw.randint(1, 3)), keep, tmp_path)


def test_what_only_the_space_keeps_is_counted_for_every_seed_and_saves_what_others_repeat(tmp_path):
    made = workload(stage("s0", cost=row_cost), stage("s1", "s0", cost=row_cost), parameters=["s0.a", "s1.b"])
    rows = [{"a": a, "b": b} for a in (1, 2) for b in (1, 2)]
    plan, _ = planned(made, rows, [0, 1, 2, 3, 4], ("s0",), tmp_path)
    assert plan.kinds[("s0",)].distinct == 10
    assert (plan.seconds, plan.plain) == (30 * COST, 40 * COST)


def test_points_after_the_last_kept_stage_are_counted_and_priced(tmp_path):
    made = workload(
        stage("s0", keeps=True),
        stage("s1", "s0", cost=span_cost, points=lambda row: range(1, int(row["length"]) + 1), until="length"),
        parameters=["s0.a", "s1.length"],
    )
    plan, _ = planned(made, [{"a": 0, "length": 2}, {"a": 0, "length": 5}], [0, 1], (), tmp_path)
    assert plan.kinds[("s0", "s1")].distinct == 10
    assert plan.seconds == 10 * (COST + SPAN)
    assert not plan.continued  # rows of one kept artifact share these points anyway: nothing is said of a trunk
