"""Where sweeps are disturbed: the places they share, what they should come out as, and the tally of what they did."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import store_checks
from tests.chaos.damages import DAMAGES
from tests.chaos.drivers import Drivers
from tests.chaos.faults import LIVES, Disturbance, choices
from tests.chaos.store_checks import Left
from tests.chaos.sweeps import ON_RAY, PATIENCE, Sweep, environment, kinds, site
from tests.chaos.tables import Table, compare
from tests.chaos.unwell_server import UnwellServer

FRESH = 0.1
"""Share of drivers that start as Python does, with all imports."""
OFTEN = 6
"""Faults that strike while as much happens as in one undisturbed sweep."""


@dataclass
class Tally:
    """What happened. injected: (sweep, fault) -> times; differences: what `compare` found; complaints: everything else
    that was not as it should be, in words; repairs: orderly resumes that did not finish a sweep."""

    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    sweeps: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    runs: int = 0
    stages: int = 0
    drivers: int = 0
    repairs: int = 0

    def add(self, other: Tally) -> None:
        """What happened elsewhere."""
        for name in ("injected", "differences", "sweeps"):
            getattr(self, name).update(getattr(other, name))
        self.complaints += other.complaints
        for name in ("rows", "runs", "stages", "drivers", "repairs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def faults(self) -> int:
        """How many faults were injected."""
        return sum(self.injected.values())

    @property
    def well(self) -> bool:
        """Whether everything came out as it should."""
        return not self.differences and not self.complaints and not self.repairs


@dataclass
class Expected:
    """What a sweep that nobody disturbs comes out as. tables: the sweep's, and its companion's; left: what their store
    is like; seconds: how long the sweep takes; events: how much happens meanwhile."""

    tables: list[Table]
    left: Left
    seconds: float
    events: int


class Chaos:
    """The places that disturbed sweeps share: a room, a tracking server, a Ray, and what they should come out as."""

    def __init__(self, room: Path, dice: random.Random, say: Callable[[str], None]) -> None:
        self.room, self.dice, self.say = room, dice, say
        self.kinds, self.tally = kinds(room), Tally()
        self.env = environment(site(room))
        self.server: UnwellServer | None = None
        self.raylet: int | None = None
        self._drivers: Drivers | None = None
        self._expected: dict[str, Expected] = {}
        self._number = 0

    def close(self) -> None:
        """Stop what was started here."""
        for started in (self._drivers, self.server):
            if started:
                started.kill()

    def _sweep(self, kind: str) -> Sweep:
        self._number += 1
        if self._drivers is None:  # now, because they inherit the address of Ray
            self._drivers = Drivers(self.room / "drivers", self.env)
        return Sweep(
            self.kinds[kind],
            self.room / f"{self._number}-{kind}",
            self._drivers,
            self.server.uri if kind == "server" and self.server else None,
        )

    def expected(self, kind: str) -> Expected:
        """What an undisturbed sweep comes out as."""
        if kind not in self._expected:
            sweep = self._sweep(kind)
            code, seconds = sweep.finish("run")
            events = sweep.events()
            assert code == 0, f"undisturbed, {kind} ended with {code}:\n{sweep.log.read_text()}"
            tables, left = [self._table(sweep)], Left()
            if sweep.kind.companion and sweep.kind.marks:
                other = sweep.companion()
                assert other.finish("run")[0] == 0, other.log.read_text()
                tables.append(self._table(other))
                left = store_checks.left(sweep.store)
                assert store_checks.computed_once(left, sweep.kind.marks), "undisturbed, a stage was begun twice"
            self._expected[kind] = Expected(tables, left, seconds, events)
            self.say(f"{kind}: undisturbed {seconds:.1f} s, {len(tables[0].rows)} rows, {len(left.names)} stages")
        return self._expected[kind]

    def _table(self, sweep: Sweep) -> Table:
        return sweep.table(self.server.database if sweep.server and self.server else None)

    def disturb(self, kind: str, faults: int, without: tuple[str, ...] = ()) -> None:
        """One sweep, so many faults (but for some), one orderly end; its differences go to the tally."""
        expected = self.expected(kind)
        sweep, before = self._sweep(kind), self.tally.faults
        sweep.left = expected.left
        companion = sweep.companion() if sweep.kind.companion else None
        beside = companion.start("run") if companion and sweep.kind.beside else None
        happened: list[str] = []
        over = False  # whether a driver has ended before anything could happen to it
        while self.tally.faults - before < faults and len(happened) < 3 * faults and not over:
            name = self.dice.choice([name for name in choices(kind) if name not in without])
            word = "resume" if sweep.exists and self.dice.random() < 0.7 else "run"
            by_events, often = self.dice.random() < 0.75 and expected.events > 3, expected.events // OFTEN + 1
            life = Disturbance(
                sweep,
                self.dice,
                self.dice.uniform(0, 0.5) if by_events else self.dice.uniform(0.1, 0.9) * expected.seconds,
                self.dice.randrange(often) if by_events else None,
                often,
                word,
                self.server,
                self.raylet,
                fresh=self.dice.random() < FRESH,
            )
            if companion and sweep.kind.marks:
                store_checks.mark_what_is_whole(sweep.store, sweep.kind.marks)
            try:
                injected = LIVES[name](life) if name in LIVES else DAMAGES[name](sweep, self.dice)
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                self._complain(sweep, f"{name}: {problem}")
                injected = True
            self.tally.drivers += name in LIVES
            self.tally.injected[kind, name] += injected
            for another in life.more:
                self.tally.injected[kind, another] += 1
            over = name in LIVES and not injected and life.code == 0
            happened.append(" and ".join([name if injected else f"({name})", *life.more]))
        self._end(sweep)
        damaged = store_checks.named(sweep.damaged, expected.left)
        differences = compare(self._table(sweep), expected.tables[0], sweep.kind.tolerance, damaged)
        if companion:
            if beside and beside.wait(PATIENCE) not in (0, 1):  # 1: a row whose worker was killed too often
                self._complain(companion, f"undisturbed beside another one it ended with {beside.returncode}")
            self._end(companion)
            differences += compare(self._table(companion), expected.tables[1], sweep.kind.tolerance, damaged)
            differences += self._of_store(sweep, expected.left)
        self.tally.differences += differences
        self.tally.sweeps[kind] += 1
        self.tally.rows += sum(len(table.rows) for table in expected.tables)
        self.tally.runs += sum(len(table.children) + 1 for table in expected.tables)
        self.tally.stages += len(expected.left.names)
        self.say(f"{kind}: {', '.join(happened)}: {dict(differences) or 'as undisturbed'}")
        if differences:
            self.say(f"kept for inspection: {sweep.storage}")
        else:
            shutil.rmtree(sweep.storage)

    def _of_store(self, sweep: Sweep, expected: Left) -> Counter[str]:
        """How the store of a sweep differs from what it should be. The first look sets aside what faults have damaged
        and nobody has needed since; then all must be well."""
        assert sweep.kind.marks is not None
        _, said = sweep.told("store", "verify")
        damaged = {line.split(":")[0] for line in said.splitlines() if "set aside" in line}
        differences = store_checks.compare(sweep.store, expected, sweep.kind.marks, sweep.damaged)
        differences["damaged stages"] = len(damaged - sweep.damaged) + (sweep.told("store", "verify")[0] != 0)
        return +differences

    def _end(self, sweep: Sweep) -> None:
        """An orderly end: one resume; where the server is another machine's, it is back only a day later."""
        words = ["resume", "sync"] if sweep.server else ["resume"]
        if not sweep.exists:
            words[0] = "run"
        for word in words:
            if self.server and sweep.server:
                self.server.kill() if word == "resume" else self.server.start()
            code, _ = sweep.finish(word)
            self.tally.drivers += 1
            if code != 0:
                self.tally.repairs += 1
                self._complain(sweep, f"an orderly {word} ended with {code}")

    def _complain(self, sweep: Sweep, what: str) -> None:
        self.tally.complaints.append(f"{sweep.kind.name}: {what}")
        said = "\n    ".join(sweep.log.read_text(errors="replace").splitlines()[-30:])
        self.say(f"COMPLAINT {self.tally.complaints[-1]}\n    {said}")


