"""A row that kills the process that computes it fails, with the name of the signal, and all others are computed."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from conftest import QUIET, driving, process, until
from spaces import sandbox_space, space_over, written

from raysweep.query.sweep import open_sweep
from tests.chaos.waiting import PATIENCE

DEATHS = {
    "exit": "exited with code 1",
    "segv": "was killed by SIGSEGV",
    "kill": "was killed by SIGKILL (out of memory, or killed from outside)",
}
CODE = """
import ctypes, os, pathlib, signal, time

def die(death):
    if death == "exit":
        os._exit(1)
    if death == "segv":
        ctypes.string_at(0)
    if death == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

def cheap(x, death, folder, seed):
    with open(f"{folder}/calls.txt", "a") as stream:
        stream.write(f"{x} {seed}\\n")
    die(death)
    return x + seed

def slow(x, death, folder, seed):
    time.sleep(0.2)
    return cheap(x, death, folder, seed)

def together(x, death, folder, seeds):
    for one in death:
        die(one)
    return x + seeds
"""


def asked(folder, deaths, function="cheap", **changes):
    """A space of a function that ends its process where `death` says so."""
    (folder / "deadly.py").write_text(CODE)
    axes = {"x": list(range(len(deaths))), "death": deaths}
    asked = {"name": "deadly", "zip": [[*axes]], "fixed": {"folder": str(folder)}, "seeds": 2, **changes}
    return written(folder, space_over(f"deadly.py:{function}", axes, **asked))


def assert_done(storage, deaths, seeds=2, name="deadly"):
    """All rows are there: right, or failed of what killed them."""
    sweep = open_sweep(name, storage)
    table = sweep.results()
    outcomes = table["death"].map(DEATHS)
    assert len(table) == len(deaths) * seeds
    assert (table["status"] == "failed").tolist() == outcomes.notna().tolist()
    well = table[outcomes.isna()]
    assert well["value"].tolist() == (well["x"] + well["seed"]).tolist()
    dead = {(row["cell"], row["seed"]): row["error"] for row in sweep.failures()}
    assert [
        dead[key] for key in zip(table["cell"][outcomes.notna()], table["seed"][outcomes.notna()], strict=True)
    ] == [f"the process computing this row {death}" for death in outcomes.dropna()]


def inline(word, of, storage):
    return process(word, of, "--storage", storage, *QUIET, "--executor", "inline")


@pytest.mark.parametrize(
    ("death", "function"),
    [
        (["none", "none", "segv", "kill", "exit", "none"], "cheap"),
        (["segv", "none", "none", "none"], "cheap"),
        pytest.param(["none", "exit", "none"], "slow", marks=pytest.mark.long),
        pytest.param(["none", "none", "segv", "none"], "together", marks=pytest.mark.long),
    ],
    ids=["later rows", "the first row", "costly rows", "many rows in one call"],
)
def test_a_row_that_kills_a_driver_is_failed_by_the_next(death, function, tmp_path, storage):
    space = asked(tmp_path, death, function, **({"vectorized": True} if function == "together" else {}))
    first = inline("run", space, storage)
    assert first.code not in (0, 2, 130), first
    for _ in range(2):  # it tries them again, and does not die of them either
        again = inline("resume", "deadly", storage)
        assert again.code == 1, again
        assert "Traceback" not in again.err
        assert_done(storage, death)
    assert {path.name for path in (storage / "deadly").iterdir()} == {"driver.lock", "ledger", "logs", "sweep.json"}


def test_rows_that_were_done_before_a_death_are_not_computed_again(tmp_path, storage):
    deaths = ["none", "none", "none", "exit", "none", "none"]
    inline("run", asked(tmp_path, deaths, seeds=1), storage)
    kept = {row["x"] for row in open_sweep("deadly", storage).results().to_dict("records")}
    (tmp_path / "calls.txt").unlink()
    assert inline("resume", "deadly", storage).code == 1
    calls = Counter(int(line.split()[0]) for line in (tmp_path / "calls.txt").read_text().splitlines())
    assert calls == {x: 2 if x == 3 else 1 for x in range(6) if x not in kept}


@pytest.mark.long
def test_stages_get_past_a_death_too(sandbox, tmp_path, storage):
    axes = {"source": [0, 1], "trouble": ["none", "die pretrain"], "rate": [0, 1], "probe": [0, 1]}
    staged = space_over("staged", axes, zip=[["source", "trouble"]], fixed={"folder": str(tmp_path)}, seeds=1)
    inline("run", written(tmp_path, staged), storage)
    assert inline("resume", "staged", storage).code == 1
    table = open_sweep("staged", storage).results()
    assert table["status"].tolist() == ["failed" if source else "ok" for source in table["source"]]
    assert all(DEATHS["kill"] in row["error"] for row in open_sweep("staged", storage).failures())


@pytest.mark.long
def test_a_driver_that_computes_in_a_child_takes_it_along(sandbox, tmp_path, storage):
    """However it ends: by Ctrl-C, after which it can be resumed, and by kill -9."""
    written(tmp_path, sandbox_space(tmp_path, ["die", "wait"]))
    arguments = ["run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline"]
    assert process(*arguments).code == -signal.SIGKILL
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        with driving(*arguments) as driver:
            until(lambda: [*tmp_path.glob("wait-*")], driver)
            (waiting,) = tmp_path.glob("wait-*")
            until(waiting.read_text, driver)
            child = int(waiting.read_text())
            assert child != driver.pid
            os.kill(driver.pid, number)
            _, err = driver.communicate(timeout=PATIENCE)
            assert driver.returncode == code, err
        until(lambda child=child: not Path(f"/proc/{child}").exists())
        waiting.unlink()
    (tmp_path / "go").touch()
    assert process(*arguments).code == 1
    assert open_sweep("sandy", storage).results()["status"].tolist() == ["failed", "ok"]


@pytest.mark.long
def test_no_row_kills_a_driver_on_ray(ray_cluster, tmp_path, storage):
    deaths = ["segv", "none", "exit", "none", "kill"]
    arguments = ["run", asked(tmp_path, deaths), "--storage", storage, *QUIET, "--executor", "ray"]
    done = process(*arguments, env={"RAY_ADDRESS": ray_cluster})
    assert done.code == 1, done
    assert_done(storage, deaths)
