"""Rows on their way through the stages of a workload: what is computed, how often, from what, and what is kept."""

import random
from dataclasses import replace

import numpy as np
import pytest
from auditing import reading
from made_up_chain import CALLS, called, random_workload, stage, table, workload

from raysweep.plan.row_stages import RowStages
from raysweep.stages.artifacts import Artifact, Stacked
from raysweep.stages.store import Store
from raysweep.trial import chain
from raysweep.workloads.declaration import ANY, Stage
from raysweep.workloads.rows import Rows


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()
    yield
    CALLS.clear()


def three(**options):
    """pretrain (a), finetune (b, c) and evaluate (d); options of a stage by its name."""
    return workload(
        stage("pretrain", **options.get("pretrain", {})),
        stage("finetune", "pretrain", **options.get("finetune", {})),
        stage("evaluate", "finetune", **options.get("evaluate", {})),
        parameters=["pretrain.a", "finetune.b", "finetune.c", "evaluate.d"],
    )


def compute(made, rows, store=None, keep=()):
    """Rows with their seeds (0 by default)."""
    return chain.Walk(made, table(made, *rows), np.array([row.get("seed", 0) for row in rows]), store, keep).through()


def grid(**axes):
    rows = [{}]
    for name, values in axes.items():
        rows = [{**row, name: value} for row in rows for value in values]
    return rows


def alone(made, rows):
    """Each row by itself, in memory."""
    return [compute(made, [row]) for row in rows]


def assert_rows_are(result, expected):
    for index, each in enumerate(expected):
        assert result.status[index] == each.status[0]
        for name, values in each.metrics.items():
            np.testing.assert_array_equal(result.metrics[name][index], values[0], err_msg=f"{name} of row {index}")


def test_rows_see_the_parameters_of_their_stage_and_of_those_before_and_no_other():
    compute(three(finetune={"until": "c", "points": lambda row: [1.0, 2.0]}), [{}])
    seen = {call.stage: set(call.rows[0]) for call in CALLS}
    assert seen == {
        "pretrain": {"a", "seed"},
        "finetune": {"a", "b", "seed"},  # how far it goes is said by its points alone
        "evaluate": {"a", "b", "c", "d", "seed"},
    }
    with pytest.raises(KeyError, match="d is no parameter that the stage pretrain may depend on"):
        Rows({"a": np.zeros(1)}, np.zeros(1, int), "pretrain")["d"]


@pytest.mark.parametrize(
    ("together", "sizes"),
    [(None, [1] * 12), (("b",), [3] * 4), (("b", "c"), [6] * 2), (("a", "b", "c"), [12]), (ANY, [12])],
)
def test_a_call_gets_the_rows_that_the_stage_takes_together(together, sizes):
    made = three(finetune={"together": together})
    rows = grid(a=[1, 2], b=[1, 2, 3], c=[1, 2])
    metrics = compute(made, rows)
    assert sorted(len(call.rows) for call in called("finetune")) == sorted(sizes)
    for call in called("finetune"):
        apart = {"a", "b", "c"} - set(together or ()) if together != ANY else set()
        assert all(len({row[name] for row in call.rows}) == 1 for name in apart)
    assert_rows_are(metrics, alone(made, rows))


def test_rows_of_several_seeds_are_together_only_where_a_stage_takes_any_which_says_how_many_at_most():
    rows = grid(b=[1, 2], seed=[0, 1, 2])
    compute(three(finetune={"together": ("a", "b", "c")}), rows)
    compute(three(finetune={"together": ANY}), rows)
    assert [len(call.rows) for call in called("finetune")] == [2, 2, 2, 6]
    CALLS.clear()
    made = three(finetune={"together": ("b",), "size": "made_up_chain:at_most_two"})
    metrics = compute(made, rows := grid(a=[1, 2], b=[1, 2, 3]))
    assert [len(call.rows) for call in called("finetune")] == [2, 1, 2, 1]
    assert_rows_are(metrics, alone(made, rows))


def test_few_artifacts_are_in_memory_because_one_is_finished_after_the_other():
    compute(three(finetune={"together": ("b",)}, evaluate={"together": ("b",)}), grid(a=[1, 2], b=[1, 2]))
    assert [call.stage for call in CALLS] == ["pretrain", "finetune", "evaluate"] * 2


