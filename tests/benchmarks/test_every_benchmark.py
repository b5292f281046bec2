"""Every benchmark runs at a tiny size in this process, so that none breaks unseen. What it measures means nothing."""

import contextlib
import io
import json
import runpy
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import TESTS

from benchmarks import boundaries, coverage, held_out_lines, laws, real_rows, shared_stages, size, stages
from benchmarks.search.pools import Question
from raysweep import sweep, workloads
from raysweep.executors import ray_tune
from raysweep.main import cli

BENCHMARKS = TESTS.parent / "benchmarks"
SCRIPTS = {"empty_ray_job", "one_trial_per_cell"}  # need Ray from their first line on
OTHERS = {"language": "language.rows()", "vision": "vision.rows()"}  # run by the tests of their own files
SIZES = {
    "best_cells": {"ALL_SHAPES": ("knee", "noise alone"), "SIZES": ((6, 7),), "NOISES": ("normal",), "SHARES": (0.3,)},
    "boundaries": {"DRAWS": (4,), "POINTS": (8,), "KINDS": ("independent",), "REPEATS": 1, "HELD_OUT_REPEATS": 1}
    | {"AT_ONCE": 2, "SLICES": 2},
    "checkpoints": {"STEPS": 3, "ROUNDS": 1, "LENGTH": 16, "BATCH": 2}
    | {"SHAPE": {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}},
    "covariance": {"DIM": 20, "DRAWS": 1, "ROUNDS": 1},
    "edges": {"BESIDE": 2, "LEVEL": 2},
    "factorizations": {"DIM": 20, "DRAWS": 1},
    "forecasts": {"CURVES": (1,)},
    "held_out_lines": {"DRAWS": (4,), "POINTS": (8,), "SIZES": (0.02,)},
    "single_runs": {"SIZES": ((6, 7),), "NOISES": ("normal",), "GRIDS": ((4, 8),), "NOISE_SIZES": (0.05,)},
    "single_effects": {"NOISES": ("normal",), "GRIDS": ((4, 8),), "NOISE_SIZES": (0.05,), "SHAPES": {"knee": abs}},
    "stages": {"RATES": 2, "MEGABYTES": 1, "ROUNDS": 1},
    "steps": {"DRAWS": (3,), "POINTS": (9,), "SIZES": (0.02,)},
    "stopping": {"NOISES": ("smooth",), "DRAWS": (4,)},
    "store_speed": {"ROUNDS": 1},
    "surfaces": {"SIZES": ((6, 7),), "DRAWS": (1,), "NOISES": ("normal",), "SHARES": (0.1,), "PARTS": (0.5,)},
    "symmetric": {"SPACES": ("depth_scale",), "MOST_CELLS": 2},
    "turns": {"STRAIGHT_CYCLES": 1, "STRAIGHT_CYCLE": 1, "CYCLE": 11},
}
TINY = {
    "workload": "language",
    "axes": {"pretrain_length": [1024, 2048], "finetune_lr": [1e-3, 2e-3]},
    "fixed": {"preset": "tiny", "finetune_steps": 1, "evaluation_tokens": 1024},
}


def in_this_process(command, **options):
    """What `subprocess.run` does with a command of a benchmark: its code runs here, a command line is parsed alone."""
    arguments, printed = command[1:], io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        if arguments[0] == "-c" and "raysweep.main" not in arguments[1]:
            patch.setattr(sys, "argv", ["-c", *arguments[2:]])
            exec(compile(arguments[1], "a benchmark", "exec"), {"__name__": "__main__"})
        elif arguments[:2] == ["-m", "benchmarks.stages"]:
            print(json.dumps(getattr(import_module("benchmarks.stages"), arguments[2])(*arguments[3:])))
        else:
            if "run" in arguments:
                cli.commands["run"].make_context("run", arguments[arguments.index("run") + 1 :])
            print(1.0)
    return subprocess.CompletedProcess(command, 0, printed.getvalue(), "")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """All benchmarks are small, and sweeps run in this process, without Ray and MLflow."""
    run = sweep.run

    def small(space, **options):
        one_draw = {"seeds": 1} if space == "covariance" else {}
        return run(space, **{**options, **one_draw, "executor": "inline", "tracking_uri": "none"})

    monkeypatch.setattr(sweep, "run", small)
    monkeypatch.setattr(ray_tune, "connect", lambda workers, needs, say: None)
    monkeypatch.setitem(workloads.BUILT_IN, "empty", "benchmarks.empty")
    monkeypatch.setattr(subprocess, "run", in_this_process)
    monkeypatch.chdir(tmp_path)
    for name, constants in SIZES.items():
        for constant, value in constants.items():
            monkeypatch.setattr(f"benchmarks.{name}.{constant}", value)


def asked(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, arguments)])


def first(patch, module, *names):
    """Of these dictionaries and tuples of a benchmark keep the first entry."""
    for name in names:
        entries = getattr(import_module(f"benchmarks.{module}"), name)
        few = dict(islice(entries.items(), 1)) if isinstance(entries, dict) else entries[:1]
        patch.setattr(f"benchmarks.{module}.{name}", few)


