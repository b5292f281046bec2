"""The names of cells, stages and sources: they follow from what is computed, and never change by accident."""

import ast
import hashlib
import json
import math
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from pin_digests import FILE, current
from spaces import small_space, space_over

from raysweep import workloads
from raysweep.plan import identity
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.row_stages import RowStages
from raysweep.space.schema import restore, validate
from raysweep.workloads.declaration import column


def ids(**changes):
    return enumerate_cells(validate(small_space(**changes))).ids


def test_a_cell_is_named_by_what_it_means():
    as_axis = ids(axes={"overlap_angle": [30, 60], "gamma": [0.5], "noise": [0.2]}, fixed={"dim": 20})
    assert ids(axes={"overlap_angle": [30.0, 60.0], "gamma": [0.5]}, fixed={"dim": 20.0, "noise": 0.2}) == as_axis
    assert ids(axes={"gamma": [0.5], "overlap_angle": [30, 60]}, fixed={"noise": 0.2, "dim": 20}) == as_axis
    otherwise = {"name": "other", "description": "told anew", "seeds": [5], "resources": {"cpus_per_trial": 2}}
    assert ids(axes={"overlap_angle": {"linspace": [30, 60, 2]}, "gamma": [0.5]}, **otherwise) == as_axis
    assert ids(axes={"overlap_angle": [60], "gamma": [0.5]}) == as_axis[1:]
    assert ids(axes={"noise": [0, 0.1]}, fixed={})[0] == ids(axes={"noise": [-0.0, 0.1]}, fixed={})[0]


def test_a_cell_has_another_name_for_every_other_parameter():
    workload = workloads.get("linear_transfer")
    usual = {parameter.name: parameter.default for parameter in workload.parameters}
    other = {"engine": "theory", "pretrain_length": 3.0, "pretrain_start": "another", "finetune_steps": 7.0}
    names = {identity.cell_id(workload, usual)}
    for parameter in workload.parameters:
        changed = other.get(parameter.name, usual[parameter.name] + 1 if parameter.type is not str else None)
        names.add(identity.cell_id(workload, {**usual, parameter.name: changed}))
    assert len(names) == 1 + len(workload.parameters)


def test_a_cells_name_is_a_hash_that_anyone_can_compute():
    parameters = {**validate(small_space()).fixed, "overlap_angle": 30.0, "gamma": 0.3}
    del parameters["symmetric"]  # it came later, and is left out at its default
    spelled = {name: {"float": "inf"} if value == math.inf else value for name, value in parameters.items()}
    text = json.dumps(["linear_transfer", 2, spelled], sort_keys=True, separators=(",", ":"))
    assert ids()[0] == hashlib.sha256(text.encode()).hexdigest()[:16]


NETWORK = {"engine": "network", "pretrain_length": 12.5, "depth": 5, "finetune_steps": 1000, "frozen_layers": 1}
GOLDEN = {
    "1508cb06c6d5347c": small_space(axes={}, fixed={"dim": 20, "noise": 0.2, "overlap_angle": 30, "gamma": 0.3}),
    "b76da0715271a253": space_over("linear_transfer", {}),
    "2bdf042ba880d314": space_over("linear_transfer", {}, fixed=NETWORK),
}


@pytest.mark.parametrize("pinned", GOLDEN)
def test_names_of_cells_never_change_by_accident(pinned):
    result = enumerate_cells(validate(GOLDEN[pinned])).ids
    assert result == [pinned], (
        "cells are named otherwise than before, so that rows recorded earlier are lost to "
        "every sweep: give a new parameter its `absent` value, or raise identity_version on "
        "purpose and pin the new name here"
    )


def test_the_source_of_a_workload_changes_with_its_version():
    pinned = json.loads(FILE.read_text())
    for name, versions in current().items():
        for version, digest in versions.items():
            assert pinned.get(name, {}).get(version) == digest, (
                f"the source of {name} changed. If any number it computes changed, raise its identity_version (and the "
                "version of a stage that has one of its own, if its artifact did); in either case then pin the new "
                "digest: python -m tests.pin_digests"
            )


