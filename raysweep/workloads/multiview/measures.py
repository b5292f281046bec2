"""Which features kernels have captured (paper M, Theorem 1). Features are the first axes of a patch."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray


def captured(row: Mapping[str, Any], kernels: Array, start: Array) -> dict[str, float]:
    """The metrics of pretrained kernels. kernels, start: (kernels, dim), now and before training."""
    features, threshold = 2 * int(row["classes"]), float(row["threshold"])
    weights, before = kernels[:, :features], start[:, :features]
    largest = weights.max(0)
    held = (weights >= threshold).sum(1)
    second = np.sort(weights, axis=1)[:, -2]
    # M^(0): kernels near the largest weight at the start; where no weight is positive nobody can win
    most = before.max(0)
    in_time = (before >= most * (1 - 1 / math.log(row["classes"]))) & (before > 0)
    won = in_time[weights.argmax(0), np.arange(features)][largest >= threshold]
    return {
        "features_captured": share(largest >= threshold),
        "features_captured_half": share(largest >= threshold / 2),
        "features_captured_double": share(largest >= 2 * threshold),
        "features_per_kernel": share(held[held > 0]),
        "most_features": float(held.max()),
        "correlation": float(np.maximum(largest, 0).mean()),
        "second_correlation": float(second.max() / row["init_scale"]),
        "winners": share(won),
    }


def captured_by_class(row: Mapping[str, Any], kernels: Array) -> float:
    """The share of features that some kernel of their own class captures, kernel r being one of class r % classes."""
    classes, threshold = int(row["classes"]), float(row["threshold"])
    weights = kernels[:, : 2 * classes].reshape(-1, classes, classes, 2)  # group, kernel's class, feature's class, view
    matching = weights[:, np.arange(classes), np.arange(classes)]
    return share(matching.max(0) >= threshold)


def share(values: Array) -> float:
    """The mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan
