"""The entry point of the workload: rows, grouped by the checkpoint they start from, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.workloads.declaration import DIVERGED, OK, Columns
from raysweep.workloads.language import METRICS, PARAMETERS, corpus, finetuning, stages, texts
from raysweep.workloads.language.costs import PER_MODEL
from raysweep.workloads.language.model_config import config_of

if TYPE_CHECKING:
    from raysweep.stages.store import Store


def compute(columns: Columns, seeds: np.ndarray, store: Store) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Every metric of every row, float64 (rows,) each, and its status.

    columns: one entry per row of every declared parameter; seeds: (rows,); store: where pretrainings are kept, each
    computed once. A row is diverged if a loss, a gradient or a weight of its own or of its pretraining is not finite,
    and stands at the weights before it; that a loss ended above where it started is a metric. Early stopping keeps
    weights from before: these are judged.
    """
    rows = [{name: values[index] for name, values in columns.items()} for index in range(len(seeds))]
    metrics = {metric.name: np.full(len(rows), np.nan) for metric in METRICS}
    status = np.full(len(rows), OK, dtype=object)
    for members in _groups(rows, seeds).values():
        seed = int(seeds[members[0]])
        entry = stages.pretrained(rows[members[0]], seed, store)
        base = stages.flat_of(entry.tensors(), config_of(rows[members[0]]))
        rise = stages.training_loss_rise(entry, rows[members[0]], seed)
        # "diverged" in entries of old is something else: it is set where a loss rose, too, however finite
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
    """What O plots; infinite where a loss of some 710 nats or more has none that float64 holds."""
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
    """Of the text that each of two losses is measured on."""
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
    """Row numbers by seed and by all parameters but `apart`; by those of pretraining if that is None."""
    names = [p.name for p in PARAMETERS if (p.pretraining if apart is None else p.name not in apart)]
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        found.setdefault((int(seeds[index]), *(row[name] for name in names)), []).append(index)
    return found
