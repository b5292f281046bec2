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

from raysweep.stages import references
from raysweep.storage import processes
from raysweep.storage.leases import Lease
from tests.chaos.drivers import Driver
from tests.chaos.store_checks import ELSEWHERE
from tests.chaos.sweeps import PATIENCE, Process, Sweep
from tests.chaos.tracking_server import Server
from tests.chaos.waiting import wait_for

TOLD_TO_END = 20.0  # seconds a driver may take to end after SIGTERM or SIGHUP
LOCKED = (5.0, 24.0)  # seconds the database stays locked; MLflow waits 20 s for it


@dataclass
class Disturbance:
    """One fault in one life of a driver, and perhaps a second one. moment: seconds after its start, or, where events
    is not None, after so many things have happened (segments, stages); often: how many happen between two faults;
    raylet: process of the Ray that it joins; fresh: whether the driver imports everything itself, so that this may be
    disturbed too; killed: whether the second fault came, a driver that is killed."""

    sweep: Sweep
    dice: random.Random
    moment: float
    events: int | None
    often: int
    word: str
    server: Server | None = None
    raylet: int | None = None
    fresh: bool = False
    killed: bool = False
    code: int = 0
    seconds_to_end: float = 0.0

    def start(self) -> Process:
        """The driver."""
        return self.sweep.start(self.word, self.fresh)

    def wait(self, process: Process) -> bool:
        """Let the driver live until the moment; False if it ended before."""
        if self.events is not None:
            self.go_on(process, self.events)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.moment)
            return False
        return True

    def go_on(self, process: Process, events: int) -> None:
        """Wait until so many more things have happened."""
        enough = self.sweep.events() + events
        wait_for(lambda: self.sweep.events() >= enough, process, PATIENCE)

    def end(self, process: Process, patience: float = PATIENCE) -> None:
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
        process = life.start()
        injected = life.wait(process)
        if injected:
            process.send_signal(number)
        life.end(process)
        if injected and number != signal.SIGKILL:
            assert life.code in (130, 0, -number), f"{number.name} ended with {life.code}"
            assert life.seconds_to_end < TOLD_TO_END, f"{number.name}: {life.seconds_to_end:.0f} s to the end"
        return injected

    return inject


def _undisturbed_end(life: Disturbance, process: Process) -> None:
    """The driver goes on as if nothing had happened, to its end or until it is killed."""
    if life.dice.random() < 0.7:
        life.go_on(process, life.dice.randrange(life.often) + 1)
        process.kill()
    life.end(process)
    life.killed = life.code == -signal.SIGKILL
    assert life.killed or life.code == 0, f"ended with {life.code}"


def _worker_killed(life: Disturbance) -> bool:
    process = life.start()
    injected = False
    if life.wait(process):
        wait_for(lambda: _trials(life.raylet), process, 60)
        if victims := _trials(life.raylet):
            with contextlib.suppress(ProcessLookupError):
                os.kill(life.dice.choice(victims), signal.SIGKILL)
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
    process = life.sweep.start(life.word, terminal=True)
    injected = life.wait(process)
    assert isinstance(process, Driver)
    process.hang_up()
    _undisturbed_end(life, process)
    return injected


def _second_driver(life: Disturbance) -> bool:
    process = life.start()
    injected = False
    if life.wait(process) and life.sweep.exists:
        second = life.sweep.start("resume").wait(PATIENCE)
        injected = second == 2
        assert second in (0, 2), f"a second driver ended with {second}"  # 0: the first had just ended
        if second == 0:
            life.end(process)
            assert life.code in (0, 2), f"ended with {life.code}"  # 2: the second was faster
            return False
    _undisturbed_end(life, process)
    return injected


def _database_locked(life: Disturbance) -> bool:
    process = life.start()
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
    process = life.start()
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
    process = life.start()
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
    if folder.name == "entries":
        life.sweep.damage(path.name.split(".")[0])
    if how == "flip":
        flipped = content[place] ^ (1 << life.dice.randrange(8))
        path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
    elif how == "truncate":
        path.write_bytes(content[:place])
    else:  # what a writer that died leaves: a temporary file, and on a poor file system half of a segment
        path.with_name(f".{path.name}.chaos.part").write_bytes(content[:place])
        path.with_name("feedfeedfeedfeed-1.jsonl").write_bytes(content[:place])
    return True


def _left_lease(life: Disturbance, here: bool) -> bool:
    """A lease of a process that died, on this machine or on another, for a stage that the sweep still needs."""
    store = life.sweep.store
    needed = {stage for sweep in store.files.names("refs") for stage in references.referred(store, sweep)}
    held = {name.split(".")[0] for name in store.files.names("leases")}
    missing = sorted(needed - set(store.stages()) - held)
    if not missing:
        return False
    lease = Lease(store.files, life.dice.choice(missing), 1, 3.0)
    told = json.loads(lease.content())
    if here:
        with subprocess.Popen(["sleep", "60"]) as process:
            told |= {"process": process.pid, "life": processes.life(process.pid)}
            process.kill()
    else:
        told |= {"host": ELSEWHERE, "process": 1, "life": None}
    store.files.create(lease.name, json.dumps(told).encode())
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
    "bit of a stored stage flipped": lambda life: _damaged(life, life.sweep.storage / "store" / "entries", "*", "flip"),
    "stored stage truncated": lambda life: _damaged(life, life.sweep.storage / "store" / "entries", "*", "truncate"),
    "bit of a checkpoint flipped": lambda life: _damaged(life, life.sweep.storage / "store" / "progress", "*", "flip"),
    "lease of a dead process": lambda life: _left_lease(life, here=True),
    "lease of a dead machine": lambda life: _left_lease(life, here=False),
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
_STORE = (
    "driver killed",
    "driver killed",
    "bit of a stored stage flipped",
    "stored stage truncated",
    "bit of a checkpoint flipped",
    "lease of a dead process",
    "lease of a dead machine",
)
_MORE = {
    "rows": ("database locked",),
    "staged": _STORE,
    "scheduled": (*_STORE, *("worker killed",) * 10),
    "ray": ("worker killed",) * 5,
    "mirror": ("database locked", "driver killed"),
    "language": _STORE,
    "server": ("server killed and restarted",) * 3 + ("server away",) * 2,
}


def choices(kind: str) -> tuple[str, ...]:
    """The faults that can happen to a sweep of this kind, the likelier ones more than once."""
    return _ALWAYS + _MORE[kind]
