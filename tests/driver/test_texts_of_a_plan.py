"""A plan reads each text of its cells once, sees that one has changed, and says which one is gone."""

from pathlib import Path

import numpy as np
import pytest
from auditing import listening, reading
from spaces import STEP, language_space

from raysweep import workloads
from raysweep.driver import stage_plan
from raysweep.errors import InputError
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.packs import Packing, make_packs
from raysweep.plan.row_stages import RowStages
from raysweep.query.state import State
from raysweep.space.schema import validate
from raysweep.stages.store import Store


def put(text, what="the text"):
    """A text of 400 lines."""
    text.write_text("\n".join(f"line {n} of {what}" for n in range(400)))
    return text


def plan_of(text, storage, lengths, rates):
    axes = {
        "pretrain_length": [STEP * (1 + n) for n in range(lengths)],
        "finetune_lr": [1e-3 + 1e-6 * n for n in range(rates)],
    }
    texts = dict.fromkeys(("source", "target"), f"file:{text}")
    space = validate(language_space(axes, {**texts, "finetune_steps": 10**6}, seeds=2))
    cells = enumerate_cells(space)
    pending = {seed: np.arange(len(cells)) for seed in space.seeds}
    make_packs(workloads.get("language"), cells, pending, Packing(workers=4, floor=1.0))
    state = State(space, cells, storage / "none")
    return stage_plan.build(state, state.missing(), Store(storage / "store")).needed


def test_a_plan_looks_at_a_text_once_however_many_cells_it_has(tmp_path):
    text = put(tmp_path / "text.txt").with_name("*.txt")
    plan_of(text, tmp_path, 1, 1)
    looks = []
    with listening(
        lambda event, arguments: event == "glob.glob" and arguments[0] == str(text) and looks.append(arguments)
    ):
        plan_of(text, tmp_path, 10, 30)
    assert len(looks) == 3  # to enumerate the cells, cut them into packs, and ask for their stages


def test_texts_in_turn_are_each_read_once(tmp_path):
    """More of them than are kept in memory."""
    names = [f"file:{tmp_path}/{n}.txt" for n in range(8)]
    for number, name in enumerate(names):
        put(Path(name.removeprefix("file:")), f"text {number}")
    with reading(tmp_path.name) as read:
        enumerate_cells(validate(language_space({"target": names}, seeds=2)))
    assert sorted(f"file:{path}" for path in read) == sorted(names)


def test_a_text_that_changes_between_two_plans_of_a_process_is_seen(tmp_path):
    text = put(tmp_path / "text.txt")
    first = plan_of(text, tmp_path, 2, 2)
    assert plan_of(text, tmp_path, 2, 2) == first
    put(text, "another text")
    assert not plan_of(text, tmp_path, 2, 2) & first
    text.unlink()
    with pytest.raises(InputError, match="no such file"):
        plan_of(text, tmp_path, 2, 2)


def test_a_text_that_is_gone_after_planning_is_told_as_the_source_wherever_the_space_has_it(tmp_path):
    text = put(tmp_path / "text.txt")
    space = validate(language_space({"pretrain_length": [STEP], "source": [f"file:{text}"]}, seeds=2))
    cells = enumerate_cells(space)
    text.unlink()
    with pytest.raises(InputError, match="^source: .*no such file"):
        RowStages(workloads.get("language"), cells.columns).of_row(0, 0)
