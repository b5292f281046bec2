"""Where sweeps are disturbed: the places they share, what they should come out as, and the tally of what they did."""

import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

import psutil

from tests.chaos import left
from tests.chaos.damages import DAMAGES
from tests.chaos.faults import LIVES, Disturbance, choices
from tests.chaos.sweeps import ON_RAY, PATIENCE, Sweep, environment, kinds, site
from tests.chaos.tracking_server import UnwellServer

OFTEN = 6
"""Faults that strike while as much happens as in one undisturbed sweep."""


@dataclass
class Tally:
    """What happened. injected: (sweep, fault) -> times; differences: from undisturbed sweeps; counts: of sweeps, their
    rows, runs and stages, lives of drivers, and repairs (orderly resumes that did not finish a sweep); complaints:
    everything else that was not as it should be, in words."""

    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def __add__(self, other):
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def faults(self):
        return self.injected.total()

    @property
    def well(self):
        return not self.differences and not self.complaints


@dataclass
class Expected:
    """What an undisturbed sweep and its companion leave. seconds: how long it takes; events: how many meanwhile."""

    things: dict[tuple, object]
    seconds: float
    events: int


class Chaos:
    """The places that disturbed sweeps share: a room, a tracking server, a Ray, and what they should come out as."""

    def __init__(self, room, dice, say):
        self.room, self.dice, self.say = room, dice, say
        self.kinds, self.tally = kinds(room), Tally()
        self.env = environment(site(room))
        sys.path.insert(0, str(room / "site"))  # to read what the sweeps leave behind
        self.server = None
        self.raylet = None
        self._expected = {}
        self._number = 0

    def close(self):
        if self.server:
            self.server.kill()

    def _sweep(self, kind):
        self._number += 1
        server = self.server.uri if kind == "server" and self.server else None
        return Sweep(self.kinds[kind], self.room / f"{self._number}-{kind}", self.env, server)

    def expected(self, kind):
        """What an undisturbed sweep comes out as."""
        if kind not in self._expected:
            sweep = self._sweep(kind)
            code, seconds = sweep.finish("run")
            events = sweep.events()
            assert code == 0, f"undisturbed, {kind} ended with {code}:\n{sweep.log.read_text()}"
            companion = sweep.companion() if sweep.kind.companion else None
            if companion:
                assert companion.finish("run")[0] == 0, companion.log.read_text()
            things = self._things(sweep, companion)
            assert not any(key[0] == "twice" for key in things), "undisturbed, a stage was begun twice"
            self._expected[kind] = Expected(things, seconds, events)
            self.say(f"{kind}: undisturbed {seconds:.1f} s")
        return self._expected[kind]

    def _things(self, sweep, companion):
        """What a sweep and its companion have left behind."""
        things = sweep.things(self.server.database if sweep.server and self.server else None)
        if companion and sweep.kind.marks:
            things |= companion.things() | left.of_store(sweep.store, sweep.kind.marks, sweep.damaged)
        return things

    def disturb(self, kind, faults, without=()):
        """One sweep, so many faults (but for some), one orderly end; its differences go to the tally."""
        expected = self.expected(kind)
        sweep, before = self._sweep(kind), self.tally.faults
        sweep.expected = expected.things
        companion = sweep.companion() if sweep.kind.companion else None
        beside = companion.start("run") if companion and sweep.kind.beside else None
        happened = []
        over = False  # whether a driver has ended before anything could happen to it
        while self.tally.faults - before < faults and len(happened) < 3 * faults and not over:
            name = self.dice.choice([name for name in choices(kind) if name not in without])
            word = "resume" if sweep.exists and self.dice.random() < 0.7 else "run"
            by_events, often = self.dice.random() < 0.75 and expected.events > 3, expected.events // OFTEN + 1
            moment = self.dice.uniform(0, 0.5) if by_events else self.dice.uniform(0.1, 0.9) * expected.seconds
            events = self.dice.randrange(often) if by_events else None
            life = Disturbance(sweep, self.dice, moment, events, often, word, self.server, self.raylet)
            if companion and sweep.kind.marks:
                left.mark_what_is_whole(sweep.store, sweep.kind.marks)
            try:
                injected = LIVES[name](life) if name in LIVES else DAMAGES[name](sweep, self.dice)
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                self._complain(sweep, f"{name}: {problem}")
                injected = True
            self.tally.counts["drivers"] += name in LIVES
            self.tally.injected[kind, name] += injected
            for another in life.more:
                self.tally.injected[kind, another] += 1
            over = name in LIVES and not injected and life.code == 0
            happened.append(" and ".join([name if injected else f"({name})", *life.more]))
        self._end(sweep)
        if companion:
            if beside and beside.wait(PATIENCE) not in (0, 1):  # 1: a row whose worker was killed too often
                self._complain(companion, f"undisturbed beside another one it ended with {beside.returncode}")
            self._end(companion)
        found = self._things(sweep, companion)
        differences = left.differences(found, expected.things, sweep.kind.tolerance, sweep.damaged)
        self.tally.differences += differences
        self.tally.counts["sweeps"] += 1
        self.tally.counts.update(key[0] for key in expected.things if key[0] in ("row", "run", "parent", "stage"))
        self.say(f"{kind}: {', '.join(happened)}: {dict(differences) or 'as undisturbed'}")
        if differences:
            self.say(f"kept for inspection: {sweep.storage}")
        else:
            shutil.rmtree(sweep.storage)

    def _end(self, sweep):
        """An orderly end: one resume; where the server is another machine's, it is back only a day later."""
        words = ["resume", "sync"] if sweep.server else ["resume"]
        if not sweep.exists:
            words[0] = "run"
        for word in words:
            if self.server and sweep.server:
                self.server.kill() if word == "resume" else self.server.start()
            code, _ = sweep.finish(word)
            self.tally.counts["drivers"] += 1
            if code != 0:
                self.tally.counts["repairs"] += 1
                self._complain(sweep, f"an orderly {word} ended with {code}")

    def _complain(self, sweep, what):
        self.tally.complaints.append(f"{sweep.kind.name}: {what}")
        said = "\n    ".join(sweep.log.read_text(errors="replace").splitlines()[-30:])
        self.say(f"COMPLAINT {self.tally.complaints[-1]}\n    {said}")


@contextmanager
def chaos(seed, wanted, say):
    """A room with what the wanted kinds of sweeps need; all of it is gone afterwards."""
    # faults end processes, not the machine: no disk is needed
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    room = Path(tempfile.mkdtemp(prefix="raysweep-chaos-", dir=memory))
    world = Chaos(room, random.Random(seed), say)
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
        sys.path.remove(str(room / "site"))
        if world.tally.well:
            shutil.rmtree(room, ignore_errors=True)


def _start_ray(env):
    """A Ray of two CPUs that outlives the drivers: its address, and the process whose children run the trials."""
    import logging

    import ray

    # a machine that is busy otherwise is not to be taken for dead
    os.environ.update({**env, "RAY_health_check_failure_threshold": "60", "RAY_health_check_timeout_ms": "30000"})
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    context = ray.init(num_cpus=2, logging_level=logging.ERROR, address="local", **quiet)
    raylet = next(each.pid for each in psutil.Process().children() if each.name() == "raylet")
    return context.address_info["gcs_address"], raylet


def work(seed, faults, minutes, kinds):
    """Kinds of sweeps by turns, until so many faults a kind or so many minutes; what became of them."""
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
    return tally
