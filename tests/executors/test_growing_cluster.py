"""Machines that an autoscaler adds are counted on and waited for, and rows are the same on several machines."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import QUIET, assert_same_rows, halted, process, rows, run
from spaces import GRID, sandbox_space, small_space, written

from raysweep.query.sweep import open_sweep
from tests.chaos.waiting import PATIENCE, wait_for

COMMANDS = [f"{node}_{what}_commands" for node in ("head", "worker") for what in ("setup", "start_ray")]
EMPTY = ("initialization_commands", "setup_commands", "cluster_synced_files", *COMMANDS)
STARTS = 3  # between the choice of a free port and Ray's opening it, another process may take it


@pytest.fixture(scope="module")
def growing_cluster(tmp_path_factory, sandbox_path):
    """A Ray whose head computes nothing and whose autoscaler may add two machines of one core and one GPU: the
    environment that leads there. The machines are processes, by Ray's own provider for such tests, the GPUs a claim."""
    folder = tmp_path_factory.mktemp("growing")
    paths = os.pathsep.join([str(sandbox_path), os.environ.get("PYTHONPATH", "")])
    for start in range(STARTS):
        temporary = Path(f"/tmp/ray-growing-{os.getpid()}-{start}")  # short: Ray opens sockets below it
        address, head = started(folder, temporary, {**os.environ, "PYTHONPATH": paths, "RAY_AUTH_MODE": "disabled"})
        try:
            log = temporary / "session_latest/logs/monitor.log"  # of the autoscaler
            if wait_for(log.exists, head):
                yield {**os.environ, "PYTHONPATH": paths, "RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": address}
                return
        finally:
            ended(head, temporary)
    pytest.fail((folder / "head.log").read_text())


def started(folder, temporary, environment):
    """The head's address and process; what it prints goes to `head.log`."""
    import ray._private.services

    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    address = f"{ray._private.services.get_node_ip_address()}:{port}"
    kinds = {"ray.head.default": ({"CPU": 0}, 0), "worker": ({"CPU": 1, "GPU": 1}, 2)}
    configuration = {
        "cluster_name": "growing",
        "max_workers": 2,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
        "head_node_type": "ray.head.default",
        "auth": {},
        "file_mounts": {},
        **{key: [] for key in EMPTY},
        "provider": {"type": "fake_multinode", "gcs_address": address}
        | dict.fromkeys(("disable_node_updaters", "disable_launch_config_check"), True),
        "available_node_types": {
            kind: {"resources": of_one, "node_config": {}, "min_workers": 0, "max_workers": most}
            for kind, (of_one, most) in kinds.items()
        },
    }
    (folder / "cluster.yaml").write_text(yaml.safe_dump(configuration))
    starting = "-m ray.scripts.scripts start --head --block --disable-usage-stats --include-dashboard=false"
    options = {"port": port, "temp-dir": temporary, "autoscaling-config": folder / "cluster.yaml", "num-cpus": 0}
    with (folder / "head.log").open("wb") as log:
        words = [sys.executable, *starting.split(), *(f"--{name}={value}" for name, value in options.items())]
        env = {**environment, "RAY_ADDRESS": address, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        head = subprocess.Popen(words, env=env, start_new_session=True, **pipes)
    return address, head


def ended(head, temporary):
    """Stop the head, and the machines, which outlive it."""
    head.terminate()
    head.wait(timeout=PATIENCE)
    for each in psutil.process_iter(["cmdline"]):
        if any(f"{temporary}/" in word for word in each.info["cmdline"] or ()):
            each.kill()
            each.wait(PATIENCE)
    shutil.rmtree(temporary)


def on(cluster, *arguments):
    return process("run", *arguments, *QUIET, "--executor", "ray", env=cluster, timeout=2 * PATIENCE)


@pytest.mark.long
def test_machines_that_are_not_up_yet_are_counted_on_and_waited_for(growing_cluster, sandbox, storage, tmp_path):
    three = written(
        tmp_path,
        sandbox_space(tmp_path, ["compute"], workload="together", name="three", resources={"gpus_per_trial": 3}),
    )
    few = on(growing_cluster, three, "--storage", storage)
    halted(few, "resources.gpus_per_trial: ", "3 workers", "2 x 1 GPU and 1 CPU")
    asked = sandbox_space(tmp_path, ["compute"] * 2, workload="together", seeds=2, resources={"gpus_per_trial": 2})
    done = on(growing_cluster, written(tmp_path, asked), "--storage", storage)
    assert done.code == 0, done.err
    assert "0 of 1 trials at a time fit the machines that are up; others are yet to come" in done.err
    table = open_sweep("sandy", storage).results()  # the workers of each trial were on two machines: each holds one
    assert table["y"].tolist() == [4 * 78 * (x + seed) for x in (0, 1) for seed in (0, 1)]
    assert set(table["workers"]) == {2}


@pytest.mark.long
def test_rows_are_the_same_on_two_machines(growing_cluster, storage, tmp_path):
    asked = small_space(axes={**GRID, "dim": [20, 100]}, fixed={"noise": 0.2}, seeds=8)
    expected = rows(run(storage / "inline", asked, executor="inline"))
    for name, needs in (("alone", {}), ("gangs", {"gang": 2})):
        done = on(growing_cluster, written(tmp_path, {**asked, "name": name, "resources": needs}), "--storage", storage)
        assert done.code == 0, done.err
        result = rows(open_sweep(name, storage))
        assert_same_rows([{**row, "sweep": "small"} for row in result], expected)
