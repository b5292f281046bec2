"""Identities: equal inputs have equal ids, however they were written.

An id is a SHA-256 of canonical JSON over (workload, stage, the workload's identity_version, the parameters that matter,
seed, parents' ids). The digest of the source is recorded beside the id and is not part of it. A workload that stores
its pretrainings computes their ids itself (language/pretraining_identity.py).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raysweep import __version__
from raysweep.workloads.declaration import Workload


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, shortest float digits, infinities as words; otherwise TypeError."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"{type(value).__name__} has no canonical form")


def content_id(value: Any) -> str:
    """The id of plain data: 16 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def _identifying(workload: Workload, parameters: Mapping[str, Any], pretraining_only: bool) -> dict[str, Any]:
    return {
        p.name: parameters[p.name]
        for p in workload.parameters
        if (p.pretraining or not pretraining_only) and not (p.late and parameters[p.name] == p.absent)
    }


def cell_id(workload: Workload, parameters: Mapping[str, Any]) -> str:
    """The identity of a cell: everything except the seed."""
    return content_id([workload.name, workload.identity_version, _identifying(workload, parameters, False)])


def stage_ids(workload: Workload, parameters: Mapping[str, Any], seed: int) -> dict[str, str]:
    """The ids of one row's stages, parents first: pretrain (equal for rows with equal pretraining) and finetune."""
    pretrain = content_id(
        [workload.name, "pretrain", workload.identity_version, _identifying(workload, parameters, True), seed, []]
    )
    return {"pretrain": pretrain, "finetune": finetune_id(workload, parameters, seed, pretrain)}


def finetune_id(workload: Workload, parameters: Mapping[str, Any], seed: int, parent: str) -> str:
    """The id of what a row does after the stage from which it starts."""
    return content_id(
        [
            workload.name,
            "finetune",
            workload.identity_version,
            _identifying(workload, parameters, False),
            seed,
            [parent],
        ]
    )


def source_files(workload: Workload) -> list[Path]:
    """All Python files whose code decides the workload's numbers, in a fixed order."""
    files: list[Path] = []
    for module in workload.sources:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        files += sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return files


@functools.cache
def source_digest(workload: Workload) -> str:
    """12 hexadecimal digits over the text of these files."""
    digest = hashlib.sha256()
    for path in source_files(workload):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def code_version(workload: Workload) -> str:
    """The version that is recorded with every row: of raysweep, and the digest of the workload's source."""
    return f"{__version__}+{source_digest(workload)}"
