"""Drivers that start at once: one process imports everything, and every driver is a fork of it.

`python -m tests.chaos.drivers SOCKET` is that process. It starts no thread, so a fork of it is like a process of its
own that has just finished its imports. A driver has a session of its own and ends as any interpreter does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from raysweep import main
from tests.chaos.waiting import wait_for


class Driver:
    """One driver, with the methods of subprocess.Popen that faults need.

    says: the file to which stderr is added; None for a terminal that is there until `hang_up`.
    """

    def __init__(self, socket: Path, arguments: Sequence[str], says: Path | None, stdout: Path | None = None) -> None:
        self.returncode: int | None = None
        self._terminal: int | None = None
        if says is None:
            says = socket.with_name(f"terminal-{random.getrandbits(64):x}")
            os.mkfifo(says)
            self._terminal = os.open(says, os.O_RDONLY | os.O_NONBLOCK)
        self._keeper = Client(str(socket))
        self._keeper.send((list(arguments), str(stdout or os.devnull), str(says)))
        self.pid = int(self._keeper.recv())

    def hang_up(self) -> None:
        """Take its terminal away."""
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended; TimeoutExpired if that takes longer."""
        if self.returncode is None:
            if not self._keeper.poll(timeout):
                raise subprocess.TimeoutExpired("raysweep", timeout or 0)
            self.returncode = int(self._keeper.recv())
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Its keeper leaves it in the table of processes, so that the number is nobody else's."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """At once."""
        self.send_signal(signal.SIGKILL)


class Drivers:
    """The process of which drivers are forks. socket: where it listens; env: its environment."""

    def __init__(self, socket: Path, env: Mapping[str, str]) -> None:
        self.socket, self.env = socket, dict(env)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.drivers", str(socket)],
            cwd=Path(__file__).parents[2],
            env={**env, "JE_ARROW_MALLOC_CONF": "background_thread:false"},  # Arrow's allocator would start a thread
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if not wait_for(socket.exists, self._process):
            raise RuntimeError("the process of which drivers are forks has ended")

    def start(self, arguments: Sequence[str], says: Path | None, stdout: Path | None = None) -> Driver:
        """A driver with these arguments of the command line."""
        return Driver(self.socket, arguments, says, stdout)

    def kill(self) -> None:
        """Drivers that still live go on."""
        self._process.kill()
        self._process.wait()


def _serve(socket: str) -> list[str]:
    """Fork drivers for ever. Returns only in a driver: its arguments."""
    with Listener(socket) as listener:
        while True:
            keeper = listener.accept()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            with contextlib.suppress(EOFError):
                arguments, stdout, stderr = keeper.recv()
                if os.fork() == 0:
                    return _keep(keeper, arguments, stdout, stderr)
            keeper.close()


def _keep(connection: Connection, arguments: list[str], stdout: str, stderr: str) -> list[str]:
    """Tell a driver's number and how it ended. Returns only in the driver."""
    for path, flags, number in (
        (os.devnull, os.O_RDONLY, 0),
        (stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1),
        (stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 2),  # before anybody can take a terminal away
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    driver = os.fork()
    if driver:
        connection.send(driver)
        ended = os.waitid(os.P_PID, driver, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        connection.send(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
        with contextlib.suppress(EOFError, ConnectionError):
            connection.recv()  # until nobody asks any more
        os._exit(0)
    connection.close()
    os.setsid()
    return arguments


def _import() -> None:
    """Whatever a driver imports."""
    importlib.import_module("raysweep.driver.driver")
    tune = importlib.import_module("raysweep.executors.ray_tune")
    os.environ.update(tune._ENVIRONMENT)  # some of it is read when Ray is imported
    for name in ("ray.tune", "mlflow.store.tracking.sqlalchemy_store", "mlflow.store.tracking.rest_store", "pandas"):
        importlib.import_module(name)
    for name in ("sweep", "tracking.runs", "tracking.session", "trial.compute", "training.trainer", "commands.results"):
        importlib.import_module(f"raysweep.{name}")
    threads = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else [""]
    assert len(threads) == 1, "a fork would lack the other threads"
    gc.freeze()


if __name__ == "__main__":
    _import()
    command = _serve(sys.argv[1])
    random.seed()
    main.main(command)
