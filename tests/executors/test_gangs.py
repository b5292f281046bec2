"""A trial of several workers gives the rows of one, whatever becomes of a worker and wherever the workers are; what a
trial takes may depend on the cell, and what can never fit is refused."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import QUIET, Outcome, assert_same_rows, command, rows, until
from conftest import run as run_anywhere
from spaces import sandbox_space, small_space, written

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.executors import machines
from raysweep.executors.machines import Machines
from raysweep.ledger import segments
from raysweep.plan.cells import Cells, enumerate_cells
from raysweep.plan.resources import Resources, resolve
from raysweep.space import schema
from raysweep.stages.store import Store
from raysweep.sweep import Sweep, open_sweep
from tests.chaos.waiting import PATIENCE

run = functools.partial(run_anywhere, executor="ray")
GRID = {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 1.0], "depth": [2, 3]}


def but_for_time(sweep: Sweep) -> Any:
    return sweep.results().drop(columns=["seconds"])


def gang_space(workload: str, folder: Path, behaviour: list[str], **changes: Any) -> dict[str, Any]:
    return sandbox_space(folder, behaviour, workload=workload, **{"resources": {"gang": 2}, **changes})


@pytest.fixture
def deadline() -> Iterator[None]:
    """A sweep that waits for ever fails its test instead."""

    def late(number: int, frame: Any) -> None:
        raise TimeoutError("the sweep does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(1200)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_twenty_gangs_of_two_on_two_cores_end_with_the_rows_of_one_worker(
    ray_cluster: str, sandbox: Path, storage: Path, tmp_path: Path, call: Callable[..., Outcome], deadline: None
) -> None:
    asked = small_space(workload="apart", axes=GRID, seeds=20, resources={"gang": 2})
    outcome = call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--executor", "ray")
    assert outcome.code == 0, outcome.err
    found = open_sweep("small", storage)
    packs = list((found.folder / "ledger").glob("*.jsonl"))
    assert len(packs) == 20
    for number in (0, 1):  # each worker of each trial did its part, and said so in a log of its own
        assert len(list((found.folder / "logs").glob(f"*.log.worker{number}"))) == len(packs)
    expected = but_for_time(run(storage / "inline", asked, executor="inline"))
    assert but_for_time(found).equals(expected)  # to the last digit: rows that share their data are not parted


def test_a_worker_of_a_gang_killed_in_mid_pack_costs_no_row(
    ray_cluster: str, sandbox: Path, storage: Path, tmp_path: Path, deadline: None
) -> None:
    table = run(storage, gang_space("sandbox", tmp_path, ["compute", "die_once"])).results()
    assert table["status"].tolist() == ["ok"] * 2
    assert table["y"].tolist() == [0, 1]
    assert list(tmp_path.glob("die_once-*"))


def test_workers_that_train_together_give_the_rows_of_one_and_go_on_where_dead_ones_stopped(
    ray_cluster: str, sandbox: Path, storage: Path, tmp_path: Path, deadline: None
) -> None:
    sweep = run(storage, gang_space("together", tmp_path, ["compute", "die_twice", "raise"], seeds=[1]))
    table = sweep.results()
    assert table["status"].tolist() == ["ok", "ok", "failed"]
    assert table["y"].tolist()[:2] == [4 * 78 * (x + 1) for x in (0, 1)]
    assert table["workers"].tolist()[:2] == [2, 2]
    error = sweep.failures()[0]["error"]  # what the second worker raised; the first one, waiting for it, did not hang
    assert "worker 1 of 2" in error
    assert "ArithmeticError: x = 2 cannot be computed" in error
    assert (tmp_path / "die_twice-1-1.death1").exists()  # each worker once, after two steps were saved: no fault of
    assert (tmp_path / "die_twice-1-1.steps").read_text().split() == ["1", "2", "3", "4"]  # the row, and taken up there


def test_a_gang_computes_what_its_packs_share_before_them_and_once(
    ray_cluster: str, sandbox: Path, storage: Path, tmp_path: Path, deadline: None
) -> None:
    fixed = {"folder": str(tmp_path), "said_seconds": 200, "tell_seconds": 200}
    axes = {"again": [1, 2, 3]}
    sweep = run(storage, gang_space("together", tmp_path, ["compute"], axes=axes, fixed=fixed, zip=[], seeds=[1]))
    assert sweep.results()["y"].tolist() == [4 * 78] * 3
    logs = [path.read_text() for path in (sweep.folder / "logs").glob("*.log.worker1")]
    assert sorted(text.split(" of ")[1].split(" on ")[0] for text in logs) == ["1 row"] * 3 + ["1 stage"]
    assert (tmp_path / "compute-0-1.steps").read_text().split() == ["1", "2", "3", "4"]


def test_workers_meet_at_the_address_of_their_machine_and_no_other(
    ray_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raysweep.executors.gang_worker import Worker

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as a worker without a GPU sets it, in this process for once
    first = Worker(0, Resources(0, 2, 2), patience=60, in_step=60)
    here, port = first.invite()
    socket.create_connection((here, port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)


@pytest.mark.slow
def test_a_language_model_trained_by_two_workers_gives_the_rows_of_one(
    ray_cluster: str, storage: Path, deadline: None
) -> None:
    """Stated tolerance, float32, as in tests/training/test_parallel.py: 2e-3 nats (measured: 1.3e-4)."""
    asked = {
        "name": "tiny",
        "workload": "language",
        "resources": {"gang": 2},
        "axes": {"pretrain_length": [8192, 16384], "finetune_lr": [1e-3, 3e-3]},
        "fixed": {
            "depth": 1,
            "width": 32,
            "context": 64,
            "pretrain_batch": 8,
            "pretrain_schedule": "wsd",
            "pretrain_warmup": 4,
            "finetune_steps": 6,
            "finetune_batch": 5,
            "evaluation_tokens": 2048,
        },
    }
    one = run(storage / "one", asked, executor="inline").results()
    two = run(storage / "two", asked).results()
    for name in ("pretrain_loss", "pretrain_loss_after", "sensitivity", "finetune_loss", "finetune_loss_before"):
        np.testing.assert_allclose(two[name], one[name], atol=2e-3, rtol=0, err_msg=name)
        assert len(set(one[name])) >= 2
    assert two["status"].tolist() == one["status"].tolist() == ["ok"] * 4
    stages = [Store(folder / "store").stages() for folder in (storage / "one", storage / "two")]
    assert stages[0] == stages[1]
    assert len(stages[0]) >= 3  # a trunk that both lengths share, and what branches off


def test_resources_that_depend_on_the_cell(ray_cluster: str, sandbox: Path, storage: Path, deadline: None) -> None:
    asked = small_space(workload="apart", axes=GRID, seeds=6, resources={"where": [{"depth": 3, "gang": 2}]})
    found = run(storage, asked)
    depths = {cell: found.cells.parameters(index)["depth"] for index, cell in enumerate(found.cells.ids)}
    packs = [segments.read_segment(path) for path in (found.folder / "ledger").glob("*.jsonl")]
    assert all(len({depths[row["cell"]] for row in pack}) == 1 for pack in packs)
    in_gangs = {pack[0]["pack"] for pack in packs if depths[pack[0]["cell"]] == 3}
    logs = {path.name.split("-")[0] for path in (found.folder / "logs").glob("*.log.worker1")}
    assert logs == in_gangs
    assert len(packs) > len(in_gangs) > 0
    assert_same_rows(rows(found), rows(run(storage / "inline", asked, executor="inline")))


def cells_of(**changes: Any) -> Cells:
    return enumerate_cells(schema.validate(small_space(axes=GRID, **changes)))


@pytest.mark.parametrize(
    ("stated", "needs"),
    [
        ({}, [Resources(0, 1, 1)]),
        ({"gpus_per_trial": 4}, [Resources(4, 4, 4)]),  # a worker for each GPU, a core at least for each worker
        ({"gpus_per_trial": 4, "gang": 4, "cpus_per_trial": 8}, [Resources(4, 8, 4)]),
        ({"gpus_per_trial": 1, "where": [{"depth": 3, "gpus_per_trial": 2}]}, [Resources(1, 1, 1), Resources(2, 2, 2)]),
        ({"where": [{"depth": [2, 3], "cpus_per_trial": 2}]}, [Resources(0, 2, 1)]),
        (
            {"where": [{"depth": 3, "cpus_per_trial": 2}, {"gamma": [0.5, 1], "depth": 3, "cpus_per_trial": 4}]},
            [Resources(0, 1, 1), Resources(0, 2, 1), Resources(0, 4, 1)],
        ),
    ],
)
def test_what_trials_take(stated: dict[str, Any], needs: list[Resources]) -> None:
    cells = cells_of(resources=stated)
    assert sorted(cells.needs, key=str) == sorted(needs, key=str)
    for index in range(len(cells)):
        own, parameters = cells.needs[cells.need[index]], cells.parameters(index)
        fits = [
            rule
            for rule in stated.get("where", [])
            if all(parameters[name] in np.atleast_1d(rule[name]) for name in rule if name in GRID)
        ]
        if fits and "cpus_per_trial" in fits[-1]:
            assert own.cpus == fits[-1]["cpus_per_trial"]


@pytest.mark.parametrize(
    ("stated", "line"),
    [
        ({"where": {"depth": 3}}, "resources.where: expected a list of mappings"),
        ({"where": [{"depth": 3}]}, "resources.where[0]: expected an axis with its value"),
        ({"where": [{"gang": 3}]}, "resources.where[0]: expected an axis with its value"),
        ({"where": [{"dim": 20, "gang": 2}]}, "resources.where[0].dim: unknown axis or resource 'dim'"),
        ({"where": [{"depth": 5, "gang": 2}]}, "resources.where[0].depth: 5 is not on the axis: 2, 3"),
        ({"where": [{"depth": 2.5, "gang": 2}]}, "resources.where[0].depth: expected a whole number"),
        ({"where": [{"depth": [], "gang": 2}]}, "resources.where[0].depth: expected at least one value"),
        ({"where": [{"depth": 3, "gang": 0}]}, "resources.where[0].gang: expected a whole number of at least 1, got 0"),
        ({"gang": 1.5}, "resources.gang: expected a whole number of at least 1, got 1.5"),
        ({"gpus_per_trial": 3, "gang": 2}, "resources.gang: expected 3 workers, one for each GPU (the default), got 2"),
        ({"gpus_per_trial": 4, "gang": 2}, "resources.gang: expected 4 workers, one for each GPU (the default), got 2"),
        ({"gpus_per_trial": 4, "gang": 1}, "resources.gang: expected 4 workers, one for each GPU (the default), got 1"),
        ({"gpus_per_trial": 1, "gang": 2}, "resources.gang: expected 1 worker, one for each GPU (the default), got 2"),
        ({"gang": 2, "where": [{"depth": 3, "gpus_per_trial": 3}]}, "resources.where[0].gang: expected 3 workers"),
    ],
)
def test_resources_that_make_no_sense(stated: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as problem:
        cells_of(resources=stated)
    assert str(problem.value).startswith(line)
    assert "\n" not in str(problem.value)


def test_rows_are_shared_out_whole_and_evenly() -> None:
    from raysweep.plan.cost import shares

    workload, cells = workloads.get("linear_transfer"), cells_of()
    index = np.tile(np.arange(len(cells)), 3)
    seeds = np.repeat(np.arange(3), len(cells))
    columns = cells.take(index)
    for count in (1, 2, 3, 5, 100):
        parts = shares(workload, columns, seeds, count)
        assert len(parts) == min(count, len(seeds))
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(seeds)))
        assert all(len(part) for part in parts)
    two = shares(workload, columns, seeds, 2)
    owner = {row: number for number, part in enumerate(two) for row in part.tolist()}
    shared = [(seeds[row], *(columns[name][row] for name in workload.shared)) for row in range(len(seeds))]
    together: dict[Any, set[int]] = {}
    for row, key in enumerate(shared):
        together.setdefault(key, set()).add(owner[row])
    assert all(len(owners) == 1 for owners in together.values())


TWO_CORES, FOUR_GPUS = {"CPU": 2.0}, {"CPU": 8.0, "GPU": 4.0}


@pytest.mark.parametrize(
    ("there", "needs", "trials"),
    [
        (Machines([TWO_CORES]), Resources(0, 1, 1), 2),
        (Machines([TWO_CORES]), Resources(0, 2, 2), 1),
        (Machines([TWO_CORES, TWO_CORES]), Resources(0, 3, 1), 0),  # one worker is in one place
        (Machines([TWO_CORES, TWO_CORES]), Resources(0, 3, 3), 1),  # three may be in two
        (Machines([TWO_CORES, FOUR_GPUS]), Resources(4, 4, 1), 1),
        (Machines([TWO_CORES, FOUR_GPUS, FOUR_GPUS]), Resources(2, 2, 2), 4),
        (Machines([TWO_CORES, FOUR_GPUS]), Resources(1, 16, 1), 0),  # GPUs here, cores nowhere
        (Machines([TWO_CORES], [(FOUR_GPUS, 3)], 3), Resources(1, 1, 1), 12),
        (Machines([TWO_CORES], [(FOUR_GPUS, 3)], 2), Resources(8, 8, 8), 1),
        (Machines([TWO_CORES], [(FOUR_GPUS, 3)], 1), Resources(8, 8, 8), 0),
        (Machines([], [(FOUR_GPUS, 1), ({"CPU": 8.0, "GPU": 8.0}, 1)], 1), Resources(1, 1, 1), 8),
    ],
)
def test_how_many_trials_there_is_room_for(there: Machines, needs: Resources, trials: int) -> None:
    assert there.trials(needs) == trials


@contextlib.contextmanager
def autoscaler(path: Path, configuration: str) -> Iterator[None]:
    """A process that is started as Ray starts the autoscaler of the cluster nowhere:7, with this configuration."""
    options = ["--gcs-address=nowhere:7", f"--autoscaling-config={path}"]
    path.write_text(configuration)
    started = subprocess.Popen(
        [sys.executable, "-c", "input('up\\n')", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"up\n"  # before, its command line may not be there yet
    yield
    started.communicate(b"\n", timeout=PATIENCE)


def nodes(*up: dict[str, float]) -> list[dict[str, Any]]:
    """Machines as Ray lists them, the first of them the head."""
    resources = [{"node:__internal_head__": 1.0, **up[0]}, *up[1:]]
    return [{"NodeID": str(number), "Alive": True, "Resources": of} for number, of in enumerate(resources)]


def test_what_an_autoscaler_may_add_counts_once(tmp_path: Path) -> None:
    configuration = {
        "head_node_type": "head",
        "max_workers": 3,
        "available_node_types": {
            "head": {"resources": {"CPU": 6}, "max_workers": 0},
            "gpu": {"resources": dict(FOUR_GPUS), "max_workers": 4},
            "big": {"resources": {"CPU": 96, "GPU": 8}, "max_workers": 1},
        },
    }
    head, four = {"CPU": 6.0}, dict(FOUR_GPUS)
    with autoscaler(tmp_path / "bootstrap.yaml", yaml.safe_dump(configuration, sort_keys=False)):
        nothing_yet = machines.of_cluster("nowhere:7", nodes(head))
        one_up = machines.of_cluster("nowhere:7", nodes(head, four))
    for there in (nothing_yet, one_up):
        assert there.trials(Resources(1, 1, 1)) == 16
        assert there.trials(Resources(16, 16, 16)) == 1
        assert there.trials(Resources(17, 17, 17)) == 0
    words = str(nothing_yet.refuse(Resources(32, 32, 32)))
    assert words.startswith("resources.gpus_per_trial: ")
    for amount in ("32 workers", "1 x 6 CPU", "3 x 4 GPU and 8 CPU", "1 x 8 GPU and 96 CPU"):
        assert amount in words


def test_machines_of_ones_own_that_are_still_starting(tmp_path: Path) -> None:
    own = {
        "head_node_type": "local.cluster.node",
        "max_workers": 2,  # as Ray writes it for the provider `local`
        "available_node_types": {"local.cluster.node": {"resources": {}, "min_workers": 2, "max_workers": 2}},
    }
    with autoscaler(tmp_path / "bootstrap.yaml", yaml.safe_dump(own, sort_keys=False)):
        there = machines.of_cluster("nowhere:7", nodes(TWO_CORES))
    assert there.trials(Resources(0, 2, 1)) == 3
    assert there.trials(Resources(0, 3, 1)) == 0


def test_what_kuberay_may_add(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of clusters/kubernetes.yaml, by Ray's own reading of it; only the API server is a stand-in."""
    from ray.autoscaler._private.kuberay.node_provider import KubernetesHttpApiClient

    job = next(yaml.safe_load_all((Path(__file__).parents[2] / "clusters" / "kubernetes.yaml").read_text()))
    asked = []

    def get(client: Any, path: str) -> dict[str, Any]:
        asked.append((client._namespace, path))
        return {"metadata": {"name": "sweep-x7", "namespace": "science"}, "spec": job["spec"]["rayClusterSpec"]}

    monkeypatch.setattr(KubernetesHttpApiClient, "get", get)
    (tmp_path / "namespace").write_text("science")
    monkeypatch.setattr(machines, "NAMESPACE", tmp_path / "namespace")
    head = {"NodeID": "1", "Alive": True, "Resources": {"node:__internal_head__": 1.0, "memory": 1e9}}
    assert machines.of_cluster("nowhere:1", [head]).trials(Resources(1, 1, 1)) == 0
    monkeypatch.setenv("RAY_CLUSTER_NAME", "sweep-x7")
    there = machines.of_cluster("nowhere:1", [head])
    assert asked == [("science", "rayclusters/sweep-x7")]
    most = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["maxReplicas"]
    assert there.trials(Resources(1, 1, 1)) == most
    assert there.trials(Resources(most, most, most)) == 1
    assert there.trials(Resources(2, 2, 1)) == 0  # one GPU a machine
    monkeypatch.setattr(KubernetesHttpApiClient, "get", lambda client, path: {}["forbidden"])
    said: list[str] = []
    assert machines.of_cluster("nowhere:1", [head], said.append).trials(Resources(1, 1, 1)) == 0
    assert len(said) == 1
    assert "KeyError: 'forbidden'" in said[0]


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("max_workers: [1", "while parsing")])
def test_an_autoscaler_whose_configuration_cannot_be_read_is_told_of(
    content: str | None, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with autoscaler(tmp_path / "bootstrap.yaml", content or ""):
        if content is None:
            (tmp_path / "bootstrap.yaml").unlink()
        assert machines.of_cluster("nowhere:7", nodes({"CPU": 4.0})).trials(Resources(0, 1, 1)) == 4
    told = capsys.readouterr().err
    assert reason in told
    assert told.count("\n") == 1


def test_a_gang_that_can_never_fit_is_refused_before_anything_starts(
    ray_cluster: str, storage: Path, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    asked = small_space(axes=GRID, resources={"where": [{"depth": 3, "gang": 3}]})
    outcome = call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--executor", "ray")
    assert outcome.code == 2
    assert outcome.err.startswith("resources.where[0].gang: ")
    assert "3 CPU" in outcome.err
    assert outcome.err.count("\n") == 1
    assert not storage.exists()


NEVER = [
    ({"cpus_per_trial": 999}, "cpus_per_trial"),
    ({"gang": 999}, "gang"),
    ({"gpus_per_trial": 999}, "gpus_per_trial"),
    (
        {"cpus_per_trial": 2, "where": [{"depth": 3, "gang": 1}, {"depth": 3, "cpus_per_trial": 999}]},
        "where[1].cpus_per_trial",
    ),
    ({"where": [{"depth": 3, "gang": 999}, {"depth": 3, "cpus_per_trial": 8}]}, "where[0].gang"),
    ({"cpus_per_trial": 2, "where": [{"depth": 3, "gpus_per_trial": 998}]}, "where[0].gpus_per_trial"),
]
ONE_AFTER_ANOTHER = """
import sys
from raysweep.main import main
for space in sys.argv[2:]:
    try:
        main(["run", space, "--storage", sys.argv[1], "--executor", "ray", "--no-report", "--tracking-uri", "none"])
    except SystemExit as stop:
        print(stop.code)
"""


def test_gpus_that_are_not_there_are_named_before_the_cores_of_their_workers() -> None:
    with pytest.raises(InputError, match=r"^resources.gpus_per_trial: a trial asks for 100 GPU, the cluster has 0$"):
        machines.check(machines.of_resources([{"CPU": 2}]), [resolve({"gpus_per_trial": 100, "cpus_per_trial": 1})])


def test_what_this_machine_can_never_hold_is_one_line_before_ray_is_started(storage: Path, tmp_path: Path) -> None:
    """Where it is started, a line says so."""
    spaces = []
    for number, (resources, _) in enumerate(NEVER):
        (tmp_path / str(number)).mkdir()
        spaces.append(written(tmp_path / str(number), small_space(axes=GRID, resources=resources)))
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, storage, *spaces],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
    )
    assert done.stdout.split() == ["2"] * len(NEVER)
    assert [line.partition(": a trial asks for ")[0] for line in done.stderr.splitlines()] == [
        f"resources.{key}" for _, key in NEVER
    ]
    assert not storage.exists()


