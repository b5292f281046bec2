"""Engine `flow`: fine-tuning by gradient flow for the time finetune_lr * finetune_steps, from exact pretraining.

If singular vectors are shared and nothing was perturbed, each mode is followed exactly. Otherwise modes couple, and the
flow of the layers themselves is integrated (order 8 of Dormand and Prince, relative error ACCURACY a step). It ends
when the time is over. With finetune_steps .inf it ends at convergence: when P is within TOLERANCE of its goal, or when
the flow comes to rest before that. If a stiff flow takes more than EVALUATION_CAP gradients, the row is not_converged
and its metrics are those of the last point reached.
"""

import numpy as np

from raysweep.theory import spectrum
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns
from raysweep.workloads.linear_spectrum.closed_forms import AFTER, measured
from raysweep.workloads.linear_spectrum.tasks import Tasks, by_dim, diagonal, perturbed, product

ACCURACY = 1e-9
TOLERANCE = 1e-8  # |P - M| relative to the larger of |M| and |P - M| at the start
AT_REST = 1e-13  # gradient relative to that size to the power 2 - 1/L; at a saddle (exact zeros) the flow rests forever
EVALUATION_CAP = 200_000
TIME_CAP = 1e4  # flow time in units of 1/(curvature scale); a row that takes longer is not converged


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """pretrain_loss_after, finetune_loss and sensitivity, shape (rows,) each, and the status.

    A row is diverged only if its numbers overflow, because the loss of a flow cannot rise.
    """
    metrics = {name: np.full(len(seeds), np.nan) for name in AFTER}
    status = np.zeros(len(seeds), dtype=int)
    for index, task in by_dim(columns):
        shared = (task.noise == 0) & ((task.angle == 0) | (task.time == 0))
        for name, values in _modes(task, shared).items():
            metrics[name][index[shared]] = values
        for row in np.flatnonzero(~shared):
            row_metrics, status[index[row]] = _layers(task, int(row), seeds[index[row]])
            for name, values in row_metrics.items():
                metrics[name][index[row]] = values[0]
    return metrics, symmetric.WORDS[status]


def _modes(task: Tasks, rows: Array) -> dict[str, Array]:
    depth, penalty = task.depth[rows, None], task.penalty[rows, None]
    start = task.weights[rows] ** depth
    goal = spectrum.goal_modes(start, task.target[rows], penalty)
    end = spectrum.follow(task.weights[rows], goal, (1 + penalty) * task.time[rows, None], depth) ** depth
    after, before = ((end - task.source[rows]) ** 2).sum(1), ((start - task.source[rows]) ** 2).sum(1)
    domain = spectrum.turned_loss(end, task.target[rows], task.angle[rows])
    return dict(zip(AFTER, (after, domain, after - before), strict=True))


def _layers(task: Tasks, row: int, seed: int) -> tuple[dict[str, Array], int]:
    depth = int(task.depth[row])
    layers = perturbed(diagonal(task.weights[[row]], depth), task.noises[[row]], np.array([seed]))
    source, target = np.diag(task.source[row]), spectrum.turned(task.target[row], float(task.angle[row]))
    before = ((task.weights[row] ** depth - task.source[row]) ** 2).sum()
    penalty = float(task.penalty[row])
    with np.errstate(over="ignore", invalid="ignore"):
        goal = spectrum.goal_modes(product(layers)[0], target, penalty)
        end, status = relax(layers[0], goal, (1 + penalty) * float(task.time[row]))
        metrics = measured(product(end[None]), source, target, before)
    if not all(np.isfinite(values).all() for values in metrics.values()):
        return {name: np.full(1, np.nan) for name in metrics}, 2
    return metrics, status


def relax(layers: Array, goal: Array, time: float) -> tuple[Array, int]:
    """Follow the gradient flow of ‖W_1…W_L - goal‖_F² for `time`, or to convergence if `time` is inf.

    Returns the layers (L, d, d) and an index into WORDS.
    """
    from scipy.integrate import solve_ivp  # slow to load, and only needed if modes couple

    shape, depth = layers.shape, len(layers)
    miss = product(layers[None])[0] - goal
    size = max(float(np.linalg.norm(goal)), float(np.linalg.norm(miss)))
    if time == 0 or size == 0 or not np.isfinite(size):
        return layers, 0

    left = EVALUATION_CAP

    def velocity(_: float, state: Array) -> Array:
        nonlocal left
        left -= 1
        if left < 0:
            raise TimeoutError
        return -gradient(state.reshape(shape), goal).ravel()

    unit = 1 / (2 * depth * size ** (2 - 2 / depth))
    elapsed, span, state = 0.0, min(time, 20 * unit), layers.ravel()
    while True:
        try:
            solution = solve_ivp(velocity, (0, span), state, method="DOP853", rtol=ACCURACY, atol=1e-3 * ACCURACY)
        except TimeoutError:
            return state.reshape(shape), 1
        if not solution.success:
            return solution.y[:, -1].reshape(shape), 1
        state, elapsed = solution.y[:, -1], elapsed + span
        if elapsed >= time:
            return state.reshape(shape), 0
        now = state.reshape(shape)
        near = np.linalg.norm(product(now[None])[0] - goal) <= TOLERANCE * size
        # at a stable end the integrator's own error is far above AT_REST, so only saddles have so small a gradient
        if near or np.linalg.norm(gradient(now, goal)) <= AT_REST * size ** (2 - 1 / depth):
            return now, 0
        if np.isinf(time) and elapsed >= TIME_CAP * unit:
            return now, 1
        span = min(2 * span, time - elapsed)


def gradient(layers: Array, goal: Array) -> Array:
    """Gradient (L, d, d) of ‖W_1…W_L - goal‖_F² with respect to each layer."""
    depth = len(layers)
    before, after = [np.eye(len(goal))], [np.eye(len(goal))]
    for layer in range(depth - 1):
        before.append(before[-1] @ layers[layer])
        after.append(layers[depth - 1 - layer] @ after[-1])
    miss = before[-1] @ layers[-1] - goal
    return np.stack([2 * before[i].T @ miss @ after[depth - 1 - i].T for i in range(depth)])
