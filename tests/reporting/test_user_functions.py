"""Analyses that are functions of somebody else: what is wrong with one is one line, and costs nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import QUIET, Outcome, refused
from matplotlib import pyplot
from spaces import small_space

import raysweep
from raysweep.errors import InputError
from raysweep.space.schema import validate

Call = Callable[..., Outcome]
SILENT: dict[str, Any] = {"tracking_uri": "none", "say": lambda line: None}
BEST = {"best": {"metric": "risk_finetune"}}


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def space_with(folder: Path, source: str, options: dict[str, Any] | None = None) -> Path:
    """A space whose analyses are the function `mine` of this source and, after it, the best cell."""
    (folder / "plots.py").write_text(source)
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(small_space(analysis=[{"plots.py:mine": options}, BEST])))
    return path


def answers(path: Path, storage: Path) -> list[str]:
    """One line for each analysis of a new sweep."""
    return raysweep.run(path, storage=storage, report=False, **SILENT).report().headline


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return frame['nowhere']", "plots.py:mine failed, line 2: KeyError: 'nowhere'"),
        ("import sys; sys.exit(3)", "plots.py:mine failed, line 2: SystemExit: 3"),
        ("return 3", "plots.py:mine returned 3; expected texts, at most one DataFrame"),
        ("return frame, frame", "plots.py:mine returned 2 DataFrames and 0 figures; expected"),
        ("return None", "plots.py:mine returned nothing; expected"),
        (
            "from matplotlib.figure import Figure\n    return Figure().suptitle('$\\\\no$').figure",
            "plots.py:mine failed: ValueError: ",
        ),
    ],
    ids=["raises", "exits", "number", "two tables", "nothing", "cannot be drawn"],
)
def test_a_function_that_fails_costs_its_own_answer_only(body: str, said: str, tmp_path: Path, storage: Path) -> None:
    found = answers(space_with(tmp_path, f"def mine(frame):\n    {body}\n"), storage)
    assert found[0].startswith(said)
    assert "\n" not in found[0]
    assert found[1].startswith("best risk after fine-tuning (the smallest) is ")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("def other(frame): ...", {}, "analysis[0]: unknown function in plots.py: 'mine'"),
        ("1 / 0", {}, "analysis[0]: plots.py, line 1 cannot be imported: ZeroDivisionError"),
        ("mine = 3", {}, "analysis[0]: expected a function as plots.py:mine, got 3"),
        ("def mine(frame): ...", {"over": 1}, "analysis[0].plots.py:mine: cannot be called as mine(frame"),
        ("def mine(frame, over): ...", {}, "analysis[0].plots.py:mine: cannot be called as mine(frame"),
        ("def mine(frame): ...", {"where": {"gama": 1}}, "analysis[0].plots.py:mine.where.gama: unknown axis 'gama'"),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_is_computed(
    source: str, options: dict[str, Any], said: str, call: Call, tmp_path: Path, storage: Path
) -> None:
    refused(call("run", str(space_with(tmp_path, source, options)), *QUIET), said)
    assert not storage.exists()


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere.py cannot be read: no such file"):
        raysweep.run(small_space(analysis=[{"nowhere.py:mine": {}}]), storage=tmp_path, **SILENT)
    with pytest.raises(InputError, match="unknown analysis 'boundry'; did you mean boundary"):
        validate(small_space(analysis=[{"boundry": {}}]))


def test_only_a_file_that_the_user_named_is_executed(
    tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "executed"
    source = f"open({str(mark)!r}, 'a').close()\n\n\ndef mine(frame):\n    return f'{{len(frame)}} rows'\n"
    sweep = raysweep.run(space_with(tmp_path, source), storage=storage, report=False, **SILENT)
    mark.unlink()
    assert sweep.report().headline[0] == "18 rows"
    assert mark.exists()
    mark.unlink()
    shutil.rmtree(tmp_path / "state")  # as on the machine of somebody who was given the sweep, with the file at hand
    monkeypatch.chdir(tmp_path)
    left_out, best = sweep.report().headline
    assert left_out.startswith("plots.py:mine was not executed, because no run of yours on this machine named")
    assert best.startswith("best risk after fine-tuning (the smallest) is ")
    assert not mark.exists()


def test_rows_are_those_of_where_and_a_function_cannot_change_them(tmp_path: Path, storage: Path) -> None:
    source = "def mine(frame):\n    n = len(frame)\n    frame.drop(frame.index, inplace=True)\n    return f'{n} rows'\n"
    found = answers(space_with(tmp_path, source, {"where": {"gamma": [0.3, 0.5]}}), storage)
    assert found[0] == "12 rows (only γ = 0.3 or γ = 0.5)"
    assert "the best of 6 cells" in found[1]


def test_a_figure_of_pyplot_leaves_no_window_behind(tmp_path: Path, storage: Path) -> None:
    before = pyplot.get_fignums()
    sweep = raysweep.run(small_space(), storage=storage, report=False, **SILENT)
    found = sweep.analyse(lambda frame: pyplot.subplots()[1])
    assert pyplot.get_fignums() == before
    assert found.plot().figure.number in pyplot.get_fignums()
    pyplot.close(found.plot().figure)


def test_in_python_an_error_of_the_function_keeps_its_traceback(storage: Path) -> None:
    sweep = raysweep.run(small_space(), storage=storage, report=False, **SILENT)
    with pytest.raises(KeyError, match="nowhere"):
        sweep.analyse(lambda frame: frame["nowhere"])
    with pytest.raises(InputError, match="no package that is installed here provides the analysis winners"):
        sweep.analyse("winners")
