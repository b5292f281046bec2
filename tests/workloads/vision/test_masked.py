"""Reconstruction of masked images against loops, and Eigen-CAM against planted activations."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from raysweep.workloads.vision import eigen_cam, masked


def convolutions(channels=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(channels, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


def images(count=5, side=8, channels=1):
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("side", "patch", "cells"), [(8, 2, 4), (28, 4, 7), (32, 5, 7), (224, 32, 7), (9, 2, 5)])
@pytest.mark.parametrize("ratio", [0.1, 0.6, 0.75])
def test_every_mask_covers_the_stated_number_of_whole_patches(side, patch, cells, ratio):
    masks = masked.masks(3, "any", 4, side, ratio)
    assert masks.shape == (4, 1, side, side)
    assert masked.patch_of(side) == patch
    first = masks[:, :, ::patch, ::patch]  # of each patch the first pixel, which all others are like
    assert torch.equal(masks, first.repeat_interleave(patch, 2).repeat_interleave(patch, 3)[:, :, :side, :side])
    assert first.sum((1, 2, 3)).tolist() == [math.ceil(ratio * cells**2)] * 4
    assert not np.array_equal(masks[0], masks[1])


def test_masks_are_those_of_seed_and_role_whatever_the_number_of_images():
    one = masked.masks(3, "epoch 1, batch 2", 10, 28, 0.6)
    assert torch.equal(one, masked.masks(3, "epoch 1, batch 2", 10, 28, 0.6))
    assert torch.equal(one[:4], masked.masks(3, "epoch 1, batch 2", 4, 28, 0.6))
    assert not torch.equal(one, masked.masks(3, "epoch 2, batch 2", 10, 28, 0.6))
    assert not torch.equal(one, masked.masks(4, "epoch 1, batch 2", 10, 28, 0.6))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_loss_is_the_mean_absolute_error_of_masked_pixels_alone(channels):
    pixels, predicted = images(channels=channels), images(channels=channels).flip(0)
    at = masked.masks(0, "any", 5, 8, 0.6)
    errors = (predicted - pixels).abs().numpy()[at.expand(-1, channels, -1, -1).numpy() > 0]
    loss = masked.loss(predicted, pixels, at)
    assert float(loss) == pytest.approx(errors.mean(), rel=1e-6)
    elsewhere = torch.where(at > 0, pixels, pixels + 7)
    assert torch.equal(masked.loss(predicted, elsewhere, at), loss)
    assert not torch.equal(masked.loss(predicted, torch.where(at > 0, pixels + 7, pixels), at), loss)


def reconstruction(encoder, shape=(1, 8), **row):
    return masked.Reconstruction(encoder, shape, {"seed": 0, "mask_ratio": 0.6, **row})


def test_the_encoder_does_not_see_masked_pixels():
    model = reconstruction(convolutions())
    pixels, at = images(), masked.masks(0, "any", 5, 8, 0.6)
    assert torch.equal(model(pixels, at), model(torch.where(at > 0, 9.0, pixels), at))
    assert not torch.equal(model(pixels, at), model(torch.where(at > 0, pixels, 9.0), at))


def test_the_token_stands_in_every_masked_patch():
    model = reconstruction(nn.Identity(), (1, 9))  # one pixel for each place: patches of 2, the last cut off
    with torch.no_grad():
        model.token.copy_(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        model.layer.weight.fill_(1)
    seen = model(torch.zeros(1, 1, 9, 9), torch.ones(1, 1, 9, 9))[0, 0]
    assert seen[:3, :3].tolist() == [[1, 2, 1], [3, 4, 3], [1, 2, 1]]
    assert seen[8, 7:].tolist() == [2, 1]


@pytest.mark.parametrize(("pool", "square"), [(1, 1), (2, 2), (4, 4), (5, 8)])
def test_one_layer_gives_every_pixel_whatever_the_stride_of_the_encoder(pool, square):
    model = reconstruction(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(pool)), (3, 8))
    assert model.square == square
    assert model(images(channels=3), masked.masks(0, "any", 5, 8, 0.6)).shape == (5, 3, 8, 8)


@pytest.mark.parametrize(("count", "side"), [(30, 8), (700, 8), (700, 9)])  # 700 are more than are predicted at a time
def test_predicting_the_mean_has_the_loss_that_a_hand_computes(count, side):
    model = reconstruction(convolutions(), (1, side), seed=5)
    bytes_ = (images(count, side) * 255).byte()
    pixels = bytes_.double().numpy() / 127.5 - 1
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.fill_(pixels.mean())
    at = model.masks("masks of held-out images", count).numpy()
    expected = np.abs(pixels[at > 0] - pixels.mean()).mean()
    assert model.held_out_loss(bytes_) == pytest.approx(expected, rel=1e-5)


def trained(model, pixels, epochs=10):
    """The loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = np.array_split(np.arange(len(pixels)), 10)
    return [float(one) for epoch in range(epochs) for one in model.descend(optimizer, pixels, batches, epoch)]


