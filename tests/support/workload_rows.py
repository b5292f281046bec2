"""Rows of any workload for tests: defaults filled in, as columns, and computed."""

import importlib
import itertools

import numpy as np

from raysweep import workloads
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import column


def row_of(workload, **given):
    """One row as a stage's function sees it: every parameter, and the seed, 0 if none is given."""
    return {**{p.name: p.default for p in workloads.get(workload).parameters}, "seed": 0, **given}


def table_of(workload, *rows):
    parameters = workloads.get(workload).parameters
    return {p.name: column(p, [p.coerce(row.get(p.name, p.default)) for row in rows]) for p in parameters}


def columns_of(workload, **values):
    """The same from values by name; one that is no list is the same in all rows."""
    size = max(np.size(value) for value in values.values())
    spread = {name: np.broadcast_to(np.asarray(value, object), size) for name, value in values.items()}
    return table_of(workload, *({name: value[place] for name, value in spread.items()} for place in range(size)))


def grid(*sets):
    """The product of sets of parameters, each of which goes through its values together."""
    each = [[dict(zip(one, values, strict=True)) for values in zip(*one.values(), strict=True)] for one in sets]
    return [dict(itertools.chain.from_iterable(part.items() for part in parts)) for parts in itertools.product(*each)]


def solved(workload, table, seeds):
    """Metrics and statuses of rows of a workload that is a function of a table."""
    module, _, function = workloads.get(workload).compute.partition(":")
    metrics, status = getattr(importlib.import_module(module), function)(table, np.asarray(seeds))
    return metrics, [str(word) for word in status]


def computed(workload, storage, rows, seeds):
    """Rows that went through their stages."""
    return compute(workloads.get(workload), table_of(workload, *rows), np.array(list(seeds)), str(storage))
