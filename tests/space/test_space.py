"""A space says which cells there are, in which order, and what each is called, however it was written."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed
from pin_digests import FILE, current
from spaces import small_space

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.plan import identity
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.row_stages import RowStages
from raysweep.space import packaged, space_files, yaml_reader
from raysweep.space.schema import Space, restore, validate
from raysweep.workloads.declaration import column


def values(axis: Any) -> list[Any]:
    return validate(small_space(axes={"gamma": axis})).axes["gamma"]


def cells(**changes: Any) -> list[dict[str, Any]]:
    return list(validate(small_space(**changes)).cells())


def ids(**changes: Any) -> list[str]:
    return enumerate_cells(validate(small_space(**changes))).ids


def test_spaced_axes_are_what_one_would_type() -> None:
    assert values({"linspace": [0.1, 2.0, 20]}) == [round(0.1 * k, 1) for k in range(1, 21)]
    assert values({"geomspace": [0.001, 1, 4]}) == [0.001, 0.01, 0.1, 1.0]
    assert values({"linspace": [3, 1, 3]}) == [3.0, 2.0, 1.0]
    assert values({"linspace": [0.25, 7, 1]}) == values({"geomspace": [0.25, 0.25, 1]}) == [0.25]
    assert values({"linspace": [1, 2, 2.0]}) == [1.0, 2.0]
    thirds = values({"linspace": [0.1, 1 / 3, 3]})
    assert thirds[0] == 0.1
    assert thirds[-1] == 1 / 3  # ends are exact, whatever their digits


def test_whole_numbers_can_be_spaced() -> None:
    depths = validate(small_space(axes={"depth": {"linspace": [2, 10, 5]}})).axes["depth"]
    assert depths == [2, 4, 6, 8, 10]
    assert all(type(depth) is int for depth in depths)


def test_the_first_axis_varies_slowest() -> None:
    found = cells(axes={"overlap_angle": [60, 30], "gamma": [0.5, 0.3, 1]})
    assert [(cell["overlap_angle"], cell["gamma"]) for cell in found] == [
        (60, 0.5),
        (60, 0.3),
        (60, 1),
        (30, 0.5),
        (30, 0.3),
        (30, 1),
    ]
    assert found == list(
        validate(
            yaml_reader.parse(
                yaml_reader.dump(small_space(axes={"overlap_angle": [60, 30], "gamma": [0.5, 0.3, 1]})), "text"
            )
        ).cells()
    )


def test_without_axes_there_is_one_cell() -> None:
    assert cells(axes={}) == [{}]


def test_zipped_axes_move_together() -> None:
    axes = {"overlap_angle": [30, 60], "depth": [1, 2, 3], "gamma": [0.3, 0.5], "noise": [0.0, 0.2]}
    found = cells(axes=axes, fixed={"dim": 20}, zip=[["overlap_angle", "noise"]])
    assert [(c["overlap_angle"], c["noise"], c["depth"], c["gamma"]) for c in found] == [
        (angle, noise, depth, gamma)
        for angle, noise in ((30, 0.0), (60, 0.2))
        for depth in (1, 2, 3)
        for gamma in (0.3, 0.5)
    ]
    repeated = {"overlap_angle": [30, 30, 60], "gamma": [0.3, 0.5, 0.3]}  # only the pairs must differ
    assert len(cells(axes=repeated, zip=[["overlap_angle", "gamma"]])) == 3


def test_excluded_cells_are_left_out() -> None:
    axes = {"overlap_angle": [30, 60, 90], "gamma": [0.3, 0.5]}
    found = cells(axes=axes, exclude=[{"overlap_angle": [30, 90.0], "gamma": 0.5}, {"overlap_angle": 60}])
    assert [(c["overlap_angle"], c["gamma"]) for c in found] == [(30, 0.3), (90, 0.3)]


def test_the_number_of_cells_is_known_without_making_them() -> None:
    space = validate(
        small_space(
            axes={
                "overlap_angle": {"linspace": [1, 90, 10]},
                "gamma": {"linspace": [1, 2, 1000]},
                "noise": {"linspace": [0, 1, 1000]},
            },
            fixed={},
            exclude=[{"overlap_angle": 1}],
        )
    )
    assert space.count_upper_bound() == 10_000_000


def test_seeds_are_a_count_or_a_list() -> None:
    assert validate(small_space(seeds=3)).seeds == [0, 1, 2]
    assert validate(small_space(seeds=[7, 2])).seeds == [7, 2]
    assert validate({key: value for key, value in small_space().items() if key != "seeds"}).seeds == [0]


def test_every_default_is_resolved_in_its_declared_type() -> None:
    space = validate(small_space(fixed={"dim": 20.0, "noise": 0}))
    declared = workloads.get("linear_transfer").by_name
    assert set(space.fixed) | set(space.axes) == set(declared)
    assert all(type(value) is declared[name].type for name, value in space.fixed.items())
    assert all(type(value) is declared[name].type for name, axis in space.axes.items() for value in axis)
    assert space.fixed["pretrain_length"] == math.inf


def test_a_resolved_space_is_itself_a_space() -> None:
    for path in packaged.spaces().values():
        space = space_files.read(path)
        again = validate(yaml_reader.parse(yaml_reader.dump(space.as_dict()), "text"))
        assert again == space
        assert restore(space.as_dict()) == space


def test_a_workload_that_is_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyError):
        workloads.get("late")
    installed(tmp_path, late="raysweep.workloads.language:WORKLOAD")
    assert "late" in workloads.names()
    assert workloads.get("late") is workloads.get("language")
    monkeypatch.undo()
    with pytest.raises(KeyError):
        workloads.get("late")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+3", 3),
        ("010", 10),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("0x10", "0x10"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("e3", "e3"),
        (".", "."),
        ("1e", "1e"),
        ("'1'", "1"),
        ("=", "="),
        ("<<", "<<"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_yaml_scalars_mean_what_they_look_like(written: str, meant: Any) -> None:
    found = yaml_reader.parse(f"key: {written}\n", "text")["key"]
    assert found == meant
    assert type(found) is type(meant)
    assert yaml_reader.parse(yaml_reader.dump({"key": meant}), "text") == {"key": meant}


def test_aliases_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    text = (
        "name: a\nworkload: linear_transfer\naxes:\n  source_norm: &norms [1, 2]\n  target_norm: *norms\n"
        "zip: [[source_norm, target_norm]]\nfixed: {dim: 20}\n"
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(list(space_files.read(file).cells())) == 2


def test_set_reaches_any_key() -> None:
    changes = {
        "seeds": 2,
        "axes.gamma": {"linspace": [1, 2, 3]},
        "axes.overlap_angle.0": 45,
        "fixed.depth": 3,
        "fixed.noise": None,
        "resources.cpus_per_trial": 2,
        "exclude": [{"gamma": 1.5}],
    }
    space = space_files.read(small_space(), changes)
    assert space.axes == {"overlap_angle": [45.0, 60.0], "gamma": [1.0, 1.5, 2.0]}
    assert (space.fixed["depth"], space.fixed["noise"], space.seeds) == (3, 0.0, [0, 1])
    assert space.resources == {"gpus_per_trial": 0, "cpus_per_trial": 2}
    assert len(list(space.cells())) == 4


def test_set_can_move_a_parameter_from_fixed_to_an_axis() -> None:
    space = space_files.read(small_space(), {"fixed.noise": None, "axes.noise": [0.0, 0.2]})
    assert list(space.axes) == ["overlap_angle", "gamma", "noise"]


def test_reading_changes_nothing_of_what_was_given() -> None:
    given = small_space()
    space_files.read(given, {"axes.gamma.0": 0.9, "fixed.depth": 3})
    assert given == small_space()


def test_a_cell_is_named_by_what_it_means() -> None:
    as_axis = ids(axes={"overlap_angle": [30, 60], "gamma": [0.5], "noise": [0.2]}, fixed={"dim": 20})
    assert ids(axes={"overlap_angle": [30.0, 60.0], "gamma": [0.5]}, fixed={"dim": 20.0, "noise": 0.2}) == as_axis
    assert ids(axes={"gamma": [0.5], "overlap_angle": [30, 60]}, fixed={"noise": 0.2, "dim": 20}) == as_axis
    assert (
        ids(
            name="other",
            description="told anew",
            seeds=[5],
            resources={"cpus_per_trial": 2},
            axes={"overlap_angle": {"linspace": [30, 60, 2]}, "gamma": [0.5]},
        )
        == as_axis
    )
    assert ids(axes={"overlap_angle": [60], "gamma": [0.5]}) == as_axis[1:]
    assert ids(axes={"noise": [0, 0.1]}, fixed={})[0] == ids(axes={"noise": [-0.0, 0.1]}, fixed={})[0]


def test_a_cell_has_another_name_for_every_other_parameter() -> None:
    workload = workloads.get("linear_transfer")
    usual = {parameter.name: parameter.default for parameter in workload.parameters}
    other = {"engine": "theory", "pretrain_length": 3.0, "pretrain_start": "descent", "finetune_steps": 7.0}
    names = {identity.cell_id(workload, usual)}
    for parameter in workload.parameters:
        changed = other.get(parameter.name, usual[parameter.name] + 1 if parameter.type is not str else None)
        names.add(identity.cell_id(workload, {**usual, parameter.name: changed}))
    assert len(names) == 1 + len(workload.parameters)


def test_a_cells_name_is_a_hash_that_anyone_can_compute() -> None:
    parameters = {**validate(small_space()).fixed, "overlap_angle": 30.0, "gamma": 0.3}
    del parameters["symmetric"]  # it came later, and is left out at its default
    spelled = {name: {"float": "inf"} if value == math.inf else value for name, value in parameters.items()}
    text = json.dumps(["linear_transfer", 2, spelled], sort_keys=True, separators=(",", ":"))
    assert ids()[0] == hashlib.sha256(text.encode()).hexdigest()[:16]


GOLDEN = {
    "1508cb06c6d5347c": small_space(axes={}, fixed={"dim": 20, "noise": 0.2, "overlap_angle": 30, "gamma": 0.3}),
    "b76da0715271a253": {"name": "a", "workload": "linear_transfer"},
    "b9e7d60cd3bd04fa": {
        "name": "a",
        "workload": "linear_transfer",
        "fixed": {
            "engine": "network",
            "pretrain_length": 12.5,
            "depth": 5,
            "finetune_steps": 1000,
            "pretrain_start": "descent",
            "frozen_layers": 1,
        },
    },
}


@pytest.mark.parametrize("pinned", GOLDEN)
def test_names_of_cells_never_change_by_accident(pinned: str) -> None:
    found = enumerate_cells(validate(GOLDEN[pinned])).ids
    assert found == [pinned], (
        "cells are named otherwise than before, so that rows recorded earlier are lost to "
        "every sweep: give a new parameter its `absent` value, or raise identity_version on "
        "purpose and pin the new name here"
    )


def test_the_source_of_a_workload_changes_with_its_version() -> None:
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
    "raysweep.plan.identity": "how stages are called",
    "raysweep.workloads.declaration": "types that describe a workload; what it says of itself is a source of its own",
    "raysweep.training.devices": "where rows are computed, which decides no more than their last digits",
    "raysweep.workloads.asked_once": "asks the same question once",
    "raysweep.workloads.rows": "types in which rows are handed over",
}


@pytest.mark.parametrize("name", workloads.BUILT_IN)
def test_every_module_that_a_workload_computes_with_is_one_of_its_sources(name: str) -> None:
    """Else a change there would be seen by no --on-code-change."""
    sources = identity.source_files(workloads.get(name).sources)
    missing = {
        module: str(path)
        for path in sources
        for module in imported(path)
        if module not in CHANGE_NO_ROW and Path(find_spec(module).origin) not in sources
    }
    assert missing == {}, "modules outside of `sources`, and who imports them"


def imported(path: Path) -> set[str]:
    """The modules of raysweep that a file imports or names ("module:function"), those for type checkers apart."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [entry.name for entry in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports are not followed"
            inner = [f"{node.module}.{entry.name}" for entry in node.names]
            names = [own if is_module(own) else str(node.module) for own in inner]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"raysweep(\.\w+)+(:\w+)?", str(node.value)):
            names = [str(node.value).partition(":")[0]]
        found.update(name for name in names if name.startswith("raysweep.") and is_module(name))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_stages_are_shared_by_rows_that_agree_in_them() -> None:
    """In the parameters of the stage and of those before, and in the seed."""
    workload = workloads.get("language")
    rows = [{}, {"finetune_lr": 0.5}, {"sharpness_iterations": 3}, {"depth": 3}]
    columns = {p.name: column(p, [row.get(p.name, p.default) for row in rows]) for p in workload.parameters}
    found = RowStages(workload, columns)
    asked = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    chains = [{own.stage: own.id for own in found.of_row(*row, last=3)} for row in asked]
    shared = {
        name: [[chain[name] for chain in chains].index(chain[name]) for chain in chains]
        for name in ("pretrain", "finetune", "evaluate")
    }
    assert shared == {"pretrain": [0, 0, 0, 3, 4], "finetune": [0, 1, 0, 3, 4], "evaluate": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("asked", "path", "converted"),
    [
        ({"fixed": {"overlap": 0.5}}, "fixed.overlap", "; 0.5 is overlap_angle 60"),
        ({"axes": {"overlap": [0, 0.5, 1]}}, "axes.overlap", "; [0, 0.5, 1] is overlap_angle: [90, 60, 0]"),
        (
            {"axes": {"overlap": {"linspace": [0, 1, 101]}}},
            "axes.overlap",
            "; [0, 0.01, 0.02, 0.03, 0.04, ...] is overlap_angle: [90, 89.427, 88.854, 88.2809, 87.7076, ...]",
        ),
        ({"fixed": {"overlap": "half"}}, "fixed.overlap", ""),
        ({"fixed": {"overlap": 2}}, "fixed.overlap", ""),
        ({"overlap": 0.5}, "overlap", "; 0.5 is overlap_angle 60"),
    ],
)
def test_who_uses_the_earlier_name_of_a_parameter_is_told_what_to_say_now(
    asked: dict[str, Any], path: str, converted: str
) -> None:
    with pytest.raises(InputError) as caught:
        validate({"name": "a", "workload": "language", **asked})
    said = "its cosine is the share of the target's text that is drawn from the source instead"
    assert str(caught.value) == f"{path}: is now overlap_angle, in degrees: {said}{converted}"


