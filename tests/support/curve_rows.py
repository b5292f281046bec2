"""A table of the values of curves."""

import numpy as np
import pandas as pd


def rows_of(x, values, names="x y", **columns):
    """A row for each of the values (draws, points) at x; `names` of both columns."""
    axis, metric = names.split()
    seed = np.repeat(np.arange(len(values)), len(x))
    return pd.DataFrame({axis: np.tile(x, len(values)), "seed": seed, metric: values.ravel(), **columns})
