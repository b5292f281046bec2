"""Machines on loopback: OpenSSH servers with a key, a port, and each a home and process numbers of its own.

Nothing of the user is touched: not ~/.ssh (the client finds its configuration by a wrapper first on the path), not
~/.bashrc (a session gets a home in the test's folder), and no Ray of anybody else. The last one matters, because `ray
stop`, which `ray up` and `ray down` run, ends every Ray process it can see: a server sees only its own.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.chaos.waiting import wait_for

MARK = "RAYSWEEP_CLUSTER_TEST"
"""Set in every session, so that what a session started is known even after it has left its parents."""

PROGRAMS = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
    "tmux": "tmux",
    "bash": "bash",
    "unshare": "util-linux",
}


def need():
    """Ends the tests if no server can be started here, and says what to install (packages of Debian)."""
    if missing := sorted({package for program, package in PROGRAMS.items() if which(program) is None}):
        pytest.exit(f"make test-cluster needs: apt-get install {' '.join(missing)}", returncode=2)


def which(program):
    """A program, also where only root has it on the path."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/sbin")


HEAD, WORKER = "127.0.0.1", "127.0.0.2"
IMAGE_USER = "ubuntu"
"""The account of a cloud's image, for which sessions here get the account of the test."""


@dataclass(frozen=True)
class Machines:
    """Running servers: how to reach them, and the folders of the test."""

    folder: Path
    port: int
    apart: list[str]
    variables: dict[str, str]
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def key(self):
        return self.folder / "key"

    @property
    def user(self):
        return getpass.getuser()

    def home(self, host):
        """The home that sessions on this host get; `~` there."""
        return self.folder / host / "home"

    def ray_folder(self, host):
        """Where Ray keeps its files on a host; r1 is that of the one which was started first."""
        return _made(self.folder / f"r{[*self.servers, host].index(host) + 1}")

    def start(self, host, public_key):
        """A server on this address, which lets in whoever has the private half of the key."""
        variables = {**self.variables, "RAY_TMPDIR": str(self.ray_folder(host))}
        _write_environment_of_node(self.home(host), host, self.folder / "bin")
        configuration, log = self.folder / host / "sshd_config", self.folder / host / "sshd.log"
        configuration.write_text(_server_configuration(self.folder, host, self.port, public_key, variables))
        with log.open("wb") as written:
            self.servers[host] = subprocess.Popen(
                [*self.apart, str(which("sshd")), "-D", "-e", "-f", configuration],
                stdout=written,
                stderr=written,
                stdin=subprocess.DEVNULL,
            )
        if not wait_for(lambda: _accepts(host, self.port), self.servers[host], 20):
            raise RuntimeError(f"sshd did not start: {log.read_text()}")

    def stop(self, host):
        """End a server, and with it, it being number one there, every process it can see."""
        self.servers[host].kill()
        self.servers[host].wait()

    def environment(self):
        """What a client here needs: the wrapper around ssh, and no folder shared with any other Ray."""
        client = self.folder / "client"
        return {
            **_plain_environment(),
            **self.variables,
            "HOME": str(_made(client / "home")),
            "TMPDIR": str(_made(client / "tmp")),
            "RAY_TMPDIR": str(_made(self.folder / "r1")),  # Ray looks for its record at one path on both sides
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def processes(self):
        """What runs of this test now, other than the servers: process number (seen from here) and command line."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it has ended, or is somebody else's
                if process.environ().get(MARK) == str(self.folder) and process.pid != os.getpid():
                    found[process.pid] = " ".join(process.cmdline())
        return found

    def running(self, program):
        """How many processes of this test have this word in their command line."""
        return sum(program in line for line in self.processes().values())

    def autoscaler_said(self):
        """The ends of the logs of the head's autoscaler, where it says why a worker does not come."""
        logs = sorted((self.folder / "r1").glob("ray/session_*/logs/monitor*"))
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-6000:]}" for path in logs)

    def drop_connections(self):
        """End every SSH session at once, as a lost network does; returns how many processes that took."""
        ended = 0
        for server in self.servers.values():
            for process in psutil.Process(server.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    line = " ".join(process.cmdline())
                    if line.startswith(("sshd: ", "sshd-session: ")) and "[listener]" not in line:
                        process.kill()
                        ended += 1
        return ended


@contextlib.contextmanager
def serve(folder, variables):
    """Machines below `folder` (a short path: Ray has sockets there), none at first, stopped at the end with all they
    started; every session on them has these variables."""
    apart = _own_process_numbers()
    if not apart:
        raise RuntimeError(
            "process namespaces are not allowed here, and without them `ray up` would stop every Ray on "
            "this machine and two machines could not be told apart; run this as root, or allow them "
            "(sysctl kernel.unprivileged_userns_clone=1)"
        )
    _write_keys(folder)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it; Debian's service would make it
    machines = Machines(folder, free_port(), apart, variables)
    _write_client(machines)
    try:
        yield machines
    finally:
        for host in machines.servers:
            machines.stop(host)
        assert wait_for(lambda: not machines.processes(), seconds=20), machines.processes()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _own_process_numbers():
    """How to start a command that sees only its own processes, and takes them all with it; empty if not allowed."""
    for user in ([], ["--user", "--map-current-user"]):
        command = ["unshare", *user, "--pid", "--fork", "--mount-proc", "--kill-child"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return []


def _write_keys(folder):
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)


def _server_configuration(folder, host, port, public_key, variables):
    session = {**variables, MARK: str(folder), "HOME": str(folder / host / "home")}
    session |= {name: value for name, value in _plain_environment().items() if name.startswith("PIP_")}
    return f"""ListenAddress {host}
Port {port}
HostKey {folder / "host_key"}
AuthorizedKeysFile {public_key}
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
PidFile {folder / host / "sshd.pid"}
SetEnv {" ".join(f'"{name}={value}"' for name, value in session.items())}
"""


def _write_client(machines):
    """A wrapper around ssh: the port can only be set in the SSH configuration, and ssh asks the account, not $HOME,
    where that and the `~` before its key are. The head uses it too, to reach the worker. Whatever user a cloud's image
    has is this one here. An address that is none of a machine's leads to a closed port: nothing leaves this machine.
    """
    folder = machines.folder
    (folder / "ssh_config").write_text(
        f"Include {_made(folder / 'addresses')}/*\nHost 127.0.0.*\n  HostName %h\n  Port {machines.port}\n"
        "Host *\n  HostName 127.0.0.1\n  Port 9\n"
    )
    wrapper = _made(folder / "bin") / "ssh"
    user, of_image = machines.user, IMAGE_USER
    _write_program(
        wrapper,
        rf"""#!/bin/bash
arguments=("$@")
for ((n = 1; n < $#; n++)); do
  [ "${{arguments[n-1]}}" = -i ] && arguments[n]="${{arguments[n]/#\~\//$HOME/}}"
  arguments[n]="${{arguments[n]/#{of_image}@/{user}@}}"
  [ "${{arguments[n-1]}}" = -l ] && arguments[n]="${{arguments[n]/#{of_image}/{user}}}"
done
exec {which("ssh")} -F {folder / "ssh_config"} "${{arguments[@]}}"
""",
    )


def _write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def _write_environment_of_node(home, host, wrappers):
    """~/raysweep-env with all that raysweep needs but not raysweep: 6 GB of downloads less, the rest is real.

    Its `ray start` says the address, for both machines have the same interfaces and Ray would take neither of ours.
    """
    environment = home / "raysweep-env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    here = sysconfig.get_path("purelib")
    there = next(environment.glob("lib/python*/site-packages"))
    (there / "from_the_tests.pth").write_text(f"{here}\n")
    _write_program(
        environment / "bin" / "ray",
        f"""#!{environment}/bin/python
import sys
from ray.scripts.scripts import main
if sys.argv[1:2] == ['start'] and not any(word.startswith('--node-ip-address') for word in sys.argv):
    sys.argv.append('--node-ip-address={host}')
sys.exit(main())
""",
    )
    # for EC2 and Compute Engine Ray has a setup command of its own that runs pip
    _write_program(environment / "bin" / "pip", f'#!/bin/sh\nexec {environment}/bin/python -m pip "$@"\n')
    (home / ".bash_profile").write_text("cd\n. ~/.bashrc\n")  # a session starts in the home
    (home / ".bashrc").write_text(f'export PATH="{wrappers}:$PATH"\n')


def _plain_environment():
    """This environment without what would make a client join another Ray or mistake a make for its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RAY_", "SSH_", "TMUX", "MAKE")) and name not in ("PYTHONPATH", "VIRTUAL_ENV", "VENV")
    }
    return kept | {"RAY_USAGE_STATS_ENABLED": "0"}


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _accepts(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
