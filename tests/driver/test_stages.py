"""Every distinct pretraining once: what a dry run says of it, what runs then compute, and what is left for the next."""

import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import QUIET, assert_same_rows, ok
from language_fixtures import rows
from servers import runs_of
from spaces import STEP, language_space, written

from raysweep import workloads
from raysweep.commands.dry_run import stage_lines
from raysweep.driver import stage_plan
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.packs import Packing, make_packs
from raysweep.query.state import State
from raysweep.space import space_files
from raysweep.space.schema import validate
from raysweep.stages.store import Store
from raysweep.storage.sealed import seal, unseal
from raysweep.workloads.declaration import Cost

CHAIN = ("pretrain", "finetune", "evaluate")


def asked(**changes):
    """Two lengths, three rates, two seeds: four pretrainings, twelve rows."""
    return language_space(**{"seeds": 2, **changes})


@pytest.fixture
def space(tmp_path):
    def write(**changes):
        return written(tmp_path, asked(**changes))

    return write


def tree_of(space, storage):
    state = State(space, enumerate_cells(space), storage / "none")
    return stage_plan.build(state, state.missing(), Store(storage / "store"))


def published(storage):
    """Every file of the published stages, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (storage / "store" / "entries").iterdir()}


def test_lengths_that_share_a_trunk_are_shown_to_be_cheaper(tmp_path):
    lengths = {"pretrain_length": [steps * STEP for steps in (100, 150, 200, 300)]}
    cosine = tree_of(validate(asked(axes=lengths)), tmp_path)
    wsd = tree_of(validate(asked(axes=lengths, fixed={"pretrain_schedule": "wsd"})), tmp_path)
    assert set(wsd.kinds) == {("trunk", *CHAIN[:depth]) for depth in range(4)}
    assert wsd.kinds[("trunk", "pretrain")].distinct == 8
    assert wsd.alone == pytest.approx(cosine.seconds)
    shared = wsd.kinds[("trunk",)].seconds + wsd.kinds[("trunk", "pretrain")].seconds
    apart = cosine.kinds[("pretrain",)].seconds
    assert 300 / 750 < shared / apart < 0.6  # the longest alone; and four short anneals
    shown = stage_lines(wsd)
    assert "without the shared trunk" in shown[-1]
    assert [line.index(line.split()[0]) for line in shown[1:5]] == [2, 4, 6, 8]


def test_the_grid_of_the_paper_is_priced_in_gpu_hours(tmp_path):
    """6 lengths x 3 batches x 27 rates: 81 rows of every pretraining, of which a plain grid would make 486."""
    endless = {"fixed.source": "grammar:0", "fixed.target": "grammar:0"}  # instead of reading megabytes of text
    tree = tree_of(space_files.read("overtraining_olmo30m", endless), tmp_path)
    pretrain, finetune, evaluate = (tree.kinds[CHAIN[:depth]] for depth in (1, 2, 3))
    assert tree.on_gpu
    assert (pretrain.distinct, finetune.distinct) == (6, 486)
    assert tree.plain == pytest.approx(81 * pretrain.seconds + finetune.seconds + evaluate.seconds)
    assert tree.plain / tree.seconds > 10
    assert "GPU-hours" in stage_lines(tree)[-1]


def test_gpu_time_is_said_to_be_a_guess_and_time_of_a_core_is_not(call, space, storage):
    shown = {
        gpus: call("run", space(resources={"gpus_per_trial": gpus}), "--dry-run", "--storage", storage).out
        for gpus in (0, 1)
    }
    assert "(core time estimated):" in shown[0]
    assert "guess" not in shown[0]
    assert "(GPU time is a guess, see below):" in shown[1]
    assert "GPU time is a guess within a factor of 3 either way" in shown[1]


def test_a_dry_run_says_what_is_new_and_what_is_reused_and_creates_nothing(call, storage, space):
    out = call("run", space(), "--dry-run", "--storage", storage).out
    assert "4 distinct: 4 new" in out
    assert not storage.exists()
    ok(call("run", space(), "--storage", storage, *QUIET))
    larger = space(axes={"finetune_lr": [1e-3, 2e-3, 4e-3, 8e-3]}, seeds=3)
    more = call("run", larger, "--dry-run", "--storage", storage).out
    assert "6 distinct: 2 new, 4 reused (in the store: same parameters, data and seed)" in more
    assert more.count("12 distinct: 12 new, not kept") == 2  # fine-tunings and evaluations
    assert "also of" not in more  # nobody else
    another = call("run", larger, "--name", "other", "--dry-run", "--storage", storage).out
    assert re.search(r"what is reused is also of: small-[0-9a-f]{8}", another)


def test_a_second_run_and_more_rates_and_a_new_sweep_pretrain_nothing(call, storage, space):
    first = call("run", space(), "--storage", storage, *QUIET)
    assert "stages: 4 distinct, 4 computed, 0 reused, 0 begun again" in first.err
    before, kept = published(storage), rows(storage)
    assert len(before) == 8

    second = call("run", space(), "--storage", storage, *QUIET)
    assert "nothing to compute" in second.err
    assert "stages" not in second.err

    wider = {"finetune_lr": [1e-3, 2e-3, 4e-3, 5e-4, 8e-3]}
    dry = call("run", space(axes=wider), "--dry-run", "--storage", storage).out
    more = call("run", space(axes=wider), "--storage", storage, *QUIET)
    assert "8 of 8 rows" in more.err
    estimated = re.search(r"estimated (\S+ s) in this process", dry)[1]
    assert f"in this process, estimated {estimated}" in more.err  # both without the pretraining that is there
    assert "stages: 4 distinct, 0 computed, 4 reused, 0 begun again" in more.err
    assert published(storage) == before

    other = call("run", space(name="other", axes={"finetune_lr": [3e-3]}), "--storage", storage, *QUIET)
    assert "stages: 4 distinct, 0 computed, 4 reused, 0 begun again" in other.err
    assert published(storage) == before
    for name, counts in (("other", "0 computed, 4 reused"), ("small", "4 computed, 0 reused")):
        assert f"4 distinct, {counts}" in call("status", name, "--storage", storage, "--tracking-uri", "none").out
    metas = [Store(storage / "store").look(stage)["meta"] for stage in Store(storage / "store").stages()]
    assert [meta["computed"] for meta in metas] == [1] * 4
    assert_same_rows([row for row in rows(storage) if row["finetune_lr"] in (1e-3, 2e-3, 4e-3)], kept)


@pytest.fixture
def older(call, storage, space):
    """A store whose four stages say that other code computed them."""
    ok(call("run", space(), "--storage", storage, *QUIET))
    for path in (storage / "store" / "entries").glob("*.json"):
        record = unseal(path.read_bytes())
        path.write_bytes(seal({**record, "meta": {**record["meta"], "code_version": "0.0.1+another"}}))
    return storage


@pytest.mark.long
def test_stages_of_other_code_can_be_refused(older, call, space):
    for more in ((), ("--dry-run",)):
        refused = call("run", space(name="later"), "--storage", older, "--on-code-change", "refuse", *QUIET, *more)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert refused.err.startswith("--on-code-change: the code of language changed since 4 of the stages")
    assert not (older / "later").exists()


def test_stages_of_other_code_can_be_computed_again(older, call, space):
    before = published(older)
    again = ("--storage", older, "--on-code-change", "recompute", *QUIET)
    assert "4 distinct: 4 new" in call("run", space(name="later"), *again, "--dry-run").out
    assert "4 distinct, 4 computed, 0 reused" in call("run", space(name="later"), *again).err
    after = published(older)
    assert len(after) == 8
    assert not set(after.items()) & set(before.items())
    assert len(list((older / "store" / "superseded").iterdir())) == 8  # kept until prune is told
    assert "4 as superseded" in call("store", "list", "--storage", older).out
    call("store", "prune", "--storage", older, "--damaged", "--yes")
    assert list((older / "store" / "superseded").iterdir()) == []


def test_mlflow_names_the_stages_as_the_store_does(call, storage, database, space):
    ok(call("run", space(), "--storage", storage, "--no-report"))
    tagged = [run.data.tags["raysweep.stage_ids"].split() for run in runs_of(database, "small", "cell")]
    assert len({tuple(ids[2:]) for ids in tagged}) == len(tagged) == 6
    stored = set(Store(storage / "store").stages())
    for ids in tagged:
        assert len(ids) == 6  # two seeds: a pretraining, a fine-tuning and an evaluation each
        assert len(stored.intersection(ids)) == 2
    assert stored <= {stage for ids in tagged for stage in ids}


def test_the_memory_of_a_part_is_asked_for_again():
    """What rows share is not made less by cutting them apart; what grows with them is."""
    space = validate(
        asked(axes={"finetune_lr": [float(n) for n in range(1, 41)], "pretrain_length": [20 * STEP]}, seeds=1)
    )
    cells = enumerate_cells(space)
    cut = Packing(workers=2, floor=1.0, memory=4e8)

    def packs(cost):
        language = workloads.get("language")
        tuned = {"finetune": {"together": ("finetune_lr",), "cost": cost}}
        stages = [replace(stage, **tuned.get(stage.name, {"cost": None})) for stage in language.chain.stages]
        packs = make_packs(replace(language, stages=tuple(stages)), cells, {0: np.arange(40)}, cut)
        return [pack for pack in packs if not pack.stages]

    grows = packs(lambda columns: Cost(0.1, 1e8 * len(columns["finetune_lr"])))
    assert max(pack.peak_bytes for pack in grows) <= 4e8
    assert max(len(pack) for pack in grows) == 4
    fixed = packs(lambda columns: Cost(0.1, 1e9))
    assert [(len(pack), pack.peak_bytes) for pack in fixed] == [(40, 1e9)]
    both = packs(lambda columns: Cost(0.1, 2e8 + 1e8 * len(columns["finetune_lr"])))
    assert max(pack.peak_bytes for pack in both) == 4e8
    assert sorted(index for pack in both for index in pack.cells.tolist()) == list(range(40))
