"""Which images and classes source and target are, and what is wrong with a row that cannot be computed; without torch.

Classes are named by a text: all, a class, a range 0-4, or several of these with commas. overlap_angle takes the place
of source_classes: the source gets as many classes as the target has, K, of which K cos(angle) are the target's, a whole
number within a degree of the angle. Those are the first of one order of the target's classes, the others the first of
one order of all remaining classes, so that the sources of one draw share as much as they can.

Where source and target are one set of images, every class is halved between them, so that no image serves both.
Images are taken evenly from the classes: n of them are the first n of one order, in which each class appears in turn.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.workloads import asked_once, image_data
from raysweep.workloads.image_data.image_folder import torchvision
from raysweep.workloads.vision import shapes

Array = np.ndarray
Row = Mapping[str, Any]
NO_ANGLE = math.inf
SUPERVISED, MASKED, NONE = PRETRAININGS = "supervised", "masked", "none"
HELD_OUT = 1000  # test images on which a reconstruction is measured, or fewer where there are fewer
CLASS, BRIGHTNESS, COLOUR = LABELS = "class", "brightness", "colour"
UPRIGHT, UPSIDE_DOWN = FLIPS = "none", "upside_down"
IN_WORDS = {
    SUPERVISED: "supervised pretraining",
    MASKED: "masked pretraining",
    NONE: "no pretraining",
    CLASS: "labels of classes",
    BRIGHTNESS: "labels of brightness",
    COLOUR: "labels of colour",
}
"""What sentences call kinds of pretraining and of labels."""
FLIPS_IN_WORDS = {UPRIGHT: "no flip", UPSIDE_DOWN: "flip upside down"}
ROUNDED = 1.0  # degrees between an angle and the one that a whole number of classes gives


def trained(row: Row) -> bool:
    """Whether anything is pretrained."""
    return bool(row["pretrain"] != NONE and row.get("pretrain_length", 1) > 0)


def one_set(row: Row) -> bool:
    return image_data.digest_of(row["source"], "source") == image_data.digest_of(row["target"], "target")


def form(row: Row) -> tuple[int, int]:
    """Channels and side of all images of a row: those of the source, unless image_size says the side."""
    pixels = image_data.planned(row["source"], "source").train.pixels
    return pixels.shape[3] if pixels.ndim == 4 else 1, int(row["image_size"]) or int(max(pixels.shape[1:3]))


@asked_once.once
def counts(name: str, parameter: str, part: str = "train") -> Array:
    """How many images of each class there are in a part (train or test) of a set of images."""
    return np.bincount(getattr(image_data.planned(name, parameter), part).labels)


def present(name: str, parameter: str) -> list[int]:
    return np.flatnonzero(counts(name, parameter)).tolist()


def listed(text: str, there: list[int]) -> list[int]:
    """The classes that a text names, in rising order. ValueError says what is wrong."""
    if text.strip() == "all":
        return there
    classes: set[int] = set()
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        last = last if dash else first
        if not all(each.isascii() and each.isdecimal() for each in (first, last)):
            raise ValueError(f"expected all, or classes such as 3, 0-4 or 0,2,5, got {text!r}")
        if len(first + last) > 36 or int(last) < int(first):
            raise ValueError(f"expected ranges from a smaller class to a larger one, got {text!r}")
        missing = [each for each in (int(first), int(last)) if each not in there]
        if missing:
            raise ValueError(f"there is no class {missing[0]}; expected some of {_spans(there)}")
        classes |= {each for each in there if int(first) <= each <= int(last)}
    return sorted(classes)


def target_classes(row: Row) -> list[int]:
    return listed(row["target_classes"], present(row["target"], "target"))


def source_classes(row: Row) -> list[int]:
    """The classes of the source, in rising order; with overlap_angle those of this seed."""
    if row["overlap_angle"] == NO_ANGLE:
        return listed(row["source_classes"], present(row["source"], "source"))
    target, there = target_classes(row), present(row["target"], "target")
    others, shared = sorted(set(there) - set(target)), overlap(row["overlap_angle"], len(target))
    first = draws.generator(row["seed"], "classes shared with the target").permutation(target)[:shared]
    rest = draws.generator(row["seed"], "classes of the source alone").permutation(others)[: len(target) - shared]
    return sorted([*first.tolist(), *rest.tolist()])


def overlap(angle: float, classes: int) -> int:
    """How many of the target's classes a source at this angle has."""
    return math.floor(classes * math.cos(math.radians(angle)) + 0.5)


def order(labels: Array, classes: list[int], seed: int, half: int | None = None) -> Array:
    """The places of all images of these classes, each class in turn as long as it has any, (images,).

    half: only this half of every class, 0 or 1.
    """
    places, ranks = [], []
    for number in classes:
        positions = draws.generator(seed, f"images of class {number}").permutation(np.flatnonzero(labels == number))
        positions = positions if half is None else positions[half::2]
        places.append(positions)
        ranks.append(np.arange(len(positions)))
    within = np.concatenate(ranks)
    return np.asarray(np.concatenate(places)[np.argsort(within, kind="stable")])


def count(row: Row, role: str) -> int:
    """How many training images there are for the source or the target, at least, whichever classes a seed chooses."""
    chosen = role == "source" and row["overlap_angle"] != NO_ANGLE
    classes = target_classes(row) if role == "target" else source_classes({**row, "seed": 0})
    sizes = counts(row[role], role)
    if one_set(row):
        sizes = (sizes + (role == "source")) // 2
    return int(len(classes) * sizes[present(row[role], role)].min() if chosen else sizes[classes].sum())


