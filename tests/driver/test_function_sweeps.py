"""A sweep of a plain function: its rows are what the function returns by hand, however it is given and run."""

import itertools
import math
import shutil
import time

import numpy as np
import pytest
from conftest import QUIET, driving, ok, process, python, refused, until
from functions import edited, quietly

import raysweep

AXES = {"lr": {"geomspace": [1e-4, 1e-1, 7]}, "depth": [1, 2], "optimizer": ["adam", "sgd"]}
SOURCE = """
import math

import beside


def train(lr, depth, optimizer, seed, log=None):
    for step in range(3):
        log(step, loss=lr * step)
    return {"loss": (math.log10(lr) + 2) ** 2 + depth * beside.SHARE + 0.01 * seed, "accuracy": 1 / (1 + lr * depth)}
"""
SPACE = """
name: tried
workload: my_file.py:train
axes: {lr: {geomspace: [1e-4, 1e-1, 7]}, depth: [1, 2], optimizer: [adam, sgd]}
seeds: 5
metrics: {accuracy: maximize}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a space, the file of its function, and a module that this imports."""
    home = tmp_path / "mine"
    home.mkdir()
    (home / "my_file.py").write_text(SOURCE)
    (home / "beside.py").write_text("SHARE = 0.125\n")
    (home / "tried.yaml").write_text(SPACE)
    return home


def train(lr, depth, optimizer, seed, log=None):
    """The function of SOURCE."""
    for step in range(3):
        log(step, loss=lr * step)
    return {"loss": (math.log10(lr) + 2) ** 2 + depth * 0.125 + 0.01 * seed, "accuracy": 1 / (1 + lr * depth)}


def by_hand():
    """The rows of AXES and five seeds as a loop computes them."""
    rates = [1e-4, *(float(f"{rate:.12g}") for rate in np.geomspace(1e-4, 1e-1, 7)[1:-1]), 1e-1]
    rows = itertools.product(rates, [1, 2], ["adam", "sgd"], range(5))
    return [(*row, *train(*row, log=lambda step, loss: None).values()) for row in rows]


def rows_of(table):
    return list(table[["lr", "depth", "optimizer", "seed", "loss", "accuracy"]].itertuples(index=False, name=None))


def test_rows_are_those_of_the_function_called_by_hand(storage):
    sweep = quietly(train, storage, axes=AXES, seeds=5, metrics={"accuracy": "maximize"})
    assert rows_of(sweep.results()) == by_hand()
    assert set(sweep.results()["status"]) == {"ok"}
    curves = sweep.curves()
    assert len(curves) == 140 * 3
    assert (curves["loss"] == curves["lr"] * curves["step"]).all()


@pytest.mark.long
def test_workers_need_no_copy_of_the_source(folder, storage, ray_cluster):
    code = (
        "import shutil, raysweep\n"
        "from raysweep.space import space_files\nfrom raysweep.driver import start_and_resume\n"
        "from raysweep.driver.options import Options\n"
        f"space, given = space_files.read_with_function({str(folder / 'tried.yaml')!r})\n"
        f"shutil.rmtree({str(folder)!r})\n"
        f"start_and_resume.run(space, Options(storage={str(storage)!r}, executor='ray', workers=2, report=False, "
        "tracking_uri='none'), given)"
    )
    ok(python(code, env={"RAY_ADDRESS": ray_cluster}))
    assert rows_of(raysweep.open("tried", storage).results()) == by_hand()


def test_what_only_reads_a_sweep_never_imports_the_file(folder, storage, call):
    ok(call("run", folder / "tried.yaml", "--storage", storage, *QUIET))
    (folder / "my_file.py").write_text("raise SystemExit('imported')")
    for what in (["results"], ["report"], ["status"], ["resume", *QUIET]):
        done = ok(call(what[0], "tried", "--storage", storage, *what[1:]))
        assert "imported" not in done.out + done.err
    assert "tried" in call("list", "--storage", storage).out
    ok(call("sync", "tried", "--storage", storage, "--tracking-uri", f"sqlite:///{storage / 'mlflow.db'}"))
    ok(call("delete", "tried", "--storage", storage, "--yes"))


def killed(folder, storage):
    """Run the space until some rows are there, and kill that."""
    slow = SOURCE.replace("    return", "    import time\n    time.sleep(0.02)\n    return")
    (folder / "my_file.py").write_text(slow)
    with driving("run", folder / "tried.yaml", "--storage", storage, *QUIET) as running:
        until(lambda: len(list((storage / "tried" / "ledger").glob("*.jsonl"))) > 2, running)
    assert 0 < len(raysweep.open("tried", storage).results()) < 140


def test_a_killed_sweep_is_resumed_from_the_file_of_its_own_run(folder, storage):
    killed(folder, storage)
    ok(process("resume", "tried", "--storage", storage, *QUIET, cwd=storage))
    assert rows_of(raysweep.open("tried", storage).results()) == by_hand()


@pytest.mark.long
def test_a_storage_never_says_which_file_is_run(folder, storage, tmp_path, own_notes):
    killed(folder, storage)
    shutil.rmtree(own_notes)  # somebody else's storage: there was no run here
    for where in (folder, tmp_path):
        refused(process("resume", "tried", "--storage", storage, *QUIET, cwd=where), "--workload: ")
    other = process("resume", "tried", "--storage", storage, "--workload", "my_file.py:test", *QUIET, cwd=folder)
    refused(other, "--workload: expected the function train")
    ok(process("resume", "tried", "--storage", storage, "--workload", "my_file.py:train", *QUIET, cwd=folder))
    assert rows_of(raysweep.open("tried", storage).results()) == by_hand()