@pytest.mark.parametrize("earlier", [None, ("b",)])
def test_a_stage_that_takes_any_rows_gets_those_of_several_calls_with_their_parents_stacked(earlier):
    made = three(finetune={"together": earlier}, evaluate={"together": ANY})
    rows = grid(a=[1, 2], b=[1, 2], d=[1, 2], seed=[0, 1])
    metrics = compute(made, rows)
    (call,) = called("evaluate")
    assert len(call.rows) == 16
    assert isinstance(call.parent, Stacked)
    assert len(call.parent) == 16
    assert_rows_are(metrics, alone(made, rows))


def test_parents_of_parents_are_stacked_too_and_a_common_one_is_one():
    made = three(finetune={"together": ("b",)}, evaluate={"together": ("b",)})
    compute(made, grid(b=[1, 2]))
    (pretraining,), (call,) = called("pretrain"), called("evaluate")
    assert isinstance(call.parent, Stacked)
    common = call.parent.common_parent()
    assert isinstance(common, Artifact)
    assert common.metrics["pretrain_value"] == common.tensors()["nested"][0]["value"][0]
    assert pretraining.parent is None
    CALLS.clear()
    compute(three(evaluate={"together": ANY}), grid(a=[1, 2]))
    (call,) = called("evaluate")
    assert isinstance(call.parent.parent, Stacked)
    with pytest.raises(ValueError, match="no common parent"):
        call.parent.common_parent()


EPOCHS = {"until": "epochs", "points": lambda row: [float(n) for n in range(1, int(row["epochs"]) + 1)]}


def trained(**options):
    return workload(
        stage("train", **{**EPOCHS, **options}),
        stage("evaluate", "train"),
        parameters=["train.rate", "train.epochs", "evaluate.d"],
    )


@pytest.mark.parametrize("kept", [False, True])
def test_rows_share_the_points_of_a_stage_that_they_have_in_common(kept, tmp_path):
    """Epoch 3 after 2 after 1, whether they are kept or in memory."""
    made = trained(keeps=kept)
    rows = [{"rate": 1, "epochs": n} for n in (2, 4, 3, 4)] + [{"rate": 2, "epochs": 1}, {"rate": 1, "epochs": 0}]
    metrics = compute(made, rows, Store(tmp_path) if kept else None)
    trained_on = sorted((call.rows[0]["rate"], call.before, call.point) for call in called("train"))
    assert trained_on == [(1, 0, 1), (1, 1, 2), (1, 2, 3), (1, 3, 4), (2, 0, 1)]
    assert len(called("evaluate")) == 5
    assert np.isnan(metrics.metrics["train_value"][5])  # it has no epoch at all
    assert metrics.metrics["train_value"][1] == metrics.metrics["train_value"][3]
    assert len(set(metrics.metrics["train_value"][:5])) == 4
    by_point = {call.point: call for call in called("train") if call.rows[0]["rate"] == 1}
    past = {point: call.parent.tensors()["nested"][0]["value"][0] for point, call in by_point.items() if call.parent}
    assert metrics.metrics["train_value"][[0, 2]].tolist() == [past[3], past[4]]
    if kept:
        assert [len(entry.get("train", [])) for entry in metrics.stages] == [2, 4, 3, 4, 1, 0]
        assert metrics.stages[0]["train"] == metrics.stages[1]["train"][:2]
        assert len(Store(tmp_path).stages()) == 5
    else:
        assert [len(curve.get("train", {}).get("step", [])) for curve in metrics.curves] == [4, 8, 6, 8, 2, 0]
        assert list(metrics.curves[0]["train"]["step"]) == [1, 2, 2, 3]


def test_a_thousand_points_are_no_deeper_than_one():
    metrics = compute(trained(), [{"epochs": 1500}, {"epochs": 1200}])
    assert len(called("train")) == 1500
    assert len(set(metrics.metrics["train_value"])) == 2


def test_points_that_depend_on_a_parameter_of_a_later_stage_are_each_row_s_own(tmp_path):
    """As a trunk whose length follows from the length of a pretraining that branches off from it."""
    made = workload(
        stage("trunk", keeps=True, points=lambda row: [p for p in (10.0, 20.0, 40.0) if p < row["length"]]),
        stage("pretrain", "trunk", keeps=True),
        parameters=["trunk.width", "pretrain.length"],
    )
    for rows in (grid(length=[50, 15, 30, 5]), grid(length=[5, 15, 30, 50])):
        CALLS.clear()
        metrics = compute(made, rows, Store(tmp_path / str(rows[0]["length"])))
        assert [call.point for call in called("trunk")] == [10, 20, 40]
        parents = {call.rows[0]["length"]: call.parent for call in called("pretrain")}
        assert parents[5] is None
        assert len({parents[length].metrics["trunk_value"] for length in (15, 30, 50)}) == 3
        by_length = dict(zip([row["length"] for row in rows], metrics.stages, strict=True))
        assert {length: len(each.get("trunk", [])) for length, each in by_length.items()} == {5: 0, 15: 1, 30: 2, 50: 3}


