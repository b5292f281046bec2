"""Random draws under the name by which workloads of other packages import them; they are in raysweep.training."""

from raysweep.training.draws import generator, normal, unit_vectors

__all__ = ["generator", "normal", "unit_vectors"]