def test_a_changed_source_is_not_resumed_and_not_debugged(folder, storage, call):
    killed(folder, storage)
    trace = folder / "trace"
    (folder / "my_file.py").write_text(f"open({str(trace)!r}, 'w')\n" + SOURCE)
    (folder / "beside.py").write_text("SHARE = 0.25\n")  # which the function names
    cell = raysweep.open("tried", storage).cells.ids[0]
    for what in (["resume", "tried", *QUIET], ["debug", "tried", cell]):
        for named in ([], ["--workload", folder / "my_file.py:train"]):
            refused(call(*what, "--storage", storage, *named), "", "changed")
    assert not trace.exists()
    again = ok(process("run", folder / "tried.yaml", "--storage", storage, *QUIET))
    assert trace.exists()
    assert "the code of train changed" in again.err
    assert len(raysweep.open("tried", storage).results()) == 140


def test_a_function_that_was_given_in_python_goes_on_by_the_same_call(storage):
    calls = []

    def stopping(x, seed):
        calls.append(x)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return x / 4

    with pytest.raises(KeyboardInterrupt):
        quietly(stopping, storage, axes={"x": [1, 2, 3, 4]})
    with pytest.raises(raysweep.InputError, match="raysweep.run"):
        raysweep.resume("stopping", storage=storage)
    assert list(quietly(stopping, storage, axes={"x": [1, 2, 3, 4]}).results()["value"]) == [0.25, 0.5, 0.75, 1]


def test_a_vectorized_function_gets_columns(storage):
    sizes = []

    def columns(x, kind, seeds):
        sizes.append(len(x))
        return {"loss": x + (kind == "b") + 10 * seeds, "x2": x**2}

    axes = {"x": np.linspace(0, 1, 11), "kind": ["a", "b"]}
    table = quietly(columns, storage, axes=axes, seeds=50, vectorized=True).results()
    assert (table["loss"] == table["x"] + (table["kind"] == "b") + 10 * table["seed"]).all()
    assert len(table) == sum(sizes) == 1100
    assert len(sizes) < 20


def test_types_come_from_annotations_defaults_and_values(storage):
    seen = []

    def typed(whole, real, fast, word, seed, given: float = 1, callback=None, maybe: int | None = None):
        seen.append((whole, real, fast, word, given, callback, maybe))
        return 0.0

    axes = {"whole": [1], "real": [1, 2.5], "fast": [True, False], "word": ["a"]}
    table = quietly(typed, storage, axes=axes, fixed={"maybe": 3}).results()
    assert set(seen) == {(1, real, fast, "a", 1.0, None, 3) for real in (1.0, 2.5) for fast in (True, False)}
    assert {tuple(map(type, row)) for row in seen} == {(int, float, bool, str, float, type(None), int)}
    assert ("callback" in table, table["fast"].dtype) == (False, bool)
    # more values extend it, also by numbers that are not whole, and nothing is computed again
    before = len(seen)
    quietly(typed, storage, axes={**axes, "whole": [1, 1.5]}, fixed={"maybe": 3})
    assert {row[0] for row in seen[before:]} == {1.5}


def test_another_version_has_its_own_rows(storage):
    messages = []
    assert quietly(edited("return 1.0 * x"), storage, axes={"x": [1, 2]}).results()["value"].tolist() == [1, 2]
    changed = quietly(edited("return 10 * x"), storage, axes={"x": [1, 2]}, say=messages.append)
    assert changed.results()["value"].tolist() == [1, 2]
    assert any("code of train changed" in line for line in messages)
    assert list(quietly(edited("return 10 * x"), storage, axes={"x": [1, 2]}, version=2).results()["value"]) == [10, 20]
    with pytest.raises(raysweep.InputError, match=r"^workload: the sweep train exists with train of the arguments x;"):
        quietly(train, storage, axes={"lr": [1], "depth": [1], "optimizer": ["adam"]}, version=2)


def test_packs_are_sized_by_what_the_first_rows_took(storage):
    def resting(x, seed):
        time.sleep(0.1)
        return 0.0

    messages = []
    sweep = quietly(resting, storage, axes={"x": list(range(12))}, seeds=2, executor="inline", say=messages.append)
    assert any("not known yet" in line for line in messages)
    packs = {row["pack"] for row in sweep.rows().values()}
    assert 4 < len(packs) < 14  # of half a second and more, beside the first two rows


def test_a_dry_run_says_that_the_cost_is_not_known_and_calls_nothing(folder, storage, call):
    (folder / "my_file.py").write_text(SOURCE.replace("    return", "    raise SystemExit('called')\n    return"))
    done = ok(call("run", folder / "tried.yaml", "--storage", storage, "--dry-run"))
    assert "140 rows" in done.out
    assert "not known" in done.out
    assert "estimated" not in done.out
    assert not storage.exists()


def test_a_function_of_a_closure_runs_on_ray_and_what_cannot_be_sent_is_said(storage, ray_cluster):
    import threading

    def made(factor):
        def inner(x, seed):
            return factor * x

        return inner

    table = quietly(made(0.25), storage, axes={"x": [1, 2, 3, 4]}, executor="ray", workers=2).results()
    assert table["value"].tolist() == [0.25, 0.5, 0.75, 1.0]
    lock = threading.Lock()

    def locked(x, seed):
        with lock:
            return 0.0

    with pytest.raises(raysweep.InputError, match="^workload: locked cannot be sent"):
        quietly(locked, storage, axes={"x": [1, 2, 3, 4]}, executor="ray", workers=2)
    assert not (storage / "locked").exists()
