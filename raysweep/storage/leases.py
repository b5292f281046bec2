"""Leases: all threads, processes and hosts that share a store agree on who computes a stage now.

A lease is a small file `leases/STAGE.GENERATION.json`. Its holder rewrites it every third of its duration. A waiter
takes a lease as expired if its bytes have not changed for that duration on the *waiter's own* clock, so the clocks of
hosts need not agree. Two kinds of leases count as expired without waiting. In the first, the holder was a process of
this machine and is dead. In the second, the stated time is older than the duration plus SKEW, unless the holder is a
living process of this machine (the machine slept, or its clock was set). A waiter takes over by the conditional
creation of the next generation, so only one waiter wins. The highest generation counts; the holder of an older one
finds out when it renews.

A holder that was only delayed (a suspended machine, a store out of reach) may thus compute at the same time as its
successor until it renews. Then both read the result that was published first.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raysweep import plain_json as json
from raysweep.errors import RaysweepError
from raysweep.storage import processes
from raysweep.storage.folder import Folder

FOLDER = "leases"
SECONDS = 60.0
"""Default time that a lease lasts after its last renewal, in seconds."""
SKEW = 300.0
"""Largest difference in seconds between the clocks of two hosts at which no live lease looks dead at first sight."""


class Lost(Exception):
    """The lease expired and somebody else computes the stage now."""


class Held(Exception):
    """Somebody else computes a stage now, and the caller does not want to wait for it."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"somebody else computes the stage {stage}")
        self.stage = stage


@dataclass(frozen=True)
class Statement:
    """The content of a lease file.

    content: its bytes, which every renewal changes.
    silence: seconds since the last renewal, by the holder's clock.
    seconds: how long the lease lasts after the last renewal.
    since: when the holder took it, in seconds of the epoch by the holder's clock.
    process, life: the holder, as in processes.py (life is None if the file does not say).
    """

    name: str
    content: bytes
    silence: float
    seconds: float = SECONDS
    since: float = 0.0
    holder: str = "somebody"
    process: int = 0
    life: list[str] | None = None

    @property
    def expired(self) -> bool:
        if processes.is_dead(self.process, self.life):
            return True
        return self.silence > self.seconds + SKEW and not processes.lives(self.process, self.life)


def _read(folder: Folder, stage: str, generation: int) -> Statement:
    """The lease of this generation; FileNotFoundError if it was released."""
    name = _name(stage, generation)
    content = folder.read(name)
    try:
        plain = json.loads(content)
        silence, holder = time.time() - plain["renewed"], f"process {plain['process']} on {plain['host']}"
        return Statement(
            name, content, silence, plain["seconds"], plain["since"], holder, plain["process"], plain.get("life")
        )
    except (ValueError, KeyError, TypeError):
        return Statement(name, content, folder.age(name))


class Lease:
    """A lease that is held. generation: how often the stage was started, 1 if no earlier lease expired."""

    def __init__(self, folder: Folder, stage: str, generation: int, seconds: float) -> None:
        self.stage, self.generation, self.seconds = stage, generation, seconds
        self.name = _name(stage, generation)
        self.lost = False
        self._folder, self._beat, self._lock = folder, 0, threading.Lock()
        self._renewed = time.time()
        here = {"token": uuid.uuid4().hex, "host": socket.gethostname(), "process": os.getpid()}
        self._who = {**here, "since": time.time(), "life": processes.life(os.getpid())}

    def content(self) -> bytes:
        return json.dumps({**self._who, "beat": self._beat, "renewed": time.time(), "seconds": self.seconds}).encode()

    def renew(self) -> None:
        """Record that the holder lives; Lost if it was too late."""
        with self._lock:
            held = _generations(self._folder, self.stage)
            self.lost = self.lost or not held or held[-1] != self.generation
            if self.lost:
                raise Lost(self.stage)
            self._beat += 1
            asked = time.time()
            self._folder.replace(self.name, self.content())
            self._renewed = asked

    def check(self) -> None:
        """Raise Lost if the lease is lost. It reads the store only if the lease may have expired."""
        if self.lost or abs(time.time() - self._renewed) > self.seconds:
            self.renew()

    def latest(self) -> int:
        """How often the stage was started so far: more than `generation` if the lease expired and was taken over."""
        return max([self.generation, *_generations(self._folder, self.stage)])

    def release(self) -> None:
        """Remove the lease, its expired predecessors first, so that none of them ever looks like the latest."""
        with self._lock:
            for generation in _generations(self._folder, self.stage):
                if generation < self.generation or (generation == self.generation and not self.lost):
                    self._folder.remove(_name(self.stage, generation))


