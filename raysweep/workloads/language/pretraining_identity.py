"""The stages of a row's pretraining, and their identities. Imports no torch, because dry runs need it.

cosine and constant: one stage for each length. wsd: a chain of trunk stages at constant rate, and one stage for each
length. The trunk stages end at steps on a fixed geometric grid, so any two sweeps share them, whatever their lengths.
The stage of a length continues the last trunk before its branching point up to that point, and then anneals. Trunk
stages do not depend on the length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from raysweep.errors import InputError
from raysweep.training.schedules import trunk_and_anneal, trunk_steps
from raysweep.workloads.declaration import Parameter, Stage
from raysweep.workloads.language import WORKLOAD, corpus, costs
from raysweep.workloads.language.model_config import config_of
from raysweep.workloads.language.texts import BadText

VERSION = 3
"""Version of the weights at the end of pretraining. Raise it if these change, and the workload's identity_version too.

identity_version is about rows: rows may change while the pretrainings in the stores stay valid.
"""

_RESOLVED = ("preset", "depth", "width", "context", "source")


def identity(parameters: Mapping[str, Any], seed: int, trunk_step: int | None = None) -> str:
    """The id of a row's pretraining, or of the trunk of a wsd pretraining at a step.

    The id depends on the pretraining parameters: on the preset by the shape of its model, on the text by its digest.
    The id of a trunk does not depend on the length.
    """
    from raysweep.plan.identity import content_id  # an import upward, so that all ids are hashed by one function

    wanted = {
        name: value
        for name, value in plain(parameters).items()
        if name not in _RESOLVED and not _says_nothing(WORKLOAD.by_name[name], value)
    }
    if trunk_step is not None:
        wanted = {**wanted, "pretrain_length": None, "trunk_step": trunk_step}
    try:
        text = corpus.digest(str(parameters["source"]))
    except BadText as error:  # the text has gone since the sweep was planned
        raise InputError("source", str(error)) from None
    return content_id([WORKLOAD.name, "pretrain", VERSION, wanted, asdict(config_of(parameters)), text, int(seed), []])


def stages(parameters: Mapping[str, Any], seed: int) -> list[tuple[str, str, float]]:
    """All stages of a row's pretraining, parents first: (id, name, tokens that it trains on after its parent)."""
    config = config_of(parameters)
    tokens = config.context * int(parameters["pretrain_batch"])
    steps, done, chain = steps_of(parameters), 0, []
    if parameters["pretrain_schedule"] == "wsd":
        for at in trunk_steps(trunk_and_anneal(steps)[0]):
            chain.append((identity(parameters, seed, at), "trunk", float((at - done) * tokens)))
            done = at
    return [*chain, (identity(parameters, seed), "pretrain", float((steps - done) * tokens))]


def needed(parameters: Mapping[str, Any], seed: int) -> list[Stage]:
    """All stages of a row's pretraining in the form that the plan uses, parents first."""
    chain = stages(parameters, seed)
    return [
        Stage(stage, "anneal" if name == "pretrain" and len(chain) > 1 else name, costs.pretraining(parameters, tokens))
        for stage, name, tokens in chain
    ]


def steps_of(parameters: Mapping[str, Any]) -> int:
    """Number of steps of a row's pretraining."""
    step = config_of(parameters).context * int(parameters["pretrain_batch"])
    return round(float(parameters["pretrain_length"]) / step)


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The pretraining parameters as plain values of their declared types."""
    return {p.name: p.coerce(parameters[p.name]) for p in WORKLOAD.parameters if p.pretraining}


def _says_nothing(parameter: Parameter, value: Any) -> bool:
    """Whether a parameter that was added later has the value that means "absent"."""
    return parameter.late and bool(value == parameter.absent)


def describe(parameters: Mapping[str, Any], seed: int, stage: str, step: int | None = None) -> dict[str, Any]:
    """A description of a stage for people, kept in the store."""
    shown = plain(parameters)
    if step is not None:
        shown = {**shown, "pretrain_length": None, "trunk_step": step}
    return {"workload": WORKLOAD.name, "stage": stage, "parameters": shown, "seed": int(seed)}
