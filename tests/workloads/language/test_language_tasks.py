"""A model is fine-tuned on a task of labelled texts and scored by the likelihoods of the labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from language_rows import compute, row, table

from raysweep.stages.store import Store
from raysweep.workloads.language import evaluation, model, tasks
from raysweep.workloads.language.model_config import config_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_task_is_learned_and_scored_by_its_classes(tmp_path):
    words = np.random.default_rng(0).integers(97, 123, (200, 6)).astype(np.uint8)
    lines = [
        {"text": word.tobytes().decode() + "!?"[n % 2], "label": ("yes", "no")[n % 2]} for n, word in enumerate(words)
    ]
    (tmp_path / "task.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = [
        {"target": f"task:{tmp_path}/task.jsonl", "width": 32, "finetune_batch": 16, "finetune_steps": steps}
        for steps in (2, 150)
    ]
    metrics, status = compute(table(*rows), np.zeros(2, int), Store(tmp_path / "store"))
    assert status.tolist() == ["ok", "ok"]
    assert metrics["finetune_loss"][1] < 0.5 * metrics["finetune_loss"][0]
    assert metrics["finetune_accuracy"][1] > 0.9
    assert metrics["finetune_epochs"][1] == 150 * 16 / 160


def test_class_likelihoods_are_normalized_by_length():
    """Against the sum over the label's tokens, one sequence at a time."""
    shape = config_of(row(context=24))
    module = model.decoder(shape, {name: 5 * values for name, values in shape.initial(0).items()})
    labels = (b"yes", b"certainly not")
    asked = np.stack([tasks.sequence(b"is it so?", label, 24) for label in labels])[None]
    loss, accuracy = evaluation.classify(module, asked, np.array([1]))
    likelihoods = []
    for label in labels:
        text = b"is it so?" + tasks.BETWEEN
        tokens = torch.tensor(list(text + label))
        scores = module(tokens[None, :-1])[0].log_softmax(-1)
        references = [float(scores[at - 1, tokens[at]]) for at in range(len(text), len(tokens))]
        likelihoods.append(np.mean(references))
    probabilities = np.exp(likelihoods) / np.exp(likelihoods).sum()
    assert loss == pytest.approx(-np.log(probabilities[1]), rel=1e-5)
    assert accuracy == float(probabilities[1] > 0.5)