class Claim:
    """One waiter for one stage; remembers since when the lease of another holder has not changed. expired: the content
    of a lease that is known to have expired."""

    def __init__(self, folder: Folder, stage: str, seconds: float, expired: bytes = b"") -> None:
        self._folder, self._stage, self._seconds = folder, stage, seconds
        self._seen, self._since = expired, float("-inf")

    def take(self) -> Lease | None:
        """The lease, if nobody holds it or the holder's lease has expired; None otherwise."""
        held = _generations(self._folder, self._stage)
        expired = self._expired(held[-1]) if held else None
        if held and expired is None:
            return None
        lease = Lease(self._folder, self._stage, (held[-1] if held else 0) + 1, self._seconds)
        if not self._folder.create(lease.name, lease.content()):
            return None
        if not self._stands(lease, expired):
            self._folder.remove(lease.name)
            return None
        return lease

    def expired(self) -> bytes | None:
        """The content of the lease that counts now, if it has expired; None if nobody holds it, or if it is live."""
        held = _generations(self._folder, self._stage)
        return self._expired(held[-1]) if held else None

    def _expired(self, generation: int) -> bytes | None:
        try:
            statement = _read(self._folder, self._stage, generation)
        except FileNotFoundError:  # released between the two reads
            return None
        now = time.monotonic()
        if self._seen != statement.content:
            self._seen, self._since = statement.content, now
        return statement.content if now - self._since >= statement.seconds or statement.expired else None

    def _stands(self, lease: Lease, expired: bytes | None) -> bool:
        """Whether nothing has changed since the lease was created: none is newer, and the expired one is still below.
        Before its creation, another waiter may have taken over, finished and removed the leases."""
        held = _generations(self._folder, self._stage)
        if not held or held[-1] != lease.generation:
            return False
        if expired is None:
            return True
        try:
            return self._folder.read(_name(self._stage, lease.generation - 1)) == expired
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def kept(lease: Lease) -> Iterator[Lease]:
    """Renew a lease in the background while the block runs, then release it. If the store is out of reach for a moment,
    the work goes on: either a later renewal succeeds, or the lease expires."""
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


@contextlib.contextmanager
def at_once(folder: Folder, stage: str, seconds: float) -> Iterator[Lease | None]:
    """Hold the lease of a stage while the block runs; None, without waiting, if somebody else holds it."""
    lease = Claim(folder, stage, seconds).take()
    with kept(lease) if lease else contextlib.nullcontext():
        yield lease


def live(folder: Folder, expired: Mapping[str, bytes] | None = None) -> dict[str, str]:
    """stage -> who computes it, by live leases. expired: by stage, the content of a lease that is known to have."""
    holders = {}
    for stage, generations in _all_generations(folder).items():
        with contextlib.suppress(FileNotFoundError):
            now = _read(folder, stage, generations[-1])
            if not now.expired and now.content != (expired or {}).get(stage):
                holders[stage] = now.holder
    return holders


def latest(folder: Folder, stage: str) -> Statement | None:
    """The content of the lease of a stage that counts now; None if nobody holds one."""
    for generation in reversed(_generations(folder, stage)):
        with contextlib.suppress(FileNotFoundError):
            return _read(folder, stage, generation)
    return None


def _name(stage: str, generation: int) -> str:
    return f"{FOLDER}/{stage}.{generation}.json"


def _generations(folder: Folder, stage: str) -> list[int]:
    return _all_generations(folder).get(stage, [])


def _all_generations(folder: Folder) -> dict[str, list[int]]:
    """stage -> the generations of its leases, ascending."""
    by_stage: dict[str, list[int]] = {}
    for name in folder.names(FOLDER):
        if parts := re.fullmatch(r"([^.]+)\.(\d+)\.json", name):
            by_stage.setdefault(parts[1], []).append(int(parts[2]))
    return {stage: sorted(generations) for stage, generations in by_stage.items()}