@pytest.fixture(scope="module")
def growing_cluster(tmp_path_factory: pytest.TempPathFactory, sandbox_path: Path) -> Iterator[dict[str, str]]:
    """A Ray whose head computes nothing and whose autoscaler may add two machines of one core and one GPU: the
    environment that leads there. The machines are processes, by Ray's own provider for such tests, the GPUs a claim."""
    folder = tmp_path_factory.mktemp("growing")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    import ray._private.services

    address = f"{ray._private.services.get_node_ip_address()}:{port}"
    empty = (
        "initialization_commands",
        "setup_commands",
        "head_setup_commands",
        "worker_setup_commands",
        "head_start_ray_commands",
        "worker_start_ray_commands",
        "cluster_synced_files",
    )
    (folder / "cluster.yaml").write_text(
        yaml.safe_dump(
            {
                "cluster_name": "growing",
                "max_workers": 2,
                "upscaling_speed": 1.0,
                "idle_timeout_minutes": 5,
                "head_node_type": "ray.head.default",
                "auth": {},
                "file_mounts": {},
                **{key: [] for key in empty},
                "provider": {
                    "type": "fake_multinode",
                    "gcs_address": address,
                    "disable_node_updaters": True,
                    "disable_launch_config_check": True,
                },
                "available_node_types": {
                    "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
                    "worker": {
                        "resources": {"CPU": 1, "GPU": 1},
                        "node_config": {},
                        "min_workers": 0,
                        "max_workers": 2,
                    },
                },
            }
        )
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(sandbox_path), os.environ.get("PYTHONPATH", "")]),
        "RAY_ADDRESS": address,
        "RAY_AUTH_MODE": "disabled",
    }
    temporary = Path(f"/tmp/ray-growing-{os.getpid()}")  # short: Ray opens sockets below it
    head = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--num-cpus=0",
            f"--port={port}",
            "--block",
            f"--temp-dir={temporary}",
            f"--autoscaling-config={folder / 'cluster.yaml'}",
            "--include-dashboard=false",
            "--disable-usage-stats",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environment, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
        start_new_session=True,
    )
    try:
        until((temporary / "session_latest/logs/monitor.log").exists, head)  # of the autoscaler
        yield environment
    finally:
        head.terminate()
        head.wait(timeout=PATIENCE)
        for process in Path("/proc").glob("[0-9]*"):  # the machines outlive the head
            try:
                if f"{temporary}/".encode() in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
        subprocess.run(["rm", "-rf", temporary], check=True)


