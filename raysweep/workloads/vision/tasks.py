"""Which images and classes source and target are; without torch.

Classes are named by a text: all, a class, a range 0-4, or several of these with commas. overlap_angle takes the place
of source_classes: the source gets as many classes as the target has, K, of which K cos(angle) are the target's, a whole
number within a degree of the angle. Those are the first of one order of the target's classes, the others the first of
one order of all remaining classes, so that the sources of one draw share as much as they can.

Where source and target are one set of images, every class is halved between them, so that no image serves both.
Images are taken evenly from the classes: n of them are the first n of one order, in which each class appears in turn.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.workloads import asked_once, image_data
from raysweep.workloads.vision import shapes

Array = np.ndarray
Row = Mapping[str, Any]
NO_ANGLE = math.inf
SUPERVISED, MASKED, NONE = PRETRAININGS = "supervised", "masked", "none"
HELD_OUT = 1000  # test images on which a reconstruction is measured, or fewer where there are fewer
CLASS, BRIGHTNESS, COLOUR = LABELS = "class", "brightness", "colour"
IN_WORDS = {
    SUPERVISED: "supervised pretraining",
    MASKED: "masked pretraining",
    NONE: "no pretraining",
    CLASS: "labels of classes",
    BRIGHTNESS: "labels of brightness",
    COLOUR: "labels of colour",
}
"""What sentences call kinds of pretraining and of labels."""
UPRIGHT, UPSIDE_DOWN = FLIPS = "none", "upside_down"


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
        identity |= {"source": image_data.digest_of(row["source"], "source"), "classes": _shared(row)}
    else:
        for name in ("source_samples", "label", "flip", "rotation", "pretrain_length", "pretrain_lr", "pretrain"):
            identity.pop(name, None)
    if not trained(row) or row["pretrain"] != MASKED:
        identity.pop("mask_ratio", None)
    if stage != "pretrain":
        identity |= {"target": image_data.digest_of(row["target"], "target"), "target_classes": target_classes(row)}
    return identity


def _shared(row: Row) -> list[Any]:
    """The classes of the source, as far as they are known without the seed, which a stage's identity has anyway."""
    if row["overlap_angle"] == NO_ANGLE:
        return source_classes(row)
    target = target_classes(row)
    return [overlap(row["overlap_angle"], len(target)), target]


def _spans(classes: list[int]) -> str:
    """Classes as text, shorter where all numbers between are there."""
    whole = classes == list(range(classes[0], classes[-1] + 1)) and len(classes) > 2
    return f"{classes[0]}-{classes[-1]}" if whole else ", ".join(map(str, classes))
