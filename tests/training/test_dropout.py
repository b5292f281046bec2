"""Dropout by counters: its masks depend on (seed, step, place, sequence, position, coordinate) and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_gang import SMALL, tokens

from raysweep.training import dropout as masks
from raysweep.training import optimizer, params, sizes
from raysweep.training.dropout import Dropout
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import ModelConfig

CPU = torch.device("cpu")


def of_step(step: int, rate: float = 0.1, seed: int = 0) -> Dropout:
    return Dropout.of_step(rate, seed, "pretrain", step, SMALL.depth)


def lowbias32(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def test_masks_are_the_hash_written_in_numpy():
    drawn = of_step(5)
    for layer, place in ((0, masks.EMBEDDING), (1, masks.MLP_OUT)):
        row_key, column_key = drawn.keys[place + 3 * layer if place else 0]
        rows = lowbias32(np.arange(100, 150, dtype=np.uint64) ^ np.uint64(row_key))
        columns = lowbias32(np.arange(40, dtype=np.uint64) ^ np.uint64(column_key))
        word = (rows[:, None] ^ columns).astype(np.int64).astype(np.uint32) * np.uint32(0x7FEB352D)
        word ^= (word.view(np.int32) >> 15).view(np.uint32)
        word *= np.uint32(0x846CA68B)
        expected = word.view(np.int32) >= round(0.1 * 2**32) - 2**31
        np.testing.assert_array_equal(drawn.kept(layer, place, 100, 50, 40, CPU), expected)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_stated_share_is_dropped_in_every_row_column_place_and_step(rate):
    """Within 5 standard errors of independent draws; and no two places or steps share more than chance would."""
    rows, columns = 3000, 400
    drawn = [
        of_step(step, rate).kept(layer, place, 0, rows, columns, CPU).double()
        for step, layer, place in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0), (0, 1, 3))
    ]
    for kept in drawn:
        for dimension, count in ((0, rows), (1, columns)):
            error = (kept.mean(dimension) - (1 - rate)).abs() / np.sqrt(rate * (1 - rate) / count)
            assert float(error.max()) < 5
            assert float(error.pow(2).mean()) == pytest.approx(1, abs=0.35)  # neither clumped nor evened out
        assert float(kept.mean()) == pytest.approx(1 - rate, abs=5 * np.sqrt(rate * (1 - rate) / kept.numel()))
        for shifted in (kept.roll(1, 0), kept.roll(1, 1), kept.roll(64, 0)):
            assert abs(correlation(kept, shifted)) < 5 / np.sqrt(kept.numel())
    for index, kept in enumerate(drawn):
        for other in drawn[:index]:
            assert abs(correlation(kept, other)) < 5 / np.sqrt(kept.numel())


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1])


def test_what_is_kept_is_scaled_so_that_the_mean_stays():
    values = torch.ones(3, 4000, 16, dtype=torch.float64)
    found = of_step(0, 0.25).applied(values, 0, masks.EMBEDDING, 10)
    assert set(found.unique().tolist()) == {0.0, 1 / 0.75}
    assert float(found.mean()) == pytest.approx(1, abs=5 * np.sqrt(0.25 / 0.75 / found[0].numel()))
    assert torch.equal(found[0], found[2])  # models side by side drop the same


def test_a_sequence_s_mask_does_not_depend_on_the_slice_that_holds_it():
    whole = of_step(3).kept(1, masks.MLP_OUT, 0, 6 * 12, 16, CPU)
    values = torch.ones(1, 2 * 12, 16)
    assert torch.equal(of_step(3).at(4).applied(values, 1, masks.MLP_OUT, 12)[0] > 0, whole[4 * 12 :])


def test_with_nothing_dropped_the_masked_model_is_the_plain_one():
    flat = torch.tensor(3 * params.initial(SMALL, 0).astype(np.float64))[None].repeat(2, 1)
    batch = torch.from_numpy(tokens(0).astype(np.int64))
    weights = params.named(flat, SMALL)
    torch.testing.assert_close(
        model.loss_sums(weights, batch, SMALL, of_step(0, 0.0)),
        model.loss_sums(weights, batch, SMALL),
        rtol=1e-12,
        atol=0,
    )
    assert not torch.allclose(
        model.loss_sums(weights, batch, SMALL, of_step(0)), model.loss_sums(weights, batch, SMALL), rtol=1e-3
    )


def test_the_loss_under_dropout_is_differentiated_right():
    """Through masks and recomputed attention, against finite differences."""
    flat = torch.tensor(3 * params.initial(SMALL, 0).astype(np.float64))[None].requires_grad_()
    batch = torch.from_numpy(tokens(0).astype(np.int64))

    def loss(row: torch.Tensor) -> torch.Tensor:
        return model.loss_sums(params.named(row, SMALL), batch, SMALL, of_step(2))[0]

    (gradient,) = torch.autograd.grad(loss(flat), flat)
    move = torch.randn(flat.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1e-6
    with torch.no_grad():
        change = float(loss(flat + move) - loss(flat - move)) / 2
    assert change == pytest.approx(float((gradient * move).sum()), rel=1e-5)


class Hungry(ModelConfig):
    """Of which a piece of a batch holds one sequence."""

    def sample_bytes(self, *args: int, **how: bool) -> float:
        return sizes.PIECE_BYTES


def trained(
    rates: list[float], stops: tuple[int, ...] = (12,), seed: int = 0, shape: ModelConfig = SMALL
) -> torch.Tensor:
    state = State.fresh(np.stack([3 * params.initial(SMALL, 0).astype(np.float64)] * len(rates)))
    recipe = TrainConfig(shape, np.array(rates), lambda step: 1.0, dropout=0.1, seed=seed, role="finetune")
    for stop in stops:
        optimizer.train(state, recipe, tokens, stop)
    return state.params


def test_side_by_side_alone_resumed_or_in_pieces_is_the_same_training():
    together = trained([1e-4, 3e-4])
    for index, rate in enumerate((1e-4, 3e-4)):
        torch.testing.assert_close(together[index], trained([rate])[0], rtol=1e-8, atol=1e-10)
    assert torch.equal(together, trained([1e-4, 3e-4], (1, 5, 12)))
    pieces = trained([1e-4, 3e-4], shape=Hungry(**vars(SMALL)))
    torch.testing.assert_close(together, pieces, rtol=1e-8, atol=1e-10)
    assert not torch.allclose(together, trained([1e-4, 3e-4], seed=1), atol=1e-5)
