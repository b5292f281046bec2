"""What the language benchmark must measure on a GPU, and that what is compiled there trains as what is not."""

import numpy as np
import pytest

from benchmarks import language
from raysweep.training import trainer
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import PRESETS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("preset", "batch", "least", "share"), language.ON_GPU)
def test_training_is_as_fast_as_asked(preset, batch, least, share):
    _, flops, _ = language.card() or pytest.skip("no data sheet of this GPU")
    speed = language.tokens_a_second(PRESETS[preset], batch, True)
    assert speed >= least
    assert language.utilization(PRESETS[preset], speed, flops) >= share


def test_a_compiled_model_trains_as_one_that_is_not():
    """Stated tolerance, bfloat16 products: 1e-2 nats in each of 20 steps."""
    if not trainer.compiler():
        pytest.skip("no compiler for this GPU")
    shape, found = PRESETS["tiny"], []
    text = np.random.default_rng(0).integers(97, 105, (20, 16, shape.context + 1)).astype(np.uint8)
    for compiles in (False, True):
        losses = []
        recipe = Recipe(1e-3, lambda step: 1.0, lr_factors=shape.lr_factors(), records=compiles)
        own = Trainer(model.decoder(shape, shape.initial(0), compiles=compiles), model.losses, recipe)
        own.train(lambda step: text[step], 20, lambda _, loss, losses=losses: losses.append(float(loss)))
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], atol=1e-2)
