"""What a stage's function may ask for: a checkpoint of nested state that comes back as it was, and a learning curve."""

import numpy as np
import pytest
import torch

from raysweep.errors import InputError
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.trial import context as trial_context
from raysweep.trial.context import CURVE_POINTS, Context
from raysweep.trial.early_stopping import Rule


@pytest.fixture
def at_every_step(monkeypatch):
    monkeypatch.setattr(trial_context, "CHECKPOINT_SECONDS", 0.0)


def interrupted(store, at, stage="stage", rows=1, state=None):
    """What `restored` gave to a stage of 10 steps that is interrupted at one of them. It logs and saves at each."""
    results = []

    def compute(progress):
        context = Context("train", rows, progress=progress)
        results.append(context.restored())
        for step in range((results[0] or {"step": 0})["step"] + 1, 11):
            if step == at:
                raise KeyboardInterrupt
            context.log(step, loss=np.arange(rows) + step)
            context.checkpoint({"step": step, "of": state})
        return {}, {"curve": context.curve.of_row(rows - 1)}

    if at <= 10:
        with pytest.raises(KeyboardInterrupt):
            store.once(stage, compute, describe={})
    else:
        results.append(store.once(stage, compute, describe={}).meta["curve"])
    return results


def assert_same(result, given):
    assert type(result) is type(given)
    if isinstance(given, dict):
        assert list(result) == list(given)
        assert [type(key) for key in result] == [type(key) for key in given]
        for key in given:
            assert_same(result[key], given[key])
    elif isinstance(given, (list, tuple)):
        assert len(result) == len(given)
        for one, other in zip(result, given, strict=True):
            assert_same(one, other)
    elif isinstance(given, torch.Tensor):
        assert (result.dtype, result.shape) == (given.dtype, given.shape)
        assert torch.equal(result.resolve_conj(), given.resolve_conj())
    elif isinstance(given, (np.ndarray, np.generic)):
        assert (result.dtype, result.shape) == (given.dtype, given.shape)
        np.testing.assert_array_equal(result, given)
    else:
        assert result == given


def trained(kind):
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2).to(kind)
    adam = torch.optim.AdamW(net.parameters(), lr=0.1, amsgrad=True)
    for _ in range(2):
        net(torch.ones(4, 3, dtype=kind)).square().sum().backward()
        adam.step()
    return net, adam


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_an_optimizer_s_state_comes_back_as_it_was(kind, tmp_path, at_every_step):
    net, adam = trained(kind)
    state = {
        "net": net.state_dict(),
        "adam": adam.state_dict(),
        "none": None,
        "words": ["a", True, 3, 0.1, 2**60, float("inf")],
        "numpy": {"ints": np.arange(3), "scalar": np.array(2.5, np.float32), "empty": np.zeros((0, 2))},
        "nothing": {},
        "a/b": {"": torch.zeros(1)},
    }
    store = Store(tmp_path)
    assert interrupted(store, 4, state=state) == [None]
    (result,) = interrupted(store, 8, state=state)
    assert result["step"] == 3
    expected = {**state, "net": dict(state["net"])}
    assert_same(result["of"], expected)
    again, other = trained(kind)
    other.load_state_dict(result["of"]["adam"])
    again.load_state_dict(result["of"]["net"])
    for one in (adam, other):
        one.step()
    assert_same(list(again.state_dict().values()), list(net.state_dict().values()))


def test_a_curve_goes_on_where_the_checkpoint_left_it(tmp_path, at_every_step):
    store = Store(tmp_path)
    interrupted(store, 4, rows=2)
    interrupted(store, 6, rows=2)
    _, curve = interrupted(store, 99, rows=2)
    assert list(curve["step"]) == list(range(1, 11))
    assert list(curve["loss"]) == list(range(2, 12))


def test_a_checkpoint_is_saved_at_most_once_a_minute_and_its_state_made_only_then(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_context, "CHECKPOINT_SECONDS", 60.0)  # workloads of other tests shorten it as they load
    made = []

    def compute(progress):
        context = Context("train", 1, progress=progress)
        assert context.kept
        for step in range(100):
            context.checkpoint(lambda step=step: made.append(step) or {"step": step})
        return {}, {}

    Store(tmp_path).once("stage", compute, describe={})
    assert made == []


