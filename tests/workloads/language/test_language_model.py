"""The language model and its training, held against plain NumPy, torch's own optimizer and dense Hessians."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from raysweep.training import devices, draws, hessian, model_batch, optimizer, params, schedules, sizes
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.sizes import PIECE_BYTES
from raysweep.workloads.language import evaluation, finetuning, model
from raysweep.workloads.language.model_config import PRESETS, ModelConfig, config_of

SMALL = ModelConfig(depth=2, width=16, heads=2, mlp=24, context=12, vocabulary=20)
pytestmark = pytest.mark.usefixtures("one_thread")


def tokens(step: int, shape: ModelConfig = SMALL, batch: int = 4) -> np.ndarray:
    stream = np.random.default_rng(step)
    start = stream.integers(0, shape.vocabulary, (batch, 1))
    return ((start + 3 * np.arange(shape.context + 1)) % shape.vocabulary).astype(np.uint8)


def trained(state: State, config: TrainConfig, until: int) -> np.ndarray:
    """Train; the losses of each step, (steps, models)."""
    losses: list[np.ndarray] = []
    optimizer.train(state, config, tokens, until, lambda _, step: losses.append(step.double().numpy()))
    return np.stack(losses)


def flats(count: int, shape: ModelConfig = SMALL, gain: float = 3.0) -> np.ndarray:
    """Models in float64, not too near to zero for their nonlinearities to matter."""
    return np.stack([params.initial(shape, seed).astype(np.float64) * gain for seed in range(count)])


def numpy_logits(flat: np.ndarray, sequence: np.ndarray, shape: ModelConfig) -> np.ndarray:
    """The decoder written out position by position, from its definition: (length, vocabulary)."""
    w, at = {}, 0
    for part in shape.parts():
        w[part.name] = flat[at : at + part.size].reshape(part.shape)
        at += part.size

    def norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain

    def rotated(x: np.ndarray, position: int) -> np.ndarray:
        half = len(x) // 2
        pairs = x[:half] + 1j * x[half:]
        turned = pairs * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
        return np.concatenate([turned.real, turned.imag])

    x = w["embedding"][sequence]
    for layer in range(shape.depth):
        h = norm(x, w[f"{layer}.attention_gain"]) @ w[f"{layer}.query_key_value"]
        q, k, v = (h[:, i * shape.width : (i + 1) * shape.width] for i in range(3))
        heard = np.zeros_like(x)
        for head in range(shape.heads):
            own = slice(head * shape.head_width, (head + 1) * shape.head_width)
            for now in range(len(x)):
                scores = np.array([rotated(q[now, own], now) @ rotated(k[then, own], then) for then in range(now + 1)])
                weight = np.exp(scores * 8 / shape.head_width)
                heard[now, own] = weight / weight.sum() @ v[: now + 1, own]
        x = x + heard @ w[f"{layer}.attention_out"]
        h = norm(x, w[f"{layer}.mlp_gain"]) @ w[f"{layer}.gate_up"]
        gate, up = h[:, : shape.mlp], h[:, shape.mlp :]
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{layer}.down"]
    return norm(x, w["final_gain"]) @ w["head"] * 256 / shape.width


def test_forward_pass_is_the_decoder_written_out_in_numpy():
    rows, batch = flats(2), tokens(0)[:, :-1]
    found = model.logits(params.named(torch.tensor(rows), SMALL), torch.tensor(batch.astype(np.int64)), SMALL)
    found = found.view(2, len(batch), SMALL.context, SMALL.vocabulary)
    for index, row in enumerate(rows):
        for number, sequence in enumerate(batch):
            np.testing.assert_allclose(found[index, number], numpy_logits(row, sequence, SMALL), rtol=2e-5, atol=2e-5)


def test_no_position_sees_the_future():
    weights = params.named(torch.tensor(flats(1)), SMALL)
    one = torch.tensor(tokens(0)[:1, :-1].astype(np.int64))
    other = one.clone()
    other[0, 7:] = (other[0, 7:] + 5) % SMALL.vocabulary
    first, second = (model.logits(weights, sequence, SMALL)[0] for sequence in (one, other))
    assert torch.equal(first[:7], second[:7])
    assert not torch.allclose(first[7:], second[7:])


def test_presets_have_the_widths_and_depths_of_the_paper():
    assert [(PRESETS[n].depth, PRESETS[n].heads, PRESETS[n].width, PRESETS[n].mlp) for n in ("15m", "30m", "90m")] == [
        (3, 3, 192, 768),
        (6, 6, 384, 1536),
        (9, 9, 576, 2304),
    ]
    assert PRESETS["3m"].mlp == 683  # for good: sweeps have named it
    assert all(shape.mlp % 8 == 0 for name, shape in PRESETS.items() if name != "3m")  # 16 bytes of bfloat16
    assert PRESETS["3m"].weights() == len(params.initial(PRESETS["3m"], 0))


def test_training_is_torch_adamw_with_clipping_on_every_tensor():
    rate, decay, steps = 3e-3, 0.1, 12
    state = State.fresh(flats(1))
    recipe = TrainConfig(SMALL, np.array([rate]), schedules.schedule("cosine", steps), decay, clip=0.5)
    optimizer.train(state, recipe, tokens, steps)

    leaves = [view[0].clone().requires_grad_() for view in params.named(torch.tensor(flats(1)), SMALL).values()]
    parts = SMALL.parts()
    reference = torch.optim.AdamW(
        [{"params": [leaf], "part": part} for leaf, part in zip(leaves, parts, strict=True)],
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    warm = 2  # a tenth of 12, rounded up
    for step in range(steps):
        after = (step - warm + 1) / (steps - warm + 1)
        factor = (step + 1) / warm if step < warm else 0.5 * (1 + np.cos(np.pi * after))
        for group in reference.param_groups:
            part = group["part"]
            group["lr"] = rate * factor * (256 / 16 if part.name[0].isdigit() and part.decays else 1)
            group["weight_decay"] = decay * rate * factor / group["lr"] if part.decays else 0.0
        reference.zero_grad()
        weights = {part.name: leaf[None] for part, leaf in zip(parts, leaves, strict=True)}
        model.losses(weights, torch.tensor(tokens(step).astype(np.int64)), SMALL).sum().backward()
        torch.nn.utils.clip_grad_norm_(leaves, 0.5)
        reference.step()
    expected = torch.cat([leaf.detach().flatten() for leaf in leaves])
    moved = (expected - torch.tensor(flats(1)[0])).norm()
    assert (state.params[0] - expected).norm() < 1e-8 * moved


@pytest.mark.parametrize("kind", ["cosine", "constant", "constant_warmup"])
def test_schedules_warm_up_for_a_tenth_and_cosine_ends_near_zero(kind):
    factor = schedules.schedule(kind, 200)
    values = np.array([factor(step) for step in range(200)])
    assert values.max() == pytest.approx(1, abs=1e-3)
    if kind == "constant":
        assert (values == 1).all()
    else:
        np.testing.assert_allclose(values[:20], np.arange(1, 21) / 20)
    if kind == "cosine":
        assert 0 < values[-1] < 1e-3
        assert (np.diff(values[20:]) < 0).all()
    else:
        assert (values[20:] == 1).all()


def test_wsd_lengths_share_their_trunk():
    (early, one), (late, other) = schedules.trunk_and_anneal(1000), schedules.trunk_and_anneal(4000)
    assert (early, late) == (900, 3600)
    assert all(one(step) == other(step) for step in range(early))
    assert one(999) < 0.02
    assert one(899) == 1
    assert one(900) < 1
    assert other(2000) == 1


def test_models_side_by_side_end_where_each_ends_alone():
    """Stated tolerance: 1e-9 in float64, of the distance moved; in float32 2e-3 after 20 steps."""
    rates, steps = np.array([1e-4, 1e-3, 1e-2, 3e-3]), 20
    for kind, tolerance in ((np.float64, 1e-9), (np.float32, 2e-3)):
        start = flats(1).astype(kind).repeat(4, 0)
        factor = schedules.schedule("cosine", steps)
        fused = State.fresh(start)
        losses = trained(fused, TrainConfig(SMALL, rates, factor), steps)
        for index, rate in enumerate(rates):
            alone = State.fresh(start[:1])
            own = trained(alone, TrainConfig(SMALL, np.array([rate]), factor), steps)
            moved = (alone.params[0] - torch.tensor(start[0])).norm()
            assert (fused.params[index] - alone.params[0]).norm() < tolerance * moved
            assert losses[-5:, index].mean() == pytest.approx(own[-5:, 0].mean(), rel=tolerance)


def test_a_model_that_diverges_is_frozen_and_its_neighbours_never_notice():
    start = flats(1).repeat(3, 0)
    start[1, 0] = np.nan
    factor = schedules.schedule("constant", 10)
    state = State.fresh(start)
    optimizer.train(state, TrainConfig(SMALL, np.array([1e-3, 1e-3, 3e-3]), factor), tokens, 10)
    assert state.alive.tolist() == [True, False, True]
    assert torch.equal(torch.nan_to_num(state.params[1]), torch.nan_to_num(torch.tensor(start[1])))
    for index, rate in ((0, 1e-3), (2, 3e-3)):
        alone = State.fresh(start[index : index + 1])
        optimizer.train(alone, TrainConfig(SMALL, np.array([rate]), factor), tokens, 10)
        torch.testing.assert_close(state.params[index], alone.params[0], rtol=1e-9, atol=1e-12)


def test_on_a_cpu_models_take_turns(monkeypatch):
    monkeypatch.setattr(devices, "device", lambda: torch.device("cpu"))
    assert model_batch.side_by_side(SMALL, 16, 27) == 1


def test_mup_coordinate_check_outputs_change_alike_at_every_width():
    """After a few steps at one rate, what the hidden layers do must not grow or vanish with width. The slope of the log
    change of logits against log width is held to ±0.25; with the rate of hidden matrices left unscaled it is ≈ 1."""
    widths = np.array([32, 64, 128])
    changes, unscaled = [], []
    for width in widths.tolist():
        shape = config_of({"preset": "tiny", "source": "grammar:0", "width": width, "depth": 2, "context": 16})
        batch = np.random.default_rng(0).integers(97, 123, (8, 17)).astype(np.uint8)
        inputs = torch.tensor(batch[:, :-1].astype(np.int64))
        change = []
        for rate in (2e-3, 2e-3 * width / 32):
            per_seed = []
            for seed in range(2):
                state = State.fresh(params.initial(shape, seed)[None])
                before = model.logits(params.named(state.params, shape), inputs, shape)
                hidden_only = TrainConfig(shape, np.array([rate]), lambda step: 1.0)
                optimizer.train(state, hidden_only, lambda step, batch=batch: batch, 5)
                after = model.logits(params.named(state.params, shape), inputs, shape)
                per_seed.append(float((after - before).pow(2).mean().sqrt()))
            change.append(np.mean(per_seed))
        changes.append(change[0])
        unscaled.append(change[1])
    slope = np.polyfit(np.log(widths), np.log(changes), 1)[0]
    assert abs(slope) < 0.25, (slope, changes)
    assert np.polyfit(np.log(widths), np.log(unscaled), 1)[0] > 0.4, unscaled  # the check can fail


def test_noise_has_the_initialization_s_deviation_in_every_tensor():
    shape = config_of({"preset": "tiny", "source": "grammar:0", "width": 0, "depth": 0, "context": 0})
    noise, other = (params.row(lambda part, seed=seed: finetuning.noise_of(part, seed), shape) for seed in (1, 2))
    start = params.named(torch.tensor(params.initial(shape, 0))[None], shape)
    for name, view in params.named(torch.tensor(noise)[None], shape).items():
        if name.endswith("gain"):
            assert not view.any()
        else:  # two samples of the same deviation: within five standard errors of each other
            assert float(view.std() / start[name].std()) == pytest.approx(1, abs=5 / np.sqrt(view.numel()))
    assert not np.array_equal(noise, other)


@pytest.fixture(scope="module")
def dense():
    """A tiny model with its exact gradient and Hessian."""
    shape = ModelConfig(depth=1, width=4, heads=1, mlp=4, context=5, vocabulary=6)
    flat = torch.tensor(params.initial(shape, 3).astype(np.float64) * 2)[None]
    batch = np.random.default_rng(1).integers(0, 6, (3, 6)).astype(np.uint8)

    def loss(row):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return model.losses(params.named(row[None], shape), torch.tensor(batch.astype(np.int64)), shape)[0]

    return shape, flat, batch, loss, torch.autograd.functional.hessian(loss, flat[0])


@pytest.fixture(params=[PIECE_BYTES, 1.0], ids=["at once", "a sequence at a time"])
def budget(request, monkeypatch):
    monkeypatch.setattr(sizes, "PIECE_BYTES", request.param)


def test_sharpness_is_the_largest_eigenvalue_of_the_dense_hessian(dense, budget):
    shape, flat, batch, loss, exact = dense
    quadratic = evaluation.quadratic_of(flat, batch, shape)
    torch.testing.assert_close(
        quadratic.gradient, torch.autograd.functional.jacobian(loss, flat[0]), rtol=1e-9, atol=1e-12
    )
    torch.testing.assert_close(quadratic.product(flat[0]), exact @ flat[0], rtol=1e-7, atol=1e-9)
    found = hessian.largest_eigenvalue(quadratic.product, torch.ones_like(flat[0]), 40)
    assert found == pytest.approx(float(torch.linalg.eigvalsh(exact)[-1]), rel=1e-6)


def test_scaled_trace_estimates_the_trace_within_its_sampling_error(dense):
    shape, flat, batch, _, exact = dense
    deviations = torch.tensor(params.row(lambda part: np.full(part.size, part.deviation), shape)).double()
    scaled = deviations[:, None] * exact * deviations
    probes = 300
    quadratic = evaluation.quadratic_of(flat, batch, shape)
    found = hessian.scaled_trace(quadratic.product, deviations, probes, draws.generator(0, "language/probes"))
    off = scaled - torch.diag(scaled.diagonal())
    assert abs(found - float(scaled.trace())) < 4 * float((2 * (off**2).sum() / probes).sqrt())


def test_quadratic_model_predicts_small_moves(dense):
    shape, flat, batch, loss, _ = dense
    quadratic = evaluation.quadratic_of(flat, batch, shape)
    move = torch.randn(flat.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for size, tolerance in ((1e-4, 1e-2), (1e-5, 1e-3)):  # what is left out is of second order in the size, relatively
        actual = float(loss(flat[0] + size * move) - loss(flat[0]))
        assert quadratic.change(size * move) == pytest.approx(actual, rel=tolerance)


def test_a_batch_taken_in_pieces_gives_the_same_step(monkeypatch):
    ends = []
    for budget in (PIECE_BYTES, 1.0):  # whole, and a sequence at a time
        monkeypatch.setattr(sizes, "PIECE_BYTES", budget)
        state = State.fresh(flats(1).repeat(2, 0))
        optimizer.train(state, TrainConfig(SMALL, np.array([1e-3, 1e-2]), lambda step: 1.0), tokens, 5)
        ends.append(state.params)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-9, atol=1e-9)


def test_products_in_bfloat16_start_like_those_in_float32_and_learn(monkeypatch):
    """What a GPU does, on a CPU: the first loss to the 8 bits of bfloat16, and weights that stay float32."""
    first = []
    for enabled in (False, True):
        monkeypatch.setattr(
            optimizer,
            "mixed_precision",
            lambda where, enabled=enabled: torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled),
        )
        state = State.fresh(flats(1, gain=1.0).astype(np.float32).repeat(2, 0))
        losses = trained(state, TrainConfig(SMALL, np.array([1e-3, 3e-3]), lambda step: 1.0), 60)
        assert state.params.dtype == torch.float32
        assert (losses[-5:].mean(0) < 0.6 * losses[0, 0]).all()
        first.append(losses[0, 0])
    assert first[1] == pytest.approx(first[0], rel=2 / 2**8)
    assert first[1] != first[0]
