"""Decompositions of the data of draws: in batches on a GPU, and no result depends on the signs of vectors."""

import math

import numpy as np
import pytest
import torch
from linear_rows import table
from workload_rows import grid

from raysweep.training import devices
from raysweep.workloads.linear_transfer import flow, network

ROWS = {
    "flow": [
        {"dim": 24, "gamma": gamma, "depth": depth, "noise": 0.2, "overlap_angle": 60.0, "finetune_steps": 20.0}
        for gamma in (0.01, 0.5, 1.5)
        for depth in (1, 3)
    ],
    "network": grid(
        {"dim": [8], "noise": [0.2], "overlap_angle": [60.0], "init_scale": [0.2], "pretrain_length": [0.5]},
        {"gamma": [0.01, 0.5, 3.0], "finetune_lr": [0.2, 0.2, 0.2]},
        {"depth": [1, 3], "finetune_steps": [math.inf, 30.0]},
    ),
}
ENGINES = {"flow": flow, "network": network}
CALLS = {"flow": 2, "network": 2}  # shapes of inputs; depths


def computed(which, gpus):
    rows = [row for row in ROWS[which] for _ in range(2)]
    with devices.granted(gpus):
        metrics, status = ENGINES[which].compute(table(rows), np.arange(len(rows)) % 2)
    return metrics, status.tolist()


def assert_equal_to_rounding(found, expected):
    assert found[1] == expected[1]
    for name in ("risk_scratch", "risk_linear", "risk_finetune"):
        np.testing.assert_allclose(found[0][name], expected[0][name], rtol=1e-9, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("which", ROWS)
def test_rows_are_those_of_the_cpu_and_draws_of_one_shape_are_decomposed_in_one_call(which, a_gpu, monkeypatch):
    expected = computed(which, 0)
    calls = []

    def counted(own):
        def call(matrices, **options):
            assert matrices.is_cuda
            assert matrices.dtype == torch.float64
            calls.append(tuple(matrices.shape))
            return own(matrices, **options)

        return call

    for name in ("eigh", "svd"):
        monkeypatch.setattr(torch.linalg, name, counted(getattr(torch.linalg, name)))
        monkeypatch.delattr(np.linalg, name)
    with a_gpu():
        found = computed(which, 1)
    assert_equal_to_rounding(found, expected)
    assert len(calls) == CALLS[which]


@pytest.mark.parametrize("which", ROWS)
def test_rows_do_not_depend_on_the_signs_of_vectors_nor_on_those_of_equal_values(which, monkeypatch):
    expected = computed(which, 0)
    eigh, svd, stream = np.linalg.eigh, np.linalg.svd, np.random.default_rng(0)

    def other_eigh(matrices):
        values, vectors = eigh(matrices)
        vectors = vectors * stream.choice([-1.0, 1.0], values.shape)[..., None, :]
        for value, vector in zip(
            values.reshape(-1, values.shape[-1]), vectors.reshape(-1, *vectors.shape[-2:]), strict=True
        ):
            null = np.flatnonzero(np.abs(value) <= 1e-12 * np.abs(value).max())
            vector[:, null] = vector[:, null] @ np.linalg.qr(stream.standard_normal((len(null), len(null))))[0]
        return values, vectors

    def other_svd(matrix, full_matrices):
        left, values, right = svd(matrix, full_matrices=full_matrices)
        signs = stream.choice([-1.0, 1.0], len(values))
        return left * signs, values, signs[:, None] * right

    monkeypatch.setattr(np.linalg, "eigh", other_eigh)
    monkeypatch.setattr(np.linalg, "svd", other_svd)
    assert_equal_to_rounding(computed(which, 0), expected)
