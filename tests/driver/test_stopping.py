"""A signal ends a driver in time whatever it is in the middle of: a call of minutes, or leaving."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import QUIET, driving, python, until
from spaces import sandbox_space, written

import raysweep
from raysweep.driver import signal_handlers
from raysweep.driver.driver import Driver
from tests.chaos.waiting import PATIENCE, hear

STUCK = """
import hashlib, sys, threading
from raysweep.driver import signal_handlers
signal_handlers.PATIENCE, signal_handlers.DEADLINE = 0.2, 1.0
with signal_handlers.on_signals(lambda: print("closed", flush=True)):
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
def test_a_call_that_takes_minutes_does_not_hold_up_the_end(number):
    stuck = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True, preexec_fn=hear)
    try:
        assert stuck.stdout.readline() == "ready\n"
        stuck.send_signal(number)
        out, _ = stuck.communicate(timeout=PATIENCE)
    finally:
        stuck.kill()  # it would compute for ever
    assert (stuck.returncode, out) == (130, "closed\n")


LEAVING = """
import atexit, threading
@atexit.register
def slow():
    print("leaving", flush=True)
    threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("behaviour", "number", "code"),
    [
        ("wait", signal.SIGINT, 130),
        ("compute", signal.SIGINT, 0),
        ("compute", signal.SIGTERM, 0),
        ("compute", signal.SIGHUP, 0),
        ("raise", signal.SIGTERM, 1),
    ],
)
def test_a_signal_to_a_driver_that_is_leaving_ends_it_at_once_with_its_own_code(
    behaviour, number, code, sandbox, storage, tmp_path
):
    """It leaves slowly, as it does after a sweep on Ray, whose row is done, has failed or was interrupted."""
    written(tmp_path, sandbox_space(tmp_path, [behaviour]))
    arguments = ["run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline"]
    with driving(*arguments, first=LEAVING) as leaving:
        if behaviour == "wait":
            until(lambda: any(tmp_path.glob("wait-*")), leaving)
            leaving.send_signal(signal.SIGINT)
        assert leaving.stdout.readline() == "leaving\n"
        leaving.send_signal(number)
        _, err = leaving.communicate(timeout=PATIENCE)
    assert leaving.returncode == code, err
    assert "KeyboardInterrupt" not in err
    assert "Exception ignored" not in err


DEAF = """
from raysweep.driver import signal_handlers
signal_handlers.PATIENCE, signal_handlers.DEADLINE = 0.1, 100.0
"""


def test_a_driver_that_hears_late_closes_its_record_once(sandbox, storage, tmp_path):
    """The thread that sees to a timely end has closed it and said how to go on; then the call returns."""
    written(tmp_path, sandbox_space(tmp_path, ["compute", "deaf"]))
    arguments = ["run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline"]
    with driving(*arguments, first=DEAF) as driven:
        until(lambda: any(tmp_path.glob("deaf-*")), driven)
        driven.send_signal(signal.SIGTERM)
        result = next(line for line in driven.stderr if line.startswith("interrupted: "))
        (tmp_path / "go").touch()
        _, rest = driven.communicate(timeout=PATIENCE)
    assert result == f"interrupted: 1 row is kept; go on with: raysweep resume sandy --storage {storage}\n"
    assert driven.returncode == 130
    assert "kept" not in rest
    assert "Traceback" not in rest


HELD = """
from raysweep.driver import signal_handlers
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal has it, whatever these tests were started by
try:
    with signal_handlers.on_signals(lambda: None):
        amid()
        threading.Event().wait(60)  # until the signal comes again
        print("never stopped")
except KeyboardInterrupt:
    print("stopped")
"""
IMPORTING = """
import signal, sys, threading

def amid():
    text = "signal.raise_signal(int(sys.argv[1])); print('the import went on')"
    exec(compile(text, "<frozen importlib._bootstrap>", "exec"), globals())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_amid_an_import_waits_until_its_locks_are_given_back(number):
    done = python(IMPORTING + HELD, str(int(number)))
    assert (done.out, done.err) == ("the import went on\nstopped\n", "")


def test_a_second_signal_does_not_change_the_end_of_a_command():
    """Between the end of the driver and that of the command, while nobody hears signals any more."""
    first = "import signal, threading\ndef amid(): signal.raise_signal(signal.SIGTERM)\n"
    held = HELD.replace("with ", "with signal_handlers.ending_process(), ")
    done = python(first + held + "signal.raise_signal(signal.SIGHUP)\nprint('goes on')")
    assert (done.code, done.out, done.err) == (0, "stopped\ngoes on\n", "")


FORKING = """
import os, signal, sys, threading
asked, sent = threading.Event(), threading.Event()

def other():  # a thread that hears signals while the main one holds them back
    asked.wait()
    signal.pthread_kill(threading.get_ident(), int(sys.argv[1]))
    sent.set()

threading.Thread(target=other, daemon=True).start()
os.register_at_fork(**{sys.argv[2]: lambda: [asked.set(), sent.wait()]})  # as `logging` has a hook for its locks

def amid():
    if os.fork() == 0:
        os._exit(0)
"""


@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_amid_a_fork_is_not_lost_in_a_hook(number, hook):
    done = python(FORKING + HELD, str(int(number)), hook)
    assert (done.out, done.err) == ("stopped\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_that_a_library_turns_into_its_own_error_is_still_one(storage, monkeypatch, number):
    """As NumPy does with what its own Python code raises while it compares types."""

    def compared(driver):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise TypeError("cannot compare") from None

    monkeypatch.setattr(Driver, "report", compared)
    space = {"name": "small", "workload": "linear_transfer", "axes": {"overlap_angle": [20, 40]}, "seeds": 2}
    with pytest.raises(KeyboardInterrupt):
        raysweep.run(space, storage=storage, executor="inline", tracking_uri="none")


def test_who_closes_second_waits_until_it_is_closed(monkeypatch):
    monkeypatch.setattr(signal_handlers, "DEADLINE", PATIENCE)
    begun, let_go = threading.Event(), threading.Event()
    once = signal_handlers.once(lambda: (begun.set(), let_go.wait(10)))
    with ThreadPoolExecutor() as pool:
        first = pool.submit(once)
        assert begun.wait(PATIENCE)
        second = pool.submit(once)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        let_go.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (None, None)
