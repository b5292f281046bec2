"""Who uses the earlier name of a parameter is told the present one, and old records keep their cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import refused

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.plan import identity
from raysweep.plan.cells import enumerate_cells
from raysweep.space.schema import restore, validate


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
    meaning = "its cosine is the share of target text drawn from the source"
    assert str(caught.value) == f"{path}: is now overlap_angle, in degrees: {meaning}{converted}"


def test_set_of_an_earlier_name_is_told_so_too(call: Any, storage: Path) -> None:
    outcome = call("run", "overtraining_language_tiny", "--set", "fixed.overlap=0.25", "--storage", storage)
    refused(outcome, "fixed.overlap: is now overlap_angle, in degrees: ", "; 0.25 is overlap_angle 75.5225\n")
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
        assert cell == identity.content_id(["language", 5, parameters])
