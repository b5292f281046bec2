"""Teachers, starts and data of a draw, from (seed, role) alone, a larger sample containing a smaller one; and the
stages: pretraining on the source's population, then scratch and linear transfer on samples."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import linalg

from raysweep.theory import relu
from raysweep.training import draws
from raysweep.workloads.declaration import DIVERGED, OK, Array
from raysweep.workloads.relu_features import descent, removed
from raysweep.workloads.relu_features.descent import Row, Task, Trained
from raysweep.workloads.rows import Context, Result, Rows, Stacked


def on_sphere(seed: int, role: str, count: int, dim: int) -> Array:
    """`count` independent uniform vectors of length 1, shape (count, dim)."""
    vectors = draws.normal(seed, role, count, dim)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def teacher_of(row: Row) -> Array:
    """The features of the target's teacher, (teacher_width, dim); the source's lacks the first ones."""
    return on_sphere(row["seed"], "teacher", row["teacher_width"], row["dim"])


def source_weights(row: Row) -> Array:
    """What each feature of the target's teacher counts in the source's, (teacher_width,): 0 if it is removed, and the
    same for all others, which add up to 1 (F eq. 19)."""
    gone = removed(row["ablation"], row["teacher_width"])
    there = np.arange(row["teacher_width"]) >= gone
    return np.asarray(there / (row["teacher_width"] - gone))


def start_of(row: Row) -> Array:
    """The features of every network of the draw before training, (width, dim)."""
    return on_sphere(row["seed"], "features", row["width"], row["dim"])


def data_of(row: Row, number: int) -> tuple[Array, Array]:
    """One data set of the target: inputs (target_samples, dim) and labels (target_samples,)."""
    n = row["target_samples"]
    inputs = draws.normal(row["seed"], f"inputs {number}", n, row["dim"])
    noise = draws.normal(row["seed"], f"noise {number}", n)
    return inputs, np.maximum(inputs @ teacher_of(row).T, 0).mean(1) + row["noise"] * noise


def pretrain(rows: Rows, parent: None, context: Context) -> Result:
    """Train the draw's network on the source of each ablation, and measure what its features span.

    The artifact: features, (rows, width, dim), and outputs, (rows, width).
    """
    row = rows.row()
    start, teacher = start_of(row), teacher_of(row)
    weights = np.stack([source_weights(each) for each in rows])

    def task(some: slice) -> Task:
        return descent.on_population(*(_on(each, context.device) for each in (teacher, weights[some])))

    values = 5.0 * len(start) * (len(start) + len(teacher))
    trained = descent.side_by_side(len(rows), values, task, _on(start, context.device), row)
    pairs = zip(trained.features, weights, strict=True)
    measured = [_measured(features, start, teacher, source) for features, source in pairs]
    metrics = {name: np.array([each[name] for each in measured]) for name in measured[0]}
    metrics |= {"pretrain_loss": trained.loss, "pretrain_converged": trained.loss <= row["tolerance"]}
    tensors = {"features": trained.features, "outputs": trained.outputs}
    return Result(tensors, metrics, np.where(np.isfinite(trained.loss), OK, DIVERGED))


def _measured(features: Array, start: Array, teacher: Array, source: Array) -> dict[str, float]:
    """What the pretrained features span of the target, and how near their kernel is to the source teacher's."""
    target, there = np.full((1, len(teacher)), 1 / len(teacher)), teacher[source > 0]
    names = "residual", "residual_source", "residual_share", "kernel_distance", "kernel_distance_before"
    metrics = dict.fromkeys(names, np.nan)
    metrics["residual_source"], whole = (float(each[0]) for each in relu.residual(there, teacher, target))
    metrics["target_variance"] = whole - 1 / (2 * np.pi)  # E f_t is the mean of the weights, over √2π
    metrics["kernel_distance_before"] = kernel_distance(start, there)
    if np.isfinite(features).all():
        metrics["residual"] = float(relu.residual(features, teacher, target)[0][0])
        metrics["residual_share"] = metrics["residual"] / whole
        metrics["kernel_distance"] = kernel_distance(features, there)
    return metrics


def kernel_distance(features: Array, others: Array) -> float:
    """Distance in L2(p x p) of k(x, x') = mean_i σ(w_i·x)σ(w_i·x') of `features` from that of `others`, over the length
    of the latter. The inner product of two such kernels is the mean of (E σ(u·x)σ(v·x))² over their pairs of rows."""
    pairs = ((features, features), (features, others), (others, others))
    left, across, right = (float((relu.activations(*pair) ** 2).mean()) for pair in pairs)
    return float(np.sqrt(max(left - 2 * across + right, 0.0) / right))


