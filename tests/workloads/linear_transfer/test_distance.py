"""Distances between source and target data against brute force and Monte Carlo."""

from itertools import permutations

import numpy as np
from linear_rows import columns, z_score

from raysweep.workloads.linear_transfer import distance


def test_kl_divergence_is_the_mean_log_ratio():
    angle, noise, source_norm, target_norm = 50.0, 0.8, 1.3, 0.6
    random = np.random.default_rng(0)
    inputs = random.standard_normal((200_000, 2))
    source = np.array([source_norm, 0.0])
    teacher = target_norm * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
    labels = inputs @ source + noise * random.standard_normal(len(inputs))
    log_ratio = ((labels - inputs @ teacher) ** 2 - (labels - inputs @ source) ** 2) / (2 * noise**2)
    distances = distance.kl_divergence(
        columns(overlap_angle=angle, noise=noise, source_norm=source_norm, target_norm=target_norm, dim=2)
    )
    assert abs(z_score(log_ratio, distances[0])) < 4


def test_kl_divergence_without_noise():
    distances = distance.kl_divergence(columns(overlap_angle=[0.0, 0.0, 30.0], source_norm=[1.0, 2.0, 1.0], noise=0.0))
    assert distances.tolist() == [0.0, np.inf, np.inf]


def test_wasserstein_is_the_best_matching_on_average():
    """300 seeds against 300 independent samples matched by trying every permutation."""
    size, dim, angle, noise = 4, 3, 70.0, 0.5
    random = np.random.default_rng(2)
    teachers = np.zeros((2, dim))
    teachers[0, 0] = 1.2
    teachers[1, :2] = 2 * np.cos(np.deg2rad(angle)), 2 * np.sin(np.deg2rad(angle))
    brute = []
    for _ in range(300):
        points = []
        for teacher in teachers:
            inputs = random.standard_normal((size, dim))
            points.append(np.column_stack([inputs, inputs @ teacher + noise * random.standard_normal(size)]))
        gaps = np.linalg.norm(points[0][:, None] - points[1][None], axis=2)
        brute.append(min(gaps[np.arange(size), list(order)].mean() for order in permutations(range(size))))
    norms = {"source_norm": 1.2, "target_norm": 2.0}
    rows = columns(distance_samples=np.full(300, size), dim=dim, overlap_angle=angle, noise=noise, **norms)
    distances = distance.wasserstein_1(rows, np.arange(300))
    difference = np.mean(distances) - np.mean(brute)
    assert abs(difference) < 4 * np.sqrt((np.var(distances) + np.var(brute)) / 300)
    assert np.std(distances) > 0
