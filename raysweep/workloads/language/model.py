"""The model, plainly: a decoder like OLMo's (RMSNorm, rotary positions, SwiGLU, no biases, untied head), in muP.

Every weight has a leading axis of models, so that one and many are the same code: models that start from one checkpoint
train side by side as one batch of matrix products. All weights of a model lie in one flat row, of which the named
tensors are views.

muP (Yang et al. 2022, Table 8, for Adam), stated at BASE_WIDTH: hidden matrices start at 1/sqrt(fan-in) and learn at a
rate ∝ 1/width; embedding and gains keep both; logits are multiplied by BASE_WIDTH/width; attention by 1/head_width
instead of its root. Rates found at one width then serve all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from raysweep.workloads import draws
from raysweep.workloads.language import dropout as masks
from raysweep.workloads.language import head
from raysweep.workloads.language.dropout import Dropout
from raysweep.workloads.language.shapes import BASE_WIDTH, Shape

EPSILON = 1e-6  # inside RMSNorm
ROTARY_BASE = 10_000.0
STANDARD_DEVIATION = 0.02  # at a fan-in of BASE_WIDTH; OLMo's


@dataclass(frozen=True)
class Part:
    """One named tensor of a model. deviation: its standard deviation at initialization (0: gains, which start at 1);
    rate: its learning rate relative to the stated one; decays: whether weight decay applies."""

    name: str
    shape: tuple[int, ...]
    deviation: float
    rate: float
    decays: bool

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


def parts(shape: Shape) -> list[Part]:
    """Every tensor of a model, in the order of its flat row. Matrices are (in, out)."""
    width, mlp, ratio = shape.width, shape.mlp, BASE_WIDTH / shape.width

    def hidden(name: str, fan_in: int, fan_out: int, into_residual: bool = False) -> Part:
        deviation = STANDARD_DEVIATION * math.sqrt(BASE_WIDTH / fan_in)
        # what adds to the residual stream starts smaller by the root of how often that happens
        return Part(
            name, (fan_in, fan_out), deviation / math.sqrt(2 * shape.depth) if into_residual else deviation, ratio, True
        )

    found = [Part("embedding", (shape.vocabulary, width), STANDARD_DEVIATION, 1.0, True)]
    for layer in range(shape.depth):
        found += [
            Part(f"{layer}.attention_gain", (width,), 0.0, 1.0, False),
            hidden(f"{layer}.query_key_value", width, 3 * width),
            hidden(f"{layer}.attention_out", width, width, into_residual=True),
            Part(f"{layer}.mlp_gain", (width,), 0.0, 1.0, False),
            hidden(f"{layer}.gate_up", width, 2 * mlp),
            hidden(f"{layer}.down", mlp, width, into_residual=True),
        ]
    return [
        *found,
        Part("final_gain", (width,), 0.0, 1.0, False),
        Part("head", (width, shape.vocabulary), STANDARD_DEVIATION, 1.0, True),
    ]


OfPart = Callable[[Part], np.ndarray]
"""A tensor of a model -> its values, of any shape."""


def row(of: OfPart, shape: Shape) -> np.ndarray:
    """Values of every weight of a model as its flat row, float32, shape (weights,)."""
    return np.concatenate([np.asarray(of(part), np.float32).ravel() for part in parts(shape)])


def initial(shape: Shape, seed: int) -> np.ndarray:
    """One model's flat row at initialization, drawn per tensor from (seed, its name)."""
    return row(lambda part: drawn(part, seed), shape)


def drawn(part: Part, seed: int) -> np.ndarray:
    """One tensor at initialization, flat."""
    if part.deviation == 0:
        return np.ones(part.size)
    return part.deviation * draws.normal(seed, f"language/initial/{part.name}", *part.shape).ravel()


def named(flat: Tensor, shape: Shape) -> dict[str, Tensor]:
    """The named tensors (models, *shape) as views of flat rows (models, weights)."""
    views, at = {}, 0
    for part in parts(shape):
        views[part.name] = flat[:, at : at + part.size].unflatten(1, part.shape)
        at += part.size
    return views