def test_training_learns_what_is_behind_the_masks():
    bright = torch.rand(200, 1, 1, 1, generator=torch.Generator().manual_seed(1))
    stripes = (255 * (torch.arange(8) % 4 < 2).float() * bright).byte().expand(200, 1, 8, 8).contiguous()
    model = reconstruction(convolutions())
    before = model.held_out_loss(stripes)
    trained(model, stripes)
    assert model.held_out_loss(stripes) < before / 2
    assert float(model.token.detach().abs().max()) > 0


def losses_at_rest(batches, epoch, done=0):
    """The loss of each step of a model that does not change."""
    model = reconstruction(convolutions())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return [float(one) for one in model.descend(optimizer, (images(40) * 255).byte(), batches, epoch, done)]


def test_an_interrupted_epoch_goes_on_with_its_masks():
    batches = np.array_split(np.arange(40), 4)
    assert losses_at_rest(batches, epoch=3, done=2) == losses_at_rest(batches, epoch=3)[2:]


def test_the_decoder_is_saved_apart_from_the_encoder():
    model = reconstruction(convolutions())
    trained(model, (images(40) * 255).byte(), epochs=1)
    assert set(model.decoder()) == {"token", "layer.weight", "layer.bias"}
    other = reconstruction(model.spatial, seed=7)
    other.restore({name: values.numpy() for name, values in model.decoder().items()})
    assert other.decoder().keys() == model.decoder().keys()
    assert all(torch.equal(values, model.decoder()[name]) for name, values in other.decoder().items())


def planted(*places, channels=6, side=14):
    """Activations of one image, (1, channels, side, side): one direction at these places, small elsewhere."""
    generator = torch.Generator().manual_seed(2)
    direction = torch.rand(channels, generator=generator) + 0.5
    result = 0.01 * torch.rand(1, channels, side, side, generator=generator)
    for row, column in places:
        result[0, :, row : row + 2, column : column + 2] += direction[:, None, None]
    return result


@pytest.mark.parametrize(
    "places", [[(2, 2)], [(2, 2), (10, 3)], [(0, 0), (12, 12), (0, 12)], [(1, 1), (1, 7), (7, 1), (11, 11)]]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_planted_blobs_are_counted_one_by_one(places, sign):
    maps = eigen_cam.heat_maps(sign * planted(*places), 28)
    assert maps.shape == (1, 28, 28)
    assert eigen_cam.peaks(maps).tolist() == [len(places)]
    row, column = places[0]
    assert maps[0, 2 * row + 1, 2 * column + 1] > 0.9


def test_a_peak_is_above_the_middle_of_least_and_greatest():
    result = torch.full((1, 9, 9), 0.4)
    result[0, 1, 1], result[0, 1, 7], result[0, 7, 1] = 1.0, 0.75, 0.65  # the middle is 0.7
    assert eigen_cam.peaks(result).tolist() == [2]
    result[0, 2, 2] = 0.9  # touches the first by a corner alone
    assert eigen_cam.peaks(result).tolist() == [3]
    result[0, 1, 2] = 0.9
    assert eigen_cam.peaks(result).tolist() == [2]


def test_a_heat_map_is_the_projection_on_the_first_right_singular_vector():
    activations = torch.rand(3, 5, 4, 4, generator=torch.Generator().manual_seed(3))
    for image, each in zip(activations, eigen_cam.heat_maps(activations, 4), strict=True):
        matrix = image.double().numpy().reshape(5, 16).T
        values, vectors = np.linalg.eigh(matrix.T @ matrix)
        expected = matrix @ vectors[:, values.argmax()]
        expected *= np.sign(expected.sum())
        expected = (expected - expected.min()) / (expected.max() - expected.min())
        np.testing.assert_allclose(each.numpy().ravel(), expected, atol=1e-9)


def test_activations_that_are_alike_everywhere_have_no_peak():
    activations = torch.cat(
        [torch.zeros(1, 5, 4, 4), torch.full((1, 5, 4, 4), 0.3), planted((1, 1), channels=5, side=4)]
    )
    maps = eigen_cam.heat_maps(activations, 8)
    assert eigen_cam.peaks(maps).tolist() == [0, 0, 1]
    assert float(maps[:2].abs().max()) == 0


def test_a_net_that_is_not_finite_has_no_map_and_no_peaks():
    maps = eigen_cam.heat_maps(torch.cat([planted((2, 2)), planted((2, 2)) * torch.nan]), 28)
    assert eigen_cam.peaks(maps)[0] == 1
    assert np.isnan(eigen_cam.peaks(maps)[1])
    assert maps[1].isnan().all()
