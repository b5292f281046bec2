"""What goes wrong at a random moment of a driver's life, and which faults can happen to which kind of sweep."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field

import psutil

from tests.chaos.sweeps import PATIENCE, Sweep
from tests.chaos.tracking_server import UnwellServer
from tests.chaos.waiting import wait_for

TOLD_TO_END = 20.0  # seconds a driver may take to end after SIGTERM or SIGHUP
LOCKED = (5.0, 24.0)  # seconds the database stays locked; MLflow waits 20 s for it
# -SIGINT is 130 to a shell: Python ends itself so, after all is done, if a KeyboardInterrupt passed through exec(text)
ORDERLY = (0, 130, -signal.SIGINT)
UNWELL = (2.0, 30.0)  # seconds a server answers wrongly or not; raysweep waits 20 s for an answer


@dataclass
class Disturbance:
    """One fault in one life of a driver, and perhaps more. moment: seconds after its start, or, where events
    is not None, after so many things have happened (segments, stages); often: how many happen between two faults;
    raylet: process of the Ray that it joins; more: further faults that came."""

    sweep: Sweep
    dice: random.Random
    moment: float
    events: int | None
    often: int
    word: str
    server: UnwellServer | None = None
    raylet: int | None = None
    more: list[str] = field(default_factory=list)
    code: int = 0
    seconds_to_end: float = 0.0

    def start(self):
        return self.sweep.start(self.word)

    def wait(self, process):
        """Let the driver live until the moment; False if it ended before."""
        if self.events is not None:
            self.go_on(process, self.events)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.moment)
            return False
        return True

    def go_on(self, process, events):
        """Wait until so many more things have happened."""
        enough = self.sweep.events() + events
        wait_for(lambda: self.sweep.events() >= enough, process, PATIENCE)

    def end(self, process, patience=PATIENCE):
        """Wait for the driver's end; TimeoutExpired if it hangs."""
        started = time.monotonic()
        try:
            self.code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        self.seconds_to_end = time.monotonic() - started


def _signalled(number):
    def inject(life):
        process = life.start()
        injected = life.wait(process)
        if injected:
            process.send_signal(number)
        life.end(process)
        # Ctrl-C while Python itself starts ends it with 1, before anything of raysweep runs
        early = life.code == 1 and "init_import_site" in life.sweep.log.read_text().rpartition("---")[2]
        if injected and number != signal.SIGKILL and not early:
            assert life.code in (*ORDERLY, -number), f"{number.name} ended with {life.code}"
            assert life.seconds_to_end < TOLD_TO_END, f"{number.name}: {life.seconds_to_end:.0f} s to the end"
        return injected

    return inject


def _undisturbed_end(life, process):
    """The driver goes on as if nothing had happened, to its end or until it is killed."""
    if life.dice.random() < 0.7:
        life.go_on(process, life.dice.randrange(life.often) + 1)
        process.kill()
    life.end(process)
    life.more += ["driver killed"] * (life.code == -signal.SIGKILL)
    assert life.code in (0, -signal.SIGKILL), f"ended with {life.code}"


def _worker_killed(life):
    """One to three workers, one after the other: fewer than a pack may lose."""
    process = life.start()
    killed = 0
    while life.wait(process) and killed < 3:
        wait_for(lambda: _trials(life.raylet), process, 60)
        if victims := _trials(life.raylet):
            with contextlib.suppress(ProcessLookupError):
                os.kill(life.dice.choice(victims), signal.SIGKILL)
                killed += 1
        if life.dice.random() < 0.3:
            break
    life.more += ["worker killed"] * (killed - 1)
    _undisturbed_end(life, process)
    return killed > 0


def _trials(raylet):
    """Processes of trials among the children of a raylet."""
    children = psutil.Process(raylet).children()
    return [each.pid for each in children if "ray::ImplicitFunc" in " ".join(each.cmdline())]  # no agent of Ray


def _terminal_gone(life):
    process = life.sweep.start(life.word, terminal=True)
    injected = life.wait(process)
    process.stderr.close()
    _undisturbed_end(life, process)
    return injected


def _second_driver(life):
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


def _database_locked(life):
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


def _server_killed(life):
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


def _server_away(life):
    injected = life.sweep.exists  # a new sweep would rightly be refused
    if injected:
        life.server.kill()
    process = life.start()
    _undisturbed_end(life, process)
    life.server.start()
    return injected


def _server_unwell(*illnesses):
    def inject(life):
        process = life.start()
        injected = life.wait(process)
        if injected:
            with life.server.unwell(life.dice.choice(illnesses), life.dice.choice((0.3, 1.0))):
                if life.dice.random() < 0.3:
                    process.send_signal(signal.SIGTERM)
                    life.end(process, TOLD_TO_END)
                else:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(life.dice.choice(UNWELL))
        if process.poll() is None:
            _undisturbed_end(life, process)
        refused = life.code == 2 and not life.sweep.exists  # rightly, as above
        assert refused or life.code in (*ORDERLY, -signal.SIGTERM, -signal.SIGKILL), f"ended with {life.code}"
        return injected

    return inject


LIVES = {
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
    "server answers 500": _server_unwell("refuses", "loses"),
    "server hangs": _server_unwell("hangs"),
}
_ALWAYS = ("driver killed", "driver killed", "SIGTERM", "SIGHUP", "Ctrl-C", "terminal gone", "second driver")
_ALWAYS += ("segment truncated", "bit of a segment flipped", "half a segment left behind")
_STORE = ("driver killed", "driver killed", "bit of a stored stage flipped", "stored stage truncated")
_STORE += ("bit of a checkpoint flipped", "lease of a dead process", "lease of a dead machine")
_MORE = {
    "rows": ("database locked",),
    "staged": _STORE,
    "scheduled": (*_STORE, *("worker killed",) * 10),
    "ray": ("worker killed",) * 5,
    "mirror": ("database locked", "driver killed"),
    "language": _STORE,
    "server": ("server killed and restarted", "server away", "server answers 500", "server hangs") * 2,
}


def choices(kind):
    """The faults that can happen to a sweep of this kind, the likelier ones more than once."""
    return _ALWAYS + _MORE[kind]