class Units(Protocol):
    """Weights that are not all at hand: a unit's are brought where they are needed, and let go."""

    def applied(self, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """compute(the unit's tensors by name, *inputs)."""


Weights = Mapping[str, Tensor] | Units
"""The named tensors of models, or what brings them unit by unit."""

EMBEDDING, HEAD = "embedding", "head"  # units, beside the layers by number


def place_of(name: str) -> tuple[str, str]:
    """The unit that a named tensor belongs to, and its name there."""
    layer, _, own = name.partition(".")
    return (layer, own) if own else (EMBEDDING if name == "embedding" else HEAD, name)


def unit_of(weights: Weights, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """compute(the tensors of a unit by name, *inputs)."""
    if isinstance(weights, Mapping):
        return compute({own: weights[name] for name in weights for of, own in (place_of(name),) if of == unit}, *inputs)
    return weights.applied(unit, compute, *inputs)


def loss_sums(weights: Weights, tokens: Tensor, shape: Shape, dropout: Dropout | None = None) -> Tensor:
    """Sum of the losses in nats of each model, (models,), over the tokens to predict of (batch, length + 1)."""
    wanted, stream = _wanted(tokens), hidden(weights, tokens, shape, dropout)
    if not head.chunked(len(stream), len(wanted), shape.vocabulary):
        return unit_of(weights, HEAD, lambda own, stream: _plain_losses(own, stream, wanted, shape).sum(1), stream)
    return unit_of(
        weights,
        HEAD,
        lambda own, stream: head.loss_sums(
            normalize(stream, own["final_gain"]), own["head"], wanted, BASE_WIDTH / shape.width
        ),
        stream,
    )


def token_losses(weights: Weights, tokens: Tensor, shape: Shape) -> Tensor:
    """Loss at each token, (models, batch, length), of tokens (batch, length + 1), the same for all models.

    A token t is to be predicted from those before it; -1 - t is t as a given, read and not predicted, its loss 0.
    Differentiable, any number of times, where the logits are few enough to be held.
    """
    wanted, stream = _wanted(tokens), hidden(weights, tokens, shape)
    if torch.is_grad_enabled() or not head.chunked(len(stream), len(wanted), shape.vocabulary):
        each = unit_of(weights, HEAD, lambda own, stream: _plain_losses(own, stream, wanted, shape), stream)
    else:
        each = unit_of(
            weights,
            HEAD,
            lambda own, stream: head.token_losses(
                normalize(stream, own["final_gain"]), own["head"], wanted, BASE_WIDTH / shape.width
            ),
            stream,
        )
    return each.view(len(each), len(tokens), -1)


def losses(weights: Weights, tokens: Tensor, shape: Shape) -> Tensor:
    """Mean loss in nats of each model, shape (models,), over the tokens to predict of (batch, length + 1)."""
    return token_losses(weights, tokens, shape).sum((1, 2)) / (tokens[:, 1:] >= 0).sum()


def logits(weights: Weights, tokens: Tensor, shape: Shape) -> Tensor:
    """Logits (models, batch · length, vocabulary), float32 or wider, of tokens (batch, length)."""
    return unit_of(weights, HEAD, lambda own, stream: _scores(own, stream, shape), _hidden(weights, tokens, shape))


def hidden(weights: Weights, tokens: Tensor, shape: Shape, dropout: Dropout | None = None) -> Tensor:
    """What the last layer leaves, (models, batch · length, width), of all but the last of tokens (batch, length + 1),
    predicted or given."""
    return _hidden(weights, torch.where(tokens < 0, -1 - tokens, tokens)[:, :-1], shape, dropout)


def _hidden(weights: Weights, tokens: Tensor, shape: Shape, dropout: Dropout | None = None) -> Tensor:
    length = tokens.shape[1]

    def embedded(own: Mapping[str, Tensor]) -> Tensor:
        table = own["embedding"]  # one look-up for all models, each in its part of one table
        offsets = shape.vocabulary * torch.arange(len(table), device=tokens.device).view(-1, 1, 1)
        return functional.embedding(tokens + offsets, table.reshape(-1, shape.width)).flatten(1, 2)

    stream = unit_of(weights, EMBEDDING, embedded)  # (models, N, width)
    if dropout is not None:
        stream = dropout.applied(stream, 0, masks.EMBEDDING, length)
    cosine, sine = _rotation(length, shape.head_width, stream)
    for number in range(shape.depth):

        def layer(own: Mapping[str, Tensor], stream: Tensor, number: int = number) -> Tensor:
            stream = stream + _attention(own, stream, length, shape, (cosine, sine), dropout, number)
            gate, up = product(normalize(stream, own["mlp_gain"]), own["gate_up"]).chunk(2, -1)
            added = product(functional.silu(gate) * up, own["down"])
            return stream + (added if dropout is None else dropout.applied(added, number, masks.MLP_OUT, length))

        stream = unit_of(weights, str(number), layer, stream)
    return stream


def _attention(
    own: Mapping[str, Tensor],
    stream: Tensor,
    length: int,
    shape: Shape,
    rotation: tuple[Tensor, Tensor],
    dropout: Dropout | None,
    number: int,
) -> Tensor:
    """What attention adds to the stream."""
    mixed = product(normalize(stream, own["attention_gain"]), own["query_key_value"])
    # (3, models · batch, heads, length, head width)
    parts = mixed.view(-1, length, 3, shape.heads, shape.head_width).permute(2, 0, 3, 1, 4)
    (query, key), value = turn(parts[:2], *rotation), parts[2]
    scale = math.sqrt(64) / shape.head_width  # the usual 1/8 at the usual 64
    if dropout is None:
        heard = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        return product(heard.transpose(1, 2).reshape(stream.shape), own["attention_out"])

    def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        probability = (query @ key.mT * scale).masked_fill(future, -torch.inf).softmax(-1)
        probability = dropout.applied(
            probability.unflatten(0, (len(stream), -1)), number, masks.ATTENTION, shape.heads * length
        )
        return probability.flatten(0, 1).to(value.dtype) @ value

    # no kernel of torch's takes masks of ours; what is of size length² is computed again, not kept
    heard = checkpoint(attended, query, key, value, use_reentrant=False, preserve_rng_state=False)
    added = product(heard.transpose(1, 2).reshape(stream.shape), own["attention_out"])
    return dropout.applied(added, number, masks.ATTENTION_OUT, length)


def _scores(own: Mapping[str, Tensor], stream: Tensor, shape: Shape) -> Tensor:
    scores = product(normalize(stream, own["final_gain"]), own["head"]) * (BASE_WIDTH / shape.width)
    return scores if scores.dtype == torch.float64 else scores.float()


def _plain_losses(own: Mapping[str, Tensor], stream: Tensor, wanted: Tensor, shape: Shape) -> Tensor:
    scores = _scores(own, stream, shape)
    each = functional.cross_entropy(
        scores.reshape(-1, shape.vocabulary), wanted.repeat(len(scores)), ignore_index=-1, reduction="none"
    )
    return each.view(len(scores), -1)


def _wanted(tokens: Tensor) -> Tensor:
    return tokens[:, 1:].reshape(-1).clamp(min=-1)


def product(stream: Tensor, matrix: Tensor) -> Tensor:
    """(models, N, in) times (models, in, out); a single model takes the plain product, which is quicker on a CPU."""
    if len(matrix) == 1:
        return (stream[0] @ matrix[0]).unsqueeze(0)
    return torch.bmm(stream, matrix)


def normalize(stream: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm of (models, N, width) with gains (models, width)."""
    if len(gain) == 1:  # in one pass over memory
        return functional.rms_norm(stream, stream.shape[-1:], gain[0], EPSILON)
    return functional.rms_norm(stream, stream.shape[-1:], eps=EPSILON) * gain.unsqueeze(1)


def turn(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: coordinate i and i + half of (…, length, head width) turned by an angle ∝ position."""
    first, second = vectors.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1).to(vectors.dtype)


def _rotation(length: int, head_width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_width, 2, device=like.device, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(length, device=like.device, dtype=torch.float64), frequencies)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
