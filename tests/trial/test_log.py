"""The log of a trial: a disk that is full costs it its words, never its result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.chaos.waiting import PATIENCE

LIMITED = """
import resource, sys
from pathlib import Path
from raysweep.trial import log
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # the next byte is refused, as on a disk that is full
with log.recorded(Path(sys.argv[1]), "pack", 1, capture=True):
    for line in range(1000):
        print("a workload prints")
        log.LOGGER.warning("and logs")
print("done")
"""


def test_what_a_trial_prints_onto_a_full_disk_is_dropped(tmp_path: Path) -> None:
    log = tmp_path / "pack-1.log"
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(log)], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
    assert log.stat().st_size == 1000
    assert log.read_text().count("a workload prints") > 5
