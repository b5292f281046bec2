"""A race of processes that publish the same files in the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.chaos.waiting import PATIENCE

FILES = 20
PUBLISHER = """
import sys
from raysweep.storage import files, paths
print("ready", flush=True)
sys.stdin.readline()
content = sys.argv[2].encode() * int(sys.argv[3])
print(sum(files.create(paths.locate(sys.argv[1]) / f"file-{i}", content) for i in range(int(sys.argv[4]))))
"""


def race(place: str | Path, letters: str, size: int) -> int:
    """A process for each letter publishes FILES files of so many times its letter; how often any said that its own was
    the one that is there now."""
    publishers = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, str(place), letter, str(size), str(FILES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for letter in letters
    ]
    for publisher in publishers:
        assert publisher.stdout is not None
        assert publisher.stdout.readline() == "ready\n"
    for publisher in publishers:
        assert publisher.stdin is not None
        publisher.stdin.write("go\n")
        publisher.stdin.flush()
    return sum(int(publisher.communicate(timeout=PATIENCE)[0]) for publisher in publishers)
