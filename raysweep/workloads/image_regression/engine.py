"""Two-class tasks: how they are written, images as rows of pixels with labels ±1, the linear maps that fit them all;
exact end points on a few images, what predicts their error, and what it costs. Without SciPy."""

import functools
import re
from dataclasses import dataclass

import numpy as np

from raysweep.theory import covariance
from raysweep.training import draws
from raysweep.workloads import image_data
from raysweep.workloads.declaration import OK, Array, Columns, Cost
from raysweep.workloads.image_data import Images

_FLOPS = 2e10
TOP = 2  # m of T's bound in Table 1
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


def compute(columns: Columns, seeds: Array) -> tuple[dict[str, Array], Array]:
    """All metrics of all rows, shape (rows,) each, and the status of each row, which is always ok."""
    names = ("data", "pair", "target_samples", "pretrain_length", "repeats")
    given = zip(np.asarray(seeds).tolist(), *(np.asarray(columns[name]).tolist() for name in names), strict=True)
    rows = [row_of(*each) for each in given]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}, np.full(len(seeds), OK, dtype=object)


def row_of(seed: int, name: str, pair: str, samples: int, pretrain_length: float, repeats: int) -> dict[str, float]:
    data, (source, target) = image_data.load(name), pair_of(pair)
    first, second = (moments(name, data.digest, classes) for classes in (source, target))
    size = len(first.best)
    start = draws.generator(seed, "source start").uniform(-1, 1, size) / np.sqrt(size)
    theta = first.directions @ first.trained(start, pretrain_length)
    pixels, labels = labelled(data.train.select(target), target, data.white)
    chosen = choice(seed, pair, len(labels), samples, repeats)
    inverse = np.linalg.pinv(pixels[chosen], rcond=max(samples, size) * np.finfo(float).eps)
    targets = labels[chosen][:, :, None]
    maps = {
        "scratch": inverse @ targets,
        "finetune": theta[:, None] + inverse @ (targets - pixels[chosen] @ theta[:, None]),
    }
    tested, truth = labelled(data.test.select(target), target, data.white)
    errors, losses = dict[str, float](), dict[str, float]()
    for method, each in maps.items():
        margins = truth[:, None] * (tested @ each[:, :, 0].T)
        errors[f"error_{method}"] = float((margins <= 0).mean())
        losses[f"loss_{method}"] = float(((margins - 1) ** 2).mean())
    gain = {"transferability_finetune": errors["error_scratch"] - errors["error_finetune"]}
    return {**errors, **gain, **losses, **predictors(second, theta, samples, pretrain_length)}


def choice(seed: int, pair: str, available: int, samples: int, repeats: int) -> Array:
    """The training images of each repeat, int (repeats, samples); those of fewer samples come first among more."""
    generators = (draws.generator(seed, f"target images {pair} {repeat}") for repeat in range(repeats))
    return np.stack([generator.permutation(available)[:samples] for generator in generators])


def predictors(target: Moments, source: Array, samples: int, pretrain_length: float) -> dict[str, float]:
    """Predictions of the error, before any image of the target is drawn.

    source: θ_S, (pixels,). The bounds take the θ_T that is trained as long as θ_S, from 0. The equivalent takes the
    best one: what that does not fit is uncorrelated with the pixels, as noise is.
    """
    inside = target.directions.T @ source
    trained = target.trained(np.zeros(len(source)), pretrain_length)
    values, ones, n = target.eigenvalues, np.ones(len(source)), np.array([float(samples)])
    difference = (trained - inside)[None] ** 2
    seen = values > 0
    best, missed = (target.best[None, seen] ** 2, (target.best - inside)[None, seen] ** 2)

    def equivalent(difference: Array) -> float:
        risk = covariance.risk(values[seen], ones[seen], n, np.array([target.noise]), 0 * best, best, difference)
        return float(risk[0]) + target.noise**2

    return {
        "distance_squared": float(difference.sum()),
        # Bartlett, Long, Lugosi & Tsigler (2020), Thm 4, for θ_T - θ_S instead of θ* and without noise; constant 1
        "bound_distance": float((covariance.spread(values, ones, n) * difference.sum(1))[0]),
        "bound_thm42": float(covariance.bound(values, ones, n, difference, groups=TOP)[0]),
        "equivalent_scratch": equivalent(best),
        "equivalent_finetune": equivalent(missed),
    }


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share data and pair.

    As measured on one core of a 2-core x86 machine (float64, one BLAS thread), within a factor of 2.
    """
    data = image_data.planned(str(columns["data"][0]))
    trained, tested = (2 * len(part.labels) / len(data.classes) for part in (data.train, data.test))
    size = float(np.prod(data.train.pixels.shape[1:]))
    samples, repeats = (np.asarray(columns[name], float) for name in ("target_samples", "repeats"))
    few = np.minimum(samples, size)
    drawn = repeats * (3e-5 + 2e-8 * trained + (14 * few**2 * np.maximum(samples, size) + 4 * tested * size) / _FLOPS)
    # a process keeps the factorizations of both tasks for other seeds and other pairs of them: a fourth is counted
    tasks = 0.25 * 2 * (2 * trained * size**2 + 8 * size**3) / _FLOPS
    stored = 2 * 8 * size * (2 * size + 2 * trained) + 4 * 8 * float((repeats * samples).max()) * size
    read = 2 * float(data.train.pixels.nbytes + data.test.pixels.nbytes)
    rows = 1e-3 + (trained + tested) * size * 1.5e-9
    return Cost(tasks + float((drawn + rows).sum()), 1e6 + read + stored + 64 * 8 * size**2)
