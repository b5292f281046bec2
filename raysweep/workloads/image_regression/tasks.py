"""Two-class tasks: how they are written, images as rows of pixels with labels ±1, the linear maps that fit them all."""

import functools
import re
from dataclasses import dataclass

import numpy as np

from raysweep.workloads import image_data
from raysweep.workloads.image_data import Images

Array = np.ndarray
FORM = "SOURCE:TARGET with two different classes each, as in 2-3:5-6"
Classes = tuple[int, int]


def in_words(text: str) -> str:
    """A pair for a reader: "pair 2/3 to 5/6"."""
    return "pair " + text.replace("-", "/").replace(":", " to ")


def pair_of(text: str) -> tuple[Classes, Classes]:
    """The classes of source and target; ValueError says what was expected."""
    # one way to write each pair: its images are drawn from its text
    match = re.fullmatch(r"{0}-{0}:{0}-{0}".format("(0|[1-9][0-9]{0,3})"), text)
    classes = [int(digit) for digit in match.groups()] if match else []
    if not classes or classes[0] == classes[1] or classes[2] == classes[3]:
        raise ValueError(f"expected {FORM}; got {text!r}")
    return (classes[0], classes[1]), (classes[2], classes[3])


def labelled(images: Images, classes: Classes, white: int) -> tuple[Array, Array]:
    """Pixels from 0 to 1, (images, pixels), and labels, (images,): +1 for the first class, -1 for the second."""
    pixels = images.pixels.reshape(len(images.labels), -1) / white
    return pixels, np.where(images.labels == classes[0], 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Moments:
    """What all N training images of a task say: X their pixels, y their labels.

    eigenvalues: of XᵀX/N, (pixels,), largest first; exactly 0 for directions that no image has.
    directions: the eigenvectors as columns, (pixels, pixels).
    best: the map of least squares in these directions, (pixels,); 0 where the eigenvalue is.
    noise: the root of its mean squared residual.
    """

    eigenvalues: Array
    directions: Array
    best: Array
    noise: float

    def trained(self, start: Array, steps: float) -> Array:
        """The map after gradient descent from `start`, (pixels,), in the directions of the eigenvectors, (pixels,).

        A step has the length 1/λ₁ of the gradient of half the mean square, and leaves 1 - λ/λ₁ of what is to be learned
        in each direction. steps may be inf.
        """
        share = self.eigenvalues / self.eigenvalues[0]
        with np.errstate(divide="ignore"):
            left = np.exp(steps * np.log1p(-share)) if 0 < steps < np.inf else (share == 0 if steps else np.ones(1))
        return np.asarray(self.best + left * (self.directions.T @ start - self.best))


@functools.lru_cache(maxsize=64)
def moments(name: str, digest: str, classes: Classes) -> Moments:
    """The moments of the training images of two classes; digest: that of the images called `name`.

    X is factored instead of XᵀX: pixels that hardly any image lights have eigenvalues below 1e-15 of the largest, which
    XᵀX does not resolve. Kept, because a source serves all its targets, and every seed.
    """
    data = image_data.load(name)
    pixels, labels = labelled(data.train.select(classes), classes, data.white)
    count, size = pixels.shape
    factor = np.asarray(np.linalg.qr(np.column_stack([pixels, labels]), mode="r"))
    left, singular, right = np.linalg.svd(factor[:, :size])
    singular = np.where(singular > singular[0] * max(count, size) * np.finfo(float).eps, singular, 0.0)
    fitted = left[:, : len(singular)].T @ factor[:, size]
    best, values = np.zeros(size), np.zeros(size)
    np.divide(fitted, singular, out=best[: len(singular)], where=singular > 0)
    values[: len(singular)] = singular**2 / count
    rest = factor[:, size] @ factor[:, size] - fitted[singular > 0] @ fitted[singular > 0]
    return Moments(values, right.T, best, float(np.sqrt(max(rest, 0.0) / count)))
