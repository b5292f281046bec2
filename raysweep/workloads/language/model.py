"""A decoder like OLMo's (RMSNorm, rotary positions, SwiGLU, no biases, untied head), in muP (model_config.py).

Every weight has a leading axis of models, so the same code computes one model or many: models that start from one
checkpoint train side by side as one batch of matrix products. All weights of a model lie in one flat row; the named
tensors are views of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from raysweep.training import compiled
from raysweep.training import dropout as masks
from raysweep.training.dropout import Dropout
from raysweep.training.params import Params
from raysweep.workloads.language import by_hand, chunked_loss, layer
from raysweep.workloads.language.model_config import BASE_WIDTH, EMBEDDING, HEAD, ModelConfig


def of_unit(params: Params, config: ModelConfig, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """compute(the tensors of a unit by their name within the unit, *inputs)."""
    if not isinstance(params, Mapping):
        return params.applied(unit, compute, *inputs)
    return compute({own: params[name] for own, name in _names(config)[unit]}, *inputs)


@functools.lru_cache(maxsize=16)
def _names(config: ModelConfig) -> dict[str, list[tuple[str, str]]]:
    """The tensors of each unit: their names within the unit, and in the model."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in config.parts():
        found.setdefault(part.unit, []).append((part.own, part.name))
    return found


def loss_sums(params: Params, tokens: Tensor, config: ModelConfig, dropout: Dropout | None = None) -> Tensor:
    """Sum of the losses in nats of each model, (models,), over the tokens to predict in (batch, length + 1)."""
    wanted, stream = _wanted(tokens), hidden(params, _read(tokens), config, dropout, once=True)
    return _by_chunks(chunked_loss.loss_sums, params, stream, wanted, config)


def token_losses(params: Params, tokens: Tensor, config: ModelConfig) -> Tensor:
    """Loss at each token, (models, batch, length), of tokens (batch, length + 1) that all models share.

    A token t is predicted from the tokens before it. A negative token -1 - t stands for a given t: it is read but not
    predicted, and its loss is 0. Differentiable any number of times if the logits are few enough to be held at once.
    """
    wanted, stream = _wanted(tokens), hidden(params, _read(tokens), config)
    if torch.is_grad_enabled():
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


def hidden(
    params: Params, tokens: Tensor, config: ModelConfig, dropout: Dropout | None = None, once: bool = False
) -> Tensor:
    """Output of the last layer, (models, batch · length, width), for tokens (batch, length).

    once: compute it by faster forms, which can be differentiated once; without a gradient they serve always.
    """
    length = tokens.shape[1]
    once = once or not torch.is_grad_enabled()

    def embedded(own: Mapping[str, Tensor]) -> Tensor:
        table = own["embedding"]  # one look-up in one table of all models' embeddings
        offsets = config.vocabulary * torch.arange(len(table), device=tokens.device).view(-1, 1, 1)
        return functional.embedding(tokens + offsets, table.reshape(-1, config.width)).flatten(1, 2)

    stream = of_unit(params, config, EMBEDDING, embedded)  # (models, N, width)
    if dropout is not None:
        stream = dropout.applied(stream, 0, masks.EMBEDDING, length)
    by_itself = once and by_hand.serves(stream)
    turns = None if by_itself and dropout is None else layer.rotation(length, config.head_width, stream)
    attention, dropped, mlp = (_attention, _dropped, _mlp) if once else (layer.attention, layer.attention, layer.mlp)
    for number in range(config.depth):

        def through(own: Mapping[str, Tensor], stream: Tensor, number: int = number) -> Tensor:
            tensors = own["attention_gain"], own["query_key_value"], own["attention_out"]
            if turns is None:
                added = by_hand.attention(stream, *tensors, length, config.heads)
            elif dropout is None:
                added = attention(stream, *tensors, length, config.heads, turns)
            else:
                first = dropout.first * config.heads * length
                of_layer = dropout.masks(number, masks.ATTENTION, first).on(stream.device)
                added = dropped(stream, *tensors, length, config.heads, turns, of_layer)
                added = dropout.applied(added, number, masks.ATTENTION_OUT, length)
            stream = stream + added
            added = (by_hand.mlp if by_itself else mlp)(stream, own["mlp_gain"], own["gate_up"], own["down"])
            return stream + (added if dropout is None else dropout.applied(added, number, masks.MLP_OUT, length))

        stream = of_unit(params, config, str(number), through, stream)
    return stream


_attention, _mlp = compiled.where_possible(layer.attention), compiled.where_possible(layer.mlp)
_dropped = compiled.where_possible(layer.attention_with_dropout)


def _logits(params: Params, stream: Tensor, config: ModelConfig) -> Tensor:
    def compute(own: Mapping[str, Tensor], stream: Tensor) -> Tensor:
        scores = torch.bmm(_final(own, stream, config, not torch.is_grad_enabled()), own["head"])
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
        return compute(_final(own, stream, config, True), own["head"], wanted)

    return of_unit(params, config, HEAD, of_head, stream)


def _read(tokens: Tensor) -> Tensor:
    """The input tokens, (batch, length), predicted or given, of tokens (batch, length + 1)."""
    return torch.where(tokens < 0, -1 - tokens, tokens)[:, :-1]


def _wanted(tokens: Tensor) -> Tensor:
    """The tokens to predict, (batch · length,); -1 where there is nothing to predict."""
    return tokens[:, 1:].reshape(-1).clamp(min=-1)


def _final(own: Mapping[str, Tensor], stream: Tensor, config: ModelConfig, once: bool) -> Tensor:
    """What the head is multiplied by; muP's factor of the logits is taken here, where the numbers are fewest."""
    gain = own["final_gain"] * (BASE_WIDTH / config.width)
    if once and by_hand.serves(stream):
        return by_hand.normalize(stream, gain)
    return layer.normalize(stream, gain) + layer.overflow(stream)
