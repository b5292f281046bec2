"""What a trial takes may depend on the cell; how many trials there is room for on machines that are up or that may be
added; what can never fit is refused."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import ONE_AFTER_ANOTHER_ON_RAY, python
from spaces import GRID, small_space, written

from raysweep.executors import machines
from raysweep.executors.machines import Machines
from raysweep.plan.cells import enumerate_cells
from raysweep.space import schema
from raysweep.space.resources import Resources
from tests.chaos.waiting import PATIENCE


def cells_of(**changes):
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
def test_what_trials_take(stated, needs):
    cells = cells_of(resources=stated)
    assert sorted(cells.needs, key=str) == sorted(needs, key=str)
    for index in range(len(cells)):
        reference, parameters = cells.needs[cells.need[index]], cells.parameters(index)
        fits = [
            rule
            for rule in stated.get("where", [])
            if all(parameters[name] in np.atleast_1d(rule[name]) for name in rule if name in GRID)
        ]
        if fits and "cpus_per_trial" in fits[-1]:
            assert reference.cpus == fits[-1]["cpus_per_trial"]


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
def test_how_many_trials_there_is_room_for(there, needs, trials):
    assert there.trials(needs) == trials


@contextlib.contextmanager
def autoscaler(path, configuration):
    """A process that is started as Ray starts the autoscaler of the cluster nowhere:7, with this configuration."""
    options = ["--gcs-address=nowhere:7", f"--autoscaling-config={path}"]
    path.write_text(configuration)
    started = subprocess.Popen(
        [sys.executable, "-c", "input('up\\n')", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdout.readline() == b"up\n"  # before, its command line may not be there yet
    yield
    started.communicate(b"\n", timeout=PATIENCE)


def nodes(*up):
    """Machines as Ray lists them, the first of them the head."""
    resources = [{"node:__internal_head__": 1.0, **up[0]}, *up[1:]]
    return [{"NodeID": str(number), "Alive": True, "Resources": of} for number, of in enumerate(resources)]


def test_what_an_autoscaler_may_add_counts_once(tmp_path):
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


def test_machines_of_ones_own_that_are_still_starting(tmp_path):
    reference = {
        "head_node_type": "local.cluster.node",
        "max_workers": 2,  # as Ray writes it for the provider `local`
        "available_node_types": {"local.cluster.node": {"resources": {}, "min_workers": 2, "max_workers": 2}},
    }
    with autoscaler(tmp_path / "bootstrap.yaml", yaml.safe_dump(reference, sort_keys=False)):
        there = machines.of_cluster("nowhere:7", nodes(TWO_CORES))
    assert there.trials(Resources(0, 2, 1)) == 3
    assert there.trials(Resources(0, 3, 1)) == 0


def test_what_kuberay_may_add(monkeypatch, tmp_path):
    """Of clusters/kubernetes.yaml, by Ray's own reading of it; only the API server is a stand-in."""
    from ray.autoscaler._private.kuberay.node_provider import KubernetesHttpApiClient

    job = next(yaml.safe_load_all((Path(__file__).parents[2] / "clusters" / "kubernetes.yaml").read_text()))
    asked = []

    def get(client, path):
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
    messages = []
    assert machines.of_cluster("nowhere:1", [head], messages.append).trials(Resources(1, 1, 1)) == 0
    assert len(messages) == 1
    assert "KeyError: 'forbidden'" in messages[0]


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("max_workers: [1", "while parsing")])
def test_an_autoscaler_whose_configuration_cannot_be_read_is_told_of(content, reason, tmp_path, capsys):
    with autoscaler(tmp_path / "bootstrap.yaml", content or ""):
        if content is None:
            (tmp_path / "bootstrap.yaml").unlink()
        assert machines.of_cluster("nowhere:7", nodes({"CPU": 4.0})).trials(Resources(0, 1, 1)) == 4
    output = capsys.readouterr().err
    assert reason in output
    assert output.count("\n") == 1


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


def test_what_this_machine_can_never_hold_is_one_line_before_ray_is_started(storage, tmp_path):
    """Where it is started, a line says so."""
    spaces = []
    for number, (resources, _) in enumerate(NEVER):
        (tmp_path / str(number)).mkdir()
        spaces.append(written(tmp_path / str(number), small_space(axes=GRID, resources=resources)))
    done = python(ONE_AFTER_ANOTHER_ON_RAY, storage, *spaces, env={"RAY_ADDRESS": None})
    assert done.out.split() == ["2"] * len(NEVER)
    assert [line.partition(": a trial asks for ")[0] for line in done.err.splitlines()] == [
        f"resources.{key}" for _, key in NEVER
    ]
    assert not storage.exists()
