"""The layers from which the network engine starts: exact rank-one states, random layers, and pretrained layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from raysweep.training import draws
from raysweep.workloads.declaration import Columns
from raysweep.workloads.linear_transfer import layers, target

Array = np.ndarray
Key = tuple[int, int, int, float, float, float]  # dim, depth, seed, init_scale, source_norm, pretrain_length
PRETRAIN_STEP = 0.05  # times 1 / (L S^(2-2/L)), the inverse of the map's fastest rate at size S
PRETRAIN_TOLERANCE = 1e-9  # |β - β_s| / |β_s| at which pretraining to convergence ends
PRETRAIN_CAP = 500_000  # steps; a pretraining that needs more is not converged


@dataclass
class Start:
    """Networks of one shape: hidden (L-1 tensors (rows, dim, dim)), last (rows, dim), status (rows,)."""

    hidden: list[torch.Tensor]
    last: torch.Tensor
    status: Array

    def parts(self) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The tensors without the status."""
        return self.hidden, self.last


def exact_start(seeds: Array, depth: int, scale: Array, directions: Array, device: torch.device) -> Start:
    """Balanced aligned rank-one layers of norm scale (rows,), with product along directions (rows, dim) (THEORY §3)."""
    dim = directions.shape[1]
    between = np.stack([draws.normal(int(seed), "hidden", depth - 1, dim) for seed in seeds])
    between /= np.linalg.norm(between, axis=2, keepdims=True)
    chain = [torch.as_tensor(v, device=device) for v in (directions, *between.transpose(1, 0, 2))]
    size = torch.as_tensor(scale, device=device)[:, None]
    hidden = [torch.bmm((size * above).unsqueeze(2), below.unsqueeze(1)) for below, above in pairwise(chain)]
    return Start(hidden, size * chain[-1], np.zeros(len(seeds), dtype=int))


def random_start(seeds: Array, role: str, depth: int, dim: int, scale: Array, device: torch.device) -> Start:
    """Independent layers scale * N(0,1); the last layer is a row of `dim` such numbers."""
    size = torch.as_tensor(scale, device=device)
    hidden = [
        size[:, None, None]
        * torch.as_tensor(np.stack([draws.normal(int(seed), f"{role}/{i}", dim, dim) for seed in seeds]), device=device)
        for i in range(1, depth)
    ]
    last = np.stack([draws.normal(int(seed), f"{role}/last", dim) for seed in seeds])
    return Start(hidden, size[:, None] * torch.as_tensor(last, device=device), np.zeros(len(seeds), dtype=int))


def trained_starts(
    columns: Columns, seeds: Array, device: torch.device, pretrained: dict[Key, Start]
) -> tuple[Start, dict[Key, Start]]:
    """Each row's network after pretraining by gradient descent, and the networks of these rows by their keys.

    All rows have one width and depth. Networks in `pretrained` are not trained again. The second result holds only the
    networks that these rows use; pass it as `pretrained` for later rows.
    """
    dim, depth = int(columns["dim"][0]), int(columns["depth"][0])
    starts = zip(seeds, columns["init_scale"], columns["source_norm"], columns["pretrain_length"], strict=True)
    keys = [(dim, depth, int(seed), float(scale), float(norm), float(length)) for seed, scale, norm, length in starts]
    distinct = sorted(set(keys))
    missing = [key for key in distinct if key not in pretrained]
    used = {key: pretrained[key] for key in distinct if key in pretrained}
    if missing:
        trained = _pretrain(missing, dim, depth, device)
        for i, key in enumerate(missing):
            used[key] = Start([layer[i] for layer in trained.hidden], trained.last[i], trained.status[i])
    rows = [used[key] for key in keys]
    hidden = [torch.stack([row.hidden[i] for row in rows]) for i in range(depth - 1)]
    status = np.array([int(row.status) for row in rows])
    return Start(hidden, torch.stack([row.last for row in rows]), status), used


def _pretrain(keys: list[Key], dim: int, depth: int, device: torch.device) -> Start:
    """Gradient descent on ½|β - β_s|², one network for each key."""
    seeds = np.array([key[2] for key in keys])
    scale, norm, length = np.array([key[3:] for key in keys]).T
    start = random_start(seeds, "pretrain_layers", depth, dim, scale, device)
    teacher = norm[:, None] * np.stack([target.teacher_directions(int(seed), dim)[0] for seed in seeds])
    # |β| at the start is at most the product of the layers' spectral norms, about 2 init_scale √dim each
    size = np.maximum(norm, (2 * scale * np.sqrt(dim)) ** depth)
    rate = PRETRAIN_STEP / (depth * size ** (2 - 2 / depth))
    steps = np.ceil(length / rate)
    steps = np.where(steps > PRETRAIN_CAP, np.inf, steps)  # ends at convergence; not_converged if steps run out
    counted = np.isfinite(steps) & (steps > 0)
    rate[counted] = length[counted] / steps[counted]
    rows = len(seeds)
    identity = torch.eye(dim, dtype=torch.float64, device=device)[None]
    networks = layers.Networks(
        hidden=start.hidden,
        last=start.last,
        gram=identity,
        precision=identity,
        group=torch.zeros(rows, dtype=torch.int64, device=device),
        moment=torch.as_tensor(teacher, device=device),
        lr=torch.as_tensor(rate, device=device),
        steps=torch.as_tensor(steps, device=device),
        frozen=torch.zeros(rows, dtype=torch.int64, device=device),
        collapse=-torch.ones(rows, dtype=torch.float64, device=device),
    )
    start.status = layers.descend(networks, PRETRAIN_TOLERANCE, PRETRAIN_CAP).cpu().numpy()
    return start