def test_set_of_an_earlier_name_is_told_so_too(call: Any, storage: Path) -> None:
    outcome = call("run", "overtraining_language_tiny", "--set", "fixed.overlap=0.25", "--storage", storage)
    assert outcome.code == 2
    assert outcome.err.startswith("fixed.overlap: is now overlap_angle, in degrees: ")
    assert outcome.err.endswith("; 0.25 is overlap_angle 75.5225\n")
    assert not storage.exists()


def test_a_record_with_an_earlier_parameter_is_the_same_space_with_the_present_one() -> None:
    """Everywhere that a parameter or its values can stand; the names of its cells stay."""
    now = {
        "name": "a",
        "workload": "language",
        "axes": {"overlap_angle": [90, 60, 0], "finetune_lr": [1e-3, 2e-3, 3e-3], "noise": [0, 1]},
        "zip": [["overlap_angle", "finetune_lr"]],
        "exclude": [{"overlap_angle": 60, "noise": 1}],
        "search": {"boundary": {"metric": "sensitivity", "x": "noise", "budget": 10}},
        "resources": {"where": [{"overlap_angle": 90, "cpus_per_trial": 2}]},
        "analysis": [{"curves": {"metric": "finetune_loss", "x": "overlap_angle"}}],
    }
    space = validate(now)
    text = json.dumps(space.as_dict()).replace("overlap_angle", "overlap")
    record = json.loads(text)
    record["axes"]["overlap"] = [0.0, 0.5, 1.0]
    record["exclude"][0]["overlap"] = [0.5]
    record["resources"]["where"][0]["overlap"] = [0.0]
    assert restore(record) == space
    cells = enumerate_cells(space)
    later = {parameter.name for parameter in workloads.get("language").parameters if parameter.late}
    assert later == {"pretrain_dropout", "finetune_dropout", "interpolation"}
    for index, cell in enumerate(cells.ids):
        parameters = {k: v for k, v in cells.parameters(index).items() if k not in later}
        parameters["overlap"] = {90.0: 0.0, 60.0: 0.5, 0.0: 1.0}[parameters.pop("overlap_angle")]
        assert cell == identity.content_id(["language", 4, parameters])


