"""Reconstruction of masked images against loops, and Eigen-CAM against planted activations."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from raysweep.workloads.vision import eigen_cam, masked


def convolutions(channels: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(channels, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


def images(count: int = 5, side: int = 8, channels: int = 1) -> torch.Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("side", "patch", "cells"), [(8, 2, 4), (28, 4, 7), (32, 5, 7), (224, 32, 7), (9, 2, 5)])
@pytest.mark.parametrize("ratio", [0.1, 0.6, 0.75])
def test_every_mask_covers_the_stated_number_of_whole_patches(side: int, patch: int, cells: int, ratio: float) -> None:
    found = masked.masks(3, "any", 4, side, ratio)
    assert found.shape == (4, 1, side, side)
    assert masked.patch_of(side) == patch
    for mask in found[:, 0].numpy():
        covered = 0
        for top in range(0, side, patch):
            for left in range(0, side, patch):
                part = mask[top : top + patch, left : left + patch]
                assert part.min() == part.max()
                covered += bool(part.max())
        assert covered == math.ceil(ratio * cells**2)
    assert not np.array_equal(found[0], found[1])


def test_masks_are_those_of_seed_and_role_whatever_the_number_of_images() -> None:
    one = masked.masks(3, "epoch 1, batch 2", 10, 28, 0.6)
    assert torch.equal(one, masked.masks(3, "epoch 1, batch 2", 10, 28, 0.6))
    assert torch.equal(one[:4], masked.masks(3, "epoch 1, batch 2", 4, 28, 0.6))
    assert not torch.equal(one, masked.masks(3, "epoch 2, batch 2", 10, 28, 0.6))
    assert not torch.equal(one, masked.masks(4, "epoch 1, batch 2", 10, 28, 0.6))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_loss_is_the_mean_absolute_error_of_masked_pixels_alone(channels: int) -> None:
    pixels, predicted = images(channels=channels), images(channels=channels).flip(0)
    at = masked.masks(0, "any", 5, 8, 0.6)
    errors = [
        abs(float(predicted[image, channel, row, column] - pixels[image, channel, row, column]))
        for image in range(5)
        for channel in range(channels)
        for row in range(8)
        for column in range(8)
        if at[image, 0, row, column]
    ]
    found = masked.loss(predicted, pixels, at)
    assert float(found) == pytest.approx(np.mean(errors), rel=1e-6)
    elsewhere = torch.where(at > 0, pixels, pixels + 7)
    assert torch.equal(masked.loss(predicted, elsewhere, at), found)
    assert not torch.equal(masked.loss(predicted, torch.where(at > 0, pixels + 7, pixels), at), found)


def test_the_encoder_does_not_see_masked_pixels() -> None:
    model = masked.Reconstruction(convolutions(), (1, 8), 0)
    pixels, at = images(), masked.masks(0, "any", 5, 8, 0.6)
    assert torch.equal(model(pixels, at), model(torch.where(at > 0, 9.0, pixels), at))
    assert not torch.equal(model(pixels, at), model(torch.where(at > 0, pixels, 9.0), at))


def test_the_token_stands_in_every_masked_patch() -> None:
    model = masked.Reconstruction(nn.Identity(), (1, 9), 0)  # one pixel for each place: patches of 2, the last cut off
    with torch.no_grad():
        model.token.copy_(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        model.layer.weight.fill_(1)
    seen = model(torch.zeros(1, 1, 9, 9), torch.ones(1, 1, 9, 9))[0, 0]
    assert seen[:3, :3].tolist() == [[1, 2, 1], [3, 4, 3], [1, 2, 1]]
    assert seen[8, 7:].tolist() == [2, 1]


@pytest.mark.parametrize(("pool", "square"), [(1, 1), (2, 2), (4, 4), (5, 8)])
def test_one_layer_gives_every_pixel_whatever_the_stride_of_the_encoder(pool: int, square: int) -> None:
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(pool))
    model = masked.Reconstruction(encoder, (3, 8), 0)
    assert model.square == square
    assert model(images(channels=3), masked.masks(0, "any", 5, 8, 0.6)).shape == (5, 3, 8, 8)


def test_predicting_the_mean_image_has_the_loss_that_a_hand_computes() -> None:
    model = masked.Reconstruction(convolutions(), (1, 8), 0)
    pixels = images(1300)  # more than are predicted at a time
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.fill_(float(pixels.mean()))
    at = masked.masks(5, "masks of held-out images", 1300, 8, 0.6)
    hidden = pixels[at > 0].double()
    expected = float((hidden - pixels.double().mean()).abs().mean())
    assert masked.held_out_loss(model, pixels, 5, 0.6) == pytest.approx(expected, rel=1e-6)


def test_training_learns_what_is_behind_the_masks() -> None:
    stripes = (torch.arange(8) % 4 < 2).float().expand(200, 1, 8, 8) * torch.rand(200, 1, 1, 1)
    model = masked.Reconstruction(convolutions(), (1, 8), 0)
    before = masked.held_out_loss(model, stripes, 0, 0.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(100):
        at = masked.masks(0, f"step {step}", 200, 8, 0.6)
        optimizer.zero_grad()
        masked.loss(model(stripes, at), stripes, at).backward()
        optimizer.step()
    assert masked.held_out_loss(model, stripes, 0, 0.6) < before / 2
    assert float(model.token.detach().abs().max()) > 0


def planted(*places: tuple[int, int], channels: int = 6, side: int = 14) -> torch.Tensor:
    """Activations of one image, (1, channels, side, side): one direction at these places, small elsewhere."""
    generator = torch.Generator().manual_seed(2)
    direction, found = (
        torch.rand(channels, generator=generator) + 0.5,
        0.01 * torch.rand(1, channels, side, side, generator=generator),
    )
    for row, column in places:
        found[0, :, row : row + 2, column : column + 2] += direction[:, None, None]
    return found


@pytest.mark.parametrize(
    "places", [[(2, 2)], [(2, 2), (10, 3)], [(0, 0), (12, 12), (0, 12)], [(1, 1), (1, 7), (7, 1), (11, 11)]]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_planted_blobs_are_counted_one_by_one(places: list[tuple[int, int]], sign: int) -> None:
    maps = eigen_cam.heat_maps(sign * planted(*places), 28)
    assert maps.shape == (1, 28, 28)
    assert eigen_cam.peaks(maps).tolist() == [len(places)]
    row, column = places[0]
    assert maps[0, 2 * row + 1, 2 * column + 1] > 0.9


def test_a_heat_map_is_the_projection_on_the_first_right_singular_vector() -> None:
    activations = torch.rand(3, 5, 4, 4, generator=torch.Generator().manual_seed(3))
    for image, found in zip(activations, eigen_cam.heat_maps(activations, 4), strict=True):
        matrix = image.double().numpy().reshape(5, 16).T
        values, vectors = np.linalg.eigh(matrix.T @ matrix)
        expected = matrix @ vectors[:, values.argmax()]
        expected *= np.sign(expected.sum())
        expected = (expected - expected.min()) / (expected.max() - expected.min())
        np.testing.assert_allclose(found.numpy().ravel(), expected, atol=1e-9)


def test_activations_that_are_alike_everywhere_have_no_peak() -> None:
    activations = torch.cat(
        [torch.zeros(1, 5, 4, 4), torch.full((1, 5, 4, 4), 0.3), planted((1, 1), channels=5, side=4)]
    )
    maps = eigen_cam.heat_maps(activations, 8)
    assert eigen_cam.peaks(maps).tolist() == [0, 0, 1]
    assert float(maps[:2].abs().max()) == 0


def test_an_image_has_the_same_map_whichever_are_beside_it() -> None:
    both = torch.cat([planted((2, 2)), planted((10, 3), (1, 9))])
    assert torch.equal(eigen_cam.heat_maps(both, 28)[1:], eigen_cam.heat_maps(both[1:], 28))
