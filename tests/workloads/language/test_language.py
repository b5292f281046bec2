"""The language workload end to end: pretrained once, perturbed and fine-tuned many times; how rows end and cost; how
far fine-tuning moves, and what the quadratic model says of it (O App. D)."""

import numpy as np
import pytest
from auditing import ctrl_c_when, writing
from language_rows import compute, entropy, files, identity, pretrained, row, stages, table
from spaces import STEP
from workload_rows import columns_of

from raysweep import workloads
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.cost import estimate
from raysweep.space import space_files
from raysweep.stages.store import Store
from raysweep.training import schedules, trainer
from raysweep.trial import context
from raysweep.workloads.language import PARAMETERS, costs
from raysweep.workloads.language import stages as language_stages
from raysweep.workloads.language.model_config import PRESETS, config_of
from raysweep.workloads.language.texts import Grammar

pytestmark = pytest.mark.usefixtures("one_thread")


def test_rates_noises_and_targets_of_one_checkpoint_share_its_pretraining(tmp_path):
    rows = [{"finetune_lr": 1e-3}, {"finetune_lr": 3e-3}, {"noise": 1.0, "finetune_steps": 0}, {"early_stopping": 2}]
    rows += [{"target": "grammar:1", "overlap_angle": 60.0}, {"evaluation_tokens": 256}]
    rows += [{"pretrain_length": 20.0 * STEP}]
    compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert len(Store(tmp_path).stages()) == 2
    before = files(tmp_path)
    compute(table({"finetune_lr": 1e-2}, {"finetune_lr": 2e-2, "noise": 0.3}), np.zeros(2, int), Store(tmp_path))
    assert files(tmp_path) == before
    compute(table({}), np.ones(1, int), Store(tmp_path))
    assert len(Store(tmp_path).stages()) == 3


def test_noise_moves_by_its_strength_and_hurts(store):
    rows = [{"noise": noise, "finetune_steps": 0} for noise in (0.5, 1.0, 4.0)]
    metrics, _ = compute(table(*rows), np.zeros(3, int), Store(store))
    parts = config_of(row()).parts()
    expected = np.sqrt(sum(np.prod(part.shape) * part.deviation**2 for part in parts))
    np.testing.assert_allclose(metrics["distance_moved"] / [0.5, 1, 4], expected, rtol=0.05)
    assert (np.diff(metrics["pretrain_loss_after"]) > 0).all()
    assert metrics["sensitivity"][2] > 0.1


def test_pretraining_learns_and_stays_above_the_entropy(store):
    lengths = [{"pretrain_length": float(steps * STEP), "finetune_steps": 0} for steps in (10, 40, 160)]
    metrics, _ = compute(table(*lengths), np.zeros(3, int), Store(store))
    assert (np.diff(metrics["pretrain_loss"]) < -0.05).all()
    assert metrics["pretrain_loss"][-1] > entropy(Grammar(0.0))
    assert (metrics["epochs"] == 0).all()


def test_fine_tuning_learns_the_target_and_a_rate_too_large_diverges(store):
    rates = [{"finetune_lr": rate, "finetune_steps": 30} for rate in (1e-6, 2e-3, 1e4)]
    metrics, status = compute(table(*rates), np.zeros(3, int), Store(store))
    assert status.tolist() == ["ok", "ok", "diverged"]
    assert metrics["finetune_loss"][1] < metrics["finetune_loss_before"][1] - 0.05
    assert metrics["finetune_loss"][0] == pytest.approx(metrics["finetune_loss_before"][0], abs=5e-3)


