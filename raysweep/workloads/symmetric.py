"""Draws that are averaged over sign choices (`symmetric: true`).

If the signs of some random vectors of a draw leave its distribution unchanged (v and -v, ε and -ε), every choice of
signs is a draw as good as the one that was made. The mean over the choices has the expectation of one draw, and without
what is odd in the signs it varies less. A draw stays one row with one seed.

Two signs are enough: with both they give four choices, which form a group. What is odd in either sign, or in both, adds
up to exactly 0 over it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from raysweep.theory.arrays import alike
from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, SIGN_SPREAD, STATUSES, Array, Columns, Parameter

Compute = Callable[[Columns, Array], tuple[dict[str, Array], Array]]

WORDS = np.array([OK, NOT_CONVERGED, DIVERGED], dtype=object)
SIGNS = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])  # choices x signs; the first is the draw as it was made


def parameter(signs: str) -> Parameter:
    """The parameter that asks for it. signs: what changes sign, in words."""
    return Parameter(
        "symmetric",
        bool,
        False,
        f"whether a draw is the mean over both signs of {signs}: the same expectation, less variance",
        absent=False,
    )


def expanded(columns: Columns, signs: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
    """A table with a row for each sign choice of the symmetric rows, and for each of its rows the row that it belongs
    to, ascending.

    columns: every parameter of the rows, with `symmetric`.
    signs: two columns whose negation is the flip of one sign, each with the rows in which that makes a difference,
        boolean (rows,). Where it makes none, the choices that it would repeat are left out.
    """
    asked = np.asarray(columns["symmetric"], dtype=bool)
    repeats = np.stack([~(asked & matters) for matters in signs.values()], axis=1)
    row, choice = np.nonzero(~(repeats[:, None] & (SIGNS < 0)).any(2))
    table = {name: np.asarray(values)[row] for name, values in columns.items()}
    for place, name in enumerate(signs):
        table[name] = table[name] * SIGNS[choice, place]
    return table, row


def averaged(
    compute: Compute, columns: Columns, seeds: Array, signs: Mapping[str, Array], metrics: Sequence[str]
) -> tuple[dict[str, Array], Array]:
    """What `compute` gives, (columns, seeds) -> (metrics, status), with symmetric rows averaged over their choices.

    columns, signs: as in `expanded`.
    metrics: those that get a NAME_sign_spread, the standard deviation over the choices of one draw; NaN in rows that
        are not symmetric, and left out if none is.

    A row has the worst status of its choices, and a metric that is NaN in one of them is NaN.
    """
    asked = np.asarray(columns["symmetric"], dtype=bool)
    if not asked.any():
        return compute(columns, seeds)
    table, row = expanded(columns, signs)
    metrics_of_choices, words = compute(table, np.asarray(seeds)[row])
    starts = np.searchsorted(row, np.arange(len(seeds)))
    count = np.bincount(row)

    def mean(values: Array) -> Array:
        return np.asarray(np.add.reduceat(values, starts) / count)

    means = {name: mean(values) for name, values in metrics_of_choices.items()}
    for name in metrics:
        spread = np.sqrt(mean((metrics_of_choices[name] - means[name][row]) ** 2))
        means[name + SIGN_SPREAD] = np.where(asked, spread, np.nan)
    worst = np.maximum.reduceat([STATUSES.index(word) for word in words], starts)
    return means, np.array([STATUSES[rank] for rank in worst], dtype=object)


def solved(
    columns: Columns,
    seeds: Array,
    metrics: dict[str, Array],
    engines: Mapping[str, Callable[..., Any]],
    signs: Callable[[Columns], Mapping[str, Array]],
    spread: Sequence[str],
) -> tuple[dict[str, Array], Array]:
    """All rows by their engines, averaged over signs: `metrics` with what the engines give instead, and the status.

    metrics: what needs no engine, (rows,) each. engines: how each value of the column `engine` solves rows, a Compute;
    `theory` draws nothing: a function of columns alone. signs: as in `expanded`, of some rows. spread: `metrics` of
    `averaged`.
    """
    status = np.full(len(seeds), OK, dtype=object)
    for (name,), rows in alike(columns["engine"]):
        some, chosen = {key: np.asarray(values)[rows] for key, values in columns.items()}, np.asarray(seeds)[rows]
        if name == "theory":
            solution = engines[name](some)
        else:
            solution, status[rows] = averaged(engines[name], some, chosen, signs(some), spread)
        for key, values in solution.items():
            metrics.setdefault(key, np.full(len(seeds), np.nan))[rows] = values
    return metrics, status


def in_chunks(
    columns: Columns, seeds: Array, neighbours: Sequence[Array], most: Callable[[int, int], float], train: Compute
) -> tuple[dict[str, Array], Array]:
    """Rows of deep networks in chunks of one dim and depth, which are trained together.

    neighbours: columns in whose order the rows of a chunk lie, (rows,) each. most: (dim, depth) -> rows of a chunk, if
    that is 1 at least. train: a Compute whose status is places in WORDS.
    """
    columns, seeds = {name: np.asarray(values) for name, values in columns.items()}, np.asarray(seeds)
    metrics, status = dict[str, Array](), np.zeros(len(seeds), dtype=int)
    order = np.lexsort((*neighbours, seeds, columns["dim"], columns["depth"]))
    for (dim, depth), places in alike(columns["dim"][order], columns["depth"][order]):
        for rows in np.array_split(order[places], -(-len(places) // max(1, int(most(dim, depth))))):
            results, status[rows] = train({name: values[rows] for name, values in columns.items()}, seeds[rows])
            for name, values in results.items():
                metrics.setdefault(name, np.full(len(seeds), np.nan))[rows] = values
    return metrics, WORDS[status]
