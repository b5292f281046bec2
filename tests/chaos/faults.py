"""What goes wrong: at a random moment of a driver's life, or to what lies on the disk between two of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.sweeps import PATIENCE, Sweep
from tests.chaos.tracking_server import Server
from tests.chaos.waiting import wait_for

TOLD_TO_END = 20.0  # seconds a driver may take to end after SIGTERM or SIGHUP
LOCKED = (5.0, 24.0)  # seconds the database stays locked; MLflow waits 20 s for it


@dataclass
class Disturbance:
    """One fault in one life of a driver. moment: seconds after its start, or, where segments is not None, after it has
    published so many of them; raylet: process of the Ray that it joins."""

    sweep: Sweep
    dice: random.Random
    moment: float
    segments: int | None
    word: str
    server: Server | None = None
    raylet: int | None = None
    code: int = 0
    seconds_to_end: float = 0.0

    def wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Let the driver live until the moment; False if it ended before."""
        if self.segments is not None:
            enough = self.sweep.segments() + self.segments
            wait_for(lambda: self.sweep.segments() >= enough, process, PATIENCE)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.moment)
            return False
        return True

    def end(self, process: subprocess.Popen[bytes], patience: float = PATIENCE) -> None:
        """Wait for the driver's end; TimeoutExpired if it hangs."""
        started = time.monotonic()
        try:
            self.code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        self.seconds_to_end = time.monotonic() - started


def _signalled(number: signal.Signals) -> Callable[[Disturbance], bool]:
    def inject(life: Disturbance) -> bool:
        process = life.sweep.start(life.word)
        injected = life.wait(process)
        if injected:
            process.send_signal(number)
        life.end(process)
        if injected and number != signal.SIGKILL:
            assert life.code in (130, 0, -number), f"{number.name} ended with {life.code}"
            assert life.seconds_to_end < TOLD_TO_END, f"{number.name}: {life.seconds_to_end:.0f} s to the end"
        return injected

    return inject


def _undisturbed_end(life: Disturbance, process: subprocess.Popen[bytes]) -> None:
    life.end(process)
    assert life.code == 0, f"ended with {life.code}"


