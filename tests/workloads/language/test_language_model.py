"""The language model against plain NumPy and the names of transformers' Llama; its curvature against dense Hessians."""

import numpy as np
import pytest
import torch
from torch import nn

from raysweep.training import hessian, sizes, trainer
from raysweep.training.sizes import PIECE_BYTES
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.language import model, stages
from raysweep.workloads.language.model_config import PRESETS, ModelConfig, config_of

SMALL = ModelConfig(depth=2, width=16, heads=2, mlp=24, context=12, vocabulary=20)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def float64(monkeypatch):
    before = torch.tensor(0.0).dtype
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def tokens(step=0, shape=SMALL, batch=4):
    start = np.random.default_rng(step).integers(0, shape.vocabulary, (batch, 1))
    return ((start + 3 * np.arange(shape.context + 1)) % shape.vocabulary).astype(np.uint8)


def weights(seed=0, shape=SMALL, gain=3.0):
    """Not too near to zero for nonlinearities to matter, and with gains that differ."""
    gains = np.random.default_rng(seed)
    return {
        part.name: part.initial(seed) * (gain if len(part.shape) > 1 else gains.uniform(0.5, 2, part.shape))
        for part in shape.parts()
    }


def test_transformers_loads_the_state_dict_and_has_the_same_logits():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed here")
    reference = model.decoder(SMALL, weights())
    llama = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=20,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            rms_norm_eps=1e-6,
            tie_word_embeddings=False,
        )
    ).eval()
    llama.load_state_dict(reference.state_dict())
    parts = [(part.name, part.shape) for part in SMALL.parts()]
    assert parts == [(name, tuple(weight.shape)) for name, weight in reference.named_parameters()]
    assert SMALL.weights() == sum(weight.numel() for weight in llama.parameters())
    batch = torch.tensor(tokens()[:, :-1].astype(np.int64))
    torch.testing.assert_close(llama(batch).logits, reference(batch), rtol=1e-5, atol=1e-5)


def test_nothing_is_heard_from_the_future_and_given_tokens_are_read_but_not_predicted():
    module = model.decoder(SMALL, weights())
    one = torch.tensor(tokens()[:1].astype(np.int64))
    other = torch.where(torch.arange(13) < 7, one, (one + 1) % 20)
    first, second = (module(each) for each in (one, other))
    assert torch.equal(first[0, :7], second[0, :7])
    assert not torch.allclose(first[0, 7:], second[0, 7:])
    plain, given = model.losses(module, one)[0], model.losses(module, torch.where(torch.arange(13) < 5, -1 - one, one))
    assert torch.equal(given[0, :4], torch.zeros(4))
    assert torch.equal(given[0, 4:], plain[4:])


def test_a_stream_whose_squares_overflow_has_no_finite_loss():
    reference = weights()
    reference["model.layers.0.mlp.down_proj.weight"] = reference["model.layers.0.mlp.down_proj.weight"] * 1e25
    assert not torch.isfinite(
        model.losses(model.decoder(SMALL, reference), torch.tensor(tokens().astype(np.int64)))
    ).any()


