"""Deep nets on digits: trained as a plain loop trains them, killed and gone on with, and what is said of a row."""

import image_files
import numpy as np
import pytest
import torch
import workload_rows
from conftest import run
from sklearn.datasets import load_digits
from torch import nn

from raysweep.training import draws
from raysweep.trial import context
from raysweep.workloads.vision import models, shapes

SMALL = {
    "source_classes": "0-4",
    "source_samples": 70,  # two batches of 35 instead of one of 64 and one of 6
    "batch_size": 64,
    "target_classes": "5-9",
    "target_samples": 20,
    "pretrain_length": 2,
    "finetune_steps": 6,
}
SPACE = {
    "name": "small",
    "workload": "vision",
    "axes": {"pretrain_length": [1, 3], "finetune_lr": [0.01, 0.05]},
    "fixed": {name: value for name, value in SMALL.items() if name != "pretrain_length"},
    "seeds": 2,
}


def computed(storage, *rows, seeds=1):
    every = [{**SMALL, **row} for row in rows for _ in range(seeds)]
    return workload_rows.computed("vision", storage, every, list(range(seeds)) * len(rows))


def digits(part, classes):
    """Pixels from -1 to 1 as the workload rounds them, labels from 0, and their places among all of that part."""
    images, labels = load_digits(return_X_y=True)
    mine = (np.arange(len(labels)) % 5 == 0) == (part == "test")
    images, labels = images[mine], labels[mine]
    places = np.flatnonzero(np.isin(labels, classes))
    whole = np.round(images * 255 / 16).reshape(-1, 1, 8, 8)
    return torch.tensor(whole / 127.5 - 1, dtype=torch.float32), torch.tensor(labels - classes[0]), places


def plain_net(seed):
    """small_cnn of three layers, written out, with the weights that the draw starts from."""
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 5)),
    ).to(memory_format=torch.channels_last)
    begun = models.build("small_cnn", 3, (1, 8), 5, seed)
    net.load_state_dict(dict(zip(net.state_dict(), begun.state_dict().values(), strict=True)))
    return net


