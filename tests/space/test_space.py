"""A space says which cells there are and in which order, however it was written."""

import math

import numpy as np
import pytest
from conftest import installed
from spaces import small_space

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.plan.cells import enumerate_cells
from raysweep.space import space_files, yaml_reader
from raysweep.space.schema import restore, validate


def values(axis):
    return validate(small_space(axes={"gamma": axis})).axes["gamma"]


def cells(**changes):
    return list(validate(small_space(**changes)).cells())


def ids(**changes):
    return enumerate_cells(validate(small_space(**changes))).ids


def test_spaced_axes_are_what_one_would_type():
    assert values({"linspace": [0.1, 2.0, 20]}) == [round(0.1 * k, 1) for k in range(1, 21)]
    assert values({"geomspace": [0.001, 1, 4]}) == [0.001, 0.01, 0.1, 1.0]
    assert values({"linspace": [3, 1, 3]}) == [3.0, 2.0, 1.0]
    assert values({"linspace": [0.25, 7, 1]}) == values({"geomspace": [0.25, 0.25, 1]}) == [0.25]
    assert values({"linspace": [1, 2, 2.0]}) == [1.0, 2.0]
    thirds = values({"linspace": [0.1, 1 / 3, 3]})
    assert thirds[0] == 0.1
    assert thirds[-1] == 1 / 3  # ends are exact, whatever their digits
    depths = validate(small_space(axes={"depth": {"linspace": [2, 10, 5]}})).axes["depth"]
    assert [(depth, type(depth)) for depth in depths] == [(depth, int) for depth in (2, 4, 6, 8, 10)]


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ({"geomspace": [1, 100, 5]}, "axes.depth[1]: expected a whole number from 1 to 1000, got 3.16227766017; "),
        ({"linspace": [1, 100, 5]}, "axes.depth[1]: expected a whole number from 1 to 1000, got 25.75; "),
        ({"geomspace": [1, 4, 7], "when": {"gamma": 0.5}}, "axes.depth[1]: "),
    ],
)
def test_spaced_values_that_are_not_whole_are_told_the_list_that_is(axis, message):
    axes = {"depth": axis, "gamma": [0.5, 1]}
    with pytest.raises(InputError) as wrong:
        validate(small_space(axes=axes))
    assert str(wrong.value).startswith(message)
    whole = yaml_reader.parse(str(wrong.value).rpartition(": ")[2], "list")
    first, last, count = axis.get("geomspace") or axis["linspace"]
    spaced = (np.geomspace if "geomspace" in axis else np.linspace)(first, last, count)
    assert whole == sorted(set(spaced.round().tolist()))
    assert validate(small_space(axes={**axes, "depth": whole})).axes["depth"] == whole


def test_a_list_of_whole_numbers_is_not_offered_where_it_would_not_do():
    for axis in ({"linspace": [-2, 1, 5]}, {"values": [1.5]}, {"geomspace": [0.1, 10, 4]}, {"range": [1.5, 4]}):
        with pytest.raises(InputError, match=r"^axes.depth[^;]*$"):
            validate(small_space(axes={"depth": axis}, search={"random": {"cells": 2}}))


def test_the_first_axis_varies_slowest():
    axes = {"overlap_angle": [60, 30], "gamma": [0.5, 0.3, 1]}
    ordered = [(cell["overlap_angle"], cell["gamma"]) for cell in cells(axes=axes)]
    assert ordered == [(angle, gamma) for angle in (60, 30) for gamma in (0.5, 0.3, 1)]
    again = yaml_reader.parse(yaml_reader.dump(small_space(axes=axes)), "text")
    assert list(validate(again).cells()) == cells(axes=axes)
    assert cells(axes={}) == [{}]


def test_zipped_axes_move_together():
    axes = {"overlap_angle": [30, 60], "depth": [1, 2, 3], "gamma": [0.3, 0.5], "noise": [0.0, 0.2]}
    cells_of = cells(axes=axes, fixed={"dim": 20}, zip=[["overlap_angle", "noise"]])
    assert [(c["overlap_angle"], c["noise"], c["depth"], c["gamma"]) for c in cells_of] == [
        (angle, noise, depth, gamma)
        for angle, noise in ((30, 0.0), (60, 0.2))
        for depth in (1, 2, 3)
        for gamma in (0.3, 0.5)
    ]
    repeated = {"overlap_angle": [30, 30, 60], "gamma": [0.3, 0.5, 0.3]}  # only the pairs must differ
    assert len(cells(axes=repeated, zip=[["overlap_angle", "gamma"]])) == 3