@pytest.mark.parametrize("recomputed", [False, True])
def test_losses_in_chunks_and_layers_computed_again_have_the_same_gradients(recomputed, monkeypatch):
    batch = torch.tensor(tokens().astype(np.int64))
    results = []
    for chunk in (2**28, 7 * SMALL.vocabulary):
        monkeypatch.setattr(model, "CHUNK", chunk)
        module = model.decoder(SMALL, weights()).train()
        module.model.recomputes = recomputed and chunk != 2**28
        losses = model.losses(module, batch)
        losses.sum().backward()
        results.append([losses.detach(), *(weight.grad for weight in module.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("chunk", "whole"), [(2**28, True), (10 * SMALL.vocabulary, False)])
def test_in_chunks_no_logits_are_kept(chunk, whole, monkeypatch):
    monkeypatch.setattr(model, "CHUNK", chunk)
    kept = []

    def note(values):
        kept.append(values.numel())
        return values

    module = model.decoder(SMALL, weights())
    with torch.autograd.graph.saved_tensors_hooks(note, lambda values: values):
        model.losses(module, torch.tensor(tokens(batch=16).astype(np.int64)))
    assert (16 * SMALL.context * SMALL.vocabulary in kept) == whole


@pytest.mark.parametrize("preset", ["tiny", "3m", pytest.param("30m", marks=pytest.mark.long)])
def test_what_a_sequence_keeps_for_its_gradient_is_what_is_planned_for(preset):
    """At most a quarter more is planned for. Logits are left out."""
    shape = PRESETS[preset]
    module = model.decoder(shape, shape.initial(0)).train()
    read = torch.zeros(2, shape.context, dtype=torch.int64)
    kept = {}
    owned = {id(weight) for weight in module.parameters()}

    def note(values):
        base = values if values._base is None else values._base
        if id(base) not in owned:
            kept[id(base)] = base
        return values

    with torch.autograd.graph.saved_tensors_hooks(note, lambda values: values):
        module.model(read).sum()
    counted = sum(each.numel() * each.element_size() for each in kept.values())
    assert counted <= 2 * shape.sample_bytes(wide=True) <= 1.25 * counted


def test_presets_have_the_widths_and_depths_of_the_paper():
    assert [(PRESETS[n].depth, PRESETS[n].heads, PRESETS[n].width, PRESETS[n].mlp) for n in ("15m", "30m", "90m")] == [
        (3, 3, 192, 768),
        (6, 6, 384, 1536),
        (9, 9, 576, 2304),
    ]
    assert PRESETS["3m"].mlp == 683  # for good: sweeps have named it
    assert all(shape.mlp % 8 == 0 for name, shape in PRESETS.items() if name != "3m")  # 16 bytes of bfloat16


def test_mup_coordinate_check_outputs_change_alike_at_every_width():
    """After a few steps at one rate, what the hidden layers do must not grow or vanish with width. The slope of the log
    change of logits against log width is held to ±0.25; with the rate of hidden matrices left unscaled it is ≈ 1."""
    widths = np.array([32, 64, 128])
    changes, unscaled = [], []
    for width in widths.tolist():
        shape = config_of({"preset": "tiny", "source": "grammar:0", "width": width, "depth": 2, "context": 16})
        batch = np.random.default_rng(0).integers(97, 123, (8, 17)).astype(np.uint8)
        inputs = torch.tensor(batch[:, :-1].astype(np.int64))
        for each, rate in ((changes, 2e-3), (unscaled, 2e-3 * width / 32)):
            per_seed = []
            for seed in range(2):
                module = model.decoder(shape, shape.initial(seed))
                before = module(inputs).detach()
                recipe = Recipe(rate, lambda step: 1.0, lr_factors=shape.lr_factors())
                Trainer(module, model.losses, recipe).train(lambda step, batch=batch: batch, 5)
                per_seed.append(float((module(inputs).detach() - before).pow(2).mean().sqrt()))
            each.append(np.mean(per_seed))
    slope = np.polyfit(np.log(widths), np.log(changes), 1)[0]
    assert abs(slope) < 0.25, (slope, changes)
    assert np.polyfit(np.log(widths), np.log(unscaled), 1)[0] > 0.4, unscaled  # the check can fail


def test_noise_has_the_initialization_s_deviation_in_every_tensor():
    for part in PRESETS["tiny"].parts():
        noise, other = part.noise(1), part.noise(2)
        if len(part.shape) == 1:
            assert not noise.any()
        else:  # two samples of the same deviation: within five standard errors of each other
            assert noise.std() / part.initial(0).std() == pytest.approx(1, abs=5 / np.sqrt(noise.size))
            assert not np.array_equal(noise, other)


# Curvature


@pytest.fixture
def dense(float64):
    """A tiny model with its exact gradient and Hessian."""
    shape = ModelConfig(depth=1, width=4, heads=1, mlp=4, context=5, vocabulary=6)
    reference = {part.name: part.initial(3) / (64 if "head" in part.name else 1) * 2 for part in shape.parts()}
    flat = torch.cat([torch.as_tensor(values).flatten() for values in reference.values()])
    batch = np.random.default_rng(1).integers(0, 6, (3, 6)).astype(np.uint8)
    module = model.decoder(shape, reference)

    def loss(row):
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            read = torch.tensor(batch.astype(np.int64))
            named = hessian.named(row, module)
            return torch.func.functional_call(module, named, (read[:, :-1], read[:, 1:])).mean()

    gradient = torch.autograd.functional.jacobian(loss, flat)
    return shape, reference, flat, batch, gradient, torch.autograd.functional.hessian(loss, flat)


@pytest.mark.parametrize(
    "budget", [PIECE_BYTES, pytest.param(1.0, marks=pytest.mark.long)], ids=["at once", "a sequence at a time"]
)
def test_sharpness_is_the_largest_eigenvalue_of_the_dense_hessian(dense, budget, monkeypatch):
    monkeypatch.setattr(sizes, "PIECE_BYTES", budget)
    shape, reference, flat, batch, gradient, exact = dense
    quadratic = stages.quadratic_of(reference, batch, shape)
    torch.testing.assert_close(quadratic.gradient, gradient, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(quadratic.product(flat), exact @ flat, rtol=1e-7, atol=1e-9)
    eigenvalue = hessian.largest_eigenvalue(quadratic.product, torch.ones_like(flat), 60)
    assert eigenvalue == pytest.approx(float(torch.linalg.eigvalsh(exact)[-1]), rel=1e-6)


def test_quadratic_model_predicts_small_moves(dense):
    shape, reference, flat, batch, _, _ = dense
    quadratic = stages.quadratic_of(reference, batch, shape)
    move = torch.randn(len(flat), generator=torch.Generator().manual_seed(0))
    for size, tolerance in ((1e-5, 1e-2), (1e-6, 1e-3)):  # what is left out is of second order in the size, relatively
        assert quadratic.change(size * move) == pytest.approx(quadratic.real_change(size * move), rel=tolerance)


# On the way to a GPU


def test_products_in_bfloat16_start_like_those_in_float32_and_learn(monkeypatch):
    """What a GPU does, on a CPU: the first loss to the 8 bits of bfloat16, and weights that stay float32."""
    first = []
    for enabled in (False, True):
        cast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)
        monkeypatch.setattr(trainer, "mixed_precision", lambda where, cast=cast: cast)
        losses = []
        trained = Trainer(
            model.decoder(SMALL, weights(gain=1.0)), model.losses, Recipe(3e-3, lambda step: 1.0, lr_factors={})
        )
        trained.train(tokens, 60, lambda _, loss, losses=losses: losses.append(float(loss)))
        assert {weight.dtype for weight in trained.module.parameters()} == {torch.float32}
        assert np.mean(losses[-5:]) < 0.7 * losses[0]
        first.append(losses[0])
    assert first[1] == pytest.approx(first[0], rel=2 / 2**8)
    assert first[1] != first[0]
