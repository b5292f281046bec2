"""Real workers that train one language model together do what one does alone."""

import functools
import json
import subprocess
import sys

import language_gang
import numpy as np
import pytest
import torch

from raysweep.stages.store import Store
from raysweep.training import devices
from tests.chaos.waiting import PATIENCE

JOBS = ["train", "share"]


def gang(folder, workers, jobs, gpus="none"):
    """Run jobs with so many workers: for each worker {job: its results}."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.support.language_gang", str(folder)]
    started = [subprocess.Popen([*command, str(rank), str(workers), json.dumps(jobs), gpus]) for rank in range(workers)]
    try:
        assert [process.wait(timeout=3 * PATIENCE) for process in started] == [0] * workers
    finally:
        for process in started:
            process.kill()
    return [{job: dict(np.load(folder / f"{job}.{rank}.npz")) for job in jobs} for rank in range(workers)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return gang(tmp_path_factory.mktemp("gangs") / "two", 2, JOBS)


@pytest.fixture(scope="module")
def two_more(tmp_path_factory):
    return gang(tmp_path_factory.mktemp("gangs") / "more", 2, ["dropout", "rows"])


@functools.cache
def one(dropout=0.0):
    """The training by one worker."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with devices.granted(0):
        trained = language_gang.train(dropout)
    torch.set_num_threads(threads)
    return trained


@pytest.fixture(scope="module")
def rows_of_one(tmp_path_factory):
    with devices.granted(0):
        return language_gang.rows(Store(tmp_path_factory.mktemp("alone") / "store"))


def assert_equal(result, *jobs):
    """What both workers have, to the last bit."""
    for job in jobs:
        for name, values in result[0][job].items():
            np.testing.assert_array_equal(values, result[1][job][name], err_msg=f"{job}, {name}")


def assert_near(result, expected):
    """Within 1e-4 nats after 50 steps at a rate of 0.001, in float32."""
    np.testing.assert_allclose(result["losses"], expected["losses"], atol=1e-4, rtol=0)
    np.testing.assert_allclose(result["held out"], expected["held out"], atol=1e-4, rtol=0)
    assert expected["losses"][-1] < expected["losses"][0] - 0.2


def test_two_workers_train_as_one(two):
    assert_equal(two, "train")
    assert_near(two[0]["train"], one())


@pytest.mark.long
def test_two_workers_drop_out_as_one(two_more):
    assert_equal(two_more, "dropout", "rows")
    assert_near(two_more[0]["dropout"], one(0.1))


@pytest.mark.long
def test_four_workers_train_as_one(tmp_path):
    outputs = gang(tmp_path / "four", 4, ["train", "dropout"])
    for job in ("train", "dropout"):
        assert_near(outputs[3][job], one(0.1 if job == "dropout" else 0.0))


def test_a_worker_holds_its_share_of_the_weights(two):
    assert [int(worker["train"]["held"]) for worker in two] == [language_gang.SMALL.weights() // 2] * 2
    assert int(one()["held"]) == language_gang.SMALL.weights()


@pytest.mark.long
def test_rows_of_two_workers_are_those_of_one(rows_of_one, two_more):
    """Stated tolerance, float32: 2e-3 nats after 40 steps of pretraining at a rate of 0.002 and 12 of fine-tuning (of a
    perplexity or a curvature that is the same share of it), and the same status."""
    status = rows_of_one["status"]
    assert status.tolist() == ["ok", "ok", "ok", "ok", "diverged", "ok", "ok", "diverged"]
    assert two_more[0]["rows"]["status"].tolist() == status.tolist()
    for name in rows_of_one:
        if name != "status":
            result, expected = (rows[name][status == "ok"] for rows in (two_more[0]["rows"], rows_of_one))
            near = {"rtol": 5e-3} if name in ("sharpness", "hessian_trace") or "perplexity" in name else {"rtol": 0}
            np.testing.assert_allclose(result, expected, atol=2e-3, **near, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(2, marks=pytest.mark.once), 4])
@pytest.mark.usefixtures("one_thread", "hub_cache", "chats")
def test_a_checkpoint_is_fine_tuned_by_workers_together_as_by_one(workers, tmp_path):
    """Within 1e-4 nats after 50 steps at a rate of 0.001: all weights, adapters, and packed conversations."""
    expected = language_gang.fine_tunings(Store(tmp_path / "store"), str(tmp_path))
    outputs = gang(tmp_path / "gang", workers, ["checkpoints"])
    assert expected["status"].tolist() == ["ok"] * 3
    assert (expected["finetune_loss"] < expected["finetune_loss_before"] - 0.1).all()
    for name, values in expected.items():
        if name == "status" or "perplexity" in name:
            continue
        np.testing.assert_allclose(outputs[0]["checkpoints"][name], values, rtol=0, atol=1e-4, err_msg=name)
        for other in outputs[1:]:
            np.testing.assert_array_equal(other["checkpoints"][name], outputs[0]["checkpoints"][name], err_msg=name)


@pytest.mark.gpu
def test_rows_of_two_workers_with_gpus_end_as_those_of_one_on_the_cpu(rows_of_one, tmp_path):
    """On GPUs products are bfloat16."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device, and a gang needs two")
    result, chosen = gang(tmp_path / "real", 2, ["rows"], "real"), language_gang.ON_GPU
    assert result[0]["rows"]["status"].tolist() == rows_of_one["status"][chosen].tolist() == ["ok", "ok", "diverged"]
    for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss"):
        np.testing.assert_allclose(result[0]["rows"][name], rows_of_one[name][chosen], rtol=0.05, err_msg=name)
    for name, values in result[0]["rows"].items():
        np.testing.assert_array_equal(values, result[1]["rows"][name], err_msg=name)


def test_a_share_is_padded_with_sequences_that_have_nothing_to_predict(two):
    batch, shares = np.arange(5 * 4).reshape(5, 4), [worker["share"] for worker in two]
    assert [int(share["first"]) for share in shares] == [0, 3]
    np.testing.assert_array_equal(np.concatenate([share["own"] for share in shares]), [*batch, [-1] * 4])