def plain_steps(net, lr, images, labels, batches):
    """Momentum 0.9 and weight decay 5e-4, by hand."""
    velocity = [torch.zeros_like(weights) for weights in net.parameters()]
    for batch in batches:
        given = images[batch].to(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(net(given), labels[batch])
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for weights, speed, gradient in zip(net.parameters(), velocity, gradients, strict=True):
                speed.mul_(0.9).add_(gradient.add(weights, alpha=5e-4))
                weights.add_(speed, alpha=-lr)


def plain_order(labels, places, seed, half):
    """Each class in turn, every other image of it."""
    named = labels.numpy()
    offset = {int(label): draws.generator(seed, f"images of class {label}") for label in np.unique(named[places])}
    per_class = [offset[label].permutation(np.flatnonzero(named == label))[half::2] for label in offset]
    most = max(map(len, per_class))
    return np.array([each[turn] for turn in range(most) for each in per_class if turn < len(each)])


def epochs(role, count, parts, length):
    orders = (draws.generator(0, f"{role} epoch {epoch}").permutation(count) for epoch in range(1, length + 1))
    return [batch for order in orders for batch in np.array_split(order, parts)]


def test_a_row_is_that_of_a_plain_loop_to_the_rounding_of_float32(tmp_path):
    # Batches make sums of products in another order on some processors: rounding of float32, 1e-7 a step.
    metrics = computed(tmp_path, {}).metrics
    net = plain_net(0)
    images, labels, places = digits("train", range(5))
    some = plain_order(labels, places, 0, half=0)[:70]
    plain_steps(net, 0.01, images[some], labels[some], epochs("source", 70, 2, 2))

    def assert_examined(net, classes, role, when):
        pixels, named, places = digits("test", classes)
        with torch.no_grad():
            outputs = net(pixels[places].to(memory_format=torch.channels_last))
        loss = float(nn.functional.cross_entropy(outputs, named[places], reduction="sum")) / len(places)
        right = float((outputs.argmax(1) == named[places]).sum()) / len(places)
        result = metrics[f"{role}_loss{when}"][0], metrics[f"{role}_accuracy{when}"][0]
        assert result == pytest.approx((loss, right), rel=1e-5), when

    assert_examined(net, range(5), "source", "")
    old = net[-1]
    stream = draws.generator(0, "head of target")
    head = nn.Linear(128, 5)
    head.weight.data, head.bias.data = (
        torch.tensor(stream.uniform(-(128**-0.5), 128**-0.5, size), dtype=torch.float32) for size in ((5, 128), (5,))
    )
    net[-1] = head
    assert_examined(net, range(5, 10), "target", "_before")
    scratch = plain_net(0)
    scratch[-1] = nn.Linear(128, 5)
    scratch[-1].load_state_dict(head.state_dict())
    images, labels, places = digits("train", range(5, 10))
    some = plain_order(labels + 5, places, 0, half=1)[:20]
    for one, when in ((net, ""), (scratch, "_scratch")):
        plain_steps(one, 0.01, images[some], labels[some], epochs("target", 20, 1, 6))
        assert_examined(one, range(5, 10), "target", when)
    net[-1] = old
    assert_examined(net, range(5), "source", "_after")
    assert metrics["transferability"][0] == metrics["target_loss_scratch"][0] - metrics["target_loss"][0]


def test_a_row_without_pretraining_is_training_from_scratch(tmp_path):
    rows = [{}, {"pretrain_length": 0}, {"pretrain": "none", "pretrain_lr": 3.0, "source_samples": 5}]
    computation = computed(tmp_path, *rows)
    for name in ("loss", "accuracy"):
        trained = computation.metrics[f"target_{name}"]
        assert trained[1] == trained[2] == computation.metrics[f"target_{name}_scratch"][0] != trained[0]
    assert computation.metrics["transferability"][1:].tolist() == [0, 0]
    assert np.isnan(computation.metrics["source_loss"]).tolist() == [False, True, True]
    assert np.isnan(computation.metrics["source_loss_after"]).tolist() == [False, True, True]
    assert computation.identities[1] == computation.identities[2]


def test_frozen_layers_stay_and_all_others_move(tmp_path):
    space = {**SPACE, "axes": {"frozen_layers": [0, 2, 3]}, "seeds": 1, "keep": ["pretrain", "finetune"]}
    space["fixed"] = {**SMALL, "depth": 4}
    sweep = run(tmp_path, space)
    for cell, row in zip(sweep.rows(), sweep.results().itertuples(), strict=True):
        before, after = (sweep.tensors(stage, *cell)["net"] for stage in ("pretrain", "finetune"))
        shifted = [not torch.equal(before[name], after[name]) for name in before if name.endswith("weight")]
        assert shifted == [False] * row.frozen_layers + [True] * (4 - row.frozen_layers)
    assert sweep.results().target_loss_scratch.nunique() == 1, "all layers are trained from scratch"


def test_learning_curves_have_every_epoch_and_twenty_looks(tmp_path):
    space = {**SPACE, "fixed": {**SPACE["fixed"], "finetune_steps": 45}, "seeds": 1}
    sweep = run(tmp_path, space)
    curves, table = sweep.curves(), sweep.results()
    for row in table.itertuples():
        reference = curves[curves.cell == row.cell]
        epochs, steps = (reference[reference.stage == stage] for stage in ("pretrain", "finetune"))
        assert epochs.step.tolist() == list(range(1, row.pretrain_length + 1))
        assert epochs.source_accuracy.iloc[-1] == row.source_accuracy
        assert len(steps) == 20
        assert steps.step.iloc[-1] == 45
        assert set(np.diff(steps.step, prepend=0)) == {2, 3}, "every look has as many steps, but for one"
        assert steps.target_training_loss.iloc[-1] == pytest.approx(row.target_training_loss)


def test_an_interrupted_epoch_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    whole = computed(tmp_path / "whole", {"pretrain_length": 3})
    monkeypatch.setattr(context, "CHECKPOINT_SECONDS", 0.0)
    steps, descend = [], models.descend

    def counted(net, optimizer, pixels, labels, *more):
        for loss in descend(net, optimizer, pixels, labels, *more):
            steps.append(len(labels))
            yield loss
            if len(steps) == 3:  # of the second epoch the first of two
                raise KeyboardInterrupt

    monkeypatch.setattr(models, "descend", counted)
    with pytest.raises(KeyboardInterrupt):
        computed(tmp_path / "cut", {"pretrain_length": 3})
    again = computed(tmp_path / "cut", {"pretrain_length": 3})
    assert steps.count(70) == 3 * 2
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(again.metrics[name], values, err_msg=name)


@pytest.mark.parametrize("model", shapes.MODELS)
def test_nets_have_as_many_layers_and_weights_as_is_said(model):
    for depth, colours, side in ((2, 1, 28), (5, 3, 32))[: 2 if model == shapes.SMALL_CNN else 1]:
        net = models.build(model, depth, (colours, side), 7, seed=0)
        assert len(models.layers(net)) == shapes.layers(model, depth)
        weights = sum(weights.numel() for weights in net.parameters())
        assert shapes.size(model, depth, side, colours, 7).weights == pytest.approx(weights, rel=0.3)
        assert net(torch.zeros(2, colours, side, side)).shape == (2, 7)
        spatial = net.spatial(torch.zeros(2, colours, side, side))
        assert spatial.ndim == 4
        assert net.rest(spatial).shape == (2, net.head.in_features)
        least = shapes.smallest_side(model)
        models.build(model, depth, (colours, least), 7, seed=0).eval()(torch.zeros(2, colours, least, least))


def test_an_earlier_net_is_a_part_of_a_deeper_one_and_seeds_differ():
    shallow, deep, other = (
        models.build("small_cnn", depth, (1, 8), 5, seed) for depth, seed in ((3, 0), (5, 0), (3, 1))
    )
    first = [models.layers(net)[1].weight for net in (shallow, deep, other)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert float(first[0].detach().var()) == pytest.approx(2 / 144, rel=0.1)
    assert float(shallow.head.weight.detach().abs().max()) <= 128**-0.5


@pytest.mark.long
def test_lenet_on_fashion_mnist_is_as_good_as_others_say(tmp_path):
    """The table of Fashion-MNIST's README (zalandoresearch/fashion-mnist, "Benchmark") has 0.876 to 0.932 for nets with
    two convolutions, trained for longer. LeNet is trained on all 60,000 images for two epochs, at D's rate."""
    row = {"model": "lenet", "source": image_files.real("fashion_mnist"), "source_classes": "all", "source_samples": 0}
    row |= {"pretrain_length": 2, "batch_size": 32, "finetune_steps": 0, "target_samples": 5}
    metrics = computed(tmp_path, row).metrics
    assert 0.87 < metrics["source_accuracy"][0] < 0.932, metrics["source_accuracy"]
    assert metrics["source_loss"][0] < 0.4