def printed(patch, module, *arguments):
    asked(patch, *arguments)
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        import_module(f"benchmarks.{module}").main()
    return stream.getvalue()


def called(module, function, *arguments):
    return getattr(import_module(f"benchmarks.{module}"), function)(*arguments)


def run_main(patch, folder):
    for name in ("covariance", "stages", "shared_stages", "language", "vision"):
        patch.setattr(f"benchmarks.{name}.rows", lambda: [("what", "measured", "bound")])
    main = import_module("benchmarks.__main__")
    for name, value in {"CELLS": 2, "PACKED_CELLS": 3, "DIM": 8, "STEPS": 2}.items():
        patch.setattr(main, name, value)
    per_row, of_function = main.per_row, main.of_function
    patch.setattr(main, "per_row", lambda mirrored, rows: per_row(mirrored, 10))
    patch.setattr(main, "of_function", lambda rows: of_function(10))
    written(patch, folder, main.main, "report of `quickstart`", "bench")


def written(patch, folder, main, line, target, *arguments):
    """Have a benchmark put its table into a copy of docs/speed.md: a line of it is new, and nothing else is."""
    page, before = folder / "speed.md", (TESTS.parent / "docs" / "speed.md").read_text()
    page.write_text(before)
    asked(patch, *arguments, "--write", page)
    main()
    begin, end = f"<!-- Written by make {target}: -->", f"<!-- Up to here: make {target}. -->"
    head, tail = before.partition(begin)[0], before.partition(end)[2]
    assert page.read_text().startswith(head + begin)
    assert page.read_text().endswith(end + tail)
    assert line in page.read_text()[len(head) : -len(tail)]


def run_boundaries(patch, folder):
    boundaries.main(boundaries.lines, ["straight"], ["1"])
    patch.setattr(boundaries, "BEFORE", folder / "before.csv")
    boundaries.main(boundaries.lines, ["straight"], ["before", "1"])


def run_checkpoints(patch, folder):
    """Both ways of training take the same steps."""
    from benchmarks import checkpoints

    assert len(checkpoints.rows()) == 1
    ours, theirs = (run(checkpoints.tokens())[1].state_dict() for run in (checkpoints.ours, checkpoints.theirs))
    start = checkpoints.model().state_dict()
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-6)
        assert (weight - start[name]).abs().max() > 1e-5


def run_coverage(patch, folder):
    from benchmarks import real_fits, real_slopes, turns

    def groups(named, curves):
        """The first group of three seeds, or of five, of the first curves of the sets that are named."""
        each = (one for one in every() if one["set"] in named and one["curve"] < curves and one["group"] == 0)
        return [one for one in each if one["seeds"] in (3, 5)]

    every = real_fits.groups
    patch.setattr(real_fits, "groups", lambda: groups(real_fits.SETS, 1))
    patch.setattr(real_slopes, "groups", lambda: groups({real_slopes.RATES}, 8)[:8])
    patch.setattr(coverage, "REGIMES", 1)
    steep = ("steep step", "kink at the zero, 2 times as steep")
    for lines, names in ((boundaries, steep), (held_out_lines, ("Gompertz",))):
        patch.setattr(lines, "CURVES", {name: lines.CURVES[name] for name in names})
    patch.setattr(coverage, "HELD_OUT", (held_out_lines.lines, list(held_out_lines.CURVES)))
    first(patch, "regimes", "SLOPES", "FORMS")
    for name, collection in turns.COLLECTIONS.items():
        few = {kind: dict(islice(getattr(collection, kind).items(), 1)) for kind in ("turning", "straight")}
        patch.setitem(turns.COLLECTIONS, name, replace(collection, **few))
    asked(patch, folder, "--passes", 1)
    coverage.main()


def run_real_rows(patch, folder):
    angles, gamma = {"linspace": [4.5, 90, 9]}, {"linspace": [0.1, 0.5, 2]}
    changes = {"axes": {"overlap_angle": angles, "gamma": gamma}, "fixed": {"symmetric": False, "dim": 20}, "seeds": 5}
    zeros = "linear networks: zeros"
    patch.setattr(real_rows, "SWEEPS", {"real_zeros": (real_rows.SWEEPS["real_zeros"][0], changes)})
    patch.setattr(real_rows, "SETS", {zeros: replace(real_rows.SETS[zeros], groups=(2,))})
    patch.setattr("raysweep.run", sweep.run)
    real_rows.run(folder)
    real_rows.pack(folder, folder / "rows.npz")
    assert (folder / "rows.npz").exists()


def run_forecasts(patch, folder):
    """A curve of a form of the average and one of another."""
    first(patch, "forecasts", "OWN", "OTHERS")
    assert "hyperbola" in called("forecasts", "report", 1)


def run_single_runs(patch, folder):
    """A grid of each family."""
    report = called("single_runs", "report", 1)
    assert "asymmetric" in report
    assert "linear networks: zeros" in report


