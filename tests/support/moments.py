"""Something that happens in a process just before one of its calls to the system, of which Python tells (audit hooks).

Nothing is replaced: the process goes on, or dies, as it would have done.
"""

from __future__ import annotations

MOMENT = """
import os, signal, sys
moments = {number}
def at_the_moment(event, arguments):
    global moments
    if event in {events!r} and any(isinstance(found, (str, os.PathLike)) and os.fspath(found).endswith({ending!r})
                                   for found in arguments):
        moments -= 1
        if not moments:
            {action}
sys.addaudithook(at_the_moment)
"""
DIES = "os.kill(os.getpid(), signal.SIGKILL)"


def before(*events: str, ending: str, action: str, number: int = 1) -> str:
    """Code for a process: before such a call (the so many-th) on a file whose path ends so, the action is executed."""
    return MOMENT.format(events=events, ending=ending, action=action, number=number)