def kept(**options):
    """Of `three` the pretraining is always kept."""
    return three(**{**options, "pretrain": {"keeps": True, **options.get("pretrain", {})}})


def test_what_is_in_the_store_is_not_computed_and_what_is_not_asked_for_is_not_read(tmp_path):
    made = kept(evaluate={"run": "made_up_chain:blind"})
    store, rows = Store(tmp_path), grid(a=[1, 2], b=[1, 2])
    first = compute(made, rows, store, ("finetune",))
    assert len(store.stages()) == 2 + 4
    CALLS.clear()
    with reading("entries") as read:
        again = compute(made, rows, Store(tmp_path), ("finetune",))
    assert {call.stage for call in CALLS} == {"evaluate"}
    assert not [path for path in read if path.suffix == ".safetensors"]
    assert_rows_are(again, [compute(made, [row], store, ("finetune",)) for row in rows])
    assert [set(each) for each in again.stages] == [{"pretrain", "finetune"}] * 4
    assert again.stages == first.stages


def test_a_later_stage_that_is_there_reads_its_own_weights_and_none_before(tmp_path):
    made, rows = kept(), grid(b=[1, 2])
    compute(made, rows, Store(tmp_path), ("finetune",))
    with reading("entries") as read:
        compute(made, rows, Store(tmp_path), ("finetune",))
    weights = {path.name.split(".")[0] for path in read if path.suffix == ".safetensors"}
    stages = RowStages(made, table(made, *rows), ("finetune",))
    assert weights == {stages.of_row(row, 0)[-1].id for row in (0, 1)}


def test_a_pruned_trunk_under_a_pretraining_that_is_there_is_not_computed_again(tmp_path):
    made = workload(
        Stage("trunk", "made_up_chain:careless", keeps=True, points=lambda row: [1.0, 2.0]),
        stage("pretrain", "trunk", keeps=True),
        stage("evaluate", "pretrain"),
        parameters=["trunk.width", "pretrain.length", "evaluate.d"],
    )
    made = replace(made, metrics=tuple(metric for metric in made.metrics if metric.name != "trunk_value"))
    store = Store(tmp_path)
    first = compute(made, [{}], store)
    for identity in first.stages[0]["trunk"]:
        for path in (tmp_path / "entries").glob(f"{identity}.*"):
            path.unlink()
    CALLS.clear()
    assert_rows_are(compute(made, [{"d": 1}, {}], Store(tmp_path)), [compute(made, [{"d": 1}], store), first])
    assert {call.stage for call in CALLS} == {"evaluate"}
    assert len(store.stages()) == 1
    compute(made, [{"length": 1}], Store(tmp_path))  # now it is needed
    assert [call.point for call in called("trunk")] == [1, 2]


def test_a_stage_whose_metrics_are_asked_for_is_computed_again_where_it_was_pruned(tmp_path):
    made, store = kept(), Store(tmp_path)
    first = compute(made, [{}], store, ("finetune",))
    for path in (tmp_path / "entries").glob(f"{first.stages[0]['pretrain'][0]}.*"):
        path.unlink()
    CALLS.clear()
    assert_rows_are(compute(made, [{}], Store(tmp_path), ("finetune",)), [first])
    assert [call.stage for call in CALLS] == ["pretrain", "evaluate"]


def test_kept_stages_that_are_taken_together_are_computed_in_one_call_and_published_each(tmp_path):
    made, store = kept(finetune={"together": ("b",)}), Store(tmp_path)
    rows = grid(b=[1, 2, 3])
    first = compute(made, rows[:1], store, ("finetune",))
    CALLS.clear()
    metrics = compute(made, rows, store, ("finetune",))
    assert [[row["b"] for row in call.rows] for call in called("finetune")] == [[2, 3]]  # only what is missing
    assert len(store.stages()) == 1 + 3
    assert_rows_are(metrics, [first, *alone(three(finetune={"together": ("b",)}), rows[1:])])
    described = [store.look(each["finetune"][0])["describe"] for each in metrics.stages]
    assert [entry["parameters"]["b"] for entry in described] == [1, 2, 3]
    assert {entry["stage"] for entry in described} == {"finetune"}


