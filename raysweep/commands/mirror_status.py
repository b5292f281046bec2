"""What of a sweep MLflow has, and where its runs are seen, told without asking MLflow: from what its driver left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from raysweep.driver.state import State
from raysweep.phrases import command, counted
from raysweep.storage import signs
from raysweep.tracking import mirror, server, session
from raysweep.tracking.grouping import unwritten

if TYPE_CHECKING:
    from raysweep.sweep import Sweep


def lines(sweep: Sweep, state: State, left: int, running: bool) -> list[str]:
    """For `raysweep status`: where a sweep is mirrored, what of it is not there yet, and where its runs are seen.

    What is said to be there was seen there; what is said to be missing may be there after all.
    """
    uri, known = sweep.record.tracking_uri, signs.mirrored(sweep.folder)
    if uri is None:
        return ["mirrored to nowhere"]
    goes_on = f"`{command('sync', sweep.name, sweep.folder.parent)}` writes"
    if known is None:
        return [f"mirrored to {uri}" + ("" if running else f"; nothing here says how far, {goes_on} what is missing")]
    gone = uri != session.OF_DRIVER and server.is_absent(uri)
    if (known.sweep_id, known.tracking_uri) != (sweep.record.sweep_id, uri) or gone:
        known = signs.Mirrored(sweep.record.sweep_id, uri)
    complete, missing = sum(1 for _ in state.complete()), unwritten(sweep.record, sweep.cells, state, known.runs)
    if running:
        line = f"mirrored to {uri}: {complete - missing:,} of {counted(complete, 'complete cell')} so far"
    elif missing:
        line = f"{missing:,} of {counted(complete, 'cell')} not yet in MLflow ({uri}); {goes_on} them"
    elif known.status is None or (known.status != mirror.FINISHED and not left):
        line = f"mirrored to {uri}: all {counted(complete, 'cell')}; {goes_on} the end of the sweep's own run"
    else:
        line = f"mirrored to {uri}: all {counted(complete, 'complete cell' if left else 'cell')}"
    return [line, *page(sweep)]


def page(sweep: Sweep) -> list[str]:
    """Where the runs are seen. MLflow's page opens on traces, of which there are none, unless its address says that
    this is machine learning."""
    known = signs.mirrored(sweep.folder)
    uri = sweep.record.tracking_uri
    if known is None or uri is None or known.tracking_uri != uri or not re.fullmatch(r"\d+", known.experiment or ""):
        return []
    place = f"/#/experiments/{known.experiment}?workflowType=machine_learning"
    if uri.startswith(("http:", "https:")):
        return [f"runs: {uri.rstrip('/')}{place}"]
    if uri.startswith("sqlite:"):
        return [f"runs: http://127.0.0.1:5000{place} while `mlflow ui --backend-store-uri {uri}` serves"]
    return []
