"""Leases: who computes a stage now, agreed among all threads, processes and hosts that share a store.

A lease is a small file `leases/STAGE.GENERATION.json` that its holder rewrites every third of its duration. Whoever
waits takes it for expired once its bytes have not changed for that duration on the *waiter's own* clock, so hosts need
not agree on the time; only a lease whose stated time is older than its duration by SKEW as well is expired at first
sight, and one whose holder was a process of this very machine and is no more. (Nor is the first, where that process
lives: the machine slept, or its clock was set.) Taking over is the conditional creation
of the next generation, so one waiter wins; the holder of an older generation finds out when it renews. The highest
generation is the one that counts.

A holder that was only held up (a suspended machine, a store out of reach) may thus compute beside its successor until
it renews. What is published first is what both then read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from raysweep.errors import RaysweepError
from raysweep.storage import processes
from raysweep.storage.store_files import Files

FOLDER = "leases"
SKEW = 300.0
"""Seconds by which the clocks of two hosts may differ before a live lease could look dead at first sight."""


class Lost(Exception):
    """The lease expired and somebody else computes the stage now."""


class Lease:
    """A lease that is held. `generation` counts how often the stage was started: 1, and 1 more for every lease that
    expired under its holder."""

    def __init__(self, files: Files, stage: str, generation: int, seconds: float) -> None:
        self.stage, self.generation, self.seconds = stage, generation, seconds
        self.lost = False
        self._files, self._beat, self._lock = files, 0, threading.Lock()
        self._renewed = time.time()
        self._who = {
            "token": uuid.uuid4().hex,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "since": time.time(),
            "life": processes.life(os.getpid()),
        }

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.stage}.{self.generation}.json"

    def content(self) -> bytes:
        """What its file says now."""
        return json.dumps({**self._who, "beat": self._beat, "renewed": time.time(), "seconds": self.seconds}).encode()

    def renew(self) -> None:
        """Say that the holder lives; Lost if it was too late."""
        with self._lock:
            held = _generations(self._files, self.stage)
            self.lost = self.lost or not held or held[-1] != self.generation
            if self.lost:
                raise Lost(self.stage)
            self._beat += 1
            asked = time.time()
            self._files.replace(self.name, self.content())
            self._renewed = asked

    def check(self) -> None:
        """Lost if the lease is; asks only where it may have expired meanwhile, the holder having been held up."""
        if self.lost or abs(time.time() - self._renewed) > self.seconds:
            self.renew()

    def latest(self) -> int:
        """How often the stage was started by now: beyond `generation` if the lease expired and was taken over."""
        return max([self.generation, *_generations(self._files, self.stage)])

    def release(self) -> None:
        """Give it back, its expired predecessors first, so that no moment shows one of them as the latest."""
        with self._lock:
            for generation in _generations(self._files, self.stage):
                if generation < self.generation or (generation == self.generation and not self.lost):
                    self._files.remove(f"{FOLDER}/{self.stage}.{generation}.json")


class Claim:
    """One waiter at one stage; remembers since when the lease of another has been silent."""

    def __init__(self, files: Files, stage: str, seconds: float) -> None:
        self._files, self._stage, self._seconds = files, stage, seconds
        self._seen: tuple[int, bytes] | None = None
        self._since = 0.0

    def take(self) -> Lease | None:
        """The lease, if nobody holds it or its holder's has expired; None if somebody does."""
        held = _generations(self._files, self._stage)
        expired: bytes | None = None
        if held:
            expired = self._expired(held[-1])
            if expired is None:
                return None
        lease = Lease(self._files, self._stage, (held[-1] if held else 0) + 1, self._seconds)
        if not self._files.create(lease.name, lease.content()):
            return None
        if not self._stands(lease, expired):
            self._files.remove(lease.name)
            return None
        return lease

    def _expired(self, generation: int) -> bytes | None:
        """The bytes of a lease that has expired, None for a live one."""
        try:
            content = self._files.read(f"{FOLDER}/{self._stage}.{generation}.json")
        except FileNotFoundError:  # released this moment
            return None
        now = time.monotonic()
        if self._seen != (generation, content):
            self._seen, self._since = (generation, content), now
        seconds, renewed = _stated(content) or (self._seconds, time.time())
        process, said = _process(content)
        old = time.time() - renewed > seconds + SKEW and not processes.lives(process, said)
        return content if now - self._since >= seconds or old or processes.is_dead(process, said) else None

    def _stands(self, lease: Lease, expired: bytes | None) -> bool:
        """Whether the world is still as it was when the lease was created: nobody above, the expired one below.

        Between a look and a creation another waiter may have taken over, finished and cleared the leases away.
        """
        held = _generations(self._files, self._stage)
        if not held or held[-1] != lease.generation:
            return False
        if expired is None:
            return True
        try:
            return self._files.read(f"{FOLDER}/{self._stage}.{lease.generation - 1}.json") == expired
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def kept(lease: Lease) -> Iterator[Lease]:
    """Renew a lease in the background for as long as the block runs, then give it back.

    A store that is out of reach for a moment does not end the work: the next renewal counts, or the lease expires.
    """
    done = threading.Event()

    def renew() -> None:
        while not done.wait(lease.seconds / 3):
            try:
                lease.renew()
            except Lost:
                return
            except (OSError, RaysweepError):
                continue

    thread = threading.Thread(target=renew, name=f"lease of {lease.stage}", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        done.set()
        thread.join()
        lease.release()


def live(files: Files) -> dict[str, str]:
    """stage -> who computes it, leaving out leases that have expired at first sight."""
    found = {}
    for name in files.names(FOLDER):
        if name.startswith("."):
            continue
        with contextlib.suppress(FileNotFoundError):
            content = files.read(f"{FOLDER}/{name}")
            seconds, renewed = _stated(content) or (0.0, time.time() - files.age(f"{FOLDER}/{name}"))
            process, said = _process(content)
            young = time.time() - renewed <= seconds + SKEW or processes.lives(process, said)
            if young and not processes.is_dead(process, said):
                found[name.split(".")[0]] = holder(content)
    return found


def latest(files: Files, stage: str) -> bytes | None:
    """What the lease of a stage says that counts now; None if nobody holds one."""
    for generation in reversed(_generations(files, stage)):
        with contextlib.suppress(FileNotFoundError):
            return files.read(f"{FOLDER}/{stage}.{generation}.json")
    return None


def silence(files: Files, stage: str) -> float:
    """Seconds since the holder of a stage was last heard of, by the kinder of its clock and that of the file system;
    infinity if nobody holds it."""
    for generation in reversed(_generations(files, stage)):
        name = f"{FOLDER}/{stage}.{generation}.json"
        with contextlib.suppress(FileNotFoundError):
            stated = _stated(files.read(name))
            age = files.age(name)
            return min(age, time.time() - stated[1]) if stated else age
    return math.inf


def since(content: bytes) -> float:
    """When the holder took a lease, in seconds of the epoch by its own clock; 0 where it cannot be read."""
    try:
        return float(json.loads(content)["since"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def duration(content: bytes, default: float) -> float:
    """Seconds that a lease lasts beyond its last renewal."""
    stated = _stated(content)
    return stated[0] if stated else default


def _process(content: bytes) -> tuple[int, list[str] | None]:
    """Which process holds a lease, and its life, as processes.py tells one; None where the lease does not say."""
    try:
        plain = json.loads(content)
        return int(plain["process"]), plain["life"]
    except (ValueError, KeyError, TypeError):
        return 0, None


def holder(content: bytes) -> str:
    """Who wrote a lease."""
    try:
        plain = json.loads(content)
        return f"process {plain['process']} on {plain['host']}"
    except (ValueError, KeyError, TypeError):
        return "somebody"


def _generations(files: Files, stage: str) -> list[int]:
    found = [name.split(".") for name in files.names(FOLDER)]
    return sorted(
        int(parts[1])
        for parts in found
        if len(parts) == 3 and parts[0] == stage and parts[1].isdigit() and parts[2] == "json"
    )


def _stated(content: bytes) -> tuple[float, float] | None:
    """Duration and time of the last renewal as a lease states them; None where it cannot be read."""
    try:
        plain: dict[str, Any] = json.loads(content)
        return float(plain["seconds"]), float(plain["renewed"])
    except (ValueError, KeyError, TypeError):
        return None
