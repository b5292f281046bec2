import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from raysweep import Result

PIXELS, LABELS = (torch.tensor(array) for array in load_digits(return_X_y=True))
PIXELS, HELD_OUT = PIXELS.float() / 16, torch.arange(len(LABELS)) % 5 == 0
OLD, NEW = (torch.nonzero((half == LABELS // 5) & ~HELD_OUT).flatten().numpy() for half in (0, 1))


def network(row, state=None):
    torch.manual_seed(row["seed"])
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    if state:
        net.load_state_dict(state["net"])
    return net


def train(net, optimizer, batches, context, first=0):
    for step, batch in enumerate(batches, first + 1):
        loss = cross_entropy(net(PIXELS[batch]), LABELS[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        context.log(step, loss=loss)  # a learning curve


def pretrain(rows, parent, context):  # one epoch: `context.point` is its number, `parent` the state after the last
    row, state = rows.row(), parent.tensors() if parent else None
    net = network(row, state)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    if state:
        optimizer.load_state_dict(state["optimizer"])
    order = np.random.default_rng([row["seed"], context.point]).permutation(OLD)
    train(net, optimizer, np.array_split(order, 12), context, first=12 * (context.point - 1))
    return Result({"net": net.state_dict(), "optimizer": optimizer.state_dict()})


def finetune(rows, parent, context):
    row, net = rows.row(), network(rows.row(), parent.tensors())
    few = np.random.default_rng(row["seed"]).permutation(NEW)[: row["target_samples"]]
    train(net, torch.optim.SGD(net.parameters(), lr=row["finetune_lr"]), [few] * 50, context)
    return Result({"net": net.state_dict()})


def evaluate(rows, parent, context):
    test = HELD_OUT & (LABELS >= 5)
    right = network(rows.row(), parent.tensors())(PIXELS[test]).argmax(1) == LABELS[test]
    return Result(metrics={"accuracy": right.double().mean()})
