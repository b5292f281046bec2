"""Independent fits in several processes: the same numbers, the same errors, and nothing that stays behind."""

import os
import threading

import mapped_functions
import numpy as np
import pytest

from raysweep.fits import processes
from raysweep.fits.posterior import curve
from raysweep.fits.processes import helped, mapped
from raysweep.report.report import Written, write_report
from tests.report.conftest import rows, space


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


AXES = {"pretrain_length": np.geomspace(0.2, 20, 7).tolist(), "overlap_angle": [9.0, 45.0, 60.0, 75.0]}
GAIN = {"metric": "transferability_finetune"}
ANALYSIS = (
    {"inflection": GAIN | {"x": "pretrain_length"}},
    {"optimum": GAIN | {"x": "pretrain_length", "where": {"overlap_angle": [9.0, 45.0]}}},
    {"regime": {"metric": "risk_finetune", "lr": "overlap_angle", "length": "pretrain_length"}},
    {"boundary": GAIN | {"x": "overlap_angle", "y": "pretrain_length"}},
)


@pytest.mark.long
def test_reports_are_the_same_with_one_and_two_processes(monkeypatch, tmp_path):
    sent, send, homes = [], processes._in_processes, (tmp_path / "one", tmp_path / "two")
    monkeypatch.setattr(
        processes, "_in_processes", lambda method, items: sent.append(len(items)) or send(method, items)
    )
    for home, count in zip(homes, (1, 2), strict=True):
        monkeypatch.setattr(processes, "cores", lambda count=count: count)
        curve._particles.cache_clear()
        curve._curve_posterior.cache_clear()
        sent.clear()
        write_report(rows(AXES), [space(*ANALYSIS, axes=AXES)], home, Written("demo"))
        assert (len(sent) > 3) == (count == 2)
    one, two = ({path.name: path.read_bytes() for path in home.rglob("*.*")} for home in homes)
    assert one == two
    assert {"inflection_turns.csv", "regime_slopes.csv", "boundary_zeros.csv", "optimum_optima.csv"} <= one.keys()
