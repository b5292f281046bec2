"""What of a sweep goes to MLflow, and when: each cell once it is complete, the rest at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from raysweep import plan, yaml_reader
from raysweep.driver import Books
from raysweep.errors import InputError
from raysweep.identity import code_version
from raysweep.records import files, mirror, sweep_record
from raysweep.records.mirror import Mirror

if TYPE_CHECKING:
    from raysweep.sweep import Sweep

NOWHERE = "none"


def tracking(asked: str | None, record: sweep_record.Record | None, storage: Path) -> str | None:
    """Where to mirror: as asked, else as before, else a database in the storage; None for nowhere."""
    if asked is not None:
        return None if asked == NOWHERE else asked
    if record is not None:
        return record.tracking_uri
    return f"sqlite:///{(storage / 'mlflow.db').resolve()}"


def check(uri: str | None) -> None:
    """InputError if there is somewhere to mirror to and it cannot be reached."""
    if uri is None:
        return
    try:
        mirror.check(uri)
    except mirror.Unreachable as error:
        raise InputError("--tracking-uri", str(error)) from None


def start(uri: str, sweep: Sweep) -> Mirror:
    """The mirror of a sweep, open and writing in the background."""
    artifacts = sweep.folder.parent.resolve() / "mlflow-artifacts"
    return Mirror(uri, artifacts.as_uri() if uri.startswith("sqlite:") else None, sweep.space.as_dict(), sweep.name,
                  sweep.record.sweep_id, code_version(sweep.workload))


def cell(mirror: Mirror, sweep: Sweep, books: Books, index: int) -> None:
    """Hand one complete cell to the mirror."""
    parameters = sweep.cells.parameters(index)
    stages = plan.cell_stages(sweep.workload, parameters, sweep.space.seeds)
    mirror.cell(sweep.cells.ids[index], parameters, books.of_cell(index),
                [identity for ids in stages.values() for identity in ids])


def close(mirror: Mirror, sweep: Sweep, books: Books, say: Callable[[str], None]) -> None:
    """Everything at the top of the parent run, its status, and a word if the mirror is not whole."""
    from raysweep.records import results

    written = {"space.yaml": yaml_reader.dump(sweep.space.as_dict()).encode(),
               "plan.json": json.dumps(plan.plan_record(sweep.space, sweep.cells), indent=1).encode(),
               "results.csv": results.dump(sweep.results(), "csv")}
    artifacts: dict[str, Path] = {}
    for name, content in written.items():
        artifacts[name] = sweep.folder / name
        files.replace(artifacts[name], content)
    report = sweep.folder / "report"
    artifacts |= {name: path for name, path in (("report", report), ("figures", report / "figures")) if path.is_dir()}
    if (waiting := mirror.pending) > 20:
        say(f"writing the last {waiting:,} cells to MLflow")
    statuses = books.statuses()
    warning = mirror.finish("KILLED" if books.missing().rows else "FINISHED", artifacts,
                            {"rows": sum(statuses.values()),
                             **{f"rows_{status}": count for status, count in statuses.items()}})
    if warning:
        say(warning)
