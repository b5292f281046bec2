"""The chain of stages of the workload, and what identifies them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from raysweep.training.schedules import trunk_and_anneal, trunk_steps
from raysweep.workloads.declaration import Stage, deferred
from raysweep.workloads.language.model_config import config_of, steps_of


def trunk_points(parameters: Mapping[str, Any]) -> list[int]:
    """The steps at which the trunk of a row is kept; none if its lengths share nothing."""
    if parameters["pretrain_schedule"] != "wsd":
        return []
    return trunk_steps(trunk_and_anneal(steps_of(parameters))[0])


def identify(stage: str, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a stage: the shape of the model instead of its preset, and the digests of texts.

    InputError if a text has gone since the sweep was planned.
    """
    from raysweep.workloads.language import corpus

    found = {name: value for name, value in values.items() if name not in ("preset", "depth", "width", "context")}
    found["model"] = asdict(config_of(row))
    for name in ("source", "target"):
        if name in found:
            found[name] = corpus.digest_of(row, name)
    if stage == "finetune" and not row["early_stopping"]:  # only the validation of early stopping looks at them
        found.pop("evaluation_tokens", None)
    return found


_HERE = "raysweep.workloads.language"
_trunk, _pretrain, _finetune, _evaluate = (
    deferred(f"{_HERE}.costs:{name}") for name in ("trunk", "pretrain", "finetune", "evaluate")
)
STAGES = (
    Stage("trunk", f"{_HERE}.pretraining:trunk", keeps=True, points=trunk_points, cost=_trunk, version=5),
    Stage("pretrain", f"{_HERE}.pretraining:pretrain", after="trunk", keeps=True, cost=_pretrain, version=5),
    Stage("finetune", f"{_HERE}.finetuning:finetune", after="pretrain", cost=_finetune),
    Stage("evaluate", f"{_HERE}.evaluation:evaluate", after="finetune", cost=_evaluate),
)
