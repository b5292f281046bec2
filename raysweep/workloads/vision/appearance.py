"""Labels that say how the upper part of an image looks, instead of what it shows (D §5.1, varying labels).

D trains a net "to recognize the color of the upper part" of images and says no more. Here the upper part is the upper
half of the rows. Its mean pixel gives one number: the brightness, or, of colour images, the hue as an angle from red
over green and blue. Classes are ranges of this number that hold equally many training images.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def labels(train: Array, test: Array, kind: str, classes: int) -> tuple[Array, Array]:
    """Labels of training and test images, int64 (count,) each, 0 to classes - 1, from the least to the greatest number.

    train, test: pixels, (count, channels, height, width).
    kind: brightness or colour; colour needs three channels.
    """
    numbers = [_colour(pixels) if kind == "colour" else _upper(pixels).mean(1) for pixels in (train, test)]
    limits = np.quantile(numbers[0], np.arange(1, classes) / classes)
    first, second = (np.searchsorted(limits, some, side="right") for some in numbers)
    return first, second


def _upper(pixels: Array) -> Array:
    """Mean pixel of the upper half, (count, channels)."""
    return np.asarray(pixels[:, :, : pixels.shape[2] // 2].mean((2, 3), dtype=np.float64))


def _colour(pixels: Array) -> Array:
    """Hue of the mean pixel of the upper half, 0 to 360 degrees; 0 where it is grey."""
    red, green, blue = _upper(pixels).T
    return np.asarray(np.rad2deg(np.arctan2(np.sqrt(3) * (green - blue), 2 * red - green - blue)) % 360)
