"""What rows of one draw cost on one core; importable without SciPy.

Constants were measured on one core of a 2-core x86 machine (float64, one BLAS thread); expect an error of a factor 2.
"""

import numpy as np

from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.linear_covariance.closed_forms import samples, signs

_FLOPS = 2e10


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share engine, dim and spectrum."""
    rows, dim = len(columns["dim"]), float(columns["dim"][0])
    base = Cost(1e-3 + 2e-5 * rows, 1e6 + 2000.0 * rows)
    if columns["engine"][0] == "theory":
        return base
    base += Cost(2e-5 * (len(symmetric.expanded(columns, signs(columns))[1]) - rows), 0.0)
    sizes = np.unique(samples(columns)).astype(float)
    under, over = sizes[sizes <= dim], sizes[sizes > dim] * bool((np.asarray(columns["noise"]) > 0).any())
    most, longest = under.max(initial=0.0), over.max(initial=0.0)
    flops = 4 * most**2 * (dim - most / 3) + 30 * dim * most + 60 * dim * len(under) + 2 * dim**2 * longest
    drawn = 2e-8 * dim * sizes.max(initial=0.0)
    return Cost(base.seconds + drawn + flops / _FLOPS, base.peak_bytes + 8 * dim * (3 * most + 3 * longest + 20))
