"""The analysis that docs/analyses.md shows: its function, line of a space, entry point and lines of Python."""

import re
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import installed
from documented import DOCS, blocks
from matplotlib import pyplot
from matplotlib.axes import Axes
from spaces import small_space

import raysweep

PAGE = (DOCS / "analyses.md").read_text().split("\n## An analysis of your own\n")[1]
QUIET = {"tracking_uri": "none", "say": lambda line: None}


def block(language):
    (found,) = blocks(language, PAGE)
    return found


@pytest.fixture
def folder(tmp_path, own_notes):
    """A folder with my_plots.py, and notes of this test alone."""
    (tmp_path / "my_plots.py").write_text(block("python"))
    return tmp_path


def won(sweep):
    """How many seeds each gamma wins, counted in another way."""
    rows = sweep.results().pivot_table(index="seed", columns="gamma", values="risk_finetune", aggfunc="min")
    return rows.idxmin(axis=1).value_counts()


def test_a_file_beside_the_space(folder, storage):
    space = small_space(analysis=yaml.safe_load(block("yml"))["analysis"])
    (folder / "mine.yaml").write_text(yaml.safe_dump(space))
    sweep = raysweep.run(folder / "mine.yaml", storage=storage, **QUIET)
    report = Path(str(sweep.folder)) / "report"
    table = pd.read_csv(report / "tables" / "winners.csv")
    assert dict(zip(table["gamma"], table["seeds_won"], strict=True)) == won(sweep).to_dict()
    text = (report / "report.md").read_text()
    first = text.split("<details>")[0]
    won_by = f"gamma {table['gamma'][0]:g} has the lowest risk_finetune for {table['seeds_won'][0]} seeds"
    assert won_by in first.lower()
    assert "](figures/winners.png)" in first
    assert "*How often each value of an axis has the lowest metric, seed by seed.*" in first


def test_an_entry_point(folder, storage, monkeypatch):
    package = folder / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (folder / "my_plots.py").rename(package / "plots.py")
    [(group, points)] = tomllib.loads(block("toml"))["project"]["entry-points"].items()
    installed(folder, group, **points)
    [options] = yaml.safe_load(block("yml"))["analysis"][0].values()
    space = small_space(analysis=[{"winners": options}])
    for name in ("my_package", "my_package.plots"):  # of another test's package of this name
        monkeypatch.delitem(sys.modules, name, raising=False)
    with monkeypatch.context() as there:
        there.syspath_prepend(folder)
        sweep = raysweep.run(space, storage=storage, **QUIET)
        assert "has the lowest" in sweep.report().answer[0]
    assert sweep.report().answer[0] == "No package that is installed here provides the analysis winners."


def test_the_lines_of_a_notebook(folder, storage, monkeypatch):
    names = {"sweep": raysweep.run(small_space(), storage=storage, report=False, **QUIET)}
    exec(block("python"), names)
    shown = PAGE.split("In Python or a notebook")[1]
    exec("\n".join(re.findall(r"^ {4}(.*)$", shown, re.MULTILINE)), names)
    assert names["found"].table.set_index("gamma")["seeds_won"].to_dict() == won(names["sweep"]).to_dict()
    axes = names["found"].plot()
    assert isinstance(axes, Axes)
    assert axes.get_ylabel() == "seeds won"
    pyplot.close(axes.figure)
    monkeypatch.chdir(folder)
    named = names["sweep"].analyse("my_plots.py:winners", metric="risk_finetune", over="gamma")
    assert repr(named) == repr(names["found"])