def identify(stage: str, values: dict[str, Any], row: Row) -> dict[str, Any]:
    """What identifies a stage: the content of images instead of names, and lists of classes instead of texts.

    What a row without pretraining says of its source, or a net without a choice of its depth, is left out.
    """
    named = {"source", "target", "source_classes", "target_classes", "overlap_angle", "image_size"}
    identity = {name: value for name, value in values.items() if name not in named}
    identity |= {"form": list(form(row)), "halved": one_set(row)}
    if row["model"] != shapes.SMALL_CNN:
        identity.pop("depth")
    if trained(row):
        # its classes as far as they are known without the seed, which a stage's identity has anyway
        if row["overlap_angle"] == NO_ANGLE:
            classes: list[Any] = source_classes(row)
        else:
            classes = [overlap(row["overlap_angle"], len(target_classes(row))), target_classes(row)]
        identity |= {"source": image_data.digest_of(row["source"], "source"), "classes": classes}
    else:
        for name in ("source_samples", "label", "flip", "rotation", "pretrain_length", "pretrain_lr", "pretrain"):
            identity.pop(name, None)
    if not trained(row) or row["pretrain"] != MASKED:
        identity.pop("mask_ratio", None)
    if stage != "pretrain":
        identity |= {"target": image_data.digest_of(row["target"], "target"), "target_classes": target_classes(row)}
    return identity


def _spans(classes: list[int]) -> str:
    """Classes as text, shorter where all numbers between are there."""
    whole = classes == list(range(classes[0], classes[-1] + 1)) and len(classes) > 2
    return f"{classes[0]}-{classes[-1]}" if whole else ", ".join(map(str, classes))


def complaint(row: Row) -> tuple[str, str] | None:
    """(parameter, what is wrong with it), of a row that cannot be computed; None of any other."""
    return next(_complaints(row), None)


def _complaints(row: Row) -> Iterator[tuple[str, str]]:
    """What is wrong, one after the other: a question is only asked where nothing before it is wrong."""
    for role in ("source", "target"):
        if why := image_data.complaint(row[role], folder=True):
            yield role, why
        try:
            listed(row[f"{role}_classes"], present(row[role], role))
        except ValueError as error:
            yield f"{role}_classes", f"{error} in {row[role]}"
    if row["overlap_angle"] != NO_ANGLE:
        yield from (("overlap_angle", why) for why in _about_angle(row))
    for role in ("source", "target"):
        samples, there = int(row[f"{role}_samples"]), count(row, role)
        if samples > there:
            half = " (half of them, as source and target are one set)" if one_set(row) else ""
            which = f"the training images of its classes in {row[role]}{half}"
            yield f"{role}_samples", f"expected at most {there:,}, {which}, got {samples:,}"
    (colours, side), model = form(row), row["model"]
    if model in shapes.RESNETS or image_data.FOLDER in (image_data.kind_of(row[role]) for role in ("source", "target")):
        torchvision()  # has these nets and decodes images; it says in one line why it cannot be used
    if side < (least := shapes.smallest_side(model)):
        message = f"expected images of at least {least} x {least} pixels for {model}, they have {side} x {side}"
        yield ("image_size" if row["image_size"] else "model"), f"{message} (image_size: 28 makes them larger)"
    most, frozen = shapes.layers(model, row["depth"]) - 1, row["frozen_layers"]
    if frozen > most:
        yield "frozen_layers", f"expected at most {most}, the layers of {model} before its head, got {frozen}"
    if row["label"] == COLOUR and colours == 1:
        yield "label", f"expected {CLASS} or {BRIGHTNESS} for grey images, got {COLOUR}"
    batch = int(row["batch_size"])
    for images in (int(row["source_samples"]) or count(row, "source"), int(row["target_samples"])):
        if model in shapes.RESNETS and images // math.ceil(images / batch) < 2:  # normalisation needs two images
            message = f"expected batches of two images at least for {model}, got {batch:,} of {images:,} images"
            yield "batch_size", message
    there = counts(row["target"], "target", "test")[target_classes(row)].sum()
    if row["eigen_cam_images"] > there:
        message = f"expected at most the {there:,} test images of the target, got {row['eigen_cam_images']:,}"
        yield "eigen_cam_images", message
    if row["examined_images"] > row["target_samples"]:
        message = f"expected at most target_samples, which is {row['target_samples']:,}, got {row['examined_images']:,}"
        yield "examined_images", message
    points = row["landscape_points"]
    if points and not row["examined_images"]:
        yield "landscape_points", "expected 0 without examined_images, whose loss a landscape shows"
    if points and (points % 2 == 0 or points < 3):
        yield "landscape_points", f"expected 0 or an odd number from 3 on, got {points}"


def _about_angle(row: Row) -> Iterator[str]:
    if not one_set(row):
        yield "expected the same set of images as source and target, or .inf for source_classes as they are"
    if row["source_classes"] != "all":
        yield f"expected source_classes: all beside an angle, which chooses them, got {row['source_classes']!r}"
    there, classes = len(present(row["target"], "target")), len(target_classes(row))
    shared = overlap(row["overlap_angle"], classes)
    possible = [math.degrees(math.acos(shared_by / classes)) for shared_by in range(classes, -1, -1)]
    if abs(possible[classes - shared] - row["overlap_angle"]) > ROUNDED:
        angles = ", ".join(f"{angle:.4g}" for angle in possible)
        yield f"expected an angle whose cosine is a share of {classes} classes ({angles}), got {row['overlap_angle']:g}"
    if classes - shared > there - classes:
        beside = f"has {classes - shared} classes beside the target's {classes}; {row['target']} has {there - classes}"
        yield f"at {row['overlap_angle']:g} degrees the source {beside}"
