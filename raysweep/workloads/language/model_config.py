"""What a model is made of: presets, the model that a row asks for, and its tensors. Imports nothing heavy.

muP (Yang et al. 2022, Table 8, for Adam), stated at BASE_WIDTH: hidden matrices start at 1/sqrt(fan-in) and have a
learning rate ∝ 1/width. The embedding and the gains keep both. Logits are multiplied by BASE_WIDTH/width. Attention
scores are multiplied by 1/head_width, not by 1/sqrt(head_width). So rates found at one width serve all widths.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.training.params import Params, Part
from raysweep.training.sizes import PIECE_BYTES

if TYPE_CHECKING:
    from torch import Tensor

    from raysweep.training.dropout import Dropout

BASE_WIDTH = 256
"""The width at which rates and initialization are stated; muP converts them to other widths."""

VOCABULARY = 256  # bytes
STANDARD_DEVIATION = 0.02  # at a fan-in of BASE_WIDTH; OLMo's value
CHUNK = 2**28
"""Logits that may exist at a time: 1 GB of float32. A constant, so that no result depends on a machine's memory."""
EMBEDDING, HEAD = "embedding", "head"  # units of tensors; each layer is a unit too, named by its number
_TOKENS = re.compile(r"(?:tokens|bpe):(\d+):")  # a text with a vocabulary of its own


def share_of(angle: float) -> float:
    """The share of the target that is drawn from the source: the cosine of overlap_angle (degrees), to 12 digits."""
    return round(math.cos(math.radians(angle)), 12) + 0.0


def angle_of(share: float) -> float:
    """The overlap_angle (degrees) whose cosine is this share, to 12 digits after the point. ValueError for no share."""
    return round(math.degrees(math.acos(share)), 12)


def steps_of(parameters: Mapping[str, Any]) -> int:
    """Number of steps of a row's pretraining."""
    step = config_of(parameters).context * int(parameters["pretrain_batch"])
    return round(float(parameters["pretrain_length"]) / step)


