"""An OpenSSH server on loopback with a key, a port, a home and process numbers of its own.

Nothing of the user is touched: not ~/.ssh (the client finds its configuration by a wrapper first on the path), not
~/.bashrc (a session gets a home in the test's folder), and no Ray of anybody else. The last one matters, because `ray
stop`, which `ray up` and `ray down` run, ends every Ray process it can see: the server sees only its own.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MARK = "RAYSWEEP_CLUSTER_TEST"
"""Set in every session, so that what a session started is known even after it has left its parents."""

PROGRAMS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "rsync": "rsync",
            "tmux": "tmux", "bash": "bash", "unshare": "util-linux"}


def missing() -> list[str]:
    """What to install (packages of Debian) before a server can be started here; nothing if all is there."""
    return sorted({package for program, package in PROGRAMS.items() if which(program) is None})


def which(program: str) -> str | None:
    """A program, also where only root has it on the path."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/sbin")


@dataclass(frozen=True)
class Server:
    """A running server: how to reach it, and the folders of the test."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    host = "127.0.0.1"

    @property
    def home(self) -> Path:
        """The home that sessions get; `~` on the cluster."""
        return self.folder / "home"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def user(self) -> str:
        return getpass.getuser()

    def environment(self) -> dict[str, str]:
        """What a client here needs: the wrapper around ssh, and no folder shared with any other Ray."""
        return {**_plain_environment(), "RAY_TMPDIR": str(_made(self.folder / "client")),
                "TMPDIR": str(_made(self.folder / "client-tmp")), "HOME": str(_made(self.folder / "client-home")),
                "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def processes(self) -> dict[int, str]:
        """What runs of this test now, other than the server: process number (seen from here) and command line."""
        return {number: line for number, line in _marked(self.folder).items() if number != os.getpid()}

    def drop_connections(self) -> int:
        """End every SSH session at once, as a lost network does; returns how many server processes that took."""
        ended = 0
        for number in _descendants(self.process.pid):
            line = _command_line(number)
            if line.startswith(("sshd: ", "sshd-session: ")) and "[listener]" not in line:
                os.kill(number, signal.SIGKILL)
                ended += 1
        return ended


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """A server below `folder` (a short path: Ray puts sockets below it), stopped at the end with all it started."""
    port = free_port()
    _write_keys(folder)
    _write_environment_of_node(folder / "home")
    (folder / "sshd_config").write_text(_server_configuration(folder, port))
    _write_client(folder, port)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it; Debian's service would make it
    apart = _own_process_numbers()
    if not apart and any("raylet" in line for line in _all_processes().values()):
        raise RuntimeError("a Ray runs on this machine and process namespaces are not allowed here: "
                           "`ray up` would stop that Ray. End it first, or run this as root")
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([*apart, str(which("sshd")), "-D", "-e", "-f", str(folder / "sshd_config")],
                                   stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    server = Server(folder, port, process)
    try:
        until(lambda: _accepts(port) or process.poll() is not None, 20, "the SSH server to listen")
        if process.poll() is not None:
            raise RuntimeError(f"sshd did not start: {(folder / 'sshd.log').read_text()}")
        yield server
    finally:
        _stop(server)


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        select_nothing(0.1)


def select_nothing(seconds: float) -> None:
    """Between two looks at a condition."""
    import select

    select.select([], [], [], seconds)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(server: Server) -> None:
    server.process.kill()
    server.process.wait()
    for number in server.processes():  # none where the server had process numbers of its own: they end with it
        os.kill(number, signal.SIGKILL)
    until(lambda: not server.processes(), 20, "what the sessions started to end")


def _own_process_numbers() -> list[str]:
    """How to start a command that sees only its own processes, and takes them all with it; empty if not allowed."""
    for user in ([], ["--user", "--map-current-user"]):
        command = ["unshare", *user, "--pid", "--fork", "--mount-proc", "--kill-child"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return []


def _write_keys(folder: Path) -> None:
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)


def _server_configuration(folder: Path, port: int) -> str:
    session = {MARK: str(folder), "HOME": str(folder / "home"), "RAY_TMPDIR": str(_made(folder / "ray")),
               **{name: value for name, value in _plain_environment().items() if name.startswith("PIP_")}}
    return "\n".join([
        "ListenAddress 127.0.0.1", f"Port {port}", f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'key.pub'}", "StrictModes no", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "UsePAM no",
        f"PidFile {folder / 'sshd.pid'}",
        "SetEnv " + " ".join(f'"{name}={value}"' for name, value in session.items())]) + "\n"


def _write_client(folder: Path, port: int) -> None:
    """The port can only be set in the SSH configuration, and ssh ignores $HOME when it looks for one."""
    (folder / "ssh_config").write_text(f"Host 127.0.0.1\n  Port {port}\n")
    wrapper = _made(folder / "bin") / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {which("ssh")} -F {folder / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)


def _write_environment_of_node(home: Path) -> None:
    """~/raysweep-env with all that raysweep needs but not raysweep: 6 GB of downloads less, the rest is real."""
    environment = home / "raysweep-env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    here = sysconfig.get_path("purelib")
    there = next(environment.glob("lib/python*/site-packages"))
    (there / "from_the_tests.pth").write_text(f"{here}\n")
    ray = environment / "bin" / "ray"
    ray.write_text(f"#!{environment}/bin/python\nimport sys\nfrom ray.scripts.scripts import main\nsys.exit(main())\n")
    ray.chmod(0o755)
    (home / ".bash_profile").write_text("cd\n. ~/.bashrc\n")  # a session starts in the home
    (home / ".bashrc").touch()


def _plain_environment() -> dict[str, str]:
    """This environment without what would make a client join another Ray or mistake a make for its own."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("RAY_", "SSH_", "TMUX", "MAKE"))
            and name not in ("PYTHONPATH", "VIRTUAL_ENV", "VENV")}
    return kept | {"RAY_USAGE_STATS_ENABLED": "0"}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _all_processes() -> dict[int, str]:
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {number: _command_line(number) for number in numbers}


def _command_line(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _marked(folder: Path) -> dict[int, str]:
    found = {}
    for number, line in _all_processes().items():
        try:
            variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={folder}".encode() in variables:
            found[number] = line
    return found


def _descendants(root: int) -> list[int]:
    parents = {}
    for number in _all_processes():
        try:
            parents[number] = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, level = [], [root]
    while level:
        level = [number for number, parent in parents.items() if parent in level]
        found += level
    return found
