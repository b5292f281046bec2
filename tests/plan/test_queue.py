"""The queue of packs: what can begin, in which order, and how near that comes to the best that any order could do."""

import time

import numpy as np

from raysweep.driver.placement import wall_seconds
from raysweep.plan.pack import Pack, PackQueue
from raysweep.space.resources import Resources


def packs_of(graph):
    """Of the seconds of each, parents first, and the packs before it. One with something after it is one of stages."""
    parents = {other for _, before in graph for other in before}
    result = []
    for number, (seconds, before) in enumerate(graph):
        after = tuple(f"p{other}" for other in before)
        stages = (f"s{number}",) if number in parents else ()
        needed = (*(f"s{other}" for other in before), *stages)
        rows = np.zeros(1, dtype=np.int64)
        result.append(Pack(f"p{number}", rows, rows, seconds, 0.0, Resources(), needed, after, stages))
    return result


def one_round(packs, **options):
    rounds = iter([packs])
    return PackQueue(lambda: next(rounds, []), **options)


def ready(waiting):
    result = []
    while (pack := waiting.next()) is not None:
        result.append(pack)
    return result


def names(packs):
    return " ".join(pack.id for pack in packs)


def trunk_with_branches(random, cost):
    """A trunk of several points, at each of which some pretrainings branch off, and rows from these."""
    graph = []
    trunk = []
    for _ in range(random.integers(2, 12)):
        graph.append((cost(), trunk[-1:]))
        trunk.append(len(graph) - 1)
        for _ in range(random.integers(1, 4)):
            graph.append((cost(), [trunk[-1]]))
            branch = len(graph) - 1
            graph += [(cost() / 3, [branch]) for _ in range(random.integers(1, 8))]
    return graph


def many_rows(random, cost):
    stages = [(cost(), []) for _ in range(random.integers(1, 6))]
    rows = [
        (cost(), sorted({int(s) for s in random.integers(0, len(stages), random.integers(0, 3))})) for _ in range(300)
    ]
    return [*stages, *rows]


SHAPES = {"trunk": trunk_with_branches, "rows": many_rows}


def random_case(number):
    """A shape, a number of workers and packs."""
    random = np.random.default_rng([10, number])
    shape = list(SHAPES)[number % len(SHAPES)]
    costs = [
        lambda: float(random.uniform(0.5, 1.5)),
        lambda: float(random.lognormal(0, 1.5)),
        lambda: float(random.pareto(1.2) + 0.1),
    ]
    return shape, int(random.integers(1, 17)), packs_of(SHAPES[shape](random, costs[number // len(SHAPES) % 3]))


def bound(packs, workers):
    """Seconds that no schedule is faster than: the longest path, and all work shared out evenly."""
    path = {}
    for pack in packs:
        path[pack.id] = pack.seconds + max((path[other] for other in pack.after), default=0.0)
    return max(max(path.values()), sum(pack.seconds for pack in packs) / workers)


def test_the_order_comes_near_to_what_no_order_can_beat():
    ratios = []
    for number in range(200):
        shape, workers, packs = random_case(number)
        total = sum(pack.seconds for pack in packs)
        ratios.append((wall_seconds(packs, workers, total) / bound(packs, workers), shape, workers, number))
    assert min(ratios)[0] >= 1 - 1e-9
    for shape in SHAPES:
        measured = [ratio for ratio, kind, *_ in ratios if kind == shape]
        assert np.median(measured) <= 1.1, shape
        assert max(measured) <= 1.5, max(entry for entry in ratios if entry[1] == shape)


DIAMOND = [(1.0, []), (2.0, [0]), (5.0, [0]), (1.0, [1, 2]), (3.0, [])]


def test_a_pack_begins_when_all_before_it_are_done_and_the_longest_path_first():
    waiting = one_round(packs_of(DIAMOND))
    first, alone = ready(waiting)
    assert names([first, alone]) == "p0 p4"  # 7 seconds with what waits for it, and 3
    waiting.done(first)
    long, short = ready(waiting)
    assert names([long, short]) == "p2 p1"
    waiting.done(long)
    assert ready(waiting) == []
    waiting.done(short)
    assert names(ready(waiting)) == "p3"


def test_larger_trials_come_first_among_equals():
    rows = np.zeros(1, dtype=np.int64)
    needs = [Resources(), Resources(gpus=1), Resources(gpus=8), Resources(cpus=4)]
    packs = [Pack(f"p{number}", rows, rows, 1.0, 0.0, need) for number, need in enumerate(needs)]
    assert names(ready(one_round(packs))) == "p2 p1 p3 p0"


def test_a_lost_pack_is_tried_again_before_others_and_what_needs_it_waits():
    waiting = one_round(packs_of(DIAMOND))
    first = waiting.next()
    assert first is not None
    waiting.hand_back(first, [first])
    again, alone = ready(waiting)
    assert names([again, alone]) == "p0 p4"


def test_what_waits_for_a_failed_stage_begins_and_is_told():
    waiting = one_round(packs_of(DIAMOND))
    first, alone = ready(waiting)
    waiting.done(first, {"s0": "an error"})
    waiting.done(alone)
    later = ready(waiting)
    assert [waiting.errors(pack) for pack in later] == [{"s0": "an error"}] * 2
    assert waiting.errors(alone) == {}


def test_a_pack_whose_stage_somebody_else_computes_lets_others_go_first(monkeypatch):
    elsewhere = {"s0"}
    monkeypatch.setattr("raysweep.plan.pack.LOOK_EVERY", 0.0)
    waiting = one_round(packs_of(DIAMOND), busy=lambda stage: stage in elsewhere)
    first = waiting.next()
    waiting.hold_back(first, "s0")
    alone = waiting.next()
    assert alone.id == "p4"
    assert waiting.next() is None
    waiting.done(alone)
    assert waiting.next() is None
    assert not waiting.running
    monkeypatch.setattr(time, "sleep", lambda seconds: elsewhere.clear())
    assert waiting.wait()
    assert names(ready(waiting)) == "p0"


def test_the_end_comes_when_all_is_done():
    waiting = one_round(packs_of(DIAMOND))
    while packs := ready(waiting):
        for pack in packs:
            waiting.done(pack)
    assert waiting.next() is None
    assert not waiting.wait()
