"""Two real workers that train one language model together do what one does alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import language_gang
import numpy as np
import pytest
import torch

from raysweep.stages.store import Store
from raysweep.training import devices, sharding
from raysweep.training.params import drawn
from tests.chaos.waiting import PATIENCE

Results = dict[str, np.ndarray]


def gang(
    folder: Path, workers: int, jobs: list[str], seconds: float = PATIENCE, gpus: str = "pretended"
) -> list[dict[str, Results]]:
    """Run jobs with so many workers, to their end in so many seconds: for each worker {job: its results}."""
    folder.mkdir()
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.language_gang",
                str(folder),
                str(rank),
                str(workers),
                json.dumps(jobs),
                gpus,
            ]
        )
        for rank in range(workers)
    ]
    try:
        assert [process.wait(timeout=seconds) for process in started] == [0] * workers
    finally:
        for process in started:
            process.kill()
    return [{job: dict(np.load(folder / f"{job}.{rank}.npz")) for job in jobs} for rank in range(workers)]


JOBS = [
    "float64",
    "float32",
    "rows",
    "spread",
    "spread rows",
    "gpu rows",
    "gpu spread rows",
    "short",
    "share",
    "wanted",
]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict[str, Results]]:
    return gang(tmp_path_factory.mktemp("gangs") / "two", 2, JOBS)


@pytest.fixture(scope="module", params=["pretended", pytest.param("real", marks=pytest.mark.gpu)])
def two_with_gpus(request, tmp_path_factory) -> list[dict[str, Results]]:
    """Two workers on GPUs that are pretended, and gloo between them; or on real ones and NCCL, where there are two."""
    if request.param == "pretended":
        return request.getfixturevalue("two")
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device, and a gang needs two")
    jobs = ["gpu rows", "gpu spread rows", "short"]
    return gang(tmp_path_factory.mktemp("gangs") / "real", 2, jobs, 3 * PATIENCE, "real")


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> dict[str, Results]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with devices.granted(0):
        found = {
            "float64": language_gang.train("float64"),
            "float32": language_gang.train("float32"),
            "rows": language_gang.rows(Store(tmp_path_factory.mktemp("alone") / "store")),
            "spread": language_gang.spread(),
        }
    torch.set_num_threads(threads)
    return found


def test_workers_agree_to_the_last_bit(two):
    for job in ("float64", "float32", "rows", "spread rows"):
        for name, values in two[0][job].items():
            np.testing.assert_array_equal(values, two[1][job][name], err_msg=f"{job}, {name}")


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_two_workers_train_as_one_but_for_rounding(one, two, kind):
    """Adding in another order changes last digits, and training magnifies whatever change there was. How much it does
    is measured: every weight of the one worker's start is moved by one unit in the last place, up or down. Stated
    tolerance: 3 times the distance that comes of it, after 1, 5 and 20 steps (measured: below 1)."""
    jolted = language_gang.train(kind, jolt=float(np.finfo(kind).eps))
    for name in ("evaluation", *(f"{what} {step}" for what in ("weights", "losses") for step in language_gang.KEPT)):
        # both models that live at once: the distance of one number, a loss, may be small by chance
        alone, apart, shared = (
            np.concatenate([np.ravel(found[name][index]) for index in range(2)])
            for found in (one[kind], jolted, two[0][kind])
        )
        allowed = 3 * np.linalg.norm(apart - alone) + 10 * np.finfo(kind).eps * np.linalg.norm(alone)
        assert np.linalg.norm(shared - alone) <= allowed, name
    assert two[0][kind]["alive"].tolist() == [True, True, False]


@pytest.mark.parametrize("job", ["rows", "spread rows"])
def test_rows_of_two_workers_are_those_of_one(one, two, job):
    """Each with the whole model, and each with a share of it. Stated tolerance, float32: 2e-3 nats after 40 steps of
    pretraining and 12 of fine-tuning (of a perplexity that is the same share of it), and the same status."""
    status = one["rows"]["status"]
    assert status.tolist() == ["ok", "ok", "ok", "ok", "diverged", "ok", "ok", "diverged"]
    assert two[0][job]["status"].tolist() == status.tolist()
    for name in one["rows"]:
        if name != "status":
            whole = "pretrain_perplexity_after" if name == "sensitivity_perplexity" else name
            unit = one["rows"][whole] if "perplexity" in name else np.ones(len(status))
            found, expected = ((rows[name] / unit)[status == "ok"] for rows in (two[0][job], one["rows"]))
            np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("job", ["gpu rows", "gpu spread rows"])
def test_rows_of_two_workers_with_gpus_end_as_those_of_one_on_the_cpu(one, two_with_gpus, job):
    """On GPUs products are bfloat16 (tests/gpu)."""
    found, chosen = two_with_gpus[0][job], language_gang.ON_GPU
    assert found["status"].tolist() == one["rows"]["status"][chosen].tolist() == ["ok", "ok", "diverged"]
    for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss"):
        np.testing.assert_allclose(found[name], one["rows"][name][chosen], rtol=0.05, err_msg=name)
    for name, values in found.items():
        np.testing.assert_array_equal(values, two_with_gpus[1][job][name], err_msg=name)


def test_a_step_that_one_worker_has_no_memory_for_is_given_up_by_all(two_with_gpus):
    """By language_gang.short: the state is as before the step, and the workers can still sum over each other."""
    for worker in two_with_gpus:
        assert worker["short"] == {"steps": 1, "sum": 3}


def test_a_model_spread_over_two_workers_trains_as_a_whole_one(one, two):
    """In float64, with dropout: to 1e-9 of the distance moved in 6 steps."""
    found, whole = two[0]["spread"], one["spread"]
    for part in language_gang.DEEP.parts():
        moved = np.linalg.norm(whole[part.name].ravel() - 2 * drawn(part, language_gang.DEEP, 0))
        assert np.linalg.norm(found[part.name] - whole[part.name]) < 1e-9 * moved
    for name in ("evaluation", "norm"):
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-10)
        np.testing.assert_array_equal(found[name], two[1]["spread"][name])


def test_a_worker_holds_its_share_and_two_layers(two):
    """Of weights and of each moment half, but for padding; gathered at a time two layers (three while a thread of
    gloo's still has hold of the last one)."""
    shape = language_gang.DEEP
    for worker in two:
        held = int(worker["spread"]["held"])
        assert shape.weights() / 2 <= held <= shape.weights() / 2 + shape.depth + 2
        assert int(worker["spread"]["moments"]) == 2 * held
        assert shape.layer_weights() <= int(worker["spread"]["gathered"]) <= 3 * shape.layer_weights()
    assert 3 * shape.layer_weights() < shape.weights() / 3


def test_a_model_is_spread_where_its_training_does_not_fit_the_gpu_and_never_alone(two, monkeypatch):
    """By language_gang.wanted, on a GPU that is pretended."""
    for worker in two:
        assert worker["wanted"]["wanted"].tolist() == [True, True, False, False, True, False]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(total_memory=0.0))
    for said in ("", "always"):
        monkeypatch.setenv(sharding.VARIABLE, said)
        assert not sharding.wanted(language_gang.DEEP)


def test_what_one_worker_has_no_memory_for_is_slow_to_all_and_none_waits_for_it(tmp_path):
    """By language_gang.memory: worker 1 runs out of memory in the middle of a timing."""
    found = [worker["memory"] for worker in gang(tmp_path / "memory", 2, ["memory"])]
    for worker in found:
        assert worker["tried"].tolist() == [1, 2, 4, 8, 16]
    assert found[0]["chosen"] == found[1]["chosen"] <= 2
    assert found[0]["sum"] == found[1]["sum"] == 3  # and they still meet


def test_a_share_is_padded_with_sequences_that_have_nothing_to_predict(two):
    batch, shares = np.arange(5 * 4).reshape(5, 4), [worker["share"] for worker in two]
    assert [int(share["first"]) for share in shares] == [0, 3]
    np.testing.assert_array_equal(np.concatenate([share["own"] for share in shares]), [*batch, [-1] * 4])
