"""On Ray a sweep gives the rows it gives in one process, whatever becomes of a worker."""

import functools
from pathlib import Path

import pytest
from conftest import assert_same_rows, files_of, rows, until
from conftest import run as run_anywhere
from spaces import language_space, sandbox_space, small_space, written

from raysweep.errors import Halted, InputError
from raysweep.query.sweep import open_sweep

run = functools.partial(run_anywhere, executor="ray")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_rows_are_the_same_on_any_number_of_workers(workers, ray_cluster, sandbox, storage):
    space = small_space(
        workload="apart",  # several packs for each worker
        axes={"overlap_angle": [30, 60], "gamma": [0.3, 0.9, 1.0, 1.5], "dim": [20, 100]},
        fixed={"noise": 0.2},
        seeds=8,
    )
    sweep = run(storage, space, workers=workers)
    assert len(list((sweep.folder / "ledger").iterdir())) >= 3 * workers
    assert_same_rows(rows(sweep), rows(run(storage / "inline", space, executor="inline")))
    assert sorted(path.name for path in sweep.folder.iterdir()) == ["driver.lock", "ledger", "logs", "sweep.json"]
    recorded = files_of(sweep.folder / "ledger")
    run(storage, {**space, "seeds": 9}, workers=workers)
    extended = files_of(sweep.folder / "ledger")
    assert {name: extended[name] for name in recorded} == recorded
    assert len(open_sweep("small", storage).results()) == 16 * 9


def test_a_worker_killed_in_mid_pack_costs_no_row(ray_cluster, sandbox, storage, tmp_path):
    table = run(storage, sandbox_space(tmp_path, ["compute", "die_once", "compute", "die_once"])).results()
    assert table["status"].tolist() == ["ok"] * 4
    assert table["y"].tolist() == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("die_once-*"))) == 2  # both did die


def test_a_cluster_that_cannot_hold_a_trial_says_so(ray_cluster, storage):
    import ray

    with pytest.raises(InputError, match="^resources.gpus_per_trial: .* 1 GPU"):
        run(storage, small_space(resources={"gpus_per_trial": 1}))
    with pytest.raises(InputError, match="^resources.cpus_per_trial: .* 3 CPU"):
        run(storage, small_space(name="other", resources={"cpus_per_trial": 3}))
    assert ray.is_initialized()  # a Ray that was there before stays


@pytest.mark.long
def test_a_halt_on_ray_waits_for_no_trial_that_still_runs(ray_cluster, sandbox, storage, tmp_path):
    space = sandbox_space(tmp_path, ["compute", "halt", "wait"])
    written(tmp_path, space)
    with pytest.raises(Halted, match="^fixed.folder: .*; 1 row is kept; .* raysweep resume sandy"):
        run(storage, space, workers=2)
    (waiting,) = tmp_path.glob("wait-*")
    until(lambda: not Path(f"/proc/{waiting.read_text()}").exists())
    assert open_sweep("sandy", storage).results()["y"].tolist() == [0]  # and no row that gave up waiting
    (tmp_path / "mended").touch()
    (tmp_path / "go").touch()
    run(storage, space, executor="inline")
    assert open_sweep("sandy", storage).results()["y"].tolist() == [0, 1, 2]


@pytest.mark.long
def test_a_relative_path_is_found_from_where_the_command_was_given(ray_cluster, storage, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("\n\n".join(f"line {n} of a text to be read" for n in range(400)))
    monkeypatch.chdir(tmp_path)
    text = "file:text.txt"
    sweep = run(storage, language_space({"finetune_lr": [1e-3]}, {"source": text, "target": text}, seeds=1))
    assert sweep.results()["status"].tolist() == ["ok"] * 2
