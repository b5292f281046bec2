"""Labels by brightness and colour of the upper part, against images that are painted."""

import numpy as np

from raysweep.workloads.vision import appearance


def painted(upper: list[tuple[float, ...]]) -> np.ndarray:
    """Images of 6 x 6 pixels whose upper half has one colour each; noise below."""
    below = np.random.default_rng(0).random((len(upper), len(upper[0]), 6, 6)).astype(np.float32)
    below[:, :, :3] = np.array(upper, np.float32)[:, :, None, None]
    return below


def test_brightness_ranks_images_by_their_upper_half() -> None:
    values = np.random.default_rng(1).permutation(40) / 40
    train = painted([(value,) for value in values])
    found, held_out = appearance.labels(train, painted([(0.05,), (0.3,), (0.6,), (0.99,)]), "brightness", 4)
    assert found.tolist() == [int(4 * value + 1e-9) for value in values]
    assert held_out.tolist() == [0, 1, 2, 3]
    assert np.bincount(found).tolist() == [10, 10, 10, 10]


def test_colour_ranks_images_by_hue_and_not_by_brightness() -> None:
    red, green, blue = (1.0, 0.2, 0.2), (0.1, 0.5, 0.1), (0.0, 0.0, 0.3)
    faint = tuple(0.5 + value / 10 for value in green)
    found, _ = appearance.labels(painted([red, green, blue] * 5), painted([faint]), "colour", 3)
    assert found.tolist() == [0, 1, 2] * 5
    _, held_out = appearance.labels(painted([red, green, blue] * 5), painted([faint, red]), "colour", 3)
    assert held_out.tolist() == [1, 0]
