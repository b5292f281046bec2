"""The entry point of the workload: groups rows by checkpoint, computes each group, returns results in row order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.workloads.declaration import DIVERGED, OK, Columns
from raysweep.workloads.language import METRICS, PARAMETERS, corpus, finetuning, pretraining, texts
from raysweep.workloads.language.costs import PER_MODEL
from raysweep.workloads.language.model_config import config_of

if TYPE_CHECKING:
    from raysweep.stages.store import Store


def compute(columns: Columns, seeds: np.ndarray, store: Store) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """All metrics of all rows, float64 (rows,) each, and the status of each row.

    columns: every declared parameter, one entry per row.
    seeds: (rows,).
    store: where pretrainings are kept; each is computed once.

    A row is diverged if a loss, gradient or weight of the row or of its pretraining is not finite; its metrics are then
    those of its last finite weights. A loss that ends above its start is not a divergence but a metric. With early
    stopping the kept weights are older, and the status is about these.
    """
    rows = [{name: values[index] for name, values in columns.items()} for index in range(len(seeds))]
    metrics = {metric.name: np.full(len(rows), np.nan) for metric in METRICS}
    status = np.full(len(rows), OK, dtype=object)
    for members in _groups(rows, seeds).values():
        seed = int(seeds[members[0]])
        entry = pretraining.pretrained(rows[members[0]], seed, store)
        base = pretraining.flat_of(entry.tensors(), config_of(rows[members[0]]))
        rise = pretraining.training_loss_rise(entry, rows[members[0]], seed)
        # "diverged" in old entries has another meaning: it was also set if a finite loss rose
        finite = not entry.meta["frozen"] and math.isfinite(rise)
        for batch in _groups([rows[index] for index in members], seeds[members], PER_MODEL).values():
            chosen = [members[index] for index in batch]
            bytes_per_token = _bytes_per_token(rows[chosen[0]])
            for index, (found, word) in zip(chosen, finetuning.run(base, [rows[i] for i in chosen], seed), strict=True):
                for name, value in found.items():
                    metrics[name][index] = value
                metrics["epochs"][index] = float(entry.meta["epochs"])
                metrics["pretrain_training_loss_rise"][index] = rise
                for name, size in bytes_per_token.items():
                    metrics[f"{name}_per_byte"][index] = found[name] / size
                status[index] = word if finite else DIVERGED
    return {**metrics, **_perplexities(metrics)}, status


def _perplexities(metrics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The perplexities that paper O plots; infinite if the loss is so large (about 710 nats) that float64 overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        before, after, own = (
            np.exp(metrics[name]) for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss")
        )
        return {
            "pretrain_perplexity": before,
            "pretrain_perplexity_after": after,
            "sensitivity_perplexity": after - before,
            "finetune_perplexity": own,
        }


def _bytes_per_token(parameters: dict[str, Any]) -> dict[str, float]:
    """Bytes per token of the text on which each of two losses is measured."""
    config = config_of(parameters)
    source = corpus.load(str(parameters["source"]))
    target = texts.Mixture(
        corpus.load(str(parameters["target"]), str(parameters["source"])), source, float(parameters["overlap"])
    )
    count = max(1, int(parameters["evaluation_tokens"]) // config.context)
    return {
        "pretrain_loss_after": texts.bytes_per_token(source, "test", count, config.context),
        "finetune_loss": texts.bytes_per_token(target, "test", count, config.context),
    }


def _groups(
    rows: list[dict[str, Any]], seeds: np.ndarray, apart: tuple[str, ...] | None = None
) -> dict[tuple[Any, ...], list[int]]:
    """Row numbers, grouped by seed and all parameters except `apart`; None groups by the pretraining parameters."""
    names = [p.name for p in PARAMETERS if (p.pretraining if apart is None else p.name not in apart)]
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        found.setdefault((int(seeds[index]), *(row[name] for name in names)), []).append(index)
    return found
