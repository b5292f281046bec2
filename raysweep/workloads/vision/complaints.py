"""What is wrong with a row that cannot be computed, for the user; without torch."""

import math

from raysweep.workloads import image_data
from raysweep.workloads.image_data.vision_library import torchvision
from raysweep.workloads.vision import shapes, tasks
from raysweep.workloads.vision.tasks import Row

ROUNDED = 1.0  # degrees between an angle and the one that a whole number of classes gives


def complaint(row: Row) -> tuple[str, str] | None:
    """(parameter, what is wrong with it), of a row that cannot be computed; None of any other."""
    for role in ("source", "target"):
        if why := image_data.complaint(row[role], folder=True):
            return role, why
        try:
            tasks.listed(row[f"{role}_classes"], tasks.present(row[role], role))
        except ValueError as error:
            return f"{role}_classes", f"{error} in {row[role]}"
    if why := _about_angle(row):
        return "overlap_angle", why
    for role in ("source", "target"):
        samples, there = int(row[f"{role}_samples"]), tasks.count(row, role)
        if samples > there:
            half = " (half of them, as source and target are one set)" if tasks.one_set(row) else ""
            images = f"the training images of its classes in {row[role]}{half}"
            return f"{role}_samples", f"expected at most {there:,}, {images}, got {samples:,}"
    return _about_net(row)


def _about_angle(row: Row) -> str | None:
    if row["overlap_angle"] == tasks.NO_ANGLE:
        return None
    if not tasks.one_set(row):
        return "expected the same set of images as source and target, or .inf for source_classes as they are"
    if row["source_classes"] != "all":
        return f"expected source_classes: all beside an angle, which chooses them, got {row['source_classes']!r}"
    there, count = len(tasks.present(row["target"], "target")), len(tasks.target_classes(row))
    shared = tasks.overlap(row["overlap_angle"], count)
    possible = [math.degrees(math.acos(shared_by / count)) for shared_by in range(count, -1, -1)]
    if abs(possible[count - shared] - row["overlap_angle"]) > ROUNDED:
        angles = ", ".join(f"{angle:.4g}" for angle in possible)
        return f"expected an angle whose cosine is a share of {count} classes ({angles}), got {row['overlap_angle']:g}"
    if count - shared > there - count:
        return (
            f"at {row['overlap_angle']:g} degrees the source has {count - shared} classes beside the target's {count}; "
            f"{row['target']} has {there - count}"
        )
    return None


def _about_net(row: Row) -> tuple[str, str] | None:
    side, model = tasks.form(row)[1], row["model"]
    if model in shapes.RESNETS or image_data.FOLDER in (image_data.kind_of(row[role]) for role in ("source", "target")):
        torchvision()  # has these nets and decodes images; it says in one line why it cannot be used
    if side < (least := shapes.smallest_side(model)):
        message = f"expected images of at least {least} x {least} pixels for {model}, they have {side} x {side}"
        return ("image_size" if row["image_size"] else "model"), f"{message} (image_size: 28 makes them larger)"
    most, frozen = shapes.layers(model, row["depth"]) - 1, row["frozen_layers"]
    if frozen > most:
        return "frozen_layers", f"expected at most {most}, the layers of {model} before its head, got {frozen}"
    if row["label"] == tasks.COLOUR and tasks.form(row)[0] == 1:
        return "label", f"expected {tasks.CLASS} or {tasks.BRIGHTNESS} for grey images, got {tasks.COLOUR}"
    if model in shapes.RESNETS and (few := _about_batches(row)):
        return "batch_size", few
    return _about_examination(row)


def _about_examination(row: Row) -> tuple[str, str] | None:
    if maps := row["eigen_cam_images"]:
        there = tasks.counts(row["target"], "target", "test")[tasks.target_classes(row)].sum()
        if maps > there:
            return "eigen_cam_images", f"expected at most the {there:,} test images of the target, got {maps:,}"
    if row["examined_images"] > row["target_samples"]:
        message = f"expected at most target_samples, which is {row['target_samples']:,}, got {row['examined_images']:,}"
        return "examined_images", message
    if points := row["landscape_points"]:
        if not row["examined_images"]:
            return "landscape_points", "expected 0 without examined_images, whose loss a landscape shows"
        if points % 2 == 0 or points < 3:
            return "landscape_points", f"expected 0 or an odd number from 3 on, got {points}"
    return None


def _about_batches(row: Row) -> str | None:
    """Normalisation over a batch needs two images in the smallest one."""
    batch = int(row["batch_size"])
    for images in (int(row["source_samples"]) or tasks.count(row, "source"), int(row["target_samples"])):
        if images // math.ceil(images / batch) < 2:
            return f"expected batches of two images at least for {row['model']}, got {batch:,} of {images:,} images"
    return None