@dataclass(frozen=True)
class ModelConfig:
    """A decoder: layers, residual width, attention heads, inner width of the MLP, context and vocabulary in tokens.

    Satisfies training's Model. Its samples are sequences of tokens (count, context + 1), as model.py reads them.
    """

    depth: int
    width: int
    heads: int
    mlp: int
    context: int
    vocabulary: int = VOCABULARY

    @property
    def head_width(self) -> int:
        """Coordinates of one attention head."""
        return self.width // self.heads

    @property
    def name(self) -> str:
        """The prefix of the roles of its random draws."""
        return "language"

    def parts(self) -> tuple[Part, ...]:
        """All tensors of a model, in the order of its flat row. Matrices are (in, out)."""
        return _parts(self)

    def weights(self) -> int:
        """Number of weights."""
        return 2 * self.vocabulary * self.width + self.depth * self.layer_weights() + self.width

    def layer_weights(self) -> int:
        """Number of weights of one layer."""
        return 4 * self.width**2 + 3 * self.width * self.mlp + 2 * self.width

    def sample_bytes(
        self, models: int = 1, *, spread: bool = False, dropout: bool = False, wide: bool = False
    ) -> float:
        """Bytes per sequence and model that forward and backward passes take at a time.

        Counted on operations of this code (tests/gpu/test_peak_memory.py). Logits are not in it, because only a few
        exist at a time (chunked_loss.py).

        models: how many train side by side.
        spread: the model is spread over workers, and keeps only what is between layers.
        dropout: there are masks; those of attention have length² entries, in one layer at a time. Counted on the plain
            form, which runs where there is no compiler; the compiled one makes no such masks (dropped_attention.py).
        wide: products are in float32, as on a CPU, not in bfloat16.
        """
        of_width, of_mlp, of_layer, of_end = (53, 16, (12, 8), 12) if wide else (24, 8, (7, 4), 6)
        if models > 1 and not wide:  # gains of several models are multiplied in an operation of its own
            of_width, of_layer, of_end = 32, (10, 4), 10
        layer = (of_width + 3 * dropout) * self.width + of_mlp * self.mlp
        passing = of_layer[0] * self.width + of_layer[1] * self.mlp
        if dropout:
            passing = max(passing, 13 * self.heads * self.context)
        kept = layer + 4 * self.depth * self.width if spread else self.depth * layer
        return float(self.context * (kept + of_end * self.width + passing))

    def training_bytes(self, batch: int, models: int = 1, *, dropout: bool = False, wide: bool = False) -> float:
        """Bytes that training models side by side takes, with `batch` sequences a step for each.

        Never less than what is counted on operations of this code, and at most a third more; what the allocator loses
        between blocks, and CUDA itself, are not in it. dropout, wide: as in sample_bytes.
        """
        weights = models * self.weights()
        state = 20.0 * weights + 8 * self.weights()  # start, weights, gradient, both moments; factors of rate and decay
        each = self.sample_bytes(models, dropout=dropout, wide=wide)
        sequences = models * min(batch, max(1, int(PIECE_BYTES / (models * each))))
        logits = sequences * self.context * self.vocabulary
        table = models * self.vocabulary * self.width
        a_logit = 8 if logits > CHUNK else 4 if wide else 6  # those of one chunk are there when the next is computed
        head = a_logit * min(logits, CHUNK) + 8.0 * table
        masks = sequences * (each - self.sample_bytes(models, wide=wide))  # not at the same time as the head
        work = (0 if wide else 2.0 * weights) + sequences * each - masks + max(masks, head)
        return 1.01 * (state + max(work, 8.0 * weights + 4.0 * self.weights()))  # the optimizer comes after the passes

    def curvature_bytes(self) -> float:
        """Bytes per sequence that a product with the Hessian takes, in float32, within a tenth.

        Attention keeps probabilities of every pair of positions, because only its plain form can be differentiated
        twice.
        """
        layer = 7 * self.heads * self.context + 12 * self.width + 17 * self.mlp
        return 4.0 * self.context * (self.depth * layer + 64 * self.width + 8 * self.vocabulary)

    def flops_per_token(self) -> float:
        """Floating-point operations of one training step, per token.

        A weight in a product takes 6 (2 forward, 4 backward); the embedding is no product. Attention takes
        12·width·context a layer, without a discount for causality.
        """
        products = self.vocabulary * self.width + self.depth * self.layer_weights()
        return 6.0 * products + 12.0 * self.depth * self.width * self.context

    def loss_sums(self, params: Params, samples: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Sum of the losses in nats of each model over the tokens to predict."""
        from raysweep.workloads.language import model  # needs torch, which planning does not

        return model.loss_sums(params, samples, self, dropout)

    def predictions(self, samples: np.ndarray) -> int:
        """Number of tokens to predict in sequences."""
        return int((samples[:, 1:] >= 0).sum())

    def example(self, count: int) -> np.ndarray:
        """`count` sequences that repeat token 0."""
        return np.zeros((count, self.context + 1), np.uint8)


@functools.lru_cache(maxsize=16)
def _parts(config: ModelConfig) -> tuple[Part, ...]:
    width, mlp, ratio = config.width, config.mlp, BASE_WIDTH / config.width

    def hidden(layer: int, name: str, fan_in: int, fan_out: int, into_residual: bool = False) -> Part:
        deviation = STANDARD_DEVIATION * math.sqrt(BASE_WIDTH / fan_in)
        if into_residual:  # 2·depth outputs are added to the residual stream
            deviation /= math.sqrt(2 * config.depth)
        return Part(f"{layer}.{name}", (fan_in, fan_out), deviation, ratio, True, str(layer))

    found = [Part("embedding", (config.vocabulary, width), STANDARD_DEVIATION, 1.0, True, EMBEDDING)]
    for layer in range(config.depth):
        found += [
            Part(f"{layer}.attention_gain", (width,), 0.0, 1.0, False, str(layer)),
            hidden(layer, "query_key_value", width, 3 * width),
            hidden(layer, "attention_out", width, width, into_residual=True),
            Part(f"{layer}.mlp_gain", (width,), 0.0, 1.0, False, str(layer)),
            hidden(layer, "gate_up", width, 2 * mlp),
            hidden(layer, "down", mlp, width, into_residual=True),
        ]
    return (
        *found,
        Part("final_gain", (width,), 0.0, 1.0, False, HEAD),
        Part("head", (width, config.vocabulary), STANDARD_DEVIATION, 1.0, True, HEAD),
    )


PRESETS = {
    "tiny": ModelConfig(depth=2, width=32, heads=2, mlp=128, context=64),
    "3m": ModelConfig(depth=4, width=256, heads=4, mlp=683, context=256),
    # rows of bfloat16 that begin at multiples of 16 bytes, as fast products need; 3m stays for the sweeps that named it
    "3m-688": ModelConfig(depth=4, width=256, heads=4, mlp=688, context=256),
    "15m": ModelConfig(depth=3, width=192, heads=3, mlp=768, context=1024),
    "30m": ModelConfig(depth=6, width=384, heads=6, mlp=1536, context=1024),
    "90m": ModelConfig(depth=9, width=576, heads=9, mlp=2304, context=1024),
}


def config_of(parameters: Mapping[str, Any]) -> ModelConfig:
    """The model of a row: its preset, changed to the row's depth, width and context where these are not 0.

    ValueError if the preset's heads do not divide the width.
    """
    preset = PRESETS[str(parameters["preset"])]
    width = int(parameters["width"]) or preset.width
    if width % preset.head_width:
        raise ValueError(
            f"expected a multiple of the head width {preset.head_width} of preset {parameters['preset']}, got {width}"
        )
    return ModelConfig(
        depth=int(parameters["depth"]) or preset.depth,
        width=width,
        heads=width // preset.head_width,
        mlp=round(preset.mlp * width / preset.width),
        context=int(parameters["context"]) or preset.context,
        vocabulary=vocabulary_of(str(parameters["source"])),
    )


def vocabulary_of(text: str) -> int:
    """Number of different tokens of the text with this name."""
    found = _TOKENS.match(text)
    return int(found[1]) if found else VOCABULARY
