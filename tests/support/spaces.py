"""Spaces that tests sweep over, and the file that a command line takes them from."""

import yaml

STEP = 8 * 16  # tokens in a step of language_space
GRID = {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 1.0], "depth": [2, 3]}  # axes for small_space
LANGUAGE = {"width": 16, "depth": 1, "context": 16, "pretrain_batch": 8, "finetune_batch": 8}  # a model that is small


def space_over(workload, axes, **keys):
    """A space over these axes, named as its workload unless a key says otherwise."""
    return {"name": workload, "workload": workload, "axes": axes, **keys}


def small_space(**changes):
    """A space that takes milliseconds: six cells, three draws."""
    return {
        "name": "small",
        "workload": "linear_transfer",
        "axes": {"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 1.0]},
        "fixed": {"dim": 20, "noise": 0.2},
        "seeds": 3,
        **changes,
    }


def language_space(axes=None, fixed=None, **changes):
    """Two pretrainings of a model of some 9,000 weights, three rates each; `axes` and `fixed` add to what is there."""
    return {
        "name": "small",
        "workload": "language",
        "axes": {"pretrain_length": [20 * STEP, 40 * STEP], "finetune_lr": [1e-3, 2e-3, 4e-3], **(axes or {})},
        "fixed": {**LANGUAGE, "finetune_steps": 4, "evaluation_tokens": 256, **(fixed or {})},
        **changes,
    }


def sandbox_space(folder, behaviour, **changes):
    """One row for each behaviour (sandbox_workload.py), each a pack alone; they leave their marks in `folder`."""
    axes = {"x": list(range(len(behaviour))), "behaviour": behaviour}
    usual = {"axes": axes, "zip": [[*axes]], "fixed": {"folder": str(folder), "said_seconds": 200}}
    return {"name": "sandy", "workload": "sandbox", **usual, **changes}


def waiting_space(folder, **changes):
    """Three rows and then three that wait for the file `go` in a folder, each a pack alone."""
    behaviour = ["compute"] * 3 + ["wait"] * 3
    return sandbox_space(folder, behaviour, axes={"x": [1, 2, 3, 4, 5, 6], "behaviour": behaviour}, **changes)


def written(folder, space):
    """A space in the file space.yaml of a folder; its path."""
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(space, sort_keys=False))
    return path


def logging_space(**changes):
    """Two epochs and then three, which rows of all rates share; two draws (logging_workload.py)."""
    return space_over(
        "logging", **{"axes": {"epochs": [2, 3], "rate": [0.5, 1.0]}, "name": "logged", "seeds": 2, **changes}
    )
