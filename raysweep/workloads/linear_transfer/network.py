"""Engine `network`: the real layers, trained by full-batch gradient descent at finetune_lr.

Scratch and fine-tuning take finetune_steps steps, or as many as convergence needs (TOLERANCE, measured as in
`layers.Networks`). After STEP_CAP steps the row is not_converged. A finite step breaks the balance of the layers, so
the end point approaches the end point of gradient flow only as finetune_lr → 0 (THEORY §3). Training the last layer
alone (linear transfer) is a linear iteration; the same number of steps is computed in closed form.

pretrain_start exact: balanced aligned rank-one layers. Fine-tuning starts with the end-to-end map c e_s, and scratch
with a map of norm init_scale^L in a random direction. pretrain_start descent: independent layers init_scale * N(0,1).
They are pretrained on ½|β - β_s|² until flow time pretrain_length (inf: until |β - β_s| <= PRETRAIN_TOLERANCE |β_s|).
The step is PRETRAIN_STEP / (L S^(2-2/L)), where S is the largest size of the map.

Networks of equal width and depth are trained together, and those with equal data are neighbours. layers.py says what a
step costs. 40 cells of dim 40, depth 2 and 2,000 steps in one pack take 0.25-0.6 s on one core, 6-15 ms a cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from raysweep.training import devices, draws
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, Columns
from raysweep.workloads.linear_transfer import decompositions, layers, target
from raysweep.workloads.linear_transfer.pretrained import Key, Start, exact_start, random_start, trained_starts

Array = np.ndarray
TOLERANCE = 1e-8  # |A⁺g| relative to its size at β = 0
STEP_CAP = 200_000  # steps on the target; a row that needs more is not converged
_READOUT_CAP = 1e12  # the same for a readout of one feature, whose steps are computed in closed form
_CHUNK_BYTES = {"cpu": 8 << 20, "cuda": 8 << 30}  # size of the layers at once: what fits in a cache, or a part of a GPU
_WORDS = np.array([OK, NOT_CONVERGED, DIVERGED], dtype=object)


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """Risks |β - b_t|² of the three trainings and their transferabilities, shape (rows,) each, and the status.

    The metrics include pretrain_scale and pretrain_loss as measured. A training that diverged has NaN; the other
    trainings of its row keep their values.
    """
    device = devices.device()
    columns = {name: np.asarray(values) for name, values in columns.items()}
    seeds = np.asarray(seeds)
    names = "risk_scratch", "risk_linear", "risk_finetune", "pretrain_scale", "pretrain_loss"
    metrics = {name: np.full(len(seeds), np.nan) for name in names}
    status = np.zeros(len(seeds), dtype=int)
    pretrained: dict[Key, Start] = {}
    for rows in _chunks(columns, seeds, device):
        chunk = _Chunk({name: values[rows] for name, values in columns.items()}, seeds[rows], device)
        pretrained = chunk.start(pretrained)
        for name, values in chunk.train().items():
            metrics[name][rows] = values
        status[rows] = chunk.status
    for name in ("linear", "finetune"):
        metrics[f"transferability_{name}"] = metrics["risk_scratch"] - metrics[f"risk_{name}"]
    return metrics, _WORDS[status]


def _chunks(columns: Columns, seeds: Array, device: torch.device) -> Iterator[Array]:
    """Row numbers that are trained together: one width, depth and kind of start; rows with equal data lie together."""
    n = target.samples(columns)
    descent = columns["pretrain_start"] == "descent"
    kind = np.stack([descent, columns["depth"], columns["dim"]], axis=1)
    data = (n, columns["pretrain_length"], columns["source_norm"], columns["init_scale"], seeds)
    order = np.lexsort((*data, *kind.T))
    edges = np.flatnonzero((kind[order][1:] != kind[order][:-1]).any(1)) + 1
    for rows in np.split(order, edges):
        if not len(rows):
            continue
        dim, depth = int(columns["dim"][rows[0]]), int(columns["depth"][rows[0]])
        size = max(1, int(_CHUNK_BYTES[device.type] // (8 * dim * dim * (2 * (depth - 1) + 1))))
        yield from np.array_split(rows, -(-len(rows) // size))


class _Chunk:
    """Rows of one width, depth and kind of start: their data on the device, and how their trainings ended."""

    def __init__(self, columns: Columns, seeds: Array, device: torch.device) -> None:
        self.columns, self.seeds, self.device = columns, seeds, device
        self.dim, self.depth = int(columns["dim"][0]), int(columns["depth"][0])
        self.descent = columns["pretrain_start"][0] == "descent"
        self.n = target.samples(columns)
        self.status = np.zeros(len(seeds), dtype=int)
        distinct, self.group = np.unique(np.stack([seeds, self.n], axis=1), axis=0, return_inverse=True)
        self.group = self.group.reshape(-1)
        self.teachers = np.stack([target.teacher_directions(int(seed), self.dim) for seed in seeds])
        self.goal = np.einsum("rk,rkd->rd", target.target_coordinates(columns), self.teachers)  # b_t
        self.gram = np.zeros((len(distinct), self.dim, self.dim))
        noise = np.zeros((len(distinct), self.dim))  # Xᵀε/n
        for i, (seed, n) in enumerate(distinct):
            if n > 0:
                X = target.inputs(int(seed), int(n), self.dim)
                self.gram[i] = X.T @ X / n
                noise[i] = X.T @ target.label_noise(int(seed), int(n)) / n
        self.precision = decompositions.pseudo_inverses(self.gram, distinct[:, 1], device)
        fitted_noise = np.asarray(columns["noise"], float)[:, None] * noise[self.group]
        self.moment = np.einsum("rde,re->rd", self.gram[self.group], self.goal) + fitted_noise

    def start(self, pretrained: dict[Key, Start]) -> dict[Key, Start]:
        """Set the layers from which scratch and fine-tuning start. Networks in `pretrained` are not trained again."""
        c, scale = self.columns, np.asarray(self.columns["init_scale"], float)
        if not self.descent:
            directions = np.stack([draws.unit_vectors(int(seed), "scratch", 1, self.dim)[0] for seed in self.seeds])
            self.scratch = exact_start(self.seeds, self.depth, scale, directions, self.device)
            self.source = exact_start(self.seeds, self.depth, target.layer_scale(c), self.teachers[:, 0], self.device)
            return pretrained
        self.scratch = random_start(self.seeds, "scratch_layers", self.depth, self.dim, scale, self.device)
        self.source, pretrained = trained_starts(c, self.seeds, self.device, pretrained)
        self.status = np.maximum(self.status, self.source.status)
        return pretrained

    def train(self) -> dict[str, Array]:
        source = layers.end_to_end(*self.source.parts()).cpu().numpy()
        norm = np.asarray(self.columns["source_norm"], float)[:, None]
        linear = self._linear(source)  # before fine-tuning overwrites the layers
        scratch, finetune = self._layers()
        return {
            "risk_scratch": scratch,
            "risk_linear": linear,
            "risk_finetune": finetune,
            "pretrain_scale": np.linalg.norm(source, axis=1),
            "pretrain_loss": 0.5 * ((source - norm * self.teachers[:, 0]) ** 2).sum(1),
        }

    def _layers(self) -> tuple[Array, Array]:
        """Risks of scratch and fine-tuning, which are trained side by side."""
        rows, c = len(self.seeds), self.columns
        frozen = np.asarray(c["frozen_layers"], dtype=np.int64)
        hidden = [torch.cat(pair) for pair in zip(self.scratch.hidden, self.source.hidden, strict=True)]
        last = torch.cat([self.scratch.last, self.source.last])
        first = layers.end_to_end(hidden, last)
        # exactly balanced layers behind frozen layers cannot pass 0 (THEORY §2); only rounding errors could do that
        stuck = np.concatenate([np.zeros(rows, bool), (frozen > 0) & (self.depth - frozen > 1) & (not self.descent)])
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

    def _linear(self, source: Array) -> Array:
        """Risk of linear transfer (F eq. 14): w_L on the features of W_{L-1} … W_1, in the modes of their Gram matrix.

        The exact start has one feature, along e_s. Depth 1 also has one by convention: the output of the pretrained
        map.
        """
        c = self.columns
        if self.descent and self.depth > 1:
            product = self.source.hidden[0]
            for layer in self.source.hidden[1:]:
                product = torch.bmm(layer, product)
            features, weights, curvature = decompositions.modes(product, self.source.last, self.gram, self.group)
        else:
            if self.descent:
                size = np.linalg.norm(source, axis=1)
                features, weights = (source / size[:, None])[:, None, :], size[:, None]
            else:
                weights = target.layer_scale(c)[:, None]
                features = (weights ** (self.depth - 1) * self.teachers[:, 0])[:, None, :]
            curvature = decompositions.curvatures(features, self.gram[self.group])
        curvature = np.maximum(curvature, 0.0) + np.asarray(c["ridge"], float)[:, None]
        pull = np.einsum("rid,rd->ri", features, self.moment)
        steps = np.asarray(c["finetune_steps"], float)
        endless = np.isinf(steps)
        budget = np.where(endless, STEP_CAP if weights.shape[1] > 1 else _READOUT_CAP, steps)
        end, left = layers.descend_readout(curvature, pull, weights, np.asarray(c["finetune_lr"], float), budget)
        end = np.where((endless & (self.n == 0))[:, None], 0.0, end)  # the minimum-norm solution
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.linalg.norm(left, axis=1)
            reference = np.linalg.norm(pull, axis=1)
            ceiling = layers.BLOWUP * np.maximum(reference, np.linalg.norm(curvature * weights - pull, axis=1))
            diverged = endless & ~(size <= ceiling)
            late = endless & (self.n > 0) & ~(size <= TOLERANCE * reference)
            outcome = np.where(diverged, layers.DIVERGED, np.where(late, layers.NOT_CONVERGED, layers.OK))
            risk, outcome = _judged(np.einsum("rid,ri->rd", features, end) - self.goal, outcome)
        self.status = np.maximum(self.status, outcome)
        return risk

    def _tensor(self, values: Array) -> torch.Tensor:
        return torch.as_tensor(values, device=self.device)


def _judged(error: Array, outcome: Array) -> tuple[Array, Array]:
    """Risks |error|², shape (rows,), and how each row ended.

    A row whose risk is not finite counts as diverged. The risk of a diverged row is NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        risk = (error**2).sum(1)
    outcome = np.where(np.isfinite(risk), outcome, layers.DIVERGED)
    return np.where(outcome == layers.DIVERGED, np.nan, risk), outcome
