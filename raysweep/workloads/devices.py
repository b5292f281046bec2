"""The granted device under the name by which workloads of other packages ask for it; it is in raysweep.training."""

from raysweep.training.devices import device

__all__ = ["device"]
