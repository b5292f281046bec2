"""A declaration that would be misread later is refused at once, and a stage's function is told what it may not read."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.plan.identity import code_version, source_files
from raysweep.plan.row_stages import RowStages
from raysweep.space.analyses import registry
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result, Rows


def learn(rows, parent, context):
    return Result({"w": np.zeros(1)})


def declared(**stage):
    """A workload of two stages, the first of which has these fields."""
    first = Stage(**{"name": "learn", "run": "test_declared_stages:learn", **stage})
    return Workload(
        name="odd",
        summary="odd",
        identity_version=1,
        parameters=(Parameter("x", int, 1, "x", stage="learn"), Parameter("y", float, 1.0, "y", stage="judge")),
        stages=(first, Stage("judge", "test_declared_stages:learn", after="learn")),
        metrics=(Metric("loss", "loss"),),
    )


COLUMNS = {"x": np.array([3]), "y": np.array([0.5])}


def more(*added):
    """The same with further parameters or metrics."""
    odd = declared()
    parameters, metrics = ([each for each in added if isinstance(each, kind)] for kind in (Parameter, Metric))
    return replace(odd, parameters=(*odd.parameters, *parameters), metrics=(*odd.metrics, *metrics))


def chained(**judge):
    """The same with this last stage."""
    odd = declared(after=judge.pop("first_after", ""))
    return replace(odd, stages=(odd.stages[0], *judge.pop("others", ()), replace(odd.stages[1], **judge)))


CHAIN = "expected stages in one chain, each after another one, got"
REFUSED = [
    (lambda: declared(run="test_declared_stages.learn"), 'stage learn: expected run as "module:function", got'),
    (lambda: declared(version=2), "stage learn has the version 2, above the workload's identity_version 1"),
    (lambda: declared(together="x"), "stage learn: expected together as a tuple of parameters"),
    (lambda: declared(until="x"), "stage learn has until = 'x' and no points"),
    (lambda: declared(sources="odd.net"), 'stage learn: expected sources as modules, such as ("my_package.net",), got'),
    (lambda: declared(together=("x",), points=lambda row: [1]), "stage learn has points, and so gets one row a call"),
    (lambda: chained(after="train"), "stage judge comes after train, which is no stage"),
    (lambda: chained(first_after="judge"), f"{CHAIN} a circle: learn after judge, judge after learn"),
    (
        lambda: chained(others=(Stage("other", "a:b", after="learn"),)),
        f"{CHAIN} two after the same one: learn after nothing, other after learn, judge after learn",
    ),
    (lambda: more(Parameter("z", int, 1, "")), "parameter z belongs to no stage; expected one of learn, judge"),
    (lambda: more(Metric("z", "", stage="guess")), "metric z belongs to stage 'guess', expected learn, judge"),
    (lambda: more(Parameter("seed", int, 1, "", stage="learn")), "parameter seed has the name of a column of the resu"),
    (lambda: more(Metric("seconds", "")), "metric seconds has the name of a column of the results: rename it"),
    (lambda: more(Parameter("x", int, 2, "", stage="judge")), "two parameters are called x: rename one"),
    (lambda: more(Metric("y", "")), "a parameter and a metric are called y: rename one"),
    (lambda: more(Metric("up", "", direction="up")), "metric up: expected minimize, maximize or none, got 'up' as its"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_a_declaration_that_would_be_misread_is_refused(make, message):
    with pytest.raises(ValueError) as wrong:
        make()
    assert str(wrong.value).startswith(f"odd: {message}")


def test_a_metric_of_another_package_has_a_name_that_a_metric_can_have(monkeypatch):
    odd = declared()
    odd = replace(odd, metrics=(*odd.metrics, Metric("top@5", "")))
    point = SimpleNamespace(load=lambda: odd, value="odd:WORKLOAD")
    monkeypatch.setattr(workloads, "_brought", lambda name, path: point)
    with pytest.raises(InputError, match=r"^workload: odd: expected letters .*, got 'top@5'; rename it$"):
        workloads.get("odd")


def test_sources_are_any_sequence_of_modules():
    module = "test_declared_stages"
    assert code_version(replace(declared(sources=[module]), sources=[module])) == code_version(declared())
    for sources in (module, 3, [3]):
        with pytest.raises(ValueError, match="^odd: expected sources as modules"):
            replace(declared(), sources=sources)


def test_a_default_is_a_value_of_its_parameter():
    with pytest.raises(ValueError, match=r"^x\.default: expected a whole number of at least 1, got 0$"):
        Parameter("x", int, 0, "x", minimum=1)


def test_infinity_is_beside_the_range():
    width = Parameter("width", float, 4.0, "", minimum=1, maximum=100, infinite=True, whole=True)
    assert [width.coerce(value) for value in (1, 100, float("inf"))] == [1, 100, np.inf]
    for value in (101, 0, float("-inf"), float("nan")):
        with pytest.raises(ValueError, match=r"from 1 to 100, or \.inf"):
            width.coerce(value)


@pytest.mark.parametrize(
    "points", [np.arange(1, 4), np.array([1.0, 2.0, 3.0]), [np.int64(1), np.float32(2), 3], range(1, 4)]
)
def test_points_are_numbers_of_any_kind(points):
    stages = RowStages(declared(points=lambda row: points), COLUMNS)
    assert stages.points(0)[0] == (1, 2, 3)
    assert {type(point) for point in stages.points(0)[0]} <= {int, float}
    assert stages.of_row(0, 0, 1)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "3", None])
@pytest.mark.parametrize("field", ["seconds", "peak_bytes", "gpu_seconds"])
def test_costs_are_finite_numbers(field, value):
    cost = Cost(**{"seconds": np.float64(1), "peak_bytes": 1, "gpu_seconds": 1.0, field: value})
    stages = RowStages(declared(cost=lambda columns: cost), COLUMNS)
    if field == "gpu_seconds" and value is None:  # it cannot use a GPU
        assert stages.of_row(0, 0, 1)
        return
    for asked in (lambda: stages.of_row(0, 0, 1), lambda: stages.cost_of(np.array([0]))):
        with pytest.raises(InputError) as wrong:
            asked()
        assert str(wrong.value).startswith(f"odd.learn.cost: expected {field} as a finite number of at least 0, got ")


def pointed(points):
    return declared(points=lambda row: points)


def identified(identify):
    return replace(declared(), identify=identify)


MAPPING, FINITE = "expected a mapping of plain values, got", "expected finite numbers of at least 0, got "
TOLD = [
    (pointed(range(3, 0, -1)), "odd.learn: expected points that rise, got (3, 2, 1)"),
    *((pointed(points), "odd.learn.points: expected numbers that rise, got ") for points in (None, 5)),
    *((pointed([1, one]), f"odd.learn.points: {FINITE}") for one in (None, 2j, "a", True, np.nan, np.inf, -1)),
    (declared(points=lambda row: range(row["z"])), "odd.learn.points: KeyError: 'z' ("),
    (declared(cost=lambda columns, before: None), "odd.learn.cost: TypeError: "),
    (declared(cost=lambda columns: 0.05), "odd.learn.cost: expected a Cost, got 0.05"),
    (identified(lambda stage, values, row: None), f"odd.learn.identify: {MAPPING} None"),
    (identified(lambda stage, values, row: {"x": np.int64(3)}), f"odd.learn.identify: {MAPPING} one in which int64 "),
    (identified(lambda stage, values, row: 1 / 0), "odd.learn.identify: ZeroDivisionError: division by zero ("),
]


@pytest.mark.parametrize(("odd", "message"), TOLD)
def test_an_answer_of_a_declaration_that_is_none_is_told_by_its_field(odd, message):
    with pytest.raises(InputError) as wrong:
        RowStages(odd, COLUMNS).of_row(0, 0, 1)
    assert str(wrong.value).startswith(message)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("no_such_module:learn", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("test_declared_stages:lern", "AttributeError: module 'test_declared_stages' has no"),
    ],
)
def test_a_function_that_cannot_be_imported_ends_the_sweep_instead_of_every_row(run, message):
    with pytest.raises(InputError) as wrong:
        compute(declared(run=run), COLUMNS, np.array([0]), "")
    assert str(wrong.value).startswith(f"{run}: cannot be imported: {message}")


def test_a_stage_that_gives_not_all_of_its_metrics_is_told():
    with pytest.raises(InputError, match=r"^odd\.judge: gave no loss, declared for it; give NaN where there is none$"):
        compute(declared(), COLUMNS, np.array([0]), "")


def test_a_parameter_that_a_stage_must_not_read_is_told_with_those_that_it_may():
    rows = Rows({"x": np.array([1])}, np.array([0]), "learn")
    for read in (lambda: rows["y"], lambda: rows.row()["y"], lambda: next(iter(rows))["y"]):
        with pytest.raises(KeyError, match=r"y is no parameter that the stage learn may depend on \(these are x\)"):
            read()
    assert rows.row() == {"x": 1, "seed": 0}


def test_without_sources_the_modules_of_the_functions_decide():
    named = replace(declared(), sources=("test_declared_stages",))
    assert code_version(declared()) == code_version(named) != code_version(declared(run="made_up_chain:grown"))


def test_the_sources_of_a_stage_decide_the_rows_too():
    odd, reference = declared(), declared(sources=("made_up_chain",))
    assert code_version(reference) != code_version(odd)
    assert code_version(reference, reference.chain.stages[1]) == code_version(odd)
    assert code_version(declared(sources=("test_declared_stages",))) == code_version(odd)
    whole = replace(odd, sources=("raysweep.workloads",))
    part = replace(whole, stages=tuple(replace(s, sources=("raysweep.workloads.rows",)) for s in whole.stages))
    assert code_version(part) == code_version(whole)  # a module of a package that is there already


def test_a_module_that_is_not_there_is_no_source():
    with pytest.raises(InputError, match="^sources: there is no module halve"):
        source_files(["halve.net"])


@pytest.mark.parametrize("name", workloads.BUILT_IN)
def test_every_analysis_can_be_asked_of_a_workload_s_parameters(name):
    """A parameter with the name of a column of a finding's table could not stand in it."""
    workload = workloads.get(name)
    engine = workload.engines.parameter if workload.engines else ""
    for kind in ("boundary", "inflection", "optimum", "trend"):
        columns = registry().chosen(kind, {}, workload).columns
        assert not (set(workload.by_name) - {engine}) & set(columns), kind
