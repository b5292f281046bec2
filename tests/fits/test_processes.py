"""Independent fits in several processes: the same numbers, the same errors, and nothing that stays behind."""

import itertools
import os
import threading

import mapped_functions
import numpy as np
import pandas as pd
import pytest

from raysweep import workloads
from raysweep.fits import processes
from raysweep.fits.posterior import curve
from raysweep.fits.processes import helped, mapped
from raysweep.report.report import Written, write_report


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """As if there were two cores, and everything were worth a process."""
    monkeypatch.setattr(processes, "cores", lambda: 2)
    monkeypatch.setattr(processes, "WORTH", 0.0)


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_share_the_work_and_end_with_it():
    with helped():
        result = set(mapped(mapped_functions.where, [0.1] * 40))
        assert os.getpid() in result  # which looks how long it takes
        others = result - {os.getpid()}
        assert len(others) == 2
        assert all(map(alive, others))
        assert mapped(mapped_functions.root, [4.0, 9.0, 16.0]) == [2.0, 3.0, 4.0]
    assert not any(map(alive, others))


def test_an_error_is_raised_here_and_the_next_call_works():
    with helped():
        with pytest.raises(ValueError, match="-9 has no square root"):
            mapped(mapped_functions.root, [4.0] * 20 + [-9.0])
        assert mapped(mapped_functions.root, [1.0] * 20) == [1.0] * 20


def test_a_process_that_dies_and_what_cannot_be_sent_cost_nothing_but_time():
    lock = threading.Lock()
    with helped():
        assert mapped(lambda k: (lock.locked(), k)[1], list(range(20))) == list(range(20))
        assert mapped(mapped_functions.only_in, [os.getpid()] * 20) == [os.getpid()] * 20
        assert mapped(mapped_functions.root, [4.0] * 3) == [2.0] * 3


@pytest.mark.parametrize(("cores", "worth"), [(1, 0.0), (2, 60.0)])
def test_one_core_and_short_work_start_none(cores, worth, monkeypatch):
    assert mapped(mapped_functions.where, [0.0] * 5) == [os.getpid()] * 5  # outside
    monkeypatch.setattr(processes, "cores", lambda: cores)
    monkeypatch.setattr(processes, "WORTH", worth)
    with helped():
        assert mapped(mapped_functions.where, [0.0] * 5) == [os.getpid()] * 5


def rows():
    """Curves over the rate with a best one that moves with the length, and a metric that changes sign."""
    workload, rng = workloads.get("linear_transfer"), np.random.default_rng(2)
    axes = {
        "overlap_angle": [30.0, 80.0],
        "finetune_lr": np.geomspace(0.001, 0.1, 5).tolist(),
        "pretrain_length": [0.5, 1.0, 2.0, 4.0, 8.0],
    }
    made = []
    for index, values in enumerate(itertools.product(*axes.values())):
        cell = {p.name: p.default for p in workload.parameters} | dict(zip(axes, values, strict=True))
        made += [{"sweep": "s", "cell": f"c{index}", **cell, "seed": seed, "status": "ok"} for seed in range(6)]
    frame = pd.DataFrame(made)
    noise = 0.1 * rng.standard_normal(6)[frame["seed"]] + 0.05 * rng.standard_normal(len(frame))
    best = 0.01 / frame["pretrain_length"] ** 0.5
    risk = np.log(frame["finetune_lr"] / best) ** 2 + np.log(frame["pretrain_length"] / 2) ** 2
    frame = frame.assign(**{metric.name: 0.0 for metric in workload.metrics})
    return frame.assign(
        risk_finetune=risk + noise,
        transferability_finetune=(70 - frame["overlap_angle"]) / 20 - 0.1 * risk + noise,
        code_version="0.1.0+test",
        seconds=0.001,
    )


@pytest.mark.long
def test_reports_are_the_same_with_one_and_two_processes(monkeypatch, tmp_path):
    frame = rows()
    axes = {name: frame[name].unique().tolist() for name in ("overlap_angle", "finetune_lr", "pretrain_length")}
    risk, gain = {"metric": "risk_finetune"}, {"metric": "transferability_finetune"}
    space = {
        "name": "demo",
        "workload": "linear_transfer",
        "axes": axes,
        "zip": [],
        "exclude": [],
        "fixed": {},
        "seeds": list(range(6)),
        "search": {},
        "resources": {},
        "analysis": [
            {"inflection": {**risk, "x": "pretrain_length", "where": {"finetune_lr": axes["finetune_lr"][2]}}},
            {"regime": {**risk, "lr": "finetune_lr", "length": "pretrain_length"}},
            {"boundary": {**gain, "x": "overlap_angle", "y": "pretrain_length"}},
            {"optimum": {**risk, "x": "finetune_lr", "where": {"overlap_angle": 30}}},
        ],
    }
    sent = []
    send = processes._in_processes
    monkeypatch.setattr(
        processes, "_in_processes", lambda method, items: sent.append(len(items)) or send(method, items)
    )
    homes = tmp_path / "one", tmp_path / "two"
    for home, count in zip(homes, (1, 2), strict=True):
        monkeypatch.setattr(processes, "cores", lambda count=count: count)
        curve._particles.cache_clear()
        curve._curve_posterior.cache_clear()
        sent.clear()
        write_report(frame, [space], home, Written("demo"))
        assert (len(sent) > 3) == (count == 2)
    one, two = ({path.name: path.read_bytes() for path in home.rglob("*.*")} for home in homes)
    assert one == two
    assert {"inflection_turns.csv", "regime_slopes.csv", "boundary_zeros.csv", "optimum_optima.csv"} <= one.keys()
