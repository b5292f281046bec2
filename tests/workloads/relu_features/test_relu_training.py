"""Training of two-layer ReLU networks: its gradients, its steps against autograd's, and networks side by side."""

import numpy as np
import pytest
import torch

from raysweep.workloads.relu_features import descent


def unit(*shape, seed):
    rows = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))
    return rows / rows.norm(dim=-1, keepdim=True)


FEATURES, TEACHER = unit(2, 6, 4, seed=0), unit(5, 4, seed=1)
OUTPUTS = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 6)))
RECIPE = {"init_scale": 1e-2, "learning_rate": 0.5, "steps": 400, "tolerance": 1e-4}
WEIGHTS = torch.tensor([[0.2] * 5, [0.0, 0.0, 1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)


def forward(features, outputs, inputs):
    """f of one network, (samples,)."""
    return (inputs @ features.T).relu() @ outputs / len(outputs)


def labels_of(inputs, weights):
    return (inputs @ TEACHER.T).relu() @ weights


def test_gradients_over_the_population_are_those_of_finite_differences_of_the_loss():
    task = descent.on_population(TEACHER, WEIGHTS)
    _, by_output, over_output = task(FEATURES, OUTPUTS)
    pull = OUTPUTS[:, :, None] * over_output
    by_feature = pull - (pull * FEATURES).sum(2, keepdim=True) * FEATURES  # the length of each is fixed
    direction, step = unit(2, 6, 4, seed=5), 1e-6

    def loss_at(sign):
        far = FEATURES + sign * step * direction
        return task(far / far.norm(dim=2, keepdim=True), OUTPUTS)[0]

    slope = (loss_at(1) - loss_at(-1)) / (2 * step)
    torch.testing.assert_close((by_feature * direction).sum((1, 2)) / 6, slope, rtol=1e-6, atol=1e-9)
    slope = (task(FEATURES, OUTPUTS + step)[0] - task(FEATURES, OUTPUTS - step)[0]) / (2 * step)
    torch.testing.assert_close(by_output.sum(1) / 6, slope, rtol=1e-6, atol=1e-9)


def test_a_training_is_that_of_autograd_step_by_step():
    """Gradient descent at rate x width on both layers; then features are scaled back to length 1."""
    inputs = torch.from_numpy(np.random.default_rng(6).standard_normal((40, 4)))
    labels, recipe = labels_of(inputs, WEIGHTS[0]), {**RECIPE, "steps": 60, "tolerance": 0.0}
    trained = descent.descend(descent.on_samples(inputs[None], labels[None]), FEATURES[:1], recipe)
    features, outputs = FEATURES[0].clone(), torch.full((6,), 1e-2, dtype=torch.float64)
    for _ in range(60):
        leaf, rates = features.clone().requires_grad_(), outputs.clone().requires_grad_()
        loss = ((forward(leaf / leaf.norm(dim=1, keepdim=True), rates, inputs) - labels) ** 2).mean() / 2
        by_feature, by_output = torch.autograd.grad(loss, (leaf, rates))
        shifted = features - 0.5 * 6 * by_feature
        features, outputs = shifted / shifted.norm(dim=1, keepdim=True), outputs - 0.5 * 6 * by_output
    np.testing.assert_allclose(trained.features[0], features, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(trained.outputs[0], outputs, rtol=1e-10)
    loss = ((forward(features, outputs, inputs) - labels) ** 2).mean() / 2
    assert trained.loss[0] == pytest.approx(float(loss), rel=1e-10)


def test_networks_side_by_side_end_as_alone_each_at_its_own_tolerance_or_without_a_finite_loss():
    inputs = torch.from_numpy(np.random.default_rng(7).standard_normal((4, 12, 4)))
    inputs[3] *= 1e4
    labels = torch.stack([labels_of(each, WEIGHTS[0]) for each in inputs])
    labels = labels * torch.tensor([[0.001], [1.0], [30.0], [1.0]])
    start, recipe = unit(1, 8, 4, seed=8).expand(4, 8, 4), {**RECIPE, "init_scale": 1e-7}
    together = descent.descend(descent.on_samples(inputs, labels), start, recipe)
    for net in range(3):
        alone = descent.descend(descent.on_samples(inputs[net : net + 1], labels[net : net + 1]), start[:1], recipe)
        for name in ("features", "outputs", "loss"):
            mine, other = (getattr(each, name) for each in (together, alone))
            np.testing.assert_allclose(mine[net], other[0], rtol=1e-9, atol=1e-12)
    assert (together.outputs[0] == 1e-7).all()  # it was below the tolerance before the first step
    assert 1e-5 < together.loss[1] <= 1e-4
    assert not np.isfinite(together.loss[3])