CHANGE_NO_ROW = {
    "raysweep.errors": "what is said of bad input",
    "raysweep.plain_json": "how text is read and written, as the standard library does it",
    "raysweep.plan.identity": "how stages are called",
    "raysweep.workloads.common": "kinds of parameters and metrics, whose values are named where they are used",
    "raysweep.workloads.declaration": "types that describe a workload; what it says of itself is a source of its own",
    "raysweep.training.devices": "where rows are computed, which decides no more than their last digits",
    "raysweep.workloads.asked_once": "asks the same question once",
    "raysweep.workloads.rows": "types in which rows are handed over",
}


@pytest.mark.parametrize("name", workloads.BUILT_IN)
def test_every_module_that_a_workload_computes_with_is_one_of_its_sources(name):
    """Else a change there would be seen by no --on-code-change."""
    sources = identity.source_files(workloads.get(name).sources)
    missing = {
        module: str(path)
        for path in sources
        for module in imported(path)
        if module not in CHANGE_NO_ROW and Path(find_spec(module).origin) not in sources
    }
    assert missing == {}, "modules outside of `sources`, and who imports them"


def imported(path):
    """The modules of raysweep that a file imports or names ("module:function"), those for type checkers apart."""
    names, nodes = set(), [ast.parse(path.read_text())]
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names |= {entry.name for entry in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports are not followed"
            inner = [f"{node.module}.{entry.name}" for entry in node.names]
            names |= {name if is_module(name) else str(node.module) for name in inner}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"raysweep(\.\w+)+(:\w+)?", str(node.value)):
            names.add(str(node.value).partition(":")[0])
    return {name for name in names if name.startswith("raysweep.") and is_module(name)}


def is_module(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_stages_are_shared_by_rows_that_agree_in_them():
    """In the parameters of the stage and of those before, and in the seed."""
    workload = workloads.get("language")
    rows = [{}, {"finetune_lr": 0.5}, {"sharpness_iterations": 3}, {"depth": 3}]
    columns = {p.name: column(p, [row.get(p.name, p.default) for row in rows]) for p in workload.parameters}
    stages = RowStages(workload, columns)
    asked = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    chains = [{stage.stage: stage.id for stage in stages.of_row(*row, last=3)} for row in asked]
    shared = {
        name: [[chain[name] for chain in chains].index(chain[name]) for chain in chains]
        for name in ("pretrain", "finetune", "evaluate")
    }
    assert shared == {"pretrain": [0, 0, 0, 3, 4], "finetune": [0, 1, 0, 3, 4], "evaluate": [0, 1, 2, 3, 4]}


def test_a_parameter_that_was_renamed_keeps_the_names_of_its_cells():
    """The angle between tasks was the share of target text that the source has too."""
    workload = workloads.get("language")
    now = {parameter.name: parameter.default for parameter in workload.parameters if not parameter.late}
    then = {**now, "overlap": 0.5}
    del then["overlap_angle"]
    full = {parameter.name: parameter.default for parameter in workload.parameters}
    cell = identity.cell_id(workload, {**full, "overlap_angle": 60.0})
    assert cell == identity.content_id(["language", workload.identity_version, then])


def test_a_later_parameter_at_its_absent_value_changes_no_name_and_a_record_from_before_it_is_the_same_space(sandbox):
    def space_with(**fixed):
        return validate({"name": "a", "workload": "sandbox", "axes": {"x": [1, 2]}, "fixed": fixed})

    plain = enumerate_cells(space_with()).ids
    assert enumerate_cells(space_with(added=7)).ids == plain
    assert not set(enumerate_cells(space_with(added=8)).ids) & set(plain)
    record = space_with().as_dict()
    del record["fixed"]["added"]
    assert restore(record) == space_with()


def test_canonical_text_distinguishes_what_differs():
    values = (1, 1.0, "1", True, None, [1], {"1": 1}, math.inf, -math.inf, math.nan, "inf", 0.1, 0.1 + 2**-56, [], {})
    assert len({identity.canonical(value) for value in values}) == len(values)
    assert identity.canonical({"b": 1, "a": (1, 2)}) == identity.canonical({"a": [1, 2], "b": 1})
    with pytest.raises(TypeError):
        identity.canonical({"a": {1, 2}})
    with pytest.raises(TypeError):
        identity.canonical(np.float32(1))
