"""Rows of the workload `language` and the names of their stages, for its tests."""

import numpy as np

from raysweep.plan.row_stages import RowStages
from raysweep.stages import trees
from raysweep.trial import chain
from raysweep.workloads.language import WORKLOAD
from tests.support.spaces import LANGUAGE, STEP
from tests.support.workload_rows import table_of

QUICK = {**LANGUAGE, "pretrain_length": 40.0 * STEP, "finetune_steps": 6, "evaluation_tokens": 512}


def columns_of(*rows, **usual):
    """A table of rows; what a row does not say is as `usual` or by default."""
    return table_of("language", *(usual | dict(row) for row in rows))


def table(*rows):
    """A table of rows that take a fraction of a second each."""
    return columns_of(*rows, **QUICK)


def row(**parameters):
    """One such row, complete."""
    return {name: values[0] for name, values in table(parameters).items()}


def compute(columns, seeds, store):
    """The metrics and the status of rows, through all stages."""
    result = chain.Walk(WORKLOAD, columns, seeds, store, ()).through()
    return result.metrics, result.status


def stages(row, seed):
    """The stages of a row that are in the store, parents first: trunks, and last its pretraining."""
    return RowStages(WORKLOAD, columns_of(row)).of_row(0, seed)


def entropy(grammar):
    """The entropy rate of a language's chain of words, in nats a token; the ends of documents add a little."""
    choice = -(grammar.transition * np.log(np.where(grammar.transition > 0, grammar.transition, 1.0))).sum(1)
    word = -(grammar.within * np.log(grammar.within)).sum(1)
    length = (grammar.within * grammar.length.reshape(len(choice), -1)).sum(1)
    stationary = grammar.stationary()
    return float(stationary @ (choice + word) / (stationary @ length))


def identity(row, seed):
    """The id of a row's pretraining."""
    return stages(row, seed)[-1].id


def pretrained(row, seed, store):
    """A row's pretraining, in the form in which the stage gave it, from the store or computed now."""
    needed = [stage.id for stage in stages(row, seed)]
    chain.Walk(WORKLOAD, columns_of(row), np.array([seed]), store, (), only=needed).through()
    entry = store.fetch(needed[-1])
    return trees.unflatten(entry.tensors(), entry.meta["tree"])


def files(store):
    """The files of a store's stages, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (store / "entries").iterdir()}