def run_symmetric(patch, folder):
    for more in ((), ("--relu",)):
        assert printed(patch, "symmetric", "--draws", 2, *more)


def run_search(patch, folder):
    from test_search_benchmark import SPACE

    search = import_module("benchmarks.search.__main__")
    patch.setattr(search, "questions", lambda: {"tiny": Question("tiny", SPACE, draws=6, finer=2)})
    patch.setattr("raysweep.run", sweep.run)
    asked(patch, folder, "--replications", 1, "--searches", "ours", "grid", "--write", folder / "search.md")
    (folder / "search.md").write_text("")
    search.main()
    assert "### tiny" in (folder / "search.md").read_text()


def run_shared_stages(patch, folder):
    assert shared_stages.counted({**TINY, "name": "tiny"}, str(folder)) == {"rows": 4, "distinct": 2, "computed": 2}
    assert len(shared_stages.spaces()) == 3


def run_stages(patch, folder):
    patch.setattr(stages, "SPACE", {**TINY, "name": "stages"})
    patch.setattr(stages, "SHORT", {**TINY, "name": "short"})
    threads = torch.get_num_threads()
    assert stages.rows()[0][1:] == ("2", "as many as are distinct = 2")
    torch.set_num_threads(threads)


def run_laws(monkeypatch, folder):
    """A law and a pair, with a table like that of Step Law."""
    settings = [(n, d * n) for n in (1e8, 2e8, 4e8, 8e8) for d in (10, 80)]
    runs = [(lr, bs, n, d) for n, d in settings for lr in np.geomspace(2e-4, 2e-2, 8) for bs in (64, 128, 256)]
    lr, bs, n, d = np.array(runs).T
    loss = 0.03 * np.log(lr / (1.79 * n**-0.7 * d**0.3)) ** 2 + 0.01 * np.log(bs / 128) ** 2
    loss += 0.002 * np.random.default_rng(1).standard_normal(len(loss))
    table = pd.DataFrame({"lr": lr, "bs": bs, "N": n, "D": d, "smooth loss": loss})
    table.to_csv(folder / "dense.csv", index=False)
    monkeypatch.setattr(laws, "STEPLAW", folder / "dense.csv")
    first(monkeypatch, "laws", "SHAPES", "SETS", "NOISES", "DRAWS")
    first(monkeypatch, "pairs", "PAIRS", "OPEN_PAIRS")
    first(monkeypatch, "regimes", "FORMS", "SLOPES")
    assert "8 of 8" in laws.report(1)


RUNS = {
    "__main__": run_main,
    "best_cells": lambda patch, folder: called("best_cells", "report", 3),
    "boundaries": run_boundaries,
    "checkpoints": run_checkpoints,
    "coverage": run_coverage,  # with turns, edges, regimes, real_fits, real_slopes and steps
    "covariance": lambda patch, folder: called("covariance", "rows"),
    "factorizations": lambda patch, folder: [
        called("factorizations", f"{name}_seconds") for name in ("floor", "limit")
    ],
    "forecasts": run_forecasts,
    "held_out_lines": lambda patch, folder: held_out_lines.main(held_out_lines.lines, ["Gompertz"], ["1"]),
    "laws": run_laws,
    "real_rows": run_real_rows,
    "search/__main__": run_search,
    "shared_stages": run_shared_stages,
    "single_effects": lambda patch, folder: called("single_effects", "report", 1),
    "single_runs": run_single_runs,
    "size": lambda patch, folder: written(patch, folder, size.main, "| 20 | ", "bench-size", 20),
    "stages": run_stages,  # with store_speed
    "stopping": lambda patch, folder: printed(patch, "stopping", 1),
    "surfaces": lambda patch, folder: printed(patch, "surfaces", 1),
    "symmetric": run_symmetric,
}
QUICK = {"__main__", "boundaries", "covariance", "factorizations", "held_out_lines", "shared_stages"}
WITHIN = {"turns", "regimes", "real_fits", "real_slopes", "store_speed"}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in RUNS]
)
def test_a_benchmark_runs_at_a_tiny_size(name, tiny, tmp_path, monkeypatch):
    RUNS[name](monkeypatch, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_benchmark_of_ray_itself_runs(name, ray_cluster, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "init", lambda **options: None)  # it is up
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    asked(monkeypatch, 2, 4, 1)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    for number, handler in handlers.items():  # Tune leaves its own
        signal.signal(number, handler)


def test_no_benchmark_is_left_out():
    paths = {path.relative_to(BENCHMARKS).with_suffix("") for path in BENCHMARKS.rglob("*.py")}
    can_run = {str(path) for path in paths if 'if __name__ == "__main__"' in (BENCHMARKS / f"{path}.py").read_text()}
    assert can_run | SCRIPTS == {*RUNS, *WITHIN, *SCRIPTS, *OTHERS}
    for call in OTHERS.values():
        assert call in Path(__file__).with_name("test_training_benchmarks.py").read_text()
