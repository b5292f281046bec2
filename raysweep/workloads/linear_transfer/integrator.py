"""Gradient flow of a balanced deep linear network, integrated for many rows at once (THEORY §4; Arora et al. 2018).

With β = ‖w‖^(L-1) w, where w is the vector of the rank-one first layer, Arora's end-to-end flow becomes

    dw/dt = -‖w‖^(L-1) g(β),   g = Λ(β - b)   in the eigenbasis of the Gram matrix XᵀX/n with eigenvalues Λ,  b = X⁺y.

The part of w outside the row space of X never moves, so only its squared norm is stored. The flow is integrated in its
own clock s, with m = ‖w‖^(L-1). While time is left, dt = ds/m: then the escape from a start of norm init_scale^L takes
few steps, because its speed in s does not depend on the size of the start. At the end dt = ds, which meets the stopping
time exactly. The right-hand side is a diagonal plus a coupling through the scalar m, so its Jacobian is a diagonal plus
a rank-one matrix, and a step of the linearly implicit Euler method costs O(r) by Sherman-Morrison. The coupling would
limit the steps of an explicit exponential integrator: its rate is that of the loaded modes, but for n near d the slow
modes need 1e6 times as long. Extrapolation of the Euler method with 1, 2, ... ORDER substeps (Deuflhard 1985) gives
high order and an error estimate. Each row has its own steps.
"""

import math

import torch
from torch import Tensor

ORDER = 10  # substep counts 1..ORDER: 55 substeps a step (7 takes 3 times the steps; at 13 rounding shows)
TOLERANCE = 1e-10  # local error of a step, relative to ‖w‖; and of its time, relative to the time
LOOSE_TOLERANCE = 1e-5  # the same without a stopping time: the end point does not depend on errors of the path
CONVERGED = 1e-9  # ‖β - b‖ = ‖Λ⁻¹g‖ relative to its size at β = 0
STEP_CAP = 4000  # steps, including rejected ones; a row that needs more is not converged
_GROWTH, _SHRINK, _SAFETY = 8.0, 0.1, 0.8
_TINY = 1e-290

# Aitken-Neville extrapolation to step 0, for an error expansion in powers of the substep, as explicit weights
_WEIGHTS = tuple(
    tuple(
        math.prod(j / (j - i) for i in range(first, ORDER + 1) if i != j) if j >= first else 0.0
        for j in range(1, ORDER + 1)
    )
    for first in (1, 2)
)


def relax(
    eigenvalues: Tensor, target: Tensor, start: Tensor, fixed_square: Tensor, depth: Tensor, time: Tensor
) -> tuple[Tensor, Tensor]:
    """The vectors w at flow time `time`, shape (rows, modes), and which rows got there, shape (rows,) bool.

    eigenvalues, target (b), start (w at time 0): (rows, modes) float64. A mode with eigenvalue 0 and target 0 stays at
        its start.
    fixed_square: squared norm of the part of w outside the modes. depth: float64, at least 2.
    time: float64; at inf a row stops when ‖β - b‖ <= CONVERGED * max(‖b‖, ‖β at time 0‖).

    A row is False if STEP_CAP steps were not enough; its w is then the last one reached.
    """
    result = start.clone()
    reached = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    rows = torch.arange(len(start), device=start.device)
    state = _State(eigenvalues, target, start.clone(), fixed_square, depth, time)
    for _ in range(STEP_CAP):
        done = state.finished()
        result[rows[done]] = state.vector[done]
        reached[rows[done]] = True
        open_rows = torch.nonzero(~done).squeeze(1)
        if len(open_rows) == 0:
            return result, reached
        if len(open_rows) < len(rows):
            rows = rows[open_rows]
            state.keep(open_rows)
        state.advance()
    result[rows] = state.vector
    return result, reached


def _log_square(vector: Tensor, fixed_square: Tensor) -> Tensor:
    return torch.log(torch.clamp((vector * vector).sum(1) + fixed_square, min=_TINY))


