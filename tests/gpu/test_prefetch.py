"""Batches for a GPU are made by a thread while it computes; a training ends with its thread, however it ends."""

import threading

import numpy as np
import pytest

from raysweep.training import devices
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import ModelConfig
from raysweep.workloads.language.texts import Grammar

SMALL = ModelConfig(depth=1, width=16, heads=2, mlp=24, context=12, vocabulary=256)
STEPS = 30
TEXT = Grammar(0.0)


def batch(step):
    return TEXT.sequences("train", 0, "test", 4 * step, 4, SMALL.context)


def trained(batches, after_step=None, until=STEPS):
    own = Trainer(model.decoder(SMALL, SMALL.initial(0)), model.losses, Recipe(1e-3, lambda step: 1.0))
    own.train(batches, until, after_step)


class Made:
    """The steps for which batches were made, and by which thread."""

    def __init__(self):
        self.steps = []
        self.here = []

    def __call__(self, step):
        self.steps.append(step)
        if threading.current_thread() is threading.main_thread():
            self.here.append(step)
        return batch(step)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


@pytest.mark.long
@pytest.mark.usefixtures("gpu")
def test_the_thread_that_starts_the_steps_makes_the_first_batch_alone_and_none_is_made_too_many():
    made = Made()
    trained(made)
    assert made.steps == list(range(STEPS))
    assert made.here == [0]


def test_on_a_cpu_each_batch_is_made_when_its_step_begins():
    made, taken = Made(), []
    with devices.granted(0):
        trained(made, lambda own, loss: taken.append(list(made.steps)))
    assert made.here == list(range(STEPS))
    assert taken == [list(range(step + 1)) for step in range(STEPS)]


@pytest.mark.usefixtures("gpu")
def test_each_step_gets_its_own_batch(monkeypatch):
    seen, plain = [], model.losses

    def losses(module, tokens):
        seen.append(tokens.cpu().numpy())
        return plain(module, tokens)

    monkeypatch.setattr(model, "losses", losses)
    trained(batch)
    np.testing.assert_array_equal(seen, [batch(step) for step in range(STEPS)])


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("bad", [0, 1, 20])
def test_a_batch_that_cannot_be_made_is_an_error_of_its_step(bad):
    taken = []

    def failing(step):
        if step == bad:
            raise ValueError(f"no text for step {step}")
        return batch(step)

    with pytest.raises(ValueError, match=f"no text for step {bad}"):
        trained(failing, lambda own, loss: taken.append(own.step))
    assert taken == list(range(1, bad + 1))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("ended", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_a_training_that_is_ended_ends_its_thread_and_no_more_text_is_made(ended):
    made = Made()

    def after_step(own, loss):
        if own.step == 5:
            raise ended

    with pytest.raises(ended):
        trained(made, after_step, until=10**6)
    assert len(made.steps) < STEPS