def _worker_killed(life: Disturbance) -> bool:
    process = life.sweep.start(life.word)
    injected = False
    if life.wait(process):
        wait_for(lambda: _trials(life.raylet), process, 60)
        victims = _trials(life.raylet)
        for victim in life.dice.sample(victims, min(1, len(victims))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                injected = True
    _undisturbed_end(life, process)
    return injected


def _trials(raylet: int | None) -> list[int]:
    """Processes of trials among the children of a raylet."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(raylet)], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::ImplicitFunc" in line]  # no agent of Ray


def _terminal_gone(life: Disturbance) -> bool:
    process = life.sweep.start(life.word, stderr=subprocess.PIPE)
    injected = life.wait(process)
    assert process.stderr is not None
    process.stderr.close()
    _undisturbed_end(life, process)
    return injected


def _second_driver(life: Disturbance) -> bool:
    process = life.sweep.start(life.word)
    injected = False
    if life.wait(process) and life.sweep.exists:
        second = life.sweep.start("resume").wait(PATIENCE)
        injected = second == 2
        assert second in (0, 2), f"a second driver ended with {second}"  # 0: the first had just ended
    life.end(process)
    assert life.code in (0, 2), f"ended with {life.code}"
    return injected


def _database_locked(life: Disturbance) -> bool:
    process = life.sweep.start(life.word)
    database = life.sweep.storage / "mlflow.db"
    injected = False
    if life.wait(process) and database.exists():
        with (
            closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as db,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            db.execute("BEGIN EXCLUSIVE")
            injected = process.poll() is None
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(life.dice.choice(LOCKED))
            db.execute("ROLLBACK")
    _undisturbed_end(life, process)
    return injected


def _server_killed(life: Disturbance) -> bool:
    assert life.server is not None
    process = life.sweep.start(life.word)
    injected = life.wait(process)
    if injected:
        life.server.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(life.dice.uniform(0, 4))
    life.server.start()
    life.end(process)
    refused = life.code == 2 and not life.sweep.exists  # rightly: it was new, and found no server in its first second
    assert refused or life.code == 0, f"ended with {life.code}"
    return injected


def _server_away(life: Disturbance) -> bool:
    assert life.server is not None
    injected = life.sweep.exists  # a new sweep would rightly be refused
    if injected:
        life.server.kill()
    process = life.sweep.start(life.word)
    _undisturbed_end(life, process)
    life.server.start()
    return injected


def _damaged(life: Disturbance, folder: Path, pattern: str, how: str) -> bool:
    files = sorted(path for path in folder.glob(pattern) if path.stat().st_size)
    if not files:
        return False
    path = life.dice.choice(files)
    content = path.read_bytes()
    place = life.dice.randrange(len(content))
    if how == "flip":
        flipped = content[place] ^ (1 << life.dice.randrange(8))
        path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
    elif how == "truncate":
        path.write_bytes(content[:place])
    else:  # what a writer that died leaves: a temporary file, and on a poor file system half of a segment
        path.with_name(f".{path.name}.chaos.part").write_bytes(content[:place])
        path.with_name("feedfeedfeedfeed-1.jsonl").write_bytes(content[:place])
    return True


def _stale_lease(life: Disturbance) -> bool:
    """The lease of a process that died, for a stage that the sweep still needs."""
    store = life.sweep.storage / "store"
    needed = {stage for path in store.glob("refs/*/*.json") for stage in json.loads(path.read_text())["stages"]}
    missing = sorted(
        stage
        for stage in needed
        if not (store / "entries" / f"{stage}.json").exists() and not list(store.glob(f"leases/{stage}.*"))
    )
    if not missing:
        return False
    (store / "leases").mkdir(exist_ok=True)
    (store / "leases" / f"{life.dice.choice(missing)}.1.json").write_text(
        json.dumps({"token": "chaos", "host": "gone", "process": 1, "beat": 3, "renewed": time.time(), "seconds": 3.0})
    )
    return True


LIVES: dict[str, Callable[[Disturbance], bool]] = {
    "driver killed": _signalled(signal.SIGKILL),
    "SIGTERM": _signalled(signal.SIGTERM),
    "SIGHUP": _signalled(signal.SIGHUP),
    "Ctrl-C": _signalled(signal.SIGINT),
    "terminal gone": _terminal_gone,
    "second driver": _second_driver,
    "worker killed": _worker_killed,
    "database locked": _database_locked,
    "server killed and restarted": _server_killed,
    "server away": _server_away,
}
DAMAGES: dict[str, Callable[[Disturbance], bool]] = {
    "segment truncated": lambda life: _damaged(life, life.sweep.folder / "ledger", "*.jsonl", "truncate"),
    "bit of a segment flipped": lambda life: _damaged(life, life.sweep.folder / "ledger", "*.jsonl", "flip"),
    "half a segment left behind": lambda life: _damaged(life, life.sweep.folder / "ledger", "*.jsonl", "half"),
    "bit of a checkpoint flipped": lambda life: _damaged(life, life.sweep.storage / "store" / "entries", "*", "flip"),
    "checkpoint truncated": lambda life: _damaged(life, life.sweep.storage / "store" / "entries", "*", "truncate"),
    "stale lease": _stale_lease,
}
_ALWAYS = (
    "driver killed",
    "driver killed",
    "SIGTERM",
    "SIGHUP",
    "Ctrl-C",
    "terminal gone",
    "second driver",
    "segment truncated",
    "bit of a segment flipped",
    "half a segment left behind",
)
_MORE = {
    "ray": ("worker killed", "worker killed", "worker killed"),
    "rows": ("database locked",),
    "mirror": ("database locked", "driver killed"),
    "server": ("server killed and restarted",) * 3 + ("server away",) * 2,
    "language": ("bit of a checkpoint flipped", "checkpoint truncated", "stale lease", "driver killed"),
}


def choices(kind: str) -> tuple[str, ...]:
    """The faults that can happen to a sweep of this kind, the likelier ones more than once."""
    return _ALWAYS + _MORE[kind]
