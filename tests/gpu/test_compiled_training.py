"""Training with compiled functions is training with plain operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from raysweep.training import compiled, optimizer
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import initial
from raysweep.workloads.language.grammar import Grammar
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

STEPS = 10


def losses(config: ModelConfig, models: int, dropout: float) -> np.ndarray:
    """Of each step, (steps, models)."""
    text, seen = Grammar(0.0), []
    recipe = TrainConfig(
        config, 1e-3 * np.arange(1, models + 1), lambda step: 1.0, weight_decay=0.1, dropout=dropout, role="test"
    )
    state = State.fresh(np.repeat(initial(config, 0)[None], models, 0))
    optimizer.train(
        state,
        recipe,
        lambda step: text.sequences("train", 0, "test", 8 * step, 8, config.context),
        STEPS,
        lambda state, losses: seen.append(losses.detach().clone()),
    )
    return torch.stack(seen).cpu().numpy()


@pytest.mark.parametrize(("words", "models", "dropout"), [(256, 1, 0.0), (4096, 3, 0.1)])
def test_losses_of_compiled_training_are_those_of_plain_operations(
    words: int,
    models: int,
    dropout: float,
    kind: str,
    a_gpu: Callable[[], AbstractContextManager[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stated tolerance, bfloat16 products: 1e-2 nats in 10 steps, where losses fall by more than 0.3."""
    config = replace(PRESETS["tiny"], vocabulary=words)
    monkeypatch.setattr(compiled, "made", {})
    with a_gpu():
        if kind == "pretended":  # by a compiler that changes nothing
            monkeypatch.setattr(compiled, "available", lambda: True)
            monkeypatch.setattr(compiled, "watched", lambda: None)
            monkeypatch.setattr(torch, "compile", lambda function, **options: lambda *inputs: function(*inputs))
        elif not compiled.available():
            pytest.skip("no compiler for this GPU")
        fast = losses(config, models, dropout)
        assert len(compiled.made) >= 4  # attention, MLP, head and optimizer
        if kind == "real":  # and none was given up
            assert [
                name for name, made in compiled.made.items() if not hasattr(made, "_torchdynamo_orig_callable")
            ] == []
        monkeypatch.setattr(compiled, "available", lambda: False)
        plain = losses(config, models, dropout)
    assert (plain[0] - plain[-1]).min() > 0.3
    np.testing.assert_allclose(fast, plain, atol=1e-2)
