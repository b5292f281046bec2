"""Where rows are computed: on the GPUs that their trial was granted, on no other, and never elsewhere unsaid.

There is no GPU here: torch is made to say that it sees one, or Ray is told of some that it then hands out.
"""

import os
import re

import pytest
import torch
from conftest import ONE_AFTER_ANOTHER_ON_RAY, QUIET, halted, ok, python
from spaces import language_space, sandbox_space, small_space, written

from raysweep.commands.debug import one_row
from raysweep.query.sweep import open_sweep
from raysweep.training import devices

ROWS = {"axes": {"overlap_angle": [30.0]}, "fixed": {"dim": 6, "engine": "network", "finetune_steps": 3}, "seeds": 1}
KEY = "resources.gpus_per_trial: "


@pytest.fixture
def asked_for(monkeypatch):
    """The devices that rows were to be computed on; they are computed on the CPU whichever they are."""
    results = []
    device = devices.device

    def on_the_cpu():
        results.append(device().type)
        return torch.device("cpu")

    monkeypatch.setattr(devices, "device", on_the_cpu)
    return results


@pytest.mark.parametrize(("visible", "gpus", "device"), [(True, 0, "cpu"), (True, 1, "cuda"), (False, 0, "cpu")])
def test_a_trial_in_this_process_computes_where_it_was_granted_and_leaves_the_environment_alone(
    visible, gpus, device, asked_for, storage, tmp_path, call, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: visible)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    asked = written(tmp_path, small_space(**ROWS, resources={"gpus_per_trial": gpus}))
    ok(call("run", asked, "--storage", storage, *QUIET, "--executor", "inline"))
    assert asked_for == [device]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert devices.usable() == visible  # who calls a workload outside a trial may use it


def test_a_row_is_debugged_where_it_can_be_and_on_no_gpu_if_its_trial_was_granted_none(
    asked_for, storage, tmp_path, call, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = small_space(
        **{**ROWS, "axes": {"overlap_angle": [30.0, 60.0]}},
        resources={"where": [{"overlap_angle": 60.0, "gpus_per_trial": 1}]},
    )
    call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--executor", "inline")
    sweep = open_sweep("small", storage)
    for cell, visible, device in ((0, True, "cpu"), (1, True, "cuda"), (1, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda visible=visible: visible)
        assert one_row(sweep, sweep.cells.ids[cell], None)["status"] == "ok"
        assert asked_for[-1] == device


@pytest.mark.parametrize(
    "asked",
    [
        small_space(**ROWS),
        small_space(**{**ROWS, "fixed": {"dim": 6, "engine": "flow"}}),
        {
            "name": "small",
            "workload": "linear_spectrum",
            "axes": {"finetune_lr": [0.1]},
            "fixed": {"engine": "network", "finetune_steps": 3, "dim": 3},
        },
        language_space({"pretrain_length": [1280], "finetune_lr": [1e-3]}),
    ],
    ids=["network", "flow", "spectrum", "language"],
)
def test_a_gpu_that_torch_does_not_see_halts_the_sweep_in_one_line_and_it_goes_on_without(
    asked, storage, tmp_path, call, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    arguments = ("--storage", storage, *QUIET, "--executor", "inline")
    path = written(tmp_path, {**asked, "resources": {"gpus_per_trial": 1}})
    line = halted(call("run", path, *arguments), KEY, torch.__version__, "CUDA_VISIBLE_DEVICES=7")
    assert open_sweep("small", storage).results().empty
    advised = re.search(r"raysweep run … (--set \S+) ", line)
    assert advised, line
    ok(call("run", path, *arguments, *advised[1].split()))
    assert set(open_sweep("small", storage).results()["status"]) == {"ok"}


FOUR_GPUS = """
import ray
ray.init(address="local", num_cpus=4, num_gpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("environment", "names", "kinds"),
    [
        ({}, "0123", 5),
        ({"CUDA_VISIBLE_DEVICES": "7,5,6,4", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}, "4567", 3),
    ],
    ids=["by Ray", "where Ray leaves all of them visible"],
)
def test_on_ray_trials_and_the_workers_of_gangs_see_the_gpus_they_were_granted_and_no_other(
    environment, names, kinds, sandbox, storage, tmp_path
):
    for name in ("see", "unseen"):
        (tmp_path / name).mkdir()
    where = [
        {"x": 1, "gpus_per_trial": 1},
        {"x": 2, "gpus_per_trial": 2},
        {"x": 3, "gpus_per_trial": 4, "gang": 4},
        {"x": 4, "gang": 2},
    ][: kinds - 1]
    axes = {
        "x": [*range(kinds)],
        "behaviour": ["see", "look", "look", "look", "see"][:kinds],
        "said_seconds": [200, 0, 0, 0, 0][:kinds],
    }  # the rows of the first are trials, one after the other in one process
    asked = sandbox_space(
        tmp_path, [], axes=axes, zip=[list(axes)], fixed={"folder": str(tmp_path)}, seeds=4, resources={"where": where}
    )
    unseen = small_space(**ROWS, resources={"gpus_per_trial": 1})
    paths = [written(tmp_path / "see", asked), written(tmp_path / "unseen", unseen)]
    program, environment = FOUR_GPUS + ONE_AFTER_ANOTHER_ON_RAY, {"CUDA_VISIBLE_DEVICES": None, **environment}
    done = python(program, storage, *paths, env=environment, timeout=480)
    assert done.out.split() == ["0", "2"], done.err
    assert done.err.splitlines()[-1].startswith(KEY), done.err
    seen = {}
    for path in tmp_path.glob("*-*-*"):
        seen.setdefault(int(path.name.split("-")[1]), []).extend(path.read_text().split("\n")[:-1])
    assert {x: len(each) for x, each in seen.items()} == dict.fromkeys(range(kinds), 4)
    for x, each in seen.items():
        assert set(each) <= (set(names) if x in (1, 2, 3) else {""}), (x, each)
        if x in (2, 3):  # the workers of a gang hold different ones
            assert len(set(each)) == 2 * x - 2, each
