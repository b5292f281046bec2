"""The log of a trial: it has what the trial wrote; a disk that is full costs it its words, never its result."""

import logging
import subprocess
import sys

import pytest
from conftest import Outcome, python

from raysweep.trial import log as trial_log

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


def test_what_a_trial_prints_onto_a_full_disk_is_dropped(tmp_path):
    log = tmp_path / "pack-1.log"
    assert python(LIMITED, log) == Outcome(0, "done\n", "")
    assert log.stat().st_size == 1000
    assert log.read_text().count("a workload prints") > 5


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_handler_of_the_first_trial_writes_to_the_log_of_each(name, tmp_path, capfd):
    logger, handler = logging.getLogger(f"a workload on {name}"), None
    logger.propagate = False
    for pack in range(3):
        with trial_log.recorded(tmp_path / f"{pack}.log", f"pack-{pack}", "1 row", capture=True):
            if handler is None:
                handler = logging.StreamHandler(getattr(sys, name))
                logger.addHandler(handler)
            logger.warning("said in pack %d", pack)
            print("file \udcff é", file=getattr(sys, name), flush=True)
    logger.warning("said after all")
    for pack in range(3):
        lines = (tmp_path / f"{pack}.log").read_text().splitlines()
        assert lines[1:3] == [f"said in pack {pack}", "file \\udcff é"]
        assert len(lines) == 4
    written = capfd.readouterr()
    assert {"stdout": written.out, "stderr": written.err}[name] == "said after all\n"
    assert written.out + written.err == "said after all\n"


def test_a_child_of_a_trial_writes_to_its_log(tmp_path):
    with trial_log.recorded(tmp_path / "0.log", "pack-0", "1 row", capture=True):
        subprocess.run([sys.executable, "-c", "print('a child')"], stdout=sys.stdout, check=True)
    assert "a child" in (tmp_path / "0.log").read_text().splitlines()