@contextmanager
def chaos(seed: int, wanted: list[str], say: Callable[[str], None]) -> Iterator[Chaos]:
    """A room with what the wanted kinds of sweeps need; all of it is gone afterwards."""
    memory = (
        "/dev/shm" if os.path.isdir("/dev/shm") else None
    )  # faults end processes, not the machine: no disk is needed
    room = Path(tempfile.mkdtemp(prefix="raysweep-chaos-", dir=memory))
    world = Chaos(room, random.Random(seed), say)
    # under nohup and in the background, drivers would inherit that they do not hear these
    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler))
    }
    try:
        if "server" in wanted:
            world.server = UnwellServer(room, world.env)
            world.server.start()
        if set(wanted).intersection(ON_RAY):
            address, world.raylet = _start_ray(world.env)
            world.env |= {
                "RAY_ADDRESS": address,
                **{name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")},
            }  # which Ray has just set
        yield world
    finally:
        world.close()
        if world.raylet is not None:
            import ray

            ray.shutdown()
        for number, handler in before.items():
            signal.signal(number, handler)
        if world.tally.well:
            shutil.rmtree(room, ignore_errors=True)


def _start_ray(env: dict[str, str]) -> tuple[str, int]:
    """A Ray of two CPUs that outlives the drivers: its address, and the process whose children run the trials."""
    import logging

    import ray

    # a machine that is busy otherwise is not to be taken for dead
    os.environ.update({**env, "RAY_health_check_failure_threshold": "60", "RAY_health_check_timeout_ms": "30000"})
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        configure_logging=False,
        address="local",
    )
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    ).stdout
    raylet = next(int(line.split()[0]) for line in listed.splitlines() if "/raylet/raylet " in line)
    return context.address_info["gcs_address"], raylet


def work(seed: int, kinds: list[str], faults: int, minutes: float, told: multiprocessing.Queue[Tally]) -> None:
    """Kinds of sweeps by turns, in a process of its own; what became of them is put into `told`."""
    started, tally = time.monotonic(), Tally()
    try:
        with chaos(seed, kinds, lambda line: print(line, flush=True)) as world:
            tally = world.tally
            for kind in itertools.cycle(kinds):
                if tally.faults >= faults * len(kinds) or time.monotonic() - started > 60 * minutes:
                    break
                world.disturb(kind, world.dice.randint(4, 10))
    except Exception as problem:
        tally.complaints.append(f"{', '.join(kinds)}: chaos itself ended: {problem!r}")
    finally:
        told.put(tally)
