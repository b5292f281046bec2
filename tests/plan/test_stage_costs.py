"""What a plan says of stages, their number and their time, against a count by hand on random chains."""

import itertools
import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_chain import COST, SPAN, random_workload, row_cost, span_cost, stage, table, workload

from raysweep.driver import stage_plan
from raysweep.plan.cells import Cells
from raysweep.plan.cost import estimate
from raysweep.plan.resources import Resources
from raysweep.stages.store import Store


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
