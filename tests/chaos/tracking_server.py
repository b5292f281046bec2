"""A real MLflow server on the loopback that can be taken away and brought back."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request

from tests.chaos.waiting import PATIENCE, wait_for


class Server:
    """`mlflow server` on a port of its own, its database and artifacts in `room`, that can be killed and started again.

    `variables` are added to its environment, `options` to its command. A database that lies in the room already is
    taken as it is: making one costs seconds.
    """

    def __init__(self, room, variables=None, options=()):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.room, self.database, self.uri = room, room / "server.db", f"http://127.0.0.1:{self.port}"
        self.env = {
            **os.environ,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            **(variables or {}),
        }
        self.options = list(options)
        self.process = None

    def start(self):
        if self.process is not None:
            return
        where = ["--backend-store-uri", f"sqlite:///{self.database}"]
        where += ["--artifacts-destination", str(self.room / "served")]
        here = f"--host 127.0.0.1 --port {self.port} --workers 1".split()
        command = [sys.executable, "-m", "mlflow", "server", *self.options, *here, *where]
        said = self.room / "server.log"
        with said.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.room, stdout=log, stderr=log, env=self.env, start_new_session=True
            )
        if not wait_for(self._answers, self.process):
            raise RuntimeError(f"the MLflow server does not answer: {said.read_text(errors='replace')[-2000:]}")

    def _answers(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=20):
            return True
        return False

    def kill(self):
        """At once, with all its workers."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None
