"""A signal ends a driver in time whatever it is in the middle of: a call of minutes, or leaving."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from conftest import hear

PATIENCE = 120.0  # seconds until a test gives up waiting for the end

STUCK = """
import hashlib, sys, threading
from raysweep import stopping
stopping.PATIENCE, stopping.DEADLINE = 0.2, 1.0
with stopping.on_signals(lambda: print("closed", flush=True)):
    said = False
    while True:
        try:
            if not said:
                said = True
                print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # minutes in which Python runs no handler
        except KeyboardInterrupt:
            pass  # the signal came before the call did
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_call_that_takes_minutes_does_not_hold_up_the_end(number: int) -> None:
    stuck = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True, preexec_fn=hear)
    try:
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "ready\n"
        stuck.send_signal(number)
        out, _ = stuck.communicate(timeout=PATIENCE)
    finally:
        stuck.kill()  # it would compute for ever
    assert (stuck.returncode, out) == (130, "closed\n")


LEAVING = """
import atexit, sys, threading, types
from raysweep import main
@atexit.register
def slow():
    print("leaving", flush=True)
    threading.Event().wait(60)
def interrupted(*arguments, **options):
    raise KeyboardInterrupt
def done(*arguments, **options):
    main._finish(types.SimpleNamespace(failures=list))
main.cli.main = {"interrupted": interrupted, "done": done}[sys.argv[1]]
main.main([])
"""


@pytest.mark.parametrize(("how", "number", "code"), [
    ("interrupted", signal.SIGINT, 130), ("done", signal.SIGINT, 0), ("done", signal.SIGTERM, 0),
    ("done", signal.SIGHUP, 0)])
def test_a_signal_to_a_driver_that_is_leaving_ends_it_at_once_with_its_own_code(how: str, number: int, code: int,
                                                                                ) -> None:
    """As it does for seconds after a sweep on Ray."""
    leaving = subprocess.Popen([sys.executable, "-c", LEAVING, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, preexec_fn=hear)
    assert leaving.stdout is not None
    assert leaving.stdout.readline() == "leaving\n"
    leaving.send_signal(number)
    _, err = leaving.communicate(timeout=PATIENCE)
    assert (leaving.returncode, err) == (code, "")
