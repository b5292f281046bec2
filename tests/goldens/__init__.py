"""Small versions of the packaged spaces, and the rows that they gave before the rooms were rebuilt.

A golden holds the content hash of every cell, every resolved parameter, every status and every metric in full
precision. It says that nothing changed, not that it was right: the closed forms and the other methods in the tests of
the workloads say that.

Nets train in float64 here. In float32, the order in which a processor adds numbers changes the seventh digit, and some
fifty steps at a large learning rate make some per cent of that: such rows say which processor computed them.
"""

import contextlib
from pathlib import Path
from unittest import mock

import torch
import yaml

import raysweep
from raysweep.workloads.multiview import stages as multiview
from raysweep.workloads.vision import eigen_cam, examination, masked, models, pixels

SPACES = yaml.safe_load((Path(__file__).parent / "spaces.yaml").read_text())["spaces"]
"""What makes each packaged space small: its name to what `--set` would say."""

OLD_STORAGE = Path(__file__).parent / "storage"
"""A storage as version 0.1.0 left it when it was stopped half-way: two sweeps, and the store of their stages."""


def path_of(name):
    return Path(__file__).parent / f"{name}.csv"


@contextlib.contextmanager
def float64():
    """Nets of vision, language and multiview, and what they take, are in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, before)
        for module in (eigen_cam, examination, masked, models):
            stack.enter_context(mock.patch.object(module, "scaled", lambda some: pixels.scaled(some).double()))
        stack.enter_context(mock.patch.object(multiview, "_sent", _wide_sent))
        yield


def _wide_sent(values, context):
    return torch.as_tensor(values, dtype=torch.float64).to(context.device)


def rows_of(name, storage):
    """The rows that the small version of a space gives today, computed in this process."""
    with float64():
        sweep = raysweep.run(
            name,
            set=SPACES[name],
            storage=storage,
            tracking_uri="none",
            executor="inline",
            report=False,
            say=lambda line: None,
        )
    return sweep.results().drop(columns=["sweep", "code_version", "seconds"])
