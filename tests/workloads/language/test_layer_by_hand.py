"""The halves of a layer whose gradients are written out, against those that torch differentiates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_gang import SMALL, tokens
from torch import Tensor

from raysweep.training import params
from raysweep.workloads.language import by_hand, layer, model


def inputs(kind: torch.dtype, models: int) -> dict[str, tuple[Tensor, ...]]:
    """The tensors of each half, with three sequences in the stream."""
    flat = np.stack([3 * params.initial(SMALL, seed) for seed in range(models)])
    own = params.named(torch.tensor(flat, dtype=kind), SMALL)
    stream = torch.randn(models, 3 * SMALL.context, SMALL.width, generator=torch.Generator().manual_seed(0)).to(kind)
    gains = {name: 1 + 0.1 * own["embedding"][:, index] for index, name in enumerate(("attention", "mlp"))}
    return {
        "normalize": (stream, gains["mlp"]),
        "mlp": (stream, gains["mlp"], own["0.gate_up"], own["0.down"]),
        "attention": (stream, gains["attention"], own["0.query_key_value"], own["0.attention_out"]),
    }


def outcome(form: object, half: str, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The result, and the gradients of a function of it."""
    leaves = [each.clone().requires_grad_() for each in given]
    rest: tuple[object, ...] = (SMALL.context, SMALL.heads) if half == "attention" else ()
    if half == "attention" and form is layer:
        rest = (*rest, layer.rotation(SMALL.context, SMALL.head_width, given[0]))
    found = getattr(form, half)(*leaves, *rest)
    return found.detach(), *torch.autograd.grad(found.sin().sum(), leaves)


@pytest.mark.parametrize("half", ["normalize", "mlp", "attention"])
@pytest.mark.parametrize("models", [1, 2])
def test_results_and_gradients_are_those_of_plain_operations(half: str, models: int) -> None:
    given = inputs(torch.float64, models)[half]
    for found, expected in zip(outcome(by_hand, half, given), outcome(layer, half, given), strict=True):
        assert float((found - expected).norm()) < 1e-13 * float(expected.norm())


@pytest.mark.parametrize("half", ["normalize", "mlp", "attention"])
def test_in_float32_they_are_as_near_to_the_truth(half: str) -> None:
    """The distance from float64's numbers is at most twice that of plain operations."""
    given = inputs(torch.float32, 1)[half]
    truth = outcome(layer, half, tuple(each.double() for each in given))
    for exact, found, plain in zip(truth, outcome(by_hand, half, given), outcome(layer, half, given), strict=True):
        assert float((found - exact).norm()) <= 2 * float((plain - exact).norm())


def test_a_whole_model_has_the_gradient_of_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.from_numpy(tokens(0).astype(np.int64))
    found = []
    for serves in (True, False):
        monkeypatch.setattr(by_hand, "serves", lambda stream, serves=serves: serves)
        leaf = torch.tensor(3 * params.initial(SMALL, 0)[None].astype(np.float64), requires_grad=True)
        model.loss_sums(params.named(leaf, SMALL), batch, SMALL).sum().backward()
        assert leaf.grad is not None
        found.append(leaf.grad)
    assert float((found[0] - found[1]).norm()) < 1e-12 * float(found[1].norm())


@pytest.mark.parametrize("by_itself", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_stream_whose_squares_overflow_is_no_number_in_either_form(
    monkeypatch: pytest.MonkeyPatch, by_itself: bool, count: int
) -> None:
    """RMSNorm makes zeros of it, and so a finite loss of weights that blew up."""
    batch = torch.from_numpy(tokens(0).astype(np.int64))
    monkeypatch.setattr(by_hand, "serves", lambda stream: by_itself)
    flat = torch.tensor(np.stack([params.initial(SMALL, seed) for seed in range(count)]))
    flat[-1] *= 1e25
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            found = model.loss_sums(params.named(flat.clone().requires_grad_(), SMALL), batch, SMALL)
        assert torch.isfinite(found).tolist() == [True] * (count - 1) + [False]
