"""The draws of raysweep.training under the name that workloads of other packages know them by."""

from raysweep.training.draws import generator, normal, unit_vectors

__all__ = ["generator", "normal", "unit_vectors"]