def on(cluster: dict[str, str], *arguments: str | Path) -> Outcome:
    done = subprocess.run(
        command("run", *arguments, *QUIET, "--executor", "ray"),
        env=cluster,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=2 * PATIENCE,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_machines_that_are_not_up_yet_are_counted_on_and_waited_for(
    growing_cluster: dict[str, str], sandbox: Path, storage: Path, tmp_path: Path
) -> None:
    three = written(
        tmp_path, gang_space("together", tmp_path, ["compute"], name="three", resources={"gpus_per_trial": 3})
    )
    refused = on(growing_cluster, three, "--storage", storage)
    assert refused.code == 2
    last = refused.err.splitlines()[-1]
    assert last.startswith("resources.gpus_per_trial: ")
    assert "3 workers" in last
    assert "2 x 1 GPU and 1 CPU" in last
    asked = gang_space("together", tmp_path, ["compute"] * 2, seeds=2, resources={"gpus_per_trial": 2})
    done = on(growing_cluster, written(tmp_path, asked), "--storage", storage)
    assert done.code == 0, done.err
    assert "0 of 1 trials at a time fit the machines that are up; others are yet to come" in done.err
    table = open_sweep("sandy", storage).results()  # the workers of each trial were on two machines: each holds one
    assert table["y"].tolist() == [4 * 78 * (x + seed) for x in (0, 1) for seed in (0, 1)]
    assert set(table["workers"]) == {2}


@pytest.mark.slow
def test_rows_are_the_same_on_two_machines(growing_cluster: dict[str, str], storage: Path, tmp_path: Path) -> None:
    asked = small_space(axes={**GRID, "dim": [20, 100]}, fixed={"noise": 0.2}, seeds=8)
    expected = rows(run(storage / "inline", asked, executor="inline"))
    for name, needs in (("alone", {}), ("gangs", {"gang": 2})):
        done = on(growing_cluster, written(tmp_path, {**asked, "name": name, "resources": needs}), "--storage", storage)
        assert done.code == 0, done.err
        found = rows(open_sweep(name, storage))
        assert_same_rows([{**row, "sweep": "small"} for row in found], expected)
