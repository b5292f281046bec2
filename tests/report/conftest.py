"""Reports of made-up rows."""

import itertools
import os

import numpy as np
import pandas as pd
import pytest
from chromium import MISSING, Chromium, find

from raysweep import workloads
from raysweep.report.report import Written, write_report

AXES = {"overlap_angle": [float(one) for one in np.linspace(9, 90, 10)], "gamma": [0.2, 0.4, 0.6]}
BOUNDARY = {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}}


def rows(axes=AXES, draws=6, sweep="s", size=0.02):
    """Rows as a sweep has them: the closed form, and an effect that all cells of a draw share."""
    workload = workloads.get("linear_transfer")
    cells = pd.DataFrame(itertools.product(*axes.values()), columns=list(axes))
    defaults = {one.name: one.default for one in workload.parameters} | {"dim": 200}
    cells = cells.assign(**{name: value for name, value in defaults.items() if name not in axes})
    cells["cell"] = [f"c{place}" for place in range(len(cells))]
    frame = cells.merge(pd.DataFrame({"seed": range(draws)}), how="cross").assign(sweep=sweep, status="ok")
    noise = np.random.default_rng(0).standard_normal(draws)[frame["seed"]]
    for name, values in workload.closed_form({one: frame[one].to_numpy() for one in defaults}).items():
        frame[f"{name}_theory"], frame[name] = values, values + 0.02 * noise
    return frame.assign(code_version="0.1.0+test", seconds=0.001)


def space(*analysis, axes=AXES, **more):
    """The resolved space of such rows."""
    asked = {"name": "demo", "description": "Does it tip over?", "workload": "linear_transfer", "axes": dict(axes)}
    return {**asked, "fixed": {"dim": 200}, "seeds": list(range(6)), "analysis": list(analysis), **more}


def written(home, *analysis, frame=None, **about):
    """A report of these analyses."""
    frame = rows() if frame is None else frame
    return write_report(frame, [space(*analysis)], home, Written(about.pop("sweep", "demo"), **about))


def absent(what):
    """Skip, or fail where everything that the tests need has been installed for them."""
    if "RAYSWEEP_CI" in os.environ:
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find() is None:
        absent(MISSING)
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def opened(browser):
    """Opens a page, all parts of it. At the end no script has failed and nothing was refused."""

    def open_(path):
        browser.open(path)
        browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        browser.run("new Promise((done) => setTimeout(done, 50))")  # opening is reported a moment later
        return browser

    yield open_
    assert browser.problems == []


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """The folder of a report with places, means and a test of theory."""
    folder = tmp_path_factory.mktemp("report")
    curves = {"curves": {"metric": "risk_scratch", "x": "gamma", "by": ["overlap_angle"]}}
    written(folder, BOUNDARY, curves, {"agreement": {}}, warnings=["a | <b>"])
    return folder
