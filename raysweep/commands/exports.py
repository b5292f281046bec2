"""`raysweep export`: a model for transformers, all models of a sweep as a hub, or its rows for Optuna."""

from __future__ import annotations

from pathlib import Path

from raysweep import terminal
from raysweep.errors import InputError
from raysweep.query import exporting_models
from raysweep.query.sweep import Sweep


def run(
    sweep: Sweep, target: str, cell: str | None, seed: int | None, stage: str | None, **study: str | None
) -> list[str]:
    """Export to where `target` says; returns the names of the revisions of a hub. study: as in `to_optuna`."""
    tool, _, place = target.partition(":")
    if tool == "optuna" and place:
        from raysweep.query import exporting

        terminal.say(f"{sweep.name}: {exporting.to_optuna(sweep, place, **study):,} trials in {place}")
        return []
    whole = tool == "hub" and place
    if not target or "://" in target or bool(cell) == bool(whole) or (tool in ("hub", "optuna") and not place):
        raise InputError("--to", f"expected CELL --to FOLDER, --to hub:FOLDER or --to optuna:URL, got {target}")
    if stage is None:
        raise InputError("--stage", "missing; say which stage left the models, such as --stage pretrain")
    if whole:
        revisions = exporting_models.to_hub(sweep, stage, Path(place))
        model = exporting_models.model_name(sweep)
        terminal.say(f"{sweep.name}: {len(revisions):,} revisions of {model}; HF_HUB_CACHE={place} finds them")
        return list(revisions)
    exporting_models.to_folder(sweep, stage, Path(target), cell or "", seed)
    terminal.say(f"{sweep.name}: a model in {target}")
    return []
