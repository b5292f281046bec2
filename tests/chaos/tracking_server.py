"""A real MLflow server on the loopback that can be taken away, brought back, and be unwell behind a proxy."""

import contextlib
import http.client
import http.server
import os
import random
import signal
import socket
import subprocess
import sys
import threading
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
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self.env = {**os.environ, **quiet, **(variables or {})}
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


class UnwellServer(Server):
    """A server that is reached through a proxy, at `uri`, whether it is well or inside `unwell`."""

    def __init__(self, room, variables=None):
        super().__init__(room, variables)
        self.illness = None
        self.dice, self.share = random.Random(0), 1.0
        self.well_again = threading.Event()
        self._proxy = self._listen(0)
        self.uri = f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def start(self):
        self._proxy = self._proxy or self._listen(int(self.uri.rpartition(":")[2]))
        super().start()

    def kill(self):
        if self._proxy:
            self._proxy.shutdown()
            self._proxy.server_close()
            self._proxy = None
        super().kill()

    @contextlib.contextmanager
    def unwell(self, illness, share=1.0):
        """While the block runs, this share of the requests `refuses` (is answered 500), `loses` (is carried out and
        answered 500) or `hangs` (is carried out and never answered until the end of the block)."""
        self.well_again.clear()
        self.illness, self.share = illness, share
        try:
            yield
        finally:
            self.illness = None
            self.well_again.set()

    def _listen(self, port):
        answers = {f"do_{word}": _Handler.answer for word in ("GET", "POST", "PUT", "PATCH", "DELETE")}
        handler = type("Handler", (_Handler,), {"unwell": self, **answers})
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        proxy.daemon_threads, proxy.block_on_close = True, False
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        return proxy


class _Handler(http.server.BaseHTTPRequestHandler):
    unwell: UnwellServer

    def answer(self):
        unwell = self.unwell
        illness = unwell.illness if unwell.dice.random() < unwell.share else None
        self.close_connection = True
        with contextlib.suppress(OSError, http.client.HTTPException):  # the client or the server is gone
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, headers, content = (500, {}, b"") if illness == "refuses" else self._forward(body)
            if illness == "hangs":
                unwell.well_again.wait()
                return
            if illness == "loses":
                code, headers, content = 500, {}, b""
            self.send_response(code)
            for name, value in headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _forward(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.unwell.port, timeout=60)
        with contextlib.closing(connection):
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def log_message(self, *arguments):
        """Says nothing."""
