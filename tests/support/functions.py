"""Sweeps of plain functions, as tests run them."""

import raysweep


def edited(body, name="train"):
    """A function of x and seed as a notebook has it after its cell was edited: its source is in no file."""
    space = {"__name__": "__main__"}
    exec(f"def {name}(x, seed, log=None):\n    {body}", space)
    return space[name]


def quietly(function, storage, **keywords):
    """Run without a report and without MLflow."""
    return raysweep.run(function, **{"storage": storage, "tracking_uri": "none", "report": False, **keywords})
