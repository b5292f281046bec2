"""Starts Ray on this machine so that no other machine and no other user can reach it, and watches whether it lives.

By default Ray listens on every interface, keeps its token in a file that every user of the machine can read, and has
its sockets in a folder that all may write. Anyone who reaches its ports and has the token, or puts a socket in the
place of one of these, can run programs as this user.

Without its raylet or its GCS a driver cannot compute anything. Ray then ends the process 15 to 60 seconds later from
C++, without a message, with exit code 1, and the record in MLflow stays open. To avoid this, Ray is watched, and a
driver that lost it ends as after a signal (driver/signal_handlers.py).

The sockets of its Ray and Tune's files are in a temporary folder of this process, which no other user can enter. The
path of a socket has at most 107 bytes, so the folder lies where its own path is short. It goes with its process; what a
killed one left is removed when the next driver begins.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raysweep.errors import Halted
from raysweep.storage import processes

PREFIX, LOCK = "raysweep-", "lock"
LONGEST = 107 - len("/r/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store") - len(f"/{PREFIX}12345678")
"""Bytes that the path of the place may have in which the folder is made."""
REASON = 300  # letters of Ray's reason that are shown
LOCAL_PATIENCE, CLUSTER_PATIENCE = 3.0, 35.0
"""Seconds without a GCS after which Ray counts as gone: our own Ray, a joined cluster. The GCS of a cluster may come
back. Ray itself waits 60 s for it, and an orderly end takes up to 18 s of them."""
_PAUSE = 1.0  # seconds between two checks


def machine(cpus: int) -> dict[str, float]:
    """The resources that Ray will report for this machine if it is started with this number of CPUs."""
    from ray._private.resource_and_label_spec import ResourceAndLabelSpec

    return ResourceAndLabelSpec(num_cpus=cpus).resolve(is_head=True, node_ip_address="127.0.0.1").to_resource_dict()


def start(cpus: int, **options: Any) -> None:
    """Start Ray, on 127.0.0.1 only; nobody else can reach it. Raises Halted if it does not start."""
    import ray

    session = folder() / "r"  # Ray lets all write there; nobody else can enter the folder around it
    atexit.register(ray.shutdown)  # before that folder is removed
    _private_token()
    try:
        with _loopback():
            ray.init(address="local", include_dashboard=False, num_cpus=cpus, _temp_dir=str(session), **options)
    except Exception as error:  # of many classes
        ray.shutdown()
        reason = (" ".join(str(error).split()) or type(error).__name__)[:REASON]
        advice = "try again, or compute in this process with --executor inline"
        raise Halted("--executor", f"Ray cannot be started on this machine ({reason}); {advice}") from error


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Make Ray use 127.0.0.1 as this machine's address inside the block, as it does itself on macOS and Windows by the
    same switch. The address 127.0.0.1 in `ray.init` is replaced by another one."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _private_token() -> None:
    """Create a token that only this user can read, unless the user has set one, or another mode."""
    mode = os.environ.get("RAY_AUTH_MODE") or "token"
    if mode.lower() != "token" or os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(new, "w") as stream:
                stream.write(secrets.token_hex(32))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError:  # the home folder is missing or read-only
        from ray._raylet import Config  # type: ignore[attr-defined]  # of Cython

        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        Config.initialize("")  # it has read the environment before


@contextlib.contextmanager
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


class _Nothing(set[Any]):
    def add(self, element: Any) -> None: ...


def refuse_nested_tasks() -> None:
    """Let Tune refuse every task and actor that a row starts and for which this trial has no resources. Tune itself
    refuses only the first of its kind in a process; the second one would wait for ever."""
    from ray.train._internal import session

    session._checked_resources = _Nothing()


@functools.cache
def folder() -> Path:
    """The folder, with mode 0700, which goes with this process. Raises Halted if there is no place for it."""
    for place in _places():
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            _lock(made)
            atexit.register(_remove, made, os.getpid())
            return made
    raise Halted(
        "TMPDIR", f"expected a folder that can be written, whose path has at most {LONGEST} bytes; neither is /tmp one"
    )


def clear_leftovers() -> None:
    """Remove the folders of processes of this user that were killed."""
    for place in _places():
        for left in place.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if left.lstat().st_uid == os.getuid() and not left.is_symlink():
                    with open(left / LOCK) as stream:
                        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(left, ignore_errors=True)


def _places() -> Iterator[Path]:
    for place in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):
        if len(os.fsencode(place)) <= LONGEST:
            yield Path(place)


def _lock(made: Path) -> None:
    """Hold a lock in the folder for as long as this process lives. It is held before it has its name."""
    descriptor = os.open(made / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(made / "new", made / LOCK)


def _remove(made: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(made, ignore_errors=True)
