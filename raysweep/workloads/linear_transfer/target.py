"""What all engines share: the data of a draw, the two teachers, and the state from which fine-tuning starts."""

import numpy as np

from raysweep.theory import pretraining
from raysweep.theory.arrays import cosine_sine, floats
from raysweep.training import draws
from raysweep.workloads.declaration import Array, Columns


def teacher_directions(seed: int, dim: int) -> Array:
    """Orthonormal (e_s, e_u), shape (2, dim): the direction of the source teacher, and its partner."""
    return draws.unit_vectors(seed, "teachers", 2, dim)


def inputs(seed: int, n: int, dim: int) -> Array:
    """Target inputs X of one draw, shape (n, dim), independent N(0,1); a smaller n gives a prefix of a larger n."""
    return draws.normal(seed, "inputs", n, dim)


def label_noise(seed: int, n: int) -> Array:
    """Unit label noise ε of one draw, shape (n,): y = X b_t + noise * ε."""
    return draws.normal(seed, "noise", n)


def target_coordinates(columns: Columns) -> Array:
    """Target teachers in the basis (e_s, e_u), shape (rows, 2): target_norm * (cos θ, sin θ)."""
    cosine, sine = cosine_sine(columns["overlap_angle"])
    return np.asarray(columns["target_norm"], float)[:, None] * np.stack([cosine, sine], axis=1)


def signs(columns: Columns) -> dict[str, Array]:
    """The columns whose negation flips a sign of the draw, each with the rows in which that makes a difference.

    e_u is uniform on the sphere across e_s, whatever X and ε are, and ε is normal. Flipping e_u is the draw at -θ,
    flipping ε the draw at -noise. The other flips are none of their own: that of e_s is that of e_u and ε together, up
    to the sign of everything, and X with a flipped sign is the same as ε with one.
    """
    angle, noise = floats(columns, "overlap_angle", "noise")
    return {"overlap_angle": angle % 180 != 0, "noise": noise != 0}


def log_pretrain_scale(columns: Columns) -> Array:
    """Natural logarithm of the norm c of the pretrained map c e_s, shape (rows,).

    The logarithm stays finite for deep networks, where init_scale^depth underflows.
    """
    names = "pretrain_length", "depth", "init_scale", "source_norm"
    return pretraining.log_scale(*(columns[name] for name in names))


def layer_scale(columns: Columns) -> Array:
    """c^(1/depth), shape (rows,): the norm of each rank-one layer of the balanced pretrained network."""
    return np.exp(log_pretrain_scale(columns) / np.asarray(columns["depth"], float))
