"""Rows and space of a random search over a function, with a known answer."""

import numpy as np
import pandas as pd

from raysweep.space.schema import validate
from raysweep.workloads.function_description import Description

AXES = {
    "lr": {"range": [1e-4, 1.0], "log": True},
    "width": {"values": [16, 32, 64, 128]},
    "depth": {"range": [1, 8]},
    "dropout": {"range": [0.0, 0.5]},
    "optimizer": {"values": ["adam", "sgd"]},
    "momentum": {"range": [0.5, 0.99], "when": {"optimizer": "sgd"}},
}
TYPES = {"lr": "float", "width": "int", "depth": "int", "dropout": "float", "optimizer": "str", "momentum": "float"}


def space_of(axes=AXES, metrics=None, **keys):
    """The space of a random search over a function that returns val_loss and test_acc."""
    parameters = tuple(
        {"name": name, "type": kind, "default": {"str": "adam"}.get(kind, 0), "choices": []}
        for name, kind in TYPES.items()
    )
    function = Description("train", 1, parameters, metrics or {"val_loss": "minimize"}, ("val_loss", "test_acc"), 0.1)
    plain = {"name": "s", "workload": "train", "function": {**function.plain(), "digest": "0" * 12}, "axes": dict(axes)}
    return validate({**plain, "search": {"random": {"cells": 200}}, **keys}).as_dict()


def rows_of(count=200, draws=1, noise=0.01, shared=0.0):
    """A quadratic in log lr (best at 0.01) and in depth (best at 4), and nothing else."""
    random = np.random.default_rng(0)
    cells = pd.DataFrame(
        {
            "cell": [f"c{k}" for k in range(count)],
            "lr": 10 ** random.uniform(-4, 0, count),
            "width": random.choice([16, 32, 64, 128], count),
            "depth": random.integers(1, 9, count),
            "dropout": random.uniform(0, 0.5, count),
            "optimizer": random.choice(["adam", "sgd"], count),
        }
    )
    cells["momentum"] = np.where(cells["optimizer"] == "sgd", random.uniform(0.5, 0.99, count), 0.0)
    rows = cells.merge(pd.DataFrame({"seed": range(draws)}), how="cross").assign(sweep="s", status="ok")
    quadratic = 0.3 * (np.log10(rows["lr"]) + 2) ** 2 + 0.05 * (rows["depth"] - 4) ** 2
    both = shared * random.standard_normal(draws)[rows["seed"]]
    rows["val_loss"] = 0.1 + quadratic + both + noise * random.standard_normal(len(rows))
    return rows.assign(test_acc=1 - rows["val_loss"] / 4)