def test_a_stage_that_is_not_kept_saves_nothing_and_restores_nothing(at_every_step):
    context = Context("train", 1)
    context.checkpoint(lambda: pytest.fail("nobody asked for it"))
    assert context.restored() is None
    assert not context.kept
    assert (context.rank, context.workers, context.device.type) == (0, 1, "cpu")


@pytest.mark.parametrize("points", [1, CURVE_POINTS, CURVE_POINTS + 1, 5000])
def test_a_long_curve_is_thinned_evenly_and_keeps_its_last_point(points):
    context = Context("train", 2)
    for step in range(1, points + 1):
        context.log(step, loss=[step, 2 * step], rate=0.1)
    curve = context.curve.of_row(1)
    steps = np.asarray(curve["step"])
    assert min(points, CURVE_POINTS // 2) <= len(steps) <= CURVE_POINTS + 1
    assert (steps[0], steps[-1]) == (1, points)
    assert len(set(np.diff(steps)[:-1])) <= 1
    np.testing.assert_array_equal(curve["loss"], 2 * steps)
    np.testing.assert_array_equal(curve["rate"], np.full(len(steps), 0.1))


def test_what_is_logged_is_what_it_was_then_and_no_number_where_it_is_not():
    """Arrays and tensors that are changed in place afterwards."""
    context, tensor, array = Context("train", 2), torch.zeros(2, dtype=torch.bfloat16), np.zeros(2)
    context.log(1, one=tensor, other=array)
    tensor += 1
    array += 1
    context.log(2, other=1)
    curve = context.curve.of_row(0)
    assert list(curve["step"]) == [1, 2]
    np.testing.assert_array_equal(curve["one"], [0, np.nan])
    np.testing.assert_array_equal(curve["other"], [0, 1])


def test_a_log_that_fits_no_rows_is_told():
    with pytest.raises(InputError, match=r"^train.log: expected one number of loss .* each of 2, got the shape \(3,\)"):
        Context("train", 2).log(1, loss=np.zeros(3))
    for step in (np.inf, -np.inf, np.nan):
        with pytest.raises(InputError, match=f"^train.log: expected a finite number as the step, got {step}$"):
            Context("train", 2).log(step, loss=1.0)


@pytest.mark.parametrize("name", ["top@5", "a#b", "a,b", "größe", "a//b", "a/", "a/../b", "5th", "", "x" * 101, "seed"])
def test_a_name_that_no_metric_can_have_is_told_at_the_first_point(name):
    with pytest.raises(
        InputError, match=r"^train.log: expected letters .* as the name of a metric, got .*; rename it$"
    ):
        Context("train", 2).log(1, **{name: 1.0})


@pytest.mark.parametrize("value", [1.5, [1.5], np.array([[1.5]]), torch.tensor([1.5]), np.float32(1.5)])
@pytest.mark.parametrize("rows", [1, 3])
def test_anything_of_one_number_can_be_logged(value, rows):
    rule = Rule("loss", False, "median", 1, 2, {"train": ([1.0], [1.0])})
    context = Context("train", rows, rule=rule, together=True)
    context.log(1, loss=value)
    assert [context.curve.of_row(row) for row in range(rows)] == [{"step": [1.0], "loss": [1.5]}] * rows
    assert context.stop().tolist() == [True] * rows


def test_what_no_store_can_hold_is_told_by_its_place():
    with pytest.raises(TypeError, match="^a/1/b: expected an array, .* got set"):
        trees.flatten({"a": [0, {"b": {1}}]})


def test_trees_are_taken_apart_and_put_together_by_rows():
    rows = {"a": np.arange(6).reshape(3, 2), "b": [torch.arange(3), {"c": np.arange(3.0)}]}
    parts = [trees.entry(rows, index) for index in range(3)]
    assert_same(trees.stack(parts), rows)
    assert trees.lengths(rows) == [("a", 3), ("b/0", 3), ("b/1/c", 3)]
