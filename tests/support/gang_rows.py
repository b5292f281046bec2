"""Gangs without Tune: their workers, and rows for them, told as a trial is."""

import contextlib
from unittest import mock

import numpy as np
from spaces import sandbox_space

from raysweep.executors import gang
from raysweep.executors.gang import Gang
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.pack import Pack
from raysweep.plan.row_stages import RowStages
from raysweep.space import schema
from raysweep.space.resources import Resources
from raysweep.trial.pack import Job

IN_STEP = 4.0  # seconds that workers wait for each other in a step


@contextlib.contextmanager
def impatient_gang(workers):
    """A gang of so many workers that waits for none long, in its own placement group, driven by this process."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group([{"CPU": 2 / workers}] * workers)
    try:
        ray.get(group.ready(), timeout=400)
        made = Gang(Resources(0, 2, workers), group)
        grace = 15.0  # for answers that are under way, on a machine that other tests load
        with mock.patch.multiple(gang, IN_STEP=IN_STEP, GRACE=grace), contextlib.ExitStack() as stack:
            stack.callback(made.end)
            yield made
    finally:
        remove_placement_group(group)


def job(folder, behaviour, again=1):
    """So many rows of the workload `together` that share a sum: as a trial is told, and their stages."""
    axes = {"behaviour": [behaviour], "again": list(range(again))}
    return job_of(folder, sandbox_space(folder, [], workload="together", axes=axes, zip=[]))


def job_of(folder, asked):
    """The rows of a space: as a trial is told, and their stages."""
    space = schema.validate(asked)
    cells = enumerate_cells(space)
    for name in ("ledger", "logs"):
        (folder / name).mkdir()
    places = [str(folder / name) for name in ("ledger", "logs", "store")]
    asked_of_trial = Job(space.workload, cells.columns, cells.ids, *places, "sweep", 1, "code", 1)
    return asked_of_trial, RowStages(space.declaration, cells.columns)


def pack(name):
    """A pack of this name; the rows are told apart from it."""
    return Pack(name, np.array([0]), np.array([0]), 0.0, 0.0, Resources(0, 2, 2))
