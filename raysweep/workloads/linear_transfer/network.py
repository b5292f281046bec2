"""Engine `network`: the real layers, trained by full-batch gradient descent at finetune_lr.

Scratch and fine-tuning take finetune_steps steps, or as many as convergence needs (TOLERANCE, measured as in
`layers.Networks`). After STEP_CAP steps the row is not_converged. A finite step breaks the balance of the layers, so
the end point approaches the end point of gradient flow only as finetune_lr → 0 (THEORY §3). Training the last layer
alone (linear transfer) is a linear iteration; the same number of steps is computed in closed form.

Both start from balanced aligned rank-one layers. Fine-tuning starts with the end-to-end map c e_s, and scratch with a
map of norm init_scale^L in a random direction.

Networks of equal width and depth are trained together, and those with equal data are neighbours. layers.py says what a
step costs.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from raysweep.theory.arrays import distinct, samples
from raysweep.theory.transfer import with_gains
from raysweep.training import devices, draws
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_transfer import decompositions, layers, target

TOLERANCE = 1e-8  # |A⁺g| relative to its size at β = 0
STEP_CAP = 200_000  # steps on the target; a row that needs more is not converged
_READOUT_CAP = 1e12  # the same for linear transfer, whose steps are computed in closed form
_CHUNK_BYTES = {"cpu": 8 << 20, "cuda": 8 << 30}  # size of the layers at once: what fits in a cache, or a part of a GPU
Layers = tuple[list[Tensor], Tensor]  # L-1 tensors (rows, dim, dim), and the last layer (rows, dim)


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """Risks |β - b_t|² of the three trainings and their transferabilities, shape (rows,) each, and the status.

    The metrics include pretrain_scale and pretrain_loss as measured. A training that diverged has NaN; the other
    trainings of its row keep their values.
    """
    device = devices.device()
    data = (samples(columns), *(columns[name] for name in ("pretrain_length", "source_norm", "init_scale")))

    def most(dim: int, depth: int) -> float:
        return _CHUNK_BYTES[device.type] / (8 * dim * dim * (2 * (depth - 1) + 1))

    def train(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
        return _Chunk(columns, seeds, device).train()

    return symmetric.in_chunks(columns, seeds, data, most, train)


class _Chunk:
    """Rows of one width and depth: their data on the device, and how their trainings ended."""

    def __init__(self, columns: Columns, seeds: Array, device: torch.device) -> None:
        self.columns, self.seeds, self.device = columns, seeds, device
        self.dim, self.depth = int(columns["dim"][0]), int(columns["depth"][0])
        self.n = samples(columns)
        self.status = np.zeros(len(seeds), dtype=int)
        drawn, self.group = distinct(seeds, self.n)
        self.teachers = np.stack([target.teacher_directions(int(seed), self.dim) for seed in seeds])
        self.goal = np.einsum("rk,rkd->rd", target.target_coordinates(columns), self.teachers)  # b_t
        self.gram = np.zeros((len(drawn), self.dim, self.dim))
        noise = np.zeros((len(drawn), self.dim))  # Xᵀε/n
        for i, (seed, n) in enumerate(drawn):
            if n > 0:
                X = target.inputs(int(seed), int(n), self.dim)
                self.gram[i] = X.T @ X / n
                noise[i] = X.T @ target.label_noise(int(seed), int(n)) / n
        self.precision = decompositions.pseudo_inverses(self.gram, drawn[:, 1], device)
        fitted_noise = np.asarray(columns["noise"], float)[:, None] * noise[self.group]
        self.moment = np.einsum("rde,re->rd", self.gram[self.group], self.goal) + fitted_noise

    def train(self) -> tuple[dict[str, Array], Array]:
        c, seeds = self.columns, self.seeds
        directions = np.stack([draws.unit_vectors(int(seed), "scratch", 1, self.dim)[0] for seed in seeds])
        scratch = exact_start(seeds, self.depth, np.asarray(c["init_scale"], float), directions, self.device)
        start = exact_start(seeds, self.depth, target.layer_scale(c), self.teachers[:, 0], self.device)
        source = layers.end_to_end(*start).cpu().numpy()
        norm = np.asarray(c["source_norm"], float)[:, None]
        risk_linear = self._linear()
        risk_scratch, risk_finetune = self._layers(scratch, start)
        measured = {
            "pretrain_scale": np.linalg.norm(source, axis=1),
            "pretrain_loss": 0.5 * ((source - norm * self.teachers[:, 0]) ** 2).sum(1),
        }
        return with_gains(risk_scratch, risk_linear, risk_finetune) | measured, self.status

    def _layers(self, *starts: Layers) -> tuple[Array, Array]:
        """Risks of scratch and fine-tuning, which are trained side by side."""
        rows, c = len(self.seeds), self.columns
        frozen = np.asarray(c["frozen_layers"], dtype=np.int64)
        hidden = [torch.cat(pair) for pair in zip(*(hidden for hidden, _ in starts), strict=True)]
        last = torch.cat([last for _, last in starts])
        first = layers.end_to_end(hidden, last)
        # exactly balanced layers behind frozen layers cannot pass 0 (THEORY §2); only rounding errors could do that
        stuck = np.concatenate([np.zeros(rows, bool), (frozen > 0) & (self.depth - frozen > 1)])
        networks = layers.Networks(
            hidden=hidden,
            last=last,
            gram=self._tensor(self.gram),
            precision=self.precision,
            group=self._tensor(np.tile(self.group, 2)),
            moment=self._tensor(np.tile(self.moment, (2, 1))),
            lr=self._tensor(np.tile(np.asarray(c["finetune_lr"], float), 2)),
            steps=self._tensor(np.tile(np.where(self.n > 0, np.asarray(c["finetune_steps"], float), 0.0), 2)),
            frozen=self._tensor(np.concatenate([np.zeros_like(frozen), frozen])),
            collapse=torch.where(self._tensor(stuck), 1e-8 * first.norm(dim=1), -1.0),
        )
        outcome = layers.descend(networks, TOLERANCE, STEP_CAP).cpu().numpy()
        error = layers.end_to_end(networks.hidden, networks.last).cpu().numpy() - np.tile(self.goal, (2, 1))
        risk, outcome = _judged(error, outcome)
        self.status = np.maximum(self.status, np.maximum(outcome[:rows], outcome[rows:]))
        return risk[:rows], risk[rows:]

    def _linear(self) -> Array:
        """Risk of linear transfer (F eq. 14): w_L on the one feature of W_{L-1} … W_1, along e_s."""
        c = self.columns
        weight = target.layer_scale(c)
        feature = (weight ** (self.depth - 1))[:, None] * self.teachers[:, 0]
        gram = self.gram[self.group]
        curvature = np.einsum("rd,rde,re->r", feature, gram, feature, optimize=True)
        curvature = np.maximum(curvature, 0.0) + np.asarray(c["ridge"], float)
        pull = np.einsum("rd,rd->r", feature, self.moment)
        steps = np.asarray(c["finetune_steps"], float)
        endless = np.isinf(steps)
        budget = np.where(endless, _READOUT_CAP, steps)
        end, left = layers.descend_readout(curvature, pull, weight, np.asarray(c["finetune_lr"], float), budget)
        end = np.where(endless & (self.n == 0), 0.0, end)  # the minimum-norm solution
        with np.errstate(over="ignore", invalid="ignore"):
            ceiling = layers.BLOWUP * np.maximum(np.abs(pull), np.abs(curvature * weight - pull))
            diverged = endless & ~(np.abs(left) <= ceiling)
            late = endless & (self.n > 0) & ~(np.abs(left) <= TOLERANCE * np.abs(pull))
            outcome = np.where(diverged, layers.DIVERGED, np.where(late, layers.NOT_CONVERGED, layers.OK))
            risk, outcome = _judged(feature * end[:, None] - self.goal, outcome)
        self.status = np.maximum(self.status, outcome)
        return risk

    def _tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, device=self.device)


def exact_start(seeds: Array, depth: int, scale: Array, directions: Array, device: torch.device) -> Layers:
    """Balanced aligned rank-one layers of norm scale (rows,), with product along directions (rows, dim) (THEORY §3)."""
    dim = directions.shape[1]
    between = np.stack([draws.normal(int(seed), "hidden", depth - 1, dim) for seed in seeds])
    between /= np.linalg.norm(between, axis=2, keepdims=True)
    chain = [torch.as_tensor(v, device=device) for v in (directions, *between.transpose(1, 0, 2))]
    size = torch.as_tensor(scale, device=device)[:, None]
    hidden = [torch.bmm((size * above).unsqueeze(2), below.unsqueeze(1)) for below, above in pairwise(chain)]
    return hidden, size * chain[-1]


def _judged(error: Array, outcome: Array) -> tuple[Array, Array]:
    """Risks |error|², shape (rows,), and how each row ended.

    A row whose risk is not finite counts as diverged. The risk of a diverged row is NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        risk = (error**2).sum(1)
    outcome = np.where(np.isfinite(risk), outcome, layers.DIVERGED)
    return np.where(outcome == layers.DIVERGED, np.nan, risk), outcome
