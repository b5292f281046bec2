"""clusters/README.md, "Your own machines", followed word for word; the machines are two SSH servers on loopback."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import server
from conftest import until
from reader import REPOSITORY, Done, blocks_of_readme, check_out, run_here, type_line

import raysweep
from tests.chaos.waiting import wait_for

pytestmark = pytest.mark.cluster


@dataclass
class Cluster:
    """A reader with a copy of the repository, a terminal in it, and two machines."""

    machines: server.Machines
    checkout: Path
    gcs_port: int
    done: dict[str, Done] = field(default_factory=dict)

    @property
    def shared(self):
        return self.machines.folder / "shared"

    @property
    def storage(self):
        return self.shared / "sweeps"

    def edited(self, text):
        """What a user puts for the EDIT_ words; the port of Ray too, for another Ray may run on this machine."""
        for word, value in {
            "EDIT_HEAD_IP": server.HEAD,
            "worker_ips: []": f"worker_ips: [{server.WORKER}]",
            "EDIT_SSH_USER": self.machines.user,
            "EDIT_SSH_KEY": str(self.machines.key),
            "EDIT_SHARED_FOLDER": str(self.shared),
            "--port=6379": f"--port={self.gcs_port}",
        }.items():
            text = text.replace(word, value)
        return text.replace("$RAY_HEAD_IP:6379", f"$RAY_HEAD_IP:{self.gcs_port}")

    def type(self, line):
        """One line of the README, in a shell of the checkout with its environment activated."""
        return type_line(self.machines, self.checkout, self.edited(line))

    def follow(self, line):
        """One line of the README that has to work; remembered."""
        done = self.type(line)
        assert done.code == 0, f"{line}\n{done.text[-4000:]}"
        self.done[line] = done
        return done

    def raysweep(self, *arguments):
        """The command line on this machine, which sees the shared folder as well."""
        done = run_here(self.machines, [sys.executable, "-m", "raysweep.main", *arguments], cwd=self.checkout)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def nodes(self):
        return self.type("ray exec my-cluster.yaml 'ray status'").text

    def finished(self, sweep):
        if not (self.storage / sweep / "sweep.json").exists():
            return False
        return f"{sweep}: finished" in self.raysweep("status", sweep, "--storage", str(self.storage))


def lines_of_readme():
    return [line for block in blocks_of_readme("Your own machines", "bash") for line in block.splitlines()]


def line_with(*words):
    """The one command of the section that has all these words."""
    found = [line for line in lines_of_readme() if all(word in line for word in words)]
    assert len(found) == 1, (words, found)
    return found[0]


@pytest.fixture(scope="module")
def cluster():
    """A cluster that is up: the README until after `ray up`."""
    server.need()
    folder = Path(tempfile.mkdtemp(prefix="rs-", dir="/tmp"))
    try:
        with server.serve(folder, {}) as running:
            for host in (server.HEAD, server.WORKER):
                running.start(host, folder / "key.pub")
            made = Cluster(running, folder / "checkout", server.free_port())
            made.shared.mkdir()
            check_out(made.checkout)
            for line in lines_of_readme()[1:]:  # the first activates the environment: `type` does it for every line
                made.follow(line)
                if line.startswith("cp "):
                    copy = made.checkout / line.split()[-1]
                    copy.write_text(made.edited(copy.read_text()))
                if line.startswith("ray up"):
                    break
            yield made
        assert not running.processes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.once
def test_ray_submit_runs_a_packaged_space_on_the_cluster(cluster):
    done = cluster.follow(line_with("ray submit", "run quickstart"))
    assert "700 of 700 rows" in done.text
    assert "Ray Tune" in done.text
    assert cluster.finished("quickstart")
    assert (cluster.machines.home(server.HEAD) / "mlflow.db").exists()  # on the head's own disk, as the README has it


def test_the_workers_come_too_with_the_same_wheel(cluster):
    there = wait_for(lambda: cluster.machines.running("raylet/raylet") == 2, seconds=240)
    assert there, cluster.machines.autoscaler_said()
    until(lambda: f"/{2 * (os.cpu_count() or 1)}.0 CPU" in cluster.nodes(), seconds=60)
    installed = [
        list(cluster.machines.home(host).glob("raysweep-env/lib/python*/site-packages/raysweep*"))
        for host in (server.HEAD, server.WORKER)
    ]
    assert [path.name for path in installed[0]] == [path.name for path in installed[1]]
    assert f"raysweep-{raysweep.__version__}.dist-info" in [path.name for path in installed[1]]


def test_the_cluster_computes_the_rows_of_this_machine(cluster, tmp_path):
    if not cluster.finished("quickstart"):
        cluster.follow(line_with("ray submit", "run quickstart"))
    cluster.raysweep(
        "run", "quickstart", "--executor", "inline", "--no-report", "--tracking-uri", "none", "--storage", str(tmp_path)
    )
    import pandas

    frames = []
    for storage in (cluster.storage, tmp_path):
        cluster.raysweep("results", "quickstart", "--storage", str(storage), "-o", str(tmp_path / "table.csv"))
        frames.append(pandas.read_csv(tmp_path / "table.csv").drop(columns=["seconds", "code_version"]))
    pandas.testing.assert_frame_equal(*frames, rtol=1e-9, atol=1e-13)


def test_the_head_runs_the_wheel_of_exactly_this_version(cluster):
    done = cluster.type(
        "ray exec my-cluster.yaml 'python -c \"import raysweep; print(raysweep.__version__, raysweep.__file__)\"'"
    )
    assert f"{raysweep.__version__} {cluster.machines.home(server.HEAD)}/raysweep-env/" in done.text


def test_an_unknown_space_is_one_line_and_a_failure_here_too(cluster):
    done = cluster.type(
        "ray submit my-cluster.yaml raysweep/main.py -- run quickstrat --storage EDIT_SHARED_FOLDER/none"
    )
    assert done.code != 0
    assert "unknown space 'quickstrat'; did you mean quickstart?" in done.text
    assert "Traceback" not in done.text


def test_a_space_is_also_a_path_on_the_head(cluster):
    (cluster.checkout / "mine.yaml").write_text(
        "name: mine\nworkload: linear_transfer\naxes: {overlap_angle: [30, 60]}\nseeds: 2\n"
        "fixed: {dim: 20, gamma: 0.5}\n"
    )
    assert cluster.type("ray rsync-up my-cluster.yaml mine.yaml '~/mine.yaml'").code == 0
    done = cluster.type(
        "ray submit my-cluster.yaml raysweep/main.py -- run mine.yaml "
        "--set \"'fixed.noise=0.1 # a comment, with spaces'\" --no-report --tracking-uri none "
        "--storage EDIT_SHARED_FOLDER/sweeps"
    )
    assert done.code == 0, done.text[-3000:]
    assert cluster.finished("mine")
    assert ",0.1," in cluster.raysweep("results", "mine", "--storage", str(cluster.storage))


def test_a_detached_run_survives_the_loss_of_every_ssh_session(cluster):
    cluster.follow(line_with("--tmux", "run transfer_phase_diagram"))
    assert cluster.machines.drop_connections() > 0
    assert not cluster.finished("transfer_phase_diagram")  # it was lost while the sweep ran
    until(lambda: cluster.finished("transfer_phase_diagram"), seconds=120)
    done = cluster.follow(line_with("status transfer_phase_diagram"))
    assert "finished, 8,000 of 8,000 rows (8,000 ok)" in done.text


def test_a_watched_run_that_lost_its_session_goes_on_with_the_same_command(cluster):
    line = cluster.edited(
        "ray submit my-cluster.yaml raysweep/main.py -- run transfer_phase_diagram --name watched "
        "--executor ray --no-report --storage EDIT_SHARED_FOLDER/sweeps --tracking-uri none"
    )
    with subprocess.Popen(
        ["bash", "-c", f"exec {line}"],
        cwd=cluster.checkout,
        env=cluster.machines.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as watching:
        until((cluster.storage / "watched" / "sweep.json").exists, seconds=60)
        cluster.machines.drop_connections()
        assert watching.wait(60) != 0
    shown = ("status", "watched", "--storage", str(cluster.storage))
    until(lambda: "watched: interrupted" in cluster.raysweep(*shown), seconds=60)
    done = cluster.type(line)
    assert done.code == 0, done.text[-3000:]
    assert cluster.finished("watched")


def test_a_ray_job_runs_without_a_session(cluster):
    cluster.follow(line_with("ray job submit"))
    until(lambda: cluster.finished("second"), seconds=120)
    status = line_with("ray job status")
    until(lambda: "succeeded" in cluster.follow(status).text, seconds=60)


def test_a_stranger_without_the_token_is_turned_away(cluster, tmp_path):
    program = (
        "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, configure_logging=False); "
        "print(ray.cluster_resources())"
    )
    words = [sys.executable, "-c", program, f"{server.HEAD}:{cluster.gcs_port}"]
    asked = run_here(cluster.machines, words, env={**cluster.machines.environment(), "HOME": str(tmp_path)})
    assert asked.returncode != 0
    assert "InvalidAuthToken" in asked.stdout, asked.stdout[-2000:]
    assert "node:" not in asked.stdout
    for host in (server.HEAD, server.WORKER):
        token = cluster.machines.home(host) / ".ray" / "auth_token"
        assert token.stat().st_mode & 0o777 == 0o600


@pytest.mark.once
def test_ray_down_stops_every_ray_process_and_the_report_is_here(cluster):
    if not cluster.finished("quickstart"):
        cluster.follow(line_with("ray submit", "run quickstart"))
    assert cluster.machines.running("raylet") > 0
    cluster.follow(line_with("ray rsync-down"))
    assert "<html" in (cluster.checkout / "my-report" / "report.html").read_text()
    cluster.follow(line_with("ray down"))
    until(lambda: not cluster.machines.running("gcs_server"), seconds=30)
    until(lambda: not cluster.machines.running("raylet"), seconds=150)
    assert cluster.finished("quickstart")  # the sweeps stay


def test_the_slurm_file_runs_a_sweep_on_an_allocation_of_one_node(cluster):
    """With stand-ins for Slurm's two commands, in a session of the server: `ray symmetric-run` ends with `ray stop`."""
    folder = cluster.shared / "slurm"
    folder.mkdir()
    for name, text in {
        "scontrol": "echo localhost",
        "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    text = (REPOSITORY / "clusters" / "slurm.sh").read_text()
    for word, value in {
        "EDIT_ENVIRONMENT": str(cluster.machines.home(server.HEAD) / "raysweep-env"),
        "EDIT_PARTITION": "any",
        "EDIT_STORAGE": str(cluster.storage),
    }.items():
        text = text.replace(word, value)
    (folder / "my-slurm.sh").write_text(text)
    job = os.getpid() % 10000
    unknown = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    told = (
        f"env PATH={folder}:$PATH SLURM_JOB_ID={job} SLURM_JOB_NODELIST=localhost SLURM_JOB_NUM_NODES=1 "
        f"SLURM_CPUS_PER_TASK=2 bash {folder}/my-slurm.sh run quickstart --name by_slurm --executor ray "
        "--no-report --tracking-uri none"
    )
    there = ["ssh", "-i", str(cluster.machines.key), *unknown, f"{cluster.machines.user}@{server.HEAD}"]
    done = run_here(cluster.machines, [*there, told], 180)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "700 of 700 rows" in done.stdout
    assert "Ray Tune" in done.stdout
    assert "token authentication is disabled" not in done.stdout.lower()
    assert cluster.finished("by_slurm")
    assert not Path(f"/tmp/raysweep-{job}").exists()
    assert not cluster.machines.running("raylet")


def test_every_line_of_the_readme_was_followed(cluster, request):
    if request.session.testscollected < 10:
        pytest.skip("only a part of the tests runs")
    assert set(lines_of_readme()[1:]) == set(cluster.done)
