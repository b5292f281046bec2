"""What is wrong with a row that cannot be computed, for the user; without torch."""

import math
from collections.abc import Iterator

from raysweep.workloads import image_data
from raysweep.workloads.image_data.vision_library import torchvision
from raysweep.workloads.vision import shapes, tasks
from raysweep.workloads.vision.tasks import Row

ROUNDED = 1.0  # degrees between an angle and the one that a whole number of classes gives


def complaint(row: Row) -> tuple[str, str] | None:
    """(parameter, what is wrong with it), of a row that cannot be computed; None of any other."""
    return next(_complaints(row), None)


def _complaints(row: Row) -> Iterator[tuple[str, str]]:
    """What is wrong, one after the other: a question is only asked where nothing before it is wrong."""
    for role in ("source", "target"):
        if why := image_data.complaint(row[role], folder=True):
            yield role, why
        try:
            tasks.listed(row[f"{role}_classes"], tasks.present(row[role], role))
        except ValueError as error:
            yield f"{role}_classes", f"{error} in {row[role]}"
    if row["overlap_angle"] != tasks.NO_ANGLE:
        yield from (("overlap_angle", why) for why in _about_angle(row))
    for role in ("source", "target"):
        samples, there = int(row[f"{role}_samples"]), tasks.count(row, role)
        if samples > there:
            half = " (half of them, as source and target are one set)" if tasks.one_set(row) else ""
            images = f"the training images of its classes in {row[role]}{half}"
            yield f"{role}_samples", f"expected at most {there:,}, {images}, got {samples:,}"
    (colours, side), model = tasks.form(row), row["model"]
    if model in shapes.RESNETS or image_data.FOLDER in (image_data.kind_of(row[role]) for role in ("source", "target")):
        torchvision()  # has these nets and decodes images; it says in one line why it cannot be used
    if side < (least := shapes.smallest_side(model)):
        message = f"expected images of at least {least} x {least} pixels for {model}, they have {side} x {side}"
        yield ("image_size" if row["image_size"] else "model"), f"{message} (image_size: 28 makes them larger)"
    most, frozen = shapes.layers(model, row["depth"]) - 1, row["frozen_layers"]
    if frozen > most:
        yield "frozen_layers", f"expected at most {most}, the layers of {model} before its head, got {frozen}"
    if row["label"] == tasks.COLOUR and colours == 1:
        yield "label", f"expected {tasks.CLASS} or {tasks.BRIGHTNESS} for grey images, got {tasks.COLOUR}"
    batch = int(row["batch_size"])
    for count in (int(row["source_samples"]) or tasks.count(row, "source"), int(row["target_samples"])):
        if model in shapes.RESNETS and count // math.ceil(count / batch) < 2:  # normalisation needs two images
            message = f"expected batches of two images at least for {model}, got {batch:,} of {count:,} images"
            yield "batch_size", message
    there = tasks.counts(row["target"], "target", "test")[tasks.target_classes(row)].sum()
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
    if not tasks.one_set(row):
        yield "expected the same set of images as source and target, or .inf for source_classes as they are"
    if row["source_classes"] != "all":
        yield f"expected source_classes: all beside an angle, which chooses them, got {row['source_classes']!r}"
    there, count = len(tasks.present(row["target"], "target")), len(tasks.target_classes(row))
    shared = tasks.overlap(row["overlap_angle"], count)
    possible = [math.degrees(math.acos(shared_by / count)) for shared_by in range(count, -1, -1)]
    if abs(possible[count - shared] - row["overlap_angle"]) > ROUNDED:
        angles = ", ".join(f"{angle:.4g}" for angle in possible)
        yield f"expected an angle whose cosine is a share of {count} classes ({angles}), got {row['overlap_angle']:g}"
    if count - shared > there - count:
        beside = f"has {count - shared} classes beside the target's {count}; {row['target']} has {there - count}"
        yield f"at {row['overlap_angle']:g} degrees the source {beside}"
