"""The trainer, on a module of its own: against torch alone, cut short, in pieces, with dropout."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout

from raysweep.stages import trees
from raysweep.training import parallel, schedules, sizes, trainer
from raysweep.training.trainer import Recipe, Trainer

WORDS, LENGTH = 20, 12


class Net(nn.Module):
    """Predicts each token from the one before."""

    def __init__(self, rate=0.0):
        super().__init__()
        self.table, self.gain = nn.Embedding(WORDS, 8), nn.Parameter(torch.ones(8))
        self.head, self.rate = nn.Linear(8, WORDS, bias=False), rate

    def forward(self, tokens):
        return self.head(dropout(self.table(tokens), self.rate, self.training) * self.gain)


def losses(module, tokens):
    scores = module(tokens[:, :-1].clamp(min=0))
    return cross_entropy(scores.mT, tokens[:, 1:].clamp(min=-1), ignore_index=-1, reduction="none")


def batches(step, count=40):
    start = np.random.default_rng(step).integers(0, WORDS, (count, 1))
    tokens = ((start + 3 * np.arange(LENGTH + 1)) % WORDS).astype(np.int16)
    tokens[0, :5] = -1 - tokens[0, :5]
    return tokens


def net(rate=0.0):
    torch.manual_seed(0)
    return Net(rate).double()


def trained(steps=9, rate=0.0, **recipe):
    given = {"lr": 3e-2, "schedule": lambda step: 1.0, "dropout": rate > 0, "role": "test", **recipe}
    reference = Trainer(net(rate), losses, Recipe(**given))
    reference.train(batches, steps)
    return reference


def assert_same(one, other, rtol=0.0):
    for name, values in trainer.weights_of(one.module).items():
        torch.testing.assert_close(values, trainer.weights_of(other.module)[name], rtol=rtol, atol=rtol)


def test_it_is_torch_adamw_with_clipping_and_each_tensor_s_own_rate_and_decay():
    rate, decay, steps = 3e-2, 0.1, 12
    factor = schedules.schedule("cosine", steps)
    expected = trained(steps, lr=rate, schedule=factor, weight_decay=decay, lr_factors={"head.weight": 16.0})
    module = net()
    groups = {"table.weight": (1, decay), "gain": (1, 0.0), "head.weight": (16, decay)}
    reference = torch.optim.AdamW([{"params": [weight], "name": n} for n, weight in module.named_parameters()])
    clipped = 0
    for step in range(steps):
        for group in reference.param_groups:
            factor_of, decays = groups[group["name"]]
            group |= {"lr": rate * factor(step) * factor_of, "weight_decay": decays / factor_of, "betas": (0.9, 0.95)}
        tokens = torch.tensor(batches(step).astype(np.int64))
        (losses(module, tokens).sum() / (tokens[:, 1:] >= 0).sum()).backward()
        clipped += float(nn.utils.clip_grad_norm_(module.parameters(), 1.0)) > 1
        reference.step()
        reference.zero_grad()
    for name, weight in module.named_parameters():
        torch.testing.assert_close(dict(expected.module.named_parameters())[name], weight, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_a_training_goes_on_from_its_state_to_the_same_numbers(rate):
    whole, cut = trained(9, rate), trained(4, rate)
    arrays, described = trees.flatten(cut.state())  # as a store keeps it
    state = trees.unflatten(arrays, described)
    again = Trainer(net(rate), losses, cut.recipe)
    again.restore(state)
    again.train(batches, 9)
    assert_same(whole, again)
    assert again.step == 9


def test_a_batch_in_pieces_gives_the_same_step(monkeypatch):
    whole = trained()
    monkeypatch.setattr(sizes, "PIECE_BYTES", 7.0)
    assert_same(whole, trained(sample_bytes=1.0), 1e-9)


def test_masks_of_dropout_are_named_by_seed_role_step_and_sequence(monkeypatch):
    one = trained(rate=0.2)
    torch.rand(3)  # whatever was drawn before
    assert_same(one, trained(rate=0.2))
    monkeypatch.setattr(sizes, "PIECE_BYTES", 16.0)
    assert_same(one, trained(rate=0.2, sample_bytes=1.0), 1e-9)
    for changed in ({"seed": 1}, {"role": "other"}):
        assert not torch.equal(one.module.head.weight, trained(rate=0.2, **changed).module.head.weight)


@pytest.mark.parametrize("workers", [2, 3])
def test_shares_with_dropout_are_whole_groups(workers, monkeypatch):
    monkeypatch.setattr(parallel, "workers", lambda: workers)
    firsts = []
    for rank in range(workers):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        reference, first = parallel.share(batches(0), trainer.DROPOUT_SEQUENCES)
        assert len(reference) % 16 == first % 16 == 0
        firsts.append((first, len(reference)))
    assert firsts == [(rank * firsts[0][1], firsts[0][1]) for rank in range(workers)]
    assert workers * firsts[0][1] >= 40


def test_a_number_that_is_not_finite_is_noticed_and_soon_ends_the_training():
    reference = Trainer(net(), losses, Recipe(3e-2, lambda step: float("nan") if step == 3 else 1.0))
    seen = []
    reference.train(batches, 1000, lambda one, loss: seen.append(one.step))
    assert not reference.alive
    assert reference.step == seen[-1] == trainer.LOOK
    assert trained().alive


def test_losses_of_sequences_are_those_of_the_module_whatever_is_computed_at_a_time():
    module, tokens = net(), batches(0)
    expected = losses(module, torch.tensor(tokens.astype(np.int64))).detach().sum(1).numpy()
    mean = pytest.approx(expected.sum() / (40 * LENGTH - 4), rel=1e-12)
    for at_once in (64, 7):
        assert trainer.mean_loss(module, losses, [tokens], at_once) == mean
        assert trainer.mean_loss(module, losses, [tokens[:9], tokens[9:]], at_once) == mean


def test_out_of_memory_is_left_to_the_trial_which_halves_what_is_computed_at_a_time():
    taken = []

    def cramped(module, tokens):
        taken.append(len(tokens))
        if len(tokens) > 10:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return losses(module, tokens)

    def train(halvings):
        reference = Trainer(net(), cramped, Recipe(3e-2, lambda step: 1.0))
        with sizes.halved(sizes.Halvings(samples=halvings)):
            reference.train(batches, 9)
        return reference

    for halvings in (0, 1):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            train(halvings)
    assert_same(trained(), train(2), 1e-9)
    assert set(taken) == {40, 20, 10}


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
    one, other = schedules.schedule("wsd", 1000), schedules.schedule("wsd", 4000)
    assert (schedules.branch(1000), schedules.branch(4000)) == (900, 3600)
    assert all(one(step) == other(step) for step in range(900))
    assert one(999) < 0.02
    assert one(899) == 1
    assert one(900) < 1
    assert other(2000) == 1
