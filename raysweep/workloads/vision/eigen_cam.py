"""Eigen-CAM (Muhammad & Yeasin 2020): where in an image the last convolution answers most, and how many such places.

Activations of one image are a matrix A, (places, channels). Its heat map is Av, v the first right singular vector of A
with the sign for which the map's sum is positive. A is not centred: activations that are nowhere negative then have a
map that is nowhere negative.

M looks at such maps with the eye, and says that a pretrained model "often captures more kinds of features". It counts
nothing. Here a peak is a connected region (pixels that share a side) in which the map, brought to the
image's size by bilinear interpolation, is above the middle between its least and its greatest value.
"""

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from raysweep.workloads.vision.models import EXAMINED, Net
from raysweep.workloads.vision.pixels import scaled


@torch.no_grad()
def of_images(net: Net, pixels: Tensor) -> Tensor:
    """Heat maps of images, uint8 (count, channels, side, side), by the last features of a net that have places."""
    net.eval()
    return torch.cat([heat_maps(net.spatial(scaled(some)), pixels.shape[-1]) for some in pixels.split(EXAMINED)])


def heat_maps(activations: Tensor, side: int) -> Tensor:
    """Maps of images, float64 (count, side, side), 0 to 1; 0 everywhere where activations are alike at all places, NaN
    where some are not finite, as those of a diverged net.

    activations: of the last convolution, (count, channels, height, width).
    """
    count, channels, height, width = activations.shape
    matrices = activations.double().reshape(count, channels, height * width).mT
    finite = matrices.isfinite().all((1, 2), keepdim=True)
    matrices = torch.where(finite, matrices, 0.0)  # the factorization refuses anything else
    first = torch.linalg.svd(matrices, full_matrices=False).Vh[:, 0, :, None]
    maps = (matrices @ first).view(count, 1, height, width)
    maps = maps * torch.where(maps.sum((2, 3), keepdim=True) < 0, -1.0, 1.0)
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    flat = high - low <= 1e-9 * high.abs()
    scaled = torch.where(flat, 0.0, (maps - low) / torch.where(flat, 1.0, high - low))
    maps = nn.functional.interpolate(scaled, size=(side, side), mode="bilinear")[:, 0]
    return torch.where(finite, maps, torch.nan)


def peaks(maps: Tensor) -> np.ndarray:
    """How many peaks the map of each image has, (count,); NaN of a map that is NaN."""
    values = maps.cpu().numpy()
    low, high = values.min((1, 2), keepdims=True), values.max((1, 2), keepdims=True)
    counts = np.array([ndimage.label(above)[1] for above in values > (low + high) / 2], float)
    return np.where(np.isfinite(low[:, 0, 0]), counts, np.nan)