def target(rows: Rows, parent: Stacked, context: Context) -> Result:
    """Train networks from scratch, one for each number of samples, noise and data set whatever the ablation, and refit
    the pretrained output weights to the same data."""
    ablations = rows["ablation"].tolist()
    first = {ablation: ablations.index(ablation) for ablation in ablations}
    transfer = {
        ablation: _refitted(**parent[index].tensors(), row=rows.row(index)) for ablation, index in first.items()
    }
    names = "risk_scratch", "risk_linear", "risk_linear_descent", "scratch_loss", "scratch_converged"
    metrics = {name: np.full(len(rows), np.nan) for name in names}
    samples: dict[tuple[int, float], list[int]] = {}
    for index, row in enumerate(rows):
        samples.setdefault((row["target_samples"], row["noise"]), []).append(index)
    for members in samples.values():
        row = rows.row(members[0])
        sets = [data_of(row, number) for number in range(row["datasets"])]
        trained = _from_scratch(row, sets, context.device)
        nets = zip(trained.features, trained.outputs / row["width"], strict=True)
        good = ((each, weights) for each, weights in nets if np.isfinite(each).all() and np.isfinite(weights).all())
        risks = [_risk(_kernel(features, row), weights) for features, weights in good]
        metrics["risk_scratch"][members] = np.mean(risks) if len(risks) == len(sets) else np.nan
        metrics["scratch_loss"][members] = trained.loss.mean()
        metrics["scratch_converged"][members] = (trained.loss <= row["tolerance"]).mean()
        for index in members:
            fits = transfer[float(rows["ablation"][index])]
            both = np.mean([fits(*each) for each in sets], axis=0)
            metrics["risk_linear"][index], metrics["risk_linear_descent"][index] = both
    for name in ("linear", "linear_descent"):
        metrics[f"transferability_{name}"] = metrics["risk_scratch"] - metrics[f"risk_{name}"]
    finite = np.isfinite(metrics["transferability_linear_descent"])
    return Result(metrics=metrics, status=np.where(finite, OK, DIVERGED))


def _from_scratch(row: Row, sets: list[tuple[Array, Array]], device: torch.device) -> Trained:
    def task(some: slice) -> Task:
        return descent.on_samples(*(_on(np.stack(each), device) for each in zip(*sets[some], strict=True)))

    start = _on(start_of(row), device)
    return descent.side_by_side(len(sets), 4.0 * row["target_samples"] * len(start), task, start, row)


def _refitted(features: Array, outputs: Array, row: Row) -> Callable[[Array, Array], tuple[float, float]]:
    """Fits of new output weights on fixed features: samples -> population risks of two fits, of least norm, and by
    gradient descent from the pretrained output weights. The kernel is made once for all fits."""
    kernel = _kernel(features, row)

    def risks(inputs: Array, labels: Array) -> tuple[float, float]:
        if not np.isfinite(features).all():
            return float("nan"), float("nan")
        hidden = np.maximum(inputs @ features.T, 0)
        rounding = max(hidden.shape) * np.finfo(float).eps  # size of singular values, over the largest, that are noise
        least, *_ = linalg.lstsq(hidden, labels, cond=rounding, lapack_driver="gelsy", check_finite=False)
        trained = descended(hidden, labels, outputs, row) / len(outputs)
        return _risk(kernel, least), _risk(kernel, trained)

    return risks


def descended(hidden: Array, labels: Array, outputs: Array, row: Row) -> Array:
    """Output weights after gradient descent with the features fixed, (width,), by the same recipe as all trainings.

    hidden: activations, (samples, width). outputs: weights before, (width,).

    The steps are linear: in the eigenbasis of HHᵀ/(nm) an error shrinks by the factor 1 - rate x eigenvalue a step. So
    any number of them is one product, and the first step at whose end the loss is within the tolerance is found by
    bisection.
    """
    samples, width = hidden.shape
    values, basis = linalg.eigh(hidden @ hidden.T / (samples * width), check_finite=False)
    error, shrink = basis.T @ (hidden @ outputs / width - labels), 1 - row["learning_rate"] * np.maximum(values, 0.0)

    def loss(steps: int) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # a rate that is too large
            return float(((shrink**steps * error) ** 2).mean() / 2)

    low, steps = -1, row["steps"]
    if loss(steps) <= row["tolerance"]:
        while steps - low > 1:
            middle = (low + steps) // 2
            low, steps = (low, middle) if loss(middle) <= row["tolerance"] else (middle, steps)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        summed = np.where(shrink < 1, (1 - shrink**steps) / (1 - shrink), steps)  # of the errors of all steps
        return np.asarray(outputs - row["learning_rate"] / samples * (hidden.T @ (basis @ (summed * error))))


def _kernel(features: Array, row: Row) -> Array:
    """E σσ of all pairs of features and the teacher's, these last."""
    rows = np.concatenate([features, teacher_of(row)])
    return relu.activations(rows, rows)


def _risk(kernel: Array, weights: Array) -> float:
    """E(f - f_t)² in closed form: cᵀKc with `_kernel`. weights: c_i/m, one for each feature."""
    teachers = len(kernel) - len(weights)
    signed = np.concatenate([weights, np.full(teachers, -1 / teachers)])
    return max(float(signed @ kernel @ signed), 0.0)


def _on(values: Array, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(values, device=device)
