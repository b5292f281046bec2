"""The documented staged workload (docs/digits) does what docs/staged_workloads.md says of it."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
import torch
from conftest import QUIET, TESTS, installed, process
from sklearn.datasets import load_digits

import raysweep
from raysweep.stages.store import Store

DIGITS = TESTS.parent / "docs" / "digits"
SMALL = {"axes.pretrain_length": [1, 3], "axes.finetune_lr": [0.05, 0.5], "seeds": 2}
STAGES = 2 * 3 + 8  # of two seeds three epochs each, which both lengths share; and a fine-tuning of each row


@functools.cache
def plain(seed, length, lr):
    """The same training in one piece: accuracy, losses while pretraining, losses while fine-tuning."""
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    trained = np.flatnonzero(np.arange(len(labels)) % 5)
    old, new = (trained[labels[trained] < 5], trained[labels[trained] >= 5])
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def steps(batches, optimizer):
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    orders = [np.random.default_rng([seed, epoch]).permutation(old) for epoch in range(1, length + 1)]
    batches = [batch for order in orders for batch in np.array_split(order, 12)]
    before = steps(batches, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
    few = np.random.default_rng(seed).permutation(new)[:20]
    after = steps([few] * 50, torch.optim.SGD(net.parameters(), lr=lr))
    held_out = (np.arange(len(labels)) % 5 == 0) & (labels >= 5)
    return (net(x[held_out]).argmax(1) == y[held_out]).double().mean().item(), before, after


def arguments(storage, *more, **keys):
    """Of a command that runs the documented space, with these keys of it set."""
    sets = [word for key, value in {**SMALL, **keys}.items() for word in ("--set", f"{key}={value}")]
    return ["run", DIGITS / "digits.yaml", *sets, "--storage", storage, *QUIET, *more]


def rows(storage, name="digits"):
    return raysweep.open(name, storage).results().drop(columns="sweep").to_dict("records")


def said_of_stages(outcome):
    assert outcome.code == 0, outcome.err
    return re.search(r"stages: (.*)", outcome.err).group(1)


def kept(storage, stage):
    """The records of the kept artifacts of a stage, by their ids."""
    store = Store(storage / "store")
    found = {identity: store.look(identity) for identity in store.stages()}
    return {identity: record for identity, record in found.items() if record["describe"]["stage"] == stage}


def edition(folder, **changes):
    """Another edition of the package, in which texts of its modules are replaced; the environment that brings it."""
    package = shutil.copytree(DIGITS / "digits", folder / "digits")
    installed(folder, digits="digits:WORKLOAD")
    for module, replacements in changes.items():
        path = package / f"{module}.py"
        text = path.read_text()
        for old, new in replacements if isinstance(replacements, list) else [replacements]:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def finished(call, sandbox, storage):
    """A storage with the finished sweep, whose fine-tunings are kept."""
    assert said_of_stages(call(*arguments(storage))) == f"{STAGES} distinct, {STAGES} computed, 0 reused, 0 begun again"
    return storage


def test_rows_and_curves_are_those_of_a_training_in_one_piece(finished):
    sweep = raysweep.open("digits", finished)
    table, curves = sweep.results(), sweep.curves()
    assert len(table) == 8
    assert len(set(table["accuracy"])) > 4
    for row in table.itertuples():
        accuracy, before, after = plain(row.seed, row.pretrain_length, row.finetune_lr)
        assert row.accuracy == pytest.approx(accuracy, abs=1e-6)
        own = curves[(curves["cell"] == row.cell) & (curves["seed"] == row.seed)]
        for stage, expected in (("pretrain", before), ("finetune", after)):
            lines = own[own["stage"] == stage]
            assert lines["step"].tolist() == list(range(1, len(expected) + 1))
            np.testing.assert_allclose(lines["loss"], expected, rtol=0, atol=1e-6)


def test_kept_fine_tuned_weights_give_the_accuracy_of_their_row(finished, call):
    pixels, labels = load_digits(return_X_y=True)
    held_out = (np.arange(len(labels)) % 5 == 0) & (labels >= 5)
    sweep = raysweep.open("digits", finished)
    for row in rows(finished):
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        net.load_state_dict(sweep.tensors("finetune", row["cell"], row["seed"])["net"])
        right = net(torch.tensor(pixels[held_out] / 16).float()).argmax(1).numpy() == labels[held_out]
        assert row["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    found = kept(finished, "finetune")
    described = [record["describe"] for record in found.values()]
    assert sorted((each["seed"], *each["parameters"].values()) for each in described) == sorted(
        (row["seed"], *(row[name] for name in described[0]["parameters"])) for row in rows(finished)
    )
    listed = call("store", "list", "--storage", finished).out
    assert listed.count("digits pretrain seed=") == 6
    assert listed.count("digits finetune seed=") == 8
    assert all(identity in listed for identity in found)


def test_weights_that_are_not_there_are_said_to_be_missing(finished):
    sweep = raysweep.open("digits", finished)
    (cell, seed), *_ = sweep.rows()
    with pytest.raises(raysweep.InputError, match=rf"^digits: there is no row of the cell '{cell}' and the seed 99$"):
        sweep.tensors("finetune", cell, 99)
    with pytest.raises(raysweep.InputError, match=r"no kept stage 'evaluate' \(its kept stages: pretrain, finetune\)$"):
        sweep.tensors("evaluate", cell, seed)
    shutil.rmtree(finished / "store" / "entries")
    with pytest.raises(raysweep.InputError, match=r"^digits: the stage [0-9a-f]+ is no longer in "):
        sweep.tensors("finetune", cell, seed)


ONE_MORE_METRIC = {
    "__init__": (
        'direction="maximize"),)',
        'direction="maximize"),\n        Metric("loss", "cross-entropy on held-out images of 5-9", unit="nats"))',
    ),
    "net": [
        ("    right = network(rows.row(), parent.tensors())(PIXELS[test]).argmax(1) == LABELS[test]\n",
         "    outputs = network(rows.row(), parent.tensors())(PIXELS[test])\n"
         "    right = outputs.argmax(1) == LABELS[test]\n"),
        ('"accuracy": right.double().mean()', '"accuracy": right.double().mean(), '
         '"loss": cross_entropy(outputs, LABELS[test])'),
    ],
}  # fmt: skip


def test_a_metric_that_is_added_later_trains_nothing(finished, tmp_path):
    before = rows(finished)
    newer = edition(tmp_path / "newer", **ONE_MORE_METRIC)
    outcome = process(*arguments(finished), env=newer)
    note = "note: 8 rows are there without loss, which digits has gained since: measuring them from the kept"
    assert note in outcome.err
    assert said_of_stages(outcome) == f"{STAGES} distinct, 0 computed, {STAGES} reused, 0 begun again"
    table = process("results", "digits", "--storage", finished, "--format", "json", env=newer)
    found = json.loads(table.out)
    assert [row["accuracy"] for row in found] == [row["accuracy"] for row in before]
    assert all(0 < row["loss"] < 10 for row in found)
    assert len({row["loss"] for row in found}) == 8