class _State:
    """The unfinished rows: constants, vector, elapsed time, next step, and whether it ends at the stopping time."""

    def __init__(self, *given: Tensor) -> None:
        """given: as to `relax`."""
        eigenvalues, target, vector, fixed_square, depth, time = given
        self.eigenvalues, self.target, self.vector, self.fixed_square = eigenvalues, target, vector, fixed_square
        self.power, self.time = depth - 1, time
        multiple = self.power.mul(0.5 * _log_square(vector, fixed_square)).exp()
        self.scale = torch.maximum(target.norm(dim=1), multiple * vector.norm(dim=1))
        self.drive = eigenvalues * target
        self.elapsed = torch.zeros_like(time)
        self.last = torch.zeros_like(time, dtype=torch.bool)
        square = torch.exp(_log_square(vector, fixed_square))
        log_multiple = 0.5 * self.power * torch.log(square)
        speed = self.drive.norm(dim=1) + torch.exp(log_multiple) * (eigenvalues * vector).norm(dim=1)
        self.step = 0.1 * torch.sqrt(square) / torch.clamp(speed, min=_TINY)
        still = log_multiple < -650  # so small that no finite time moves them (and 1/m overflows)
        self.elapsed = torch.where(still & torch.isfinite(time), time, self.elapsed)

    def keep(self, rows: Tensor) -> None:
        for name, tensor in list(vars(self).items()):
            setattr(self, name, tensor[rows])

    def finished(self) -> Tensor:
        """Which rows are at their stopping time, or converged if that is inf."""
        multiple = torch.exp(0.5 * self.power * _log_square(self.vector, self.fixed_square))
        distance = torch.where(self.eigenvalues > 0, multiple[:, None] * self.vector - self.target, 0.0).norm(dim=1)
        over = self.time - self.elapsed <= 1e-14 * self.time
        return torch.where(torch.isinf(self.time), distance <= CONVERGED * self.scale, over)

    def advance(self) -> None:
        """Try one step on every row. A row whose error is too large stays where it is and gets a shorter step."""
        log_square = _log_square(self.vector, self.fixed_square)
        multiple = torch.exp(0.5 * self.power * log_square)  # m
        endless = torch.isinf(self.time)
        remaining = torch.where(endless, 0.0, self.time - self.elapsed)
        self.last = ~endless & (self.last | (2 * self.step >= remaining * multiple))
        step = torch.where(self.last, torch.minimum(self.step, remaining * multiple), self.step)
        change, change_lower, span, span_lower = self._extrapolate(step, log_square, multiple)
        proposal = self.vector + change
        size = torch.maximum(log_square, _log_square(proposal, self.fixed_square)).mul(0.5).exp()
        error = (change - change_lower).norm(dim=1) / size
        # span is in units of 1/m at the start of the step, so it cannot overflow
        error_time = (span - span_lower).abs() / (span.abs() + self.elapsed * multiple)
        error = torch.maximum(error, torch.where(endless | self.last, 0.0, error_time))
        error = error / torch.where(endless, LOOSE_TOLERANCE, TOLERANCE)
        fine = error <= 1  # NaN is not fine
        over = fine & ~endless & ~self.last & (span / multiple > remaining)
        self.last = self.last | over  # beyond the stopping time: repeat in the clock that meets it
        accept = fine & ~over
        arrived = accept & self.last & (step >= remaining * multiple)
        self.vector = torch.where(accept[:, None], proposal, self.vector)
        elapsed = self.elapsed + torch.where(self.last, step, span) / multiple
        self.elapsed = torch.where(arrived, self.time, torch.where(accept, elapsed, self.elapsed))
        factor = _SAFETY * torch.clamp(error, min=1e-30) ** (-1.0 / ORDER)
        factor = torch.nan_to_num(factor, nan=_SHRINK, posinf=_GROWTH, neginf=_SHRINK).clamp(_SHRINK, _GROWTH)
        self.step = torch.where(over, self.step, step * factor)

    def _extrapolate(self, step: Tensor, log_square: Tensor, multiple: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Change of w and of the scaled time over a step, each at the highest order and at one order below."""
        clock = self.last.to(step.dtype)  # ds/dt = m^(1-clock): 0 while time is left, 1 for the last step
        start = self.vector
        slope = multiple[:, None] * self.eigenvalues
        pull = slope * start
        # J = -slope + coupling startᵀ
        coupling = (clock[:, None] * (self.drive - pull) - pull) * (self.power * torch.exp(-log_square))[:, None]
        time_slope = (clock - 1) * self.power * torch.exp(-log_square)
        change = [torch.zeros_like(start) for _ in range(2)]
        span = [torch.zeros_like(step) for _ in range(2)]
        for count in range(1, ORDER + 1):
            h = (step / count)[:, None]
            inverse = 1.0 / (1.0 + h * slope)
            tilted = inverse * coupling * h
            share = 1.0 - (start * tilted).sum(1)
            delta = torch.zeros_like(start)
            duration = torch.zeros_like(step)
            for _ in range(count):
                vector = start + delta
                growth = 0.5 * self.power * (_log_square(vector, self.fixed_square) - log_square)  # log of m/m at start
                rate = torch.exp(clock * growth)
                force = self.drive * rate[:, None] - (rate * torch.exp(growth))[:, None] * (slope * vector)
                move = inverse * force * h
                along = (start * move).sum(1) / share
                delta = delta + move + tilted * along[:, None]
                duration = duration + h[:, 0] * (torch.exp((clock - 1) * growth) + time_slope * along)
            for level in range(2):
                weight = _WEIGHTS[level][count - 1]
                change[level] = change[level] + weight * delta
                span[level] = span[level] + weight * duration
        return change[0], change[1], span[0], span[1]
