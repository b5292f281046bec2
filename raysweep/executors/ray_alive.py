"""Whether the Ray that trials run on is still there.

Without its raylet or its GCS a driver computes nothing any more, and Ray ends the process 15 to 60 seconds later, out
of C++: without a word, with exit code 1 and with the record in MLflow left open. So it is watched, and a driver that
lost it ends as one that is told to (stopping.py).
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raysweep.storage import processes

OWN_PATIENCE, JOINED_PATIENCE = 3.0, 35.0
"""Seconds without a GCS: that of a cluster may come back, for which Ray waits 60; stopping takes up to 18 of them."""
_PAUSE = 1.0  # seconds between two looks


@contextmanager
def watched(say: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, send this process SIGTERM should its Ray be gone, and say so. (Signals reach the main
    thread alone; in another, nothing is watched.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from ray._private import worker

    node = worker.global_worker.node
    address, _, port = node.gcs_address.rpartition(":")
    raylet = _listener(node.raylet_socket_name)
    lived = processes.life(raylet) if raylet else None
    patience = OWN_PATIENCE if node.is_head() else JOINED_PATIENCE
    over = threading.Event()

    def watch() -> None:
        heard = time.monotonic()
        while not over.wait(_PAUSE):
            if _answers(address.strip("[]"), int(port)):
                heard = time.monotonic()
            silent = time.monotonic() - heard > patience
            dead = raylet is not None and processes.is_dead(raylet, lived)
            if (silent or dead) and not over.is_set():
                say(f"Ray is gone (its {'raylet' if dead else 'GCS'} ended), and with it the trials that ran")
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, name="raysweep-ray-alive", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _listener(path: str) -> int | None:
    """The process that listens on a socket of this machine; None where the system (any but Linux) does not say."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]) or None
    except (OSError, AttributeError):
        return None


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=10).close()
    except OSError:
        return False
    return True
