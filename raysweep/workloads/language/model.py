"""A decoder like OLMo's (RMSNorm, rotary positions, SwiGLU, no biases, untied head), in muP (model_config.py).

Every weight has a leading axis of models, so the same code computes one model or many: models that start from one
checkpoint train side by side as one batch of matrix products. All weights of a model lie in one flat row; the named
tensors are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from raysweep.training import dropout as masks
from raysweep.training.dropout import Dropout
from raysweep.training.params import Params
from raysweep.workloads.language import chunked_loss
from raysweep.workloads.language.model_config import BASE_WIDTH, EMBEDDING, HEAD, ModelConfig

EPSILON = 1e-6  # inside RMSNorm
ROTARY_BASE = 10_000.0


def of_unit(params: Params, config: ModelConfig, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """compute(the tensors of a unit by their name within the unit, *inputs)."""
    if not isinstance(params, Mapping):
        return params.applied(unit, compute, *inputs)
    return compute({part.own: params[part.name] for part in config.parts() if part.unit == unit}, *inputs)


def loss_sums(params: Params, tokens: Tensor, config: ModelConfig, dropout: Dropout | None = None) -> Tensor:
    """Sum of the losses in nats of each model, (models,), over the tokens to predict in (batch, length + 1)."""
    wanted, stream = _wanted(tokens), hidden(params, _read(tokens), config, dropout)
    if chunked_loss.chunked(len(stream), len(wanted), config.vocabulary):
        return _by_chunks(chunked_loss.loss_sums, params, stream, wanted, config)
    return _plain_losses(params, stream, wanted, config).sum(1)


def token_losses(params: Params, tokens: Tensor, config: ModelConfig) -> Tensor:
    """Loss at each token, (models, batch, length), of tokens (batch, length + 1) that all models share.

    A token t is predicted from the tokens before it. A negative token -1 - t stands for a given t: it is read but not
    predicted, and its loss is 0. Differentiable any number of times if the logits are few enough to be held at once.
    """
    wanted, stream = _wanted(tokens), hidden(params, _read(tokens), config)
    if torch.is_grad_enabled() or not chunked_loss.chunked(len(stream), len(wanted), config.vocabulary):
        each = _plain_losses(params, stream, wanted, config)
    else:
        each = _by_chunks(chunked_loss.token_losses, params, stream, wanted, config)
    return each.view(len(each), len(tokens), -1)


def losses(params: Params, tokens: Tensor, config: ModelConfig) -> Tensor:
    """Mean loss in nats of each model, shape (models,), over the tokens to predict in (batch, length + 1)."""
    return token_losses(params, tokens, config).sum((1, 2)) / (tokens[:, 1:] >= 0).sum()


def logits(params: Params, tokens: Tensor, config: ModelConfig) -> Tensor:
    """Logits (models, batch · length, vocabulary), float32 or wider, for tokens (batch, length)."""
    return _logits(params, hidden(params, tokens, config), config)


def hidden(params: Params, tokens: Tensor, config: ModelConfig, dropout: Dropout | None = None) -> Tensor:
    """Output of the last layer, (models, batch · length, width), for tokens (batch, length)."""
    length = tokens.shape[1]

    def embedded(own: Mapping[str, Tensor]) -> Tensor:
        table = own["embedding"]  # one look-up in one table of all models' embeddings
        offsets = config.vocabulary * torch.arange(len(table), device=tokens.device).view(-1, 1, 1)
        return functional.embedding(tokens + offsets, table.reshape(-1, config.width)).flatten(1, 2)

    stream = of_unit(params, config, EMBEDDING, embedded)  # (models, N, width)
    if dropout is not None:
        stream = dropout.applied(stream, 0, masks.EMBEDDING, length)
    cosine, sine = _rotation(length, config.head_width, stream)
    for number in range(config.depth):

        def layer(own: Mapping[str, Tensor], stream: Tensor, number: int = number) -> Tensor:
            stream = stream + _attention(own, stream, length, config, (cosine, sine), dropout, number)
            gate, up = product(normalize(stream, own["mlp_gain"]), own["gate_up"]).chunk(2, -1)
            added = product(functional.silu(gate) * up, own["down"])
            return stream + (added if dropout is None else dropout.applied(added, number, masks.MLP_OUT, length))

        stream = of_unit(params, config, str(number), layer, stream)
    return stream


def _attention(
    own: Mapping[str, Tensor],
    stream: Tensor,
    length: int,
    config: ModelConfig,
    rotation: tuple[Tensor, Tensor],
    dropout: Dropout | None,
    number: int,
) -> Tensor:
    """The output of attention, which is added to the stream."""
    mixed = product(normalize(stream, own["attention_gain"]), own["query_key_value"])
    # (3, models · batch, heads, length, head width)
    parts = mixed.view(-1, length, 3, config.heads, config.head_width).permute(2, 0, 3, 1, 4)
    (query, key), value = apply_rotary(parts[:2], *rotation), parts[2]
    scale = math.sqrt(64) / config.head_width  # the usual 1/8 at a head width of 64
    if dropout is None:
        heard = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        return product(heard.transpose(1, 2).reshape(stream.shape), own["attention_out"])

    def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        probability = (query @ key.mT * scale).masked_fill(future, -torch.inf).softmax(-1)
        probability = dropout.applied(
            probability.unflatten(0, (len(stream), -1)), number, masks.ATTENTION, config.heads * length
        )
        return probability.flatten(0, 1).to(value.dtype) @ value

    # torch has no kernel for our masks; tensors of size length² are computed again in the backward pass, not kept
    heard = checkpoint(attended, query, key, value, use_reentrant=False, preserve_rng_state=False)
    added = product(heard.transpose(1, 2).reshape(stream.shape), own["attention_out"])
    return dropout.applied(added, number, masks.ATTENTION_OUT, length)


def _logits(params: Params, stream: Tensor, config: ModelConfig) -> Tensor:
    def compute(own: Mapping[str, Tensor], stream: Tensor) -> Tensor:
        scores = product(normalize(stream, own["final_gain"]), own["head"]) * (BASE_WIDTH / config.width)
        return scores if scores.dtype == torch.float64 else scores.float()

    return of_unit(params, config, HEAD, compute, stream)


def _plain_losses(params: Params, stream: Tensor, wanted: Tensor, config: ModelConfig) -> Tensor:
    """Loss of each token, (models, N)."""
    scores = _logits(params, stream, config)
    each = functional.cross_entropy(
        scores.reshape(-1, config.vocabulary), wanted.repeat(len(scores)), ignore_index=-1, reduction="none"
    )
    return each.view(len(scores), -1)


def _by_chunks(
    compute: Callable[..., Tensor], params: Params, stream: Tensor, wanted: Tensor, config: ModelConfig
) -> Tensor:
    """Losses by a function of chunked_loss.py, which takes the tokens in chunks."""

    def of_head(own: Mapping[str, Tensor], stream: Tensor) -> Tensor:
        return compute(normalize(stream, own["final_gain"]), own["head"], wanted, BASE_WIDTH / config.width)

    return of_unit(params, config, HEAD, of_head, stream)


def _read(tokens: Tensor) -> Tensor:
    """The input tokens, (batch, length), predicted or given, of tokens (batch, length + 1)."""
    return torch.where(tokens < 0, -1 - tokens, tokens)[:, :-1]


def _wanted(tokens: Tensor) -> Tensor:
    """The tokens to predict, (batch · length,); -1 where there is nothing to predict."""
    return tokens[:, 1:].reshape(-1).clamp(min=-1)


def product(stream: Tensor, matrix: Tensor) -> Tensor:
    """(models, N, in) times (models, in, out). A single model uses the plain product, which is faster on a CPU."""
    if len(matrix) == 1:
        # squeeze, because the gradient of [0] is filled with zeros and then copied into
        return (stream.squeeze(0) @ matrix.squeeze(0)).unsqueeze(0)
    return torch.bmm(stream, matrix)


def normalize(stream: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm of (models, N, width) with gains (models, width)."""
    if len(gain) == 1:  # one pass over memory
        return functional.rms_norm(stream, stream.shape[-1:], gain.squeeze(0), EPSILON)
    return functional.rms_norm(stream, stream.shape[-1:], eps=EPSILON) * gain.unsqueeze(1)


def apply_rotary(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: rotate coordinates i and i + half of (…, length, head width) by an angle ∝ position."""
    first, second = vectors.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1).to(vectors.dtype)


def _rotation(length: int, head_width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_width, 2, device=like.device, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(length, device=like.device, dtype=torch.float64), frequencies)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
