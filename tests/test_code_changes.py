"""Rows that an older code of their workload computed are reused, replaced or refused, as one asks."""

import shutil

import pytest
import yaml
from conftest import QUIET, assert_same_rows, files_of, installed, ok, process, refused, rows
from spaces import small_space, written

import raysweep
from raysweep.query.sweep import open_sweep


def resume(storage, name="small", **options):
    usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
    return raysweep.resume(name, storage=storage, **{**usual, **options})


CHANGING = """
from dataclasses import replace
from raysweep import workloads
WORKLOAD = replace(workloads.get("linear_transfer"), name="changing", sources=("changing_workload",))
"""


@pytest.fixture(scope="module")
def changed_since(tmp_path_factory):
    """A folder that, on the path, brings the workload `changing`; and a storage with a sweep of it, finished by another
    process before the workload's source changed."""
    site, storage = tmp_path_factory.mktemp("changing"), tmp_path_factory.mktemp("before")
    installed(site, changing="changing_workload:WORKLOAD")
    (site / "changing_workload.py").write_text(CHANGING)
    space = written(site, small_space(workload="changing"))
    ok(process("run", space, "--storage", storage, *QUIET, env={"PYTHONPATH": str(site)}))
    (site / "changing_workload.py").write_text(CHANGING + "# and a word more\n")
    return site, storage


@pytest.fixture
def other_code(changed_since, storage, monkeypatch):
    """A storage with a finished sweep whose workload's source has changed since."""
    site, before = changed_since
    shutil.copytree(before, storage)
    monkeypatch.syspath_prepend(site)
    return storage


def test_rows_of_older_code_are_reused(other_code, call):
    before = files_of(other_code / "small" / "ledger")
    outcome = ok(call("resume", "small", "--storage", other_code, *QUIET))
    assert "the code of changing changed since 18 rows" in outcome.err
    assert "--on-code-change recompute" in outcome.err
    assert files_of(other_code / "small" / "ledger") == before


def test_rows_of_older_code_are_replaced_on_demand(other_code):
    before = rows(open_sweep("small", other_code))
    after = rows(resume(other_code, on_code_change="recompute"))
    assert {row["code_version"] for row in after}.isdisjoint({row["code_version"] for row in before})
    assert_same_rows([{**row, "code_version": ""} for row in after], [{**row, "code_version": ""} for row in before])
    recorded = files_of(other_code / "small" / "ledger")
    resume(other_code, on_code_change="recompute")
    assert files_of(other_code / "small" / "ledger") == recorded


def test_rows_of_older_code_are_refused_on_demand(other_code, call, tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(small_space(workload="changing", seeds=5), sort_keys=False))
    before = files_of(other_code / "small" / "ledger")
    for arguments in (["resume", "small"], ["run", file], ["run", file, "--dry-run"]):
        outcome = call(*arguments, "--storage", other_code, *QUIET, "--on-code-change", "refuse")
        refused(outcome, "--on-code-change: the code of changing changed since 18 rows")
    assert files_of(other_code / "small" / "ledger") == before
    assert open_sweep("small", other_code).space.seeds == [0, 1, 2]


def test_dry_run_tells_of_older_code_and_of_rows_that_are_there(other_code, call, tmp_path):
    written(tmp_path, small_space(workload="changing", seeds=5))
    before = files_of(other_code)
    outcome = ok(call("run", tmp_path / "space.yaml", "--storage", other_code, *QUIET, "--dry-run"))
    assert "6 cells x 5 draws = 30 rows" in outcome.out
    assert "18 of them in the ledger already" in outcome.out
    assert "12 rows to compute" in outcome.out
    assert "--on-code-change recompute" in outcome.out
    assert files_of(other_code) == before
