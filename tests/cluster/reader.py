"""A reader of clusters/README.md: a copy of the repository, and a terminal in which the README's lines are typed."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import raysweep

REPOSITORY = Path(raysweep.__file__).parent.parent
SHIPPED = ["clusters", "raysweep", "search_spaces"]
SHIPPED += ["pyproject.toml", "constraints.txt", "Makefile", "README.md", "LICENSE"]


@dataclass
class Done:
    """How a command ended: exit code, what it wrote (stdout and stderr together), seconds."""

    code: int
    text: str
    seconds: float


def blocks_of_readme(title, language):
    """The blocks of code of one section, in order."""
    text = (REPOSITORY / "clusters" / "README.md").read_text()
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def run_here(machines, words, seconds=300, **options):
    """A command, in the environment of the machines' client; stdout and stderr are one. Or TimeoutExpired."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    options = {"env": machines.environment(), **pipes, **options}
    return subprocess.run(words, text=True, timeout=seconds, check=False, **options)


def type_line(machines, checkout, line):
    """One line, or block, of the README, in a shell of the checkout with its environment activated."""
    started = time.monotonic()
    ended = run_here(machines, ["bash", "-c", f"source .venv/bin/activate\n{line}"], cwd=checkout)
    done = Done(ended.returncode, ended.stdout, time.monotonic() - started)
    print(f"$ {line.splitlines()[-1]}   [exit {done.code}, {done.seconds:.1f} s]", file=sys.__stderr__, flush=True)
    return done


def check_out(folder):
    """A copy of the repository, with the environment of these tests as `make venv` leaves it."""
    folder.mkdir()
    for name in SHIPPED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, folder / name)
    environment = folder / ".venv"  # a symlink to the whole would let make write into ours
    environment.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if entry.name != ".installed":
            os.symlink(entry, environment / entry.name)
    (environment / ".installed").touch()