def test_losses_stand_as_perplexities_too(store):
    rows = [{}, {"noise": 0.5, "finetune_steps": 0}, {"noise": 1e4, "finetune_steps": 0}]
    metrics, status = compute(table(*rows), np.zeros(3, int), Store(store))
    assert status.tolist() == ["ok"] * 3
    for loss in ("pretrain_loss", "finetune_loss", "pretrain_loss_after"):
        perplexity = metrics[loss.replace("loss", "perplexity")]
        np.testing.assert_allclose(np.log(perplexity[:2]), metrics[loss][:2], rtol=1e-12)
    before, after = (np.exp(metrics[name][:2]) for name in ("pretrain_loss", "pretrain_loss_after"))
    np.testing.assert_allclose(metrics["sensitivity_perplexity"][:2], after - before, rtol=1e-12)
    assert np.isfinite(metrics["sensitivity"][2])  # finite, though no float64 holds its perplexity
    assert metrics["sensitivity_perplexity"][2] == np.inf


def test_stored_pretrainings_keep_their_names():
    """Stores of others hold them under these ids: a change must be wanted, and the stage's version raised then."""
    usual = {parameter.name: parameter.default for parameter in PARAMETERS}
    assert identity(usual, 0) == "965e00b7f82b66dd"
    trunk, *_ = stages({**usual, "pretrain_schedule": "wsd", "pretrain_dropout": 0.1}, 1)
    assert (trunk.stage, trunk.point, trunk.id) == ("trunk", 16, "48eed0045e797438")


def test_repetition_is_reported_in_epochs(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"the number {number} is followed by {number + 1}" for number in range(600)))
    parameters = {"source": f"file:{text}", "target": f"file:{text}"}
    metrics, _ = compute(table(parameters), np.zeros(1, int), Store(tmp_path / "store"))
    tokens = 0.9 * text.stat().st_size
    assert metrics["epochs"][0] == pytest.approx(40 * STEP / tokens, rel=0.05)
    assert metrics["finetune_epochs"][0] == pytest.approx(6 * STEP / tokens, rel=0.05)


def test_an_interrupted_pretraining_goes_on_from_its_checkpoint_to_the_same_weights(tmp_path, monkeypatch):
    whole = pretrained(row(), 0, Store(tmp_path / "whole"))
    monkeypatch.setattr(context, "CHECKPOINT_SECONDS", 0.0)
    with (
        writing(".safetensors") as kept,
        pytest.raises(KeyboardInterrupt),
        ctrl_c_when(lambda: len(kept) == 26),  # a checkpoint after each of 40 steps
    ):
        pretrained(row(), 0, Store(tmp_path / "cut", lease_seconds=1))
    with writing(".safetensors") as kept:
        again = pretrained(row(), 0, Store(tmp_path / "cut", lease_seconds=1))
    assert len(kept) == 40 - 25  # not from the start
    for name, values in whole["weights"].items():
        np.testing.assert_array_equal(values, again["weights"][name])
    curves = [Store(tmp_path / name).look(identity(row(), 0))["meta"]["curve"] for name in ("whole", "cut")]
    assert curves[0]["step"] == list(range(1, 41))
    assert curves[1] == curves[0]


def test_wsd_lengths_share_a_trunk_and_end_as_if_trained_in_one_go(tmp_path):
    lengths = [{"pretrain_schedule": "wsd", "pretrain_length": float(steps * STEP)} for steps in (100, 150, 200)]
    store = Store(tmp_path)
    compute(table(*lengths), np.zeros(3, int), store)
    described = [stages(row(**parameters), 0) for parameters in lengths]
    assert set(store.stages()) == {stage.id for chain in described for stage in chain}
    steps = {}
    for chain, length in zip(described, (100, 150, 200), strict=True):
        assert [stage.stage for stage in chain] == ["trunk"] * (len(chain) - 1) + ["pretrain"]
        steps |= {stage.id: stage.point - stage.before for stage in chain[:-1]}
        steps[chain[-1].id] = length - chain[-2].point
    assert sum(steps.values()) < 0.6 * (100 + 150 + 200)

    parameters = row(**lengths[1]) | {"seed": 0}
    shape, text = config_of(parameters), Grammar(0.0)
    factor = schedules.schedule("wsd", 150)
    reference = language_stages.trainer_of("pretrain", parameters, shape.initial(0), factor, 150)
    reference.train(lambda step: text.sequences("train", 0, "pretrain", 8 * step, 8, 16), 150)
    weights = pretrained(row(**lengths[1]), 0, store)["weights"]
    for name, values in trainer.weights_of(reference.module).items():
        np.testing.assert_array_equal(weights[name], values.numpy())