def test_stages_can_be_put_into_the_store_with_those_before_and_nothing_else(tmp_path):
    made = trained(keeps=True)
    rows, seeds = table(made, {"epochs": 4}, {"epochs": 2, "rate": 1}), np.array([7, 7])
    stages, others = (RowStages(made, rows).of_row(row, 7) for row in (0, 1))
    chain.Walk(made, rows, seeds, Store(tmp_path), (), only=[stages[0].id, stages[1].id, others[0].id]).through()
    assert set(Store(tmp_path).stages()) == {stages[0].id, stages[1].id, others[0].id}
    chain.Walk(made, rows, seeds, Store(tmp_path), (), only=[stages[2].id, stages[3].id]).through()
    assert sorted((call.rows[0]["rate"], call.point) for call in CALLS) == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1)]


@pytest.mark.parametrize("keep", [(), ("pretrain",), ("pretrain", "finetune"), ("pretrain", "finetune", "evaluate")])
def test_a_row_has_the_worst_status_of_its_stages(keep, tmp_path):
    made = workload(
        stage("pretrain"),
        stage("finetune", "pretrain", together=ANY),
        stage("evaluate", "finetune"),
        parameters=["pretrain.fate_pretrain", "finetune.fate_finetune", "evaluate.fate_evaluate"],
    )
    fates = ["ok", "not_converged", "diverged"]
    rows = grid(fate_pretrain=fates, fate_finetune=fates, fate_evaluate=fates)
    for _ in range(2 if keep else 1):  # the second time from the store
        metrics = compute(made, rows, Store(tmp_path) if keep else None, keep)
        assert metrics.status.tolist() == [max(row.values(), key=fates.index) for row in rows]


def test_curves_of_kept_stages_are_shared_and_others_are_each_row_s(tmp_path):
    made, rows = kept(finetune={"together": ("b",)}), grid(b=[1, 2])
    for _ in range(2):  # the second time from the store
        metrics = compute(made, rows, Store(tmp_path))
        assert set(metrics.shared_curves) == {metrics.stages[0]["pretrain"][0]}
        (shared,) = metrics.shared_curves.values()
        value = metrics.metrics["pretrain_value"][0]
        assert shared == {"step": [1, 2], "loss": [value, value / 2]}
        for index, curves in enumerate(metrics.curves):
            value = metrics.metrics["finetune_value"][index]
            assert curves["finetune"] == {"step": [1, 2], "loss": [value, value / 2]}
            assert set(curves) == {"finetune", "evaluate"}


@pytest.mark.parametrize("number", range(25))
def test_rows_do_not_depend_on_how_they_are_packed_halved_ordered_or_kept(number, tmp_path):
    draw = random.Random(number)
    made = random_workload(draw)
    names = [parameter.name for parameter in made.parameters]
    rows = [{"seed": draw.randint(0, 1), **{name: draw.randint(0, 3) for name in names}} for _ in range(10)]

    def keep():
        return tuple(name for name in made.chain.names if draw.random() < 0.5)

    def packs(indices):
        if len(indices) == 1 or draw.random() < 0.3:
            return [indices]
        middle = draw.randint(1, len(indices) - 1)
        return [*packs(indices[:middle]), *packs(indices[middle:])]

    expected = [compute(made, [row], Store(tmp_path / f"row{i}")) for i, row in enumerate(rows)]
    stores = [Store(tmp_path / "shared"), Store(tmp_path / "other")]
    for _ in range(2):
        order = list(range(len(rows)))
        draw.shuffle(order)
        for pack in packs(order):
            CALLS.clear()
            asked = keep()
            metrics = compute(made, [rows[i] for i in pack], draw.choice(stores), asked)
            assert_rows_are(metrics, [expected[i] for i in pack])
            stages = RowStages(made, table(made, *rows), asked)
            for position, i in enumerate(pack):
                ids = [each.id for each in stages.of_row(i, rows[i]["seed"], len(made.chain) - 1) if each.kept]
                assert [each for named in metrics.stages[position].values() for each in named] == ids
            distinct = {}
            for i in pack:
                for each in stages.of_row(i, rows[i]["seed"], len(made.chain) - 1):
                    distinct.setdefault(each.stage, set()).add(each.id)
            for each in made.chain.stages:
                if each.together != ANY or each is not made.chain.stages[0]:  # whose rows are taken as they come
                    assert sum(len(call.rows) for call in called(each.name)) <= len(distinct.get(each.name, set()))


def test_values_of_made_up_stages_tell_all_pasts_apart():
    """Else the tests above would say nothing."""
    rows = grid(a=[0, 1], b=[0, 1], c=[0, 1], d=[0, 1], seed=[0, 1])
    metrics = compute(three(), rows)
    assert len(set(metrics.metrics["evaluate_value"])) == len(rows)
