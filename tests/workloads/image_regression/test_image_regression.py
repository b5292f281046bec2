"""Two-class tasks on images: end points, what predicts their error, and what makes rows the same."""

import shutil

import image_files
import numpy as np
import pytest
from sklearn.datasets import load_digits
from workload_rows import table_of

from raysweep.plan.identity import stage_id
from raysweep.theory import covariance
from raysweep.training import draws
from raysweep.workloads.image_regression import PARAMETERS, WORKLOAD, engine


def columns(*rows):
    return table_of("image_regression", *rows)


def digits(classes, test):
    """Pixels from 0 to 1 and labels ±1, taken from scikit-learn here."""
    result = load_digits()
    reference = np.isin(result.target, classes) & ((np.arange(len(result.target)) % 5 == 0) == test)
    return result.data[reference] / 16, np.where(result.target[reference] == classes[0], 1.0, -1.0)


def started(seed, size=64):
    return draws.generator(seed, "source start").uniform(-1, 1, size) / np.sqrt(size)


def descended(pixels, labels, start, steps):
    """Gradient descent in so many words."""
    rate = 1 / np.linalg.eigvalsh(pixels.T @ pixels / len(labels))[-1]
    for _ in range(steps):
        start = start - rate * pixels.T @ (pixels @ start - labels) / len(labels)
    return start


@pytest.mark.parametrize("steps", [0, 1, 300, np.inf])
@pytest.mark.parametrize("samples", [1, 7, 60, 200])  # also more than the pixels, of which 10 are always black
def test_rows_are_the_end_points_of_descent_on_source_and_target(samples, steps):
    """A least squares solver finds the end point of the target: nearest to the source, or to 0."""
    row = {"pair": "8-1:4-7", "target_samples": samples, "pretrain_length": steps, "repeats": 3}
    metrics, _ = engine.compute(columns(row), np.array([5]))
    (source, expected), (pixels, labels) = digits((8, 1), False), digits((4, 7), False)
    test, truth = digits((4, 7), True)
    start = started(5)
    if np.isinf(steps):
        start += np.linalg.lstsq(source, expected - source @ start, rcond=1e-12)[0]
    else:
        start = descended(source, expected, start, int(steps))
    measured = {"scratch": [], "finetune": []}
    errors = {"scratch": [], "finetune": []}
    for chosen in engine.choice(5, "8-1:4-7", len(labels), samples, 3):
        assert len(set(chosen.tolist())) == samples
        x, y = pixels[chosen], labels[chosen]
        for each, first in (("scratch", np.zeros(64)), ("finetune", start)):
            outputs = test @ (first + np.linalg.lstsq(x, y - x @ first, rcond=1e-12)[0])
            measured[each].append(float(((outputs - truth) ** 2).mean()))
            errors[each].append(float((np.sign(outputs) != truth).mean()))
    for each in measured:
        assert metrics[f"loss_{each}"][0] == pytest.approx(np.mean(measured[each]), rel=1e-6), each
        assert metrics[f"error_{each}"][0] == pytest.approx(np.mean(errors[each]), abs=1e-12), each
    gain = metrics["error_scratch"] - metrics["error_finetune"]
    np.testing.assert_array_equal(metrics["transferability_finetune"], gain)


def test_predictors_are_those_of_the_paper():
    """Table 1 of T, from the dense Σ: ‖θ_T - θ_S‖², the bound of [25] and T's own (3) at m = 2 with c = δ = 1."""
    metrics, _ = engine.compute(
        columns({"pair": "0-3:9-2", "target_samples": 12, "pretrain_length": 400}), np.array([2])
    )
    pixels, labels = digits((9, 2), False)
    target = descended(pixels, labels, np.zeros(64), 400)
    source = descended(*digits((0, 3), False), started(2), 400)
    values, vectors = np.linalg.eigh(pixels.T @ pixels / len(labels))
    largest, second = values[-1], values[-2]
    share = values.sum() / (12 * largest)
    g = largest * max(np.sqrt(share), share, np.sqrt(1 / 12), 1 / 12)
    first = np.sum((vectors[:, -2:].T @ (target - source)) ** 2)
    rest = np.sum((vectors[:, :-2].T @ (target - source)) ** 2)
    assert metrics["distance_squared"][0] == pytest.approx(first + rest, rel=1e-8)
    assert metrics["bound_distance"][0] == pytest.approx(g * (first + rest), rel=1e-8)
    assert metrics["bound_thm42"][0] == pytest.approx(2 * g**3 * first / second**2 + 2 * g * rest, rel=1e-8)


def test_bounds_know_their_groups():
    """m directions as one group of m, or as m groups of one."""
    n, difference = np.array([5.0, 50.0]), np.array([[2.0, 1.0, 3.0]] * 2)
    apart = covariance.bound(np.array([4.0, 4.0, 1.0]), np.ones(3), n, difference, groups=2)
    together = covariance.bound(np.array([4.0, 1.0]), np.array([2.0, 1.0]), n, np.array([[3.0, 3.0]] * 2))
    np.testing.assert_allclose(apart, together, rtol=1e-14)


def test_target_images_of_fewer_samples_come_first_and_repeats_differ():
    few, more = (engine.choice(0, "2-3:5-6", 290, n, 4) for n in (5, 20))
    np.testing.assert_array_equal(few, more[:, :5])
    assert len({tuple(each) for each in more.tolist()}) == 4


def test_the_content_of_the_images_identifies_a_row_and_not_their_place(tmp_path):
    def identity(folder):
        given = {p.name: p.default for p in PARAMETERS}
        return stage_id(WORKLOAD, 0, {**given, "data": f"mnist:{tmp_path / folder}"}, 0, "")

    image_files.write(tmp_path / "one", "mnist")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert identity("one") == identity("two")
    file = tmp_path / "two" / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert identity("one") != identity("two")
    assert identity("one") != stage_id(WORKLOAD, 0, {p.name: p.default for p in PARAMETERS}, 0, "")


@pytest.mark.parametrize("kind", ["mnist", pytest.param("fashion_mnist", marks=pytest.mark.long)])
def test_real_images_are_learned_from_few(kind):
    """A chance error is 0.5; the equivalent, made for Gaussian inputs, is near the loss on test images from scratch."""
    name = image_files.real(kind)
    metrics, _ = engine.compute(columns({"data": name, "pair": "2-3:1-7", "target_samples": 30}), np.array([0]))
    assert metrics["error_scratch"][0] < 0.1
    assert metrics["equivalent_scratch"][0] == pytest.approx(metrics["loss_scratch"][0], rel=0.25)