def sandbox_space(**fixed: Any) -> Space:
    return validate({"name": "a", "workload": "sandbox", "axes": {"x": [1, 2]}, "fixed": fixed})


def test_a_later_parameter_at_its_absent_value_changes_no_name(sandbox: Path) -> None:
    plain = enumerate_cells(sandbox_space()).ids
    text = json.dumps(
        ["sandbox", 1, {"behaviour": "compute", "folder": "/nonexistent", "said_seconds": 0.0, "x": 1.0}],
        sort_keys=True,
        separators=(",", ":"),
    )
    assert plain[0] == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert enumerate_cells(sandbox_space(added=7)).ids == plain
    assert not set(enumerate_cells(sandbox_space(added=8)).ids) & set(plain)


def test_a_record_from_before_a_parameter_is_still_the_same_space(sandbox: Path) -> None:
    space = sandbox_space()
    record = space.as_dict()
    del record["fixed"]["added"]
    assert restore(record) == space


def test_canonical_text_distinguishes_what_differs() -> None:
    texts = {
        identity.canonical(value)
        for value in (
            1,
            1.0,
            "1",
            True,
            None,
            [1],
            {"1": 1},
            math.inf,
            -math.inf,
            math.nan,
            "inf",
            0.1,
            0.1 + 2**-56,
            [],
            {},
        )
    }
    assert len(texts) == 15
    assert identity.canonical({"b": 1, "a": (1, 2)}) == identity.canonical({"a": [1, 2], "b": 1})
    with pytest.raises(TypeError):
        identity.canonical({"a": {1, 2}})
    with pytest.raises(TypeError):
        identity.canonical(np.float32(1))


def test_a_complaint_is_one_line_whatever_it_quotes() -> None:
    with pytest.raises(InputError, match="description") as caught:
        validate(small_space(description=["a\nb\n" * 1000]))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_regime_s_best_rate_is_sought_among_rates_above_zero(call: Any, tmp_path: Path) -> None:
    options = {"metric": "pretrain_loss_after", "lr": "noise", "length": "pretrain_length"}
    space = {
        "name": "zero",
        "workload": "linear_spectrum",
        "axes": {"noise": [0, 1], "pretrain_length": [1, 2]},
        "analysis": [{"regime": options}],
    }
    (tmp_path / "zero.yaml").write_text(json.dumps(space))
    refused = call("run", tmp_path / "zero.yaml", "--storage", tmp_path / "sweeps")
    assert refused.code == 2
    assert refused.err.startswith("analysis[0].regime.lr: the best noise is sought on a logarithmic scale")
    assert not (tmp_path / "sweeps").exists()
