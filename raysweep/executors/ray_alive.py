"""Watches whether the Ray that trials run on is still alive.

Without its raylet or its GCS a driver cannot compute anything. Ray then ends the process 15 to 60 seconds later from
C++, without a message, with exit code 1, and the record in MLflow stays open. To avoid this, Ray is watched, and a
driver that lost it ends as after a signal (driver/signal_handlers.py).
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

LOCAL_PATIENCE, CLUSTER_PATIENCE = 3.0, 35.0
"""Seconds without a GCS after which Ray counts as gone: our own Ray, a joined cluster. The GCS of a cluster may come
back. Ray itself waits 60 s for it, and an orderly end takes up to 18 s of them."""
_PAUSE = 1.0  # seconds between two checks


@contextmanager
def watched(say: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, in the main thread, send this process SIGTERM if its Ray is gone, and say why."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from ray._private import worker

    node = worker.global_worker.node
    address, _, port = node.gcs_address.rpartition(":")
    raylet = _listener(node.raylet_socket_name)
    lived = processes.life(raylet) if raylet else None
    patience = LOCAL_PATIENCE if node.is_head() else CLUSTER_PATIENCE
    over = threading.Event()

    def watch() -> None:
        answered = time.monotonic()
        while not over.wait(_PAUSE):
            if _answers(address.strip("[]"), int(port)):
                answered = time.monotonic()
            silent = time.monotonic() - answered > patience
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
    """The id of the process that listens on a Unix socket; None if the system does not tell (only Linux does)."""
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
