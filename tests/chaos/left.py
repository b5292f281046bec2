"""What sweeps leave behind in ledger, store and MLflow, and how disturbed ones differ from undisturbed ones."""

import contextlib
import json
import math
import sqlite3
from collections import Counter
from contextlib import closing

import raysweep
from raysweep.commands import store as store_commands
from raysweep.stages import checkpoints, references
from raysweep.storage import leases
from raysweep.storage.sealed import Damaged
from tests.chaos import stages

ELSEWHERE = "gone"
"""The host in the leases that a fault makes."""


def _enter(things, *key, value=True):
    """One more thing, even where there is one. things: {(kind, what tells it apart, how often it was there): value}."""
    number = 0
    while (*key, number) in things:
        number += 1
    things[(*key, number)] = value


def of_sweep(name, storage, database):
    """Rows, points of learning curves, and in MLflow's database, read without MLflow, runs and their metrics."""
    things = {}
    sweep = raysweep.open(name, storage)
    for row in sweep.results().drop(columns=["sweep", "seconds"]).to_dict("records"):
        _enter(things, "row", name, row["cell"], row["seed"], value=row)
    for point in sweep.curves().to_dict("records"):
        _enter(things, "point", point["stage"], point["seed"], *map(str, point.values()))
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=60)) as db:
        runs = db.execute(
            "SELECT r.run_uuid, r.status, r.lifecycle_stage FROM runs r JOIN tags t ON "
            "t.run_uuid = r.run_uuid AND t.key = 'raysweep.sweep_id' AND t.value = ?",
            (sweep.record.sweep_id,),
        ).fetchall()
        for run, status, stage in runs:
            tags = dict(db.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)))
            if status == "RUNNING":
                _enter(things, "orphan", run)
            elif stage == "active" and tags.get("raysweep.kind") == "sweep":
                _enter(things, "parent", name, status)
            elif stage == "active" and (cell := tags.get("raysweep.cell")) and status in ("FINISHED", "FAILED"):
                _enter(things, "run", name, cell)
                for metric in db.execute("SELECT key, step, value FROM metrics WHERE run_uuid = ?", (run,)):
                    if metric[0] != "seconds":
                        _enter(things, "metric", metric[0], name, cell, metric[1], value=metric[2])
            elif stage == "active":
                _enter(things, "orphan", run)
    return things


def of_store(store, marks, damaged):
    """Stages, references, leases, and what marks say of stages that began. The first look sets aside what faults have
    damaged and nobody has needed since; then all must be well."""
    things = {}
    lines, _ = store_commands.verify(store)
    for line in lines:
        if "set aside" in line and line.split(":")[0] not in damaged:
            _enter(things, "damage", line)
    if not store_commands.verify(store)[1]:
        _enter(things, "damage", "which was not set aside")
    for stage in store.stages():
        if record := store.look(stage):
            _enter(things, "stage", stage, value=_called(record))
    for sweep in store.files.names("refs"):
        for stage in references.referred(store, sweep):
            things["reference", sweep.rpartition("-")[0], stage] = True
    for stage in leases.live(store.files):
        if (lease := leases.latest(store.files, stage)) is not None and ELSEWHERE not in lease.holder:
            _enter(things, "lease", stage)
    for event, called, *_ in stages.read(marks):
        if event in ("begin", "twice"):
            things[event, called] = True
    return things


def _called(record):
    """What a stage of the store is called in the marks."""
    told = record["describe"]
    return stages.key(told["stage"], told["parameters"], told["seed"], told.get("point"))


def mark_what_is_whole(store, marks):
    """From now on nobody may begin the stages that are whole."""
    last = {called: event for event, called, *_ in stages.read(marks)}
    for stage in store.stages():
        with contextlib.suppress(Damaged):
            record = checkpoints.read(store.files, f"entries/{stage}.json", stage) and store.look(stage)
            if record and last.get(_called(record)) != "whole":
                stages.mark(marks, "whole", _called(record))


def differences(found, expected, tolerance, damaged):
    """How the one differs from the other; nothing if all is well.
    damaged: stages, which need not be there, nor their learning curves, neither here nor in MLflow's means."""
    called = [json.loads(value)[:2] for key, value in expected.items() if key[0] == "stage" and key[1] in damaged]
    lost = [key for key in expected if key not in found and not (key[0] == "stage" and key[1] in damaged)]
    without = [key for key in lost if key[0] == "point" and [*key[1:3]] in called]

    def counts(key):
        return key not in without and not (without and key[0] == "metric" and "/" in key[1])

    result = Counter(f"{key[0]} lost" for key in lost if counts(key))
    result.update(f"{key[0]} doubled or strange" for key in found if key not in expected and counts(key))
    for key in found:
        if key in expected and counts(key):
            near = max(tolerance, 1e-12) if key[0] == "metric" else tolerance
            result[f"{key[0]} changed"] += not _same(found[key], expected[key], near)
    return +result


def _same(one, other, tolerance):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name], tolerance) for name in one)
    if isinstance(one, float):
        near = math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance * 1e-4)
        return near or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