def test_excluded_cells_are_left_out():
    axes = {"overlap_angle": [30, 60, 90], "gamma": [0.3, 0.5]}
    cells_of = cells(axes=axes, exclude=[{"overlap_angle": [30, 90.0], "gamma": 0.5}, {"overlap_angle": 60}])
    assert [(c["overlap_angle"], c["gamma"]) for c in cells_of] == [(30, 0.3), (90, 0.3)]


def test_the_number_of_cells_is_known_without_making_them():
    many = {"gamma": {"linspace": [1, 2, 1000]}, "noise": {"linspace": [0, 1, 1000]}}
    axes = {"overlap_angle": {"linspace": [1, 90, 10]}, **many}
    assert validate(small_space(axes=axes, fixed={}, exclude=[{"overlap_angle": 1}])).count_upper_bound() == 10_000_000


def test_seeds_are_a_count_or_a_list():
    assert validate(small_space(seeds=3)).seeds == [0, 1, 2]
    assert validate(small_space(seeds=[7, 2])).seeds == [7, 2]
    assert validate({key: value for key, value in small_space().items() if key != "seeds"}).seeds == [0]


def test_every_default_is_resolved_in_its_declared_type():
    space = validate(small_space(fixed={"dim": 20.0, "noise": 0}))
    declared = workloads.get("linear_transfer").by_name
    assert set(space.fixed) | set(space.axes) == set(declared)
    assert all(type(value) is declared[name].type for name, value in space.fixed.items())
    assert all(type(value) is declared[name].type for name, axis in space.axes.items() for value in axis)
    assert space.fixed["pretrain_length"] == math.inf


def test_a_resolved_space_is_itself_a_space():
    for path in space_files.packaged().values():
        space = space_files.read(path)
        again = validate(yaml_reader.parse(yaml_reader.dump(space.as_dict()), "text"))
        assert again == space
        assert restore(space.as_dict()) == space


@pytest.mark.parametrize("name", space_files.packaged())
def test_the_question_of_a_packaged_space_is_short_and_its_first_analysis_answers_it(name):
    space = space_files.read(space_files.packaged()[name])
    asked = [options.get("question", "") for entry in space.analysis for options in entry.values()]
    question = next(filter(None, asked))
    assert space.description == ""  # a report asks what its first analysis answers
    assert question.index("?") == len(question) - 1
    assert 4 <= len(question.split()) <= 20


def test_a_workload_that_is_installed_meanwhile_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyError):
        workloads.get("late")
    installed(tmp_path, late="raysweep.workloads.language:WORKLOAD")
    assert "late" in workloads.names()
    assert workloads.get("late") is workloads.get("language")
    monkeypatch.undo()
    with pytest.raises(KeyError):
        workloads.get("late")


TEXTS = "on off yes no y 1:30 2020-01-01 0x10 0o17 1_000 e3 . 1e = <<"  # to other readers some are none


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
        ("true", True),
        ("False", False),
        *((text, None) for text in ("~", "null", "")),
        *((text, text) for text in TEXTS.split()),
        ("'1'", "1"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_yaml_scalars_mean_what_they_look_like(written, meant):
    result = yaml_reader.parse(f"key: {written}\n", "text")["key"]
    assert result == meant
    assert type(result) is type(meant)
    assert yaml_reader.parse(yaml_reader.dump({"key": meant}), "text") == {"key": meant}


def test_aliases_and_a_byte_order_mark_are_understood(tmp_path):
    file = tmp_path / "space.yaml"
    text = (
        "name: a\nworkload: linear_transfer\naxes:\n  source_norm: &norms [1, 2]\n  target_norm: *norms\n"
        "zip: [[source_norm, target_norm]]\nfixed: {dim: 20}\n"
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(list(space_files.read(file).cells())) == 2


def test_set_reaches_any_key():
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
    moved = space_files.read(small_space(), {"fixed.noise": None, "axes.noise": [0.0, 0.2]})
    assert list(moved.axes) == ["overlap_angle", "gamma", "noise"]


def test_reading_changes_nothing_of_what_was_given():
    given = small_space()
    space_files.read(given, {"axes.gamma.0": 0.9, "fixed.depth": 3})
    assert given == small_space()


def test_a_complaint_is_one_line_whatever_it_quotes():
    with pytest.raises(InputError, match="description") as caught:
        validate(small_space(description=["a\nb\n" * 1000]))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
