"""Samples of M's Definition 3.1: patches with features of classes, drawn by seed and role."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.training import draws

Array = np.ndarray
OTHERS = (0.2, 0.4)  # where the sums of z_p of features of other classes lie (M: [Ω(1), 0.4]).
TEST = 1000  # test samples of each kind, multi-view and single-view


@dataclass(frozen=True, eq=False)
class Samples:
    """inputs: (samples, patches, dim), float32. Axis 2i + l of a patch is the feature v_(i, l+1).

    labels: classes, (samples,). single: which samples are single-view, (samples,).
    places: the patches that show a feature, (samples, features, feature_patches); -1 where the sample lacks it.
    sums: Σ z_p of a feature in a sample, (samples, features); 0 where the sample lacks it.
    """

    inputs: Array
    labels: Array
    single: Array
    places: Array
    sums: Array


def samples(row: Mapping[str, Any], role: str, count: int, single: bool | None = None) -> Samples:
    """Samples of one role of a row: fewer samples are the first ones of more.

    single: whether all of them are single-view; None for the row's share of them.
    """
    classes, dim, patches, repeats = (int(row[name]) for name in ("classes", "dim", "patches", "feature_patches"))
    features = 2 * classes

    def uniform(what: str, *shape: int) -> Array:
        return draws.generator(int(row["seed"]), f"{role}: {what}").random((count, *shape))

    labels = (uniform("labels") * classes).astype(np.int64)
    alone = uniform("views") < (row["single_view_fraction"] if single is None else float(single))
    main = np.arange(features) // 2 == labels[:, None]
    weak = main & alone[:, None] & (np.arange(features) % 2 == (uniform("missing view") < 0.5)[:, None])
    there = main | (uniform("others", features) < row["sparsity"] / classes)

    least = main_sum(repeats, int(row["power"]))
    low = np.where(main, least, OTHERS[0])
    high = np.where(main, 2 * least, OTHERS[1])
    low, high = np.where(weak, row["weak_view"], low), np.where(weak, 2 * row["weak_view"], high)
    sums = np.where(there, low + (high - low) * uniform("sums", features), 0.0)

    # features of a sample take the first patches of a random order, one feature after another
    order = uniform("order", patches).argsort(1)
    first = repeats * (there.cumsum(1) - 1)
    which = np.where(there[:, :, None], first[:, :, None] + np.arange(repeats), 0)
    places = np.take_along_axis(order, which.reshape(count, -1), 1).reshape(which.shape)
    places = np.where(there[:, :, None], places, -1)

    # M's variances: σ_p² on patches with a feature, γ²k²/d elsewhere
    inputs = draws.normal(int(row["seed"]), f"{role}: noise", count, patches, dim)
    shown = np.zeros((count, patches), dtype=bool)
    sample, feature, one = np.nonzero(places >= 0)
    patch = places[sample, feature, one]
    shown[sample, patch] = True
    inputs *= np.where(shown, row["noise"], row["feature_noise"] * classes)[:, :, None] / np.sqrt(dim)
    inputs[:, :, :features] += row["feature_noise"] * uniform("feature noise", patches, features)
    inputs[sample, patch, feature] += sums[sample, feature] / repeats
    return Samples(inputs.astype(np.float32), labels, alone, places, sums)


def main_sum(repeats: int, power: int) -> float:
    """The least sum of z_p over `repeats` equal patches for which Σ z_p ≥ 1 and Σ z_p^q ≥ 1."""
    return float(repeats ** ((power - 1) / power))


def initial(row: Mapping[str, Any]) -> Array:
    """Kernels before training, (kernels · classes, dim), float32; kernel r is one of class r % classes from scratch."""
    count, dim = int(row["kernels"]) * int(row["classes"]), int(row["dim"])
    return np.asarray(row["init_scale"] * draws.normal(int(row["seed"]), "kernels", count, dim), np.float32)