def test_what_decides_a_pretraining_is_in_its_identity_and_nothing_else():
    base = identity(row(), 0)
    assert identity(row(finetune_lr=0.5, noise=3.0, target="grammar:1", finetune_steps=99), 0) == base
    changes = {"pretrain_length": 80.0 * STEP, "source": "grammar:0.1", "pretrain_lr": 1e-3, "depth": 2}
    for name, value in {**changes, "pretrain_schedule": "constant"}.items():
        assert identity(row(**{name: value}), 0) != base
    assert identity(row(), 1) != base
    assert identity(row(width=32), 0) == identity(row(width=0), 0)  # the preset's own


def test_curvature_is_measured_where_it_is_asked_for(store):
    rows = [{"noise": noise, "finetune_steps": 0, "sharpness_iterations": 12} for noise in (0.02, 0.0)]
    metrics, _ = compute(table(*rows), np.zeros(2, int), Store(store))
    assert metrics["sharpness"][0] == metrics["sharpness"][1] > 0
    assert metrics["quadratic_sensitivity"][0] == pytest.approx(metrics["sensitivity"][0], abs=5e-3)
    assert metrics["quadratic_sensitivity"][1] == 0
    without, _ = compute(table({"finetune_steps": 0}), np.zeros(1, int), Store(store))
    assert np.isnan(without["sharpness"][0])


# How rows end


def test_early_stopping_keeps_weights_at_least_as_good_on_validation(store):
    usual = {"finetune_lr": 0.02, "finetune_steps": 20, "finetune_schedule": "constant"}
    metrics, _ = compute(table(usual, {**usual, "early_stopping": 5}), np.zeros(2, int), Store(store))
    assert metrics["finetune_loss_validation"][1] <= metrics["finetune_loss_validation"][0]


@pytest.mark.long
def test_what_early_stopping_keeps_is_what_is_judged(store):
    """Weight decay so strong that weights double each step until they are no numbers; a model was kept before."""
    usual = {"finetune_weight_decay": 3e3, "finetune_schedule": "constant_warmup", "finetune_steps": 200}
    rows = [{**usual, "pretrain_length": 160.0 * STEP, "early_stopping": looks} for looks in (0, 200, 1)]
    metrics, status = compute(table(*rows), np.zeros(3, int), Store(store))
    assert status.tolist() == ["diverged", "ok", "diverged"]  # of the last the one look comes when all is lost
    kept = {name: values[1] for name, values in metrics.items()}
    assert abs(kept["finetune_loss"] - kept["finetune_loss_before"]) < 0.5


@pytest.mark.long
def test_a_pretraining_that_ends_above_its_start_is_ok_and_one_without_a_finite_loss_is_not(tmp_path):
    """Finite all along (2), or until a number is none (1e30); trained, perturbed or looked at with Hessians."""
    after = ({}, {"noise": 1.0, "finetune_steps": 0}, {"finetune_steps": 0, "sharpness_iterations": 4})
    rows = [{"pretrain_lr": rate, **then} for rate in (2.0, 1e30, 2e-3) for then in after]
    metrics, status = compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert status.tolist() == ["ok"] * 3 + ["diverged"] * 3 + ["ok"] * 3
    assert len(Store(tmp_path).stages()) == 3
    assert metrics["pretrain_loss"][0] > 6.5  # it began at 6.4
    assert (metrics["pretrain_loss"][6:] < 6).all()
    before = files(tmp_path)
    _, again = compute(table(*rows), np.zeros(len(rows), int), Store(tmp_path))
    assert again.tolist() == status.tolist()
    assert files(tmp_path) == before


# What the dry run says that rows will take

SHAPE = PRESETS["3m"]


def test_a_step_of_a_gpu_takes_the_longer_of_its_launches_and_its_work():
    assert costs.gpu_step(SHAPE, 1) == costs.gpu_step(SHAPE, 2) == 220 * costs.GPU_LAUNCH
    work = [costs.gpu_step(SHAPE, batch) for batch in (256, 512)]
    flops = 256 * SHAPE.context * SHAPE.flops_per_token() / costs.GPU_FLOPS
    assert flops < work[0] < 1.5 * flops
    assert work[1] - work[0] == pytest.approx(work[0], rel=0.1)


def test_the_validation_loss_is_looked_at_once_a_step_at_most():
    rows = (columns_of("language", finetune_steps=10, early_stopping=count) for count in (5, 10, 1000))
    looks = [costs.finetune(row).seconds for row in rows]
    assert looks[0] < looks[1] == looks[2]


def test_the_space_for_one_gpu_fits_into_half_an_hour_on_it():
    def seconds(gpus):
        asked = space_files.read("overtraining_language", {"resources.gpus_per_trial": gpus})
        cells = enumerate_cells(asked)
        pending = {seed: np.arange(len(cells)) for seed in asked.seeds}
        return estimate(workloads.get(asked.workload), cells, pending)[0]

    assert 60 < seconds(1) < 1800 / 2  # half of it is for reading the text and starting up
    assert seconds(0) > 100 * seconds(1)


# How far fine-tuning moves

CURVED = {"sharpness_iterations": 2}


def measured(store, *rows, **usual):
    metrics, status = compute(table(*(usual | each for each in rows)), np.zeros(len(rows), int), Store(store))
    assert (status == "ok").all()
    return metrics


def test_a_model_between_two_is_measured_there(store):
    shares = [0.0, 0.25, 0.5, 1.0]
    metrics = measured(store, *({"interpolation": share, "noise": 1.0} for share in shares), **CURVED)
    alone = measured(store, {"noise": 1.0}, **CURVED)
    for name, values in metrics.items():
        np.testing.assert_array_equal(values[3], alone[name][0], err_msg=name)
    assert metrics["sensitivity"][0] == metrics["distance_moved"][0] == metrics["quadratic_sensitivity"][0] == 0
    np.testing.assert_allclose(metrics["distance_moved"], metrics["distance_moved"][3] * np.array(shares), rtol=1e-5)
    assert metrics["finetune_loss"][0] == metrics["finetune_loss_before"][0]


def test_half_of_a_noise_is_the_noise_of_half_the_strength(store):
    metrics = measured(
        store, {"noise": 1.0, "interpolation": 0.5}, {"noise": 0.5}, {"noise": 0.5}, finetune_steps=0, **CURVED
    )
    for name, values in metrics.items():
        np.testing.assert_allclose(values[0], values[1], rtol=1e-3, atol=2e-6, err_msg=name)
    assert metrics["sensitivity"][1] > 0.005
    np.testing.assert_allclose(metrics["trace_sensitivity"], 0.5 * 0.5**2 * metrics["hessian_trace"])


def test_real_and_quadratic_change_differ_by_what_is_said_to_be_beyond(store):
    rows = [{"finetune_lr": lr} for lr in (1e-3, 1e-2)] + [{"noise": 4.0, "finetune_steps": 0}]
    metrics = measured(store, *rows, **CURVED)
    beyond = metrics["sensitivity"] - metrics["quadratic_sensitivity"]
    np.testing.assert_allclose(metrics["sensitivity_beyond_quadratic"], beyond, atol=2e-6)
    assert (np.abs(beyond) > 1e-4).all()
