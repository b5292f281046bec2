"""A decoder with the layout and the names of Llama (RMSNorm, rotary positions, SwiGLU, no biases, untied head).

Its state dict is that of transformers' LlamaForCausalLM. muP is in the initial weights and the rates alone
(model_config.py). Dropout is where O Table 3 has it: at the embedding, the probabilities of attention, and what
attention and the MLP add to the residual stream.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from raysweep.training import devices, trainer
from raysweep.workloads.language.model_config import CHUNK, NORM_EPSILON, ROTARY_BASE, ModelConfig

Rotation = tuple[Tensor, Tensor]
"""Cosine and sine of the angle by which each position turns each pair of coordinates, (length, head width / 2)."""


def decoder(config: ModelConfig, weights: Mapping[str, Any], dropout: float = 0.0, compiles: bool = False) -> nn.Module:
    """A decoder with these weights, by name, where this process computes; spread over the workers of a gang. compiles:
    where there is a compiler."""
    where = devices.device()
    with torch.device("meta"):  # the weights are allocated once
        module = Decoder(config, dropout)
    if compiles and trainer.compiler():
        module.compile()
    trainer.spread(module, where)
    trainer.load(module.to_empty(device=where), weights)
    return module.eval()


def losses(module: Callable[..., Tensor], tokens: Tensor) -> Tensor:
    """Loss in nats at each token, (sequences, length), of tokens (sequences, length + 1); see training/trainer.py."""
    read = torch.where(tokens < 0, -1 - tokens, tokens)[:, :-1]
    return module(read, tokens[:, 1:].clamp(min=-1))


class Decoder(nn.Module):
    """Maps tokens (sequences, length) to logits (sequences, length, vocabulary); with the tokens that follow, -1 for
    none, to the loss at each of them, (sequences, length)."""

    def __init__(self, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.model = Layers(config, dropout)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def compile(self, *arguments: Any, **options: Any) -> None:
        """Compile a layer, of which all are alike, the last norm, and the loss."""
        for part in (*self.model.layers, self.model.norm):
            part.compile(*arguments, **options)
        self.model.token_losses = torch.compile(token_losses, *arguments, **options)

    def forward(self, tokens: Tensor, following: Tensor | None = None) -> Tensor:
        stream = self.model(tokens)
        if following is None:
            return self.lm_head(stream)
        rows, targets, loss = stream.flatten(0, 1), following.flatten(), self.model.token_losses
        each = max(1, CHUNK // self.lm_head.out_features)
        if len(rows) <= each:
            return loss(self.lm_head, rows, targets).view(following.shape)
        # the logits of a chunk are computed again for its gradient, so those of one chunk exist at a time
        parts = zip(rows.split(each), targets.split(each), strict=True)
        chunks = [
            checkpoint(loss, self.lm_head, *part, use_reentrant=False, preserve_rng_state=False) for part in parts
        ]
        return torch.cat(chunks).view(following.shape)


def token_losses(head: nn.Module, rows: Tensor, targets: Tensor) -> Tensor:
    """Loss at each row, in float32 or wider; 0 where the target is -1."""
    scores = head(rows)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return functional.cross_entropy(wide, targets, ignore_index=-1, reduction="none")


class Norm(nn.RMSNorm):
    """RMSNorm in the precision of its gains, which may be wider than that of the stream."""

    def forward(self, stream: Tensor) -> Tensor:
        return super().forward(stream.to(self.weight.dtype))


class LastNorm(Norm):
    """NaN where squares overflow: RMSNorm alone makes finite zeros of such a row."""

    def forward(self, stream: Tensor) -> Tensor:
        return super().forward(stream) + 0 * stream.detach().square().mean(-1, keepdim=True)


class Layers(nn.Module):
    """Everything but the head: tokens (sequences, length) to the normalized stream (sequences, length, width)."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.depth))
        self.norm = LastNorm(config.width, NORM_EPSILON)
        self.head_width, self.dropout, self.recomputes = config.head_width, dropout, config.recomputes()
        self.token_losses = token_losses

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.embed_tokens(tokens)
        turns = rotation(tokens.shape[1], self.head_width, stream)
        if self.training and torch.is_autocast_enabled(stream.device.type):  # a loss that is reported keeps its digits
            stream = stream.to(torch.get_autocast_dtype(stream.device.type))
        stream = functional.dropout(stream, self.dropout, self.training)
        for layer in self.layers:
            if self.recomputes and self.training:
                stream = checkpoint(layer, stream, turns, use_reentrant=False, preserve_rng_state=self.dropout > 0)
            else:
                stream = layer(stream, turns)
        return self.norm(stream)


class Layer(nn.Module):
    """Attention and MLP, each added to the stream (sequences, length, width)."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config, dropout), Mlp(config)
        self.input_layernorm = Norm(config.width, NORM_EPSILON)
        self.post_attention_layernorm = Norm(config.width, NORM_EPSILON)
        self.dropout = dropout

    def forward(self, stream: Tensor, turns: Rotation) -> Tensor:
        added = self.self_attn(self.input_layernorm(stream), turns)
        stream = stream + functional.dropout(added, self.dropout, self.training)
        added = self.mlp(self.post_attention_layernorm(stream))
        return stream + functional.dropout(added, self.dropout, self.training)


class Attention(nn.Module):
    """Causal attention with rotary positions: what it adds to the stream."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        width = config.width
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.heads, self.dropout = config.heads, dropout

    def forward(self, stream: Tensor, turns: Rotation) -> Tensor:
        query, key, value = (
            project(stream).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(
            turned(query, turns),
            turned(key, turns),
            value,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=True,
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """SwiGLU: what it adds to the stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(config.width, config.mlp, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(config.mlp, config.width, bias=False)

    def forward(self, stream: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(stream)) * self.up_proj(stream))


def turned(vectors: Tensor, turns: Rotation) -> Tensor:
    """Rotary positions: coordinates i and i + half of (…, length, head width) turned by an angle ∝ position."""
    (cosine, sine), (first, second) = turns, vectors.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(vectors.dtype)


def rotation(length: int, head_width: int, like: Tensor) -> Rotation:
    """The rotation of each position."""
    steps = torch.arange(0, head_width, 2, device=like.device, dtype=torch.float64) / head_width
    angles = torch.outer(torch.arange(length, device=like.device, dtype=torch.float64), ROTARY_BASE**-steps)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
