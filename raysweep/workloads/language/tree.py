"""The stages that a row's pretraining is made of, and their identities. Imports no torch: dry runs ask here.

cosine and constant: one stage a length. wsd: a chain of trunk stages at constant rate, at steps on a fixed geometric
grid (so that any two sweeps share them, whatever lengths they ask for), and one stage a length that continues the last
trunk before its branching point to that point and then anneals. Trunk stages depend on no length.
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
"""Of the weights that pretraining ends at. Raise it where these change, and the workload's identity_version with it,
which is that of rows: rows may change while the pretrainings that stores hold stay what they are."""

_RESOLVED = ("preset", "depth", "width", "context", "source")


def identity(parameters: Mapping[str, Any], seed: int, trunk_step: int | None = None) -> str:
    """The id of a row's pretraining, or of the trunk of a wsd one at a step.

    Of the parameters that belong to pretraining, the preset counts by the shape it gives and the text by its digest;
    the length does not count for a trunk.
    """
    from raysweep.plan.identity import content_id  # the one import upward here: all ids are hashed alike

    wanted = {
        name: value
        for name, value in plain(parameters).items()
        if name not in _RESOLVED and not _says_nothing(WORKLOAD.by_name[name], value)
    }
    if trunk_step is not None:
        wanted = {**wanted, "pretrain_length": None, "trunk_step": trunk_step}
    try:
        text = corpus.digest(str(parameters["source"]))
    except BadText as error:  # it was there when the sweep was planned, an axis or fixed
        raise InputError("source", str(error)) from None
    return content_id([WORKLOAD.name, "pretrain", VERSION, wanted, asdict(config_of(parameters)), text, int(seed), []])


def stages(parameters: Mapping[str, Any], seed: int) -> list[tuple[str, str, float]]:
    """Every stage of a row's pretraining, parents first: (id, name, tokens it trains on beyond its parent)."""
    config = config_of(parameters)
    tokens = config.context * int(parameters["pretrain_batch"])
    steps, done, chain = steps_of(parameters), 0, []
    if parameters["pretrain_schedule"] == "wsd":
        for at in trunk_steps(trunk_and_anneal(steps)[0]):
            chain.append((identity(parameters, seed, at), "trunk", float((at - done) * tokens)))
            done = at
    return [*chain, (identity(parameters, seed), "pretrain", float((steps - done) * tokens))]


def needed(parameters: Mapping[str, Any], seed: int) -> list[Stage]:
    """The stages of a row's pretraining as the plan knows them, parents first."""
    chain = stages(parameters, seed)
    return [
        Stage(stage, "anneal" if name == "pretrain" and len(chain) > 1 else name, costs.pretraining(parameters, tokens))
        for stage, name, tokens in chain
    ]


def steps_of(parameters: Mapping[str, Any]) -> int:
    """Steps of a row's pretraining."""
    step = config_of(parameters).context * int(parameters["pretrain_batch"])
    return round(float(parameters["pretrain_length"]) / step)


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The pretraining's parameters as plain values of their declared types."""
    return {p.name: p.coerce(parameters[p.name]) for p in WORKLOAD.parameters if p.pretraining}


def _says_nothing(parameter: Parameter, value: Any) -> bool:
    """Whether a parameter that was added later is as if it did not exist."""
    return parameter.late and bool(value == parameter.absent)


def describe(parameters: Mapping[str, Any], seed: int, stage: str, step: int | None = None) -> dict[str, Any]:
    """What a store says of a stage to people."""
    shown = plain(parameters)
    if step is not None:
        shown = {**shown, "pretrain_length": None, "trunk_step": step}
    return {"workload": WORKLOAD.name, "stage": stage, "parameters": shown, "seed": int(seed)}
