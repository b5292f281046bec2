"""What is disturbed: small sweeps of several kinds, and what each leaves behind when nobody disturbs it."""

import copy
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from raysweep.stages.store import Store
from tests.chaos import left
from tests.chaos.stages import mark, read
from tests.chaos.waiting import hear
from tests.support.spaces import space_over

HERE = Path(__file__).parent
KINDS = ("rows", "staged", "scheduled", "ray", "mirror", "language", "server")
ON_RAY = ("scheduled", "ray")
PATIENCE = 300.0  # seconds after which a driver that has not ended counts as hung


@dataclass(frozen=True)
class Kind:
    """A sweep: its space, how it is run, and whether its numbers may differ in the last digits by how it was packed.

    companion: changes of axes that make another sweep, which shares stages with this one and its store.
    beside: whether the companion runs at the same time; otherwise afterwards.
    """

    name: str
    space: dict[str, Any]
    options: tuple[str, ...]
    tolerance: float = 0.0
    companion: Mapping[str, Any] = field(default_factory=dict)
    beside: bool = False

    @property
    def marks(self):
        """Where its workload leaves marks."""
        return Path(self.space["fixed"]["folder"]) if "folder" in self.space["fixed"] else None


def kinds(room):
    """The sweeps; `room` is where they leave their marks."""
    marks = {name: room / f"marks-{name}" for name in ("rows", "staged", "scheduled")}
    for folder in marks.values():
        folder.mkdir(exist_ok=True)
    axes = {"x": list(range(0, 80, 10)), "behaviour": ["compute", "compute", "compute", "raise_once"] * 2}
    fixed = {"pause": 0.05, "said_seconds": 200, "folder": str(marks["rows"])}
    chaos = space_over("sandbox", axes, name="chaos", zip=[["x", "behaviour"]], fixed=fixed, seeds=3)
    axes, keys = {"length": [2, 3, 5], "rate": [0.1, 0.2], "probe": [0, 1]}, {"seeds": 2, "keep": ["finetune"]}
    staged, scheduled = (
        space_over("chaos_stages", axes, name=name, fixed={"pause": 0.06, "folder": str(marks[name])}, **keys)
        for name in ("staged", "scheduled")
    )
    companion = {"length": [3, 4], "rate": [0.2, 0.4]}
    axes = {"overlap_angle": [20, 40, 60, 80], "gamma": [0.2, 0.4, 0.6, 0.8, 0.95, 1.05, 1.2, 1.5]}
    linear = space_over("linear_transfer", axes, name="linear", fixed={"dim": 60, "noise": 0.2}, seeds=3)
    axes = {"pretrain_length": [16384, 32768], "finetune_lr": [0.001, 0.004]}
    fixed = {"preset": "tiny", "source": "grammar:0", "target": "grammar:0.5"}
    fixed |= {"finetune_steps": 4, "evaluation_tokens": 2048}
    language = space_over("language", axes, fixed=fixed, seeds=2)
    inline, ray = ("--executor", "inline"), ("--executor", "ray", "--workers", "2")
    return {
        "rows": Kind("rows", chaos, inline),
        "staged": Kind("staged", staged, inline, companion=companion),
        "scheduled": Kind("scheduled", scheduled, ray, companion=companion, beside=True),
        "ray": Kind("ray", chaos, ray),
        "server": Kind("server", chaos, inline),
        "mirror": Kind("mirror", linear, inline, 1e-9),
        "language": Kind("language", language, inline),
    }


def site(room):
    """A folder that, on the path, brings the workloads by entry point, as another package would."""
    folder = room / "site"
    folder.mkdir()
    shutil.copy(HERE.parent / "support" / "sandbox_workload.py", folder)
    shutil.copy(HERE / "stages.py", folder / "chaos_stages.py")
    information = folder / "raysweep_chaos-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: raysweep-chaos\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[raysweep.workloads]\nsandbox = sandbox_workload:WORKLOAD\nchaos_stages = chaos_stages:WORKLOAD\n"
    )
    return folder


def environment(site_folder, **more):
    """For drivers, and for a Ray whose workers import the workload."""
    path = os.pathsep.join(filter(None, [str(site_folder), os.environ.get("PYTHONPATH")]))
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "OMP_NUM_THREADS": "1"}
    return {**os.environ, "PYTHONPATH": path, **quiet, **more}


class Sweep:
    """One sweep in a storage of its own, driven by processes of the command line."""

    def __init__(self, kind, room, env, server=None):
        self.kind, self.env, self.server = kind, env, server
        self.name = kind.space["name"]
        self.storage = room / "storage"
        self.folder = self.storage / self.name
        self.log = room / "said.txt"
        self.damaged = set()  # stages of its store
        self.expected = {}  # what is there if nobody disturbs it
        room.mkdir()
        self.space = room / "space.yaml"
        self.space.write_text(yaml.safe_dump(kind.space, sort_keys=False))
        for path in kind.marks.glob("*") if kind.marks else ():
            path.unlink()

    def companion(self):
        """The sweep that shares its storage."""
        other = copy.copy(self)
        other.name = "companion"
        other.folder, other.space = self.storage / other.name, self.space.with_name("companion.yaml")
        other.log = self.log.with_name("companion-said.txt")
        axes = {**self.kind.space["axes"], **self.kind.companion}
        other.space.write_text(yaml.safe_dump({**self.kind.space, "name": other.name, "axes": axes}, sort_keys=False))
        return other

    @property
    def store(self):
        return Store(str(self.storage / "store"))

    def damage(self, stage):
        """Remember that a stage of its store was damaged, so that it may be computed again."""
        self.damaged.add(stage)
        if self.kind.marks and (called := self.expected.get(("stage", stage, 0))):
            mark(self.kind.marks, "damaged", called)

    @property
    def exists(self):
        return (self.folder / "sweep.json").exists()

    def events(self):
        """How much has happened: segments that were published, and stages that began and ended."""
        segments = len(list((self.folder / "ledger").glob("*.jsonl")))
        return segments + (len(read(self.kind.marks)) if self.kind.marks else 0)

    def command(self, word):
        """`run` as the user said it first, or `resume` or `sync`."""
        named = [str(self.space) if word == "run" else self.name, "--storage", str(self.storage)]
        if word != "sync":
            named += ["--no-report", *self.kind.options]
        if word == "run" and self.server:
            named += ["--tracking-uri", self.server]
        return [word, *named]

    def start(self, word, terminal=False):
        """A driver in a session of its own. What it says goes to the log, or to a pipe, a terminal to be taken away."""
        with self.log.open("ab") as log:
            log.write(f"--- {word}\n".encode())
            log.flush()
            words = [sys.executable, "-m", "raysweep.main", *self.command(word)]
            pipes = dict.fromkeys(("stdin", "stdout"), subprocess.DEVNULL)
            pipes["stderr"] = subprocess.PIPE if terminal else log
            return subprocess.Popen(words, env=self.env, start_new_session=True, preexec_fn=hear, **pipes)

    def finish(self, word):
        """Exit code and seconds of a driver that is left alone."""
        started = time.monotonic()
        return self.start(word).wait(PATIENCE), time.monotonic() - started

    def things(self, database=None):
        """What there is of it."""
        return left.of_sweep(self.name, self.storage, database or self.storage / "mlflow.db")
