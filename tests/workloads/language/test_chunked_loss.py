"""Losses of a large vocabulary, chunk by chunk, against those from logits that are all held at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_gang import SMALL, tokens
from traffic import Traffic

from raysweep.training import optimizer, params
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language import chunked_loss, model


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    """A few tokens at a time; the last chunk is a short one."""
    monkeypatch.setattr(chunked_loss, "CHUNK", 2 * SMALL.vocabulary * 7)


def flats(kind: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(np.stack([3 * params.initial(SMALL, seed) for seed in (0, 1)]), dtype=kind)


def batch(step: int = 0) -> torch.Tensor:
    return torch.from_numpy(tokens(step).astype(np.int64))


def losses_and_gradient(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = flat.clone().requires_grad_()
    found = model.loss_sums(params.named(leaf, SMALL), batch(), SMALL)
    (found * torch.tensor([0.3, 2.0])).sum().backward()
    return found.detach(), leaf.grad


def test_sums_and_gradients_are_those_of_all_logits_at_once(small_chunks, monkeypatch):
    chunked = losses_and_gradient(flats())
    each = model.token_losses(params.named(flats(), SMALL), batch(), SMALL)
    with torch.no_grad():
        torch.testing.assert_close(model.token_losses(params.named(flats(), SMALL), batch(), SMALL), each)
    monkeypatch.setattr(chunked_loss, "CHUNK", 2**28)
    whole = losses_and_gradient(flats())
    torch.testing.assert_close(chunked[0], whole[0], rtol=1e-12, atol=0)
    assert float((chunked[1] - whole[1]).norm() / whole[1].norm()) < 1e-13
    torch.testing.assert_close(each.sum((1, 2)), whole[0], rtol=1e-12, atol=0)


def test_in_bfloat16_they_agree_to_its_digits(small_chunks, monkeypatch):
    """Products of bfloat16, sums in float32: losses to float32's digits, gradients to bfloat16's."""
    found = []
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(losses_and_gradient(flats(torch.float32)))
        monkeypatch.setattr(chunked_loss, "CHUNK", 2**28)
    (loss, gradient), (whole_loss, whole) = found
    assert loss.dtype == gradient.dtype == torch.float32
    torch.testing.assert_close(loss, whole_loss, rtol=1e-5, atol=0)
    assert float((gradient - whole).norm() / whole.norm()) < 2**-8


def test_training_with_chunks_is_training(small_chunks, monkeypatch):
    ends = []
    for _ in range(2):
        state = State.fresh(flats())
        optimizer.train(state, TrainConfig(SMALL, np.array([1e-4, 3e-4]), lambda step: 1.0, 0.1), tokens, 5)
        ends.append(state.params)
        monkeypatch.setattr(chunked_loss, "CHUNK", 2**28)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_one_pass_for_a_compiler_and_few_by_hand_find_the_same(kind: torch.dtype) -> None:
    scores = (40 * torch.randn(2, 9, 30, generator=torch.Generator().manual_seed(0))).to(kind)
    scores[0, 0, 3] = 300  # an improbable word's loss is a number too
    words = torch.tensor([5, -1, 0, 29, -1, 7, 7, 1, 2])
    wide = scores.to(torch.promote_types(kind, torch.float32), copy=True).requires_grad_()
    losses = -wide.log_softmax(2).gather(2, words.clamp(min=0).view(1, -1, 1).expand(2, -1, 1)).squeeze(2) * (
        words >= 0
    )
    (gradient,) = torch.autograd.grad(losses.sum(), wide)
    traced = torch.compile(chunked_loss.losses_and_gradient, backend="aot_eager", fullgraph=True)
    for form in (chunked_loss.losses_and_gradient, traced, chunked_loss.in_few_passes):
        found = form(scores.clone(), words)
        assert found[0].dtype == kind
        torch.testing.assert_close(found[0], gradient.to(kind), atol=2 * torch.finfo(kind).eps, rtol=1e-3)
        torch.testing.assert_close(found[1], losses.detach(), atol=1e-4, rtol=1e-6)


def test_the_head_moves_25_bytes_a_logit_without_a_compiler() -> None:
    """In bfloat16: the logits are written and read 3 times in 2 bytes, the softmax written and read twice in 4, its
    gradient written and read twice in 2 = 24; the rest is of the stream and the head."""
    words = 8192
    stream, head = torch.randn(1, 512, 4, requires_grad=True), torch.randn(1, 4, words, requires_grad=True)
    wanted = torch.randint(0, words, (512,), generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16), Traffic() as traffic:
        chunked_loss.loss_sums(stream, head, wanted).sum().backward()
    assert 20 < traffic.bytes / (512 * words) < 25
