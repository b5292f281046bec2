"""What a model is made of: the presets, and the shape that a row's parameters ask for. Imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BASE_WIDTH = 256
"""The width at which rates and initialization are stated; muP carries them to the others."""

VOCABULARY = 256  # bytes
WEIGHT_BYTES = 32  # a weight in training: itself, its gradient, two moments, and what AdamW computes with
PIECE_BYTES = 8e9
"""What the backward pass of all models may keep at a time; a larger batch is taken in pieces whose gradients add up. A
constant, so that no result depends on how much memory a machine has free."""
_TOKENS = re.compile(r"(?:tokens|bpe):(\d+):")  # text of a vocabulary of its own


@dataclass(frozen=True)
class Shape:
    """A decoder: layers, residual width, attention heads, inner width of the MLP, context and vocabulary in tokens."""

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

    def weights(self) -> int:
        """Number of weights."""
        return 2 * self.vocabulary * self.width + self.depth * self.layer_weights() + self.width

    def layer_weights(self) -> int:
        """Number of weights of one layer."""
        return 4 * self.width**2 + 3 * self.width * self.mlp + 2 * self.width

    def kept_bytes(self) -> float:
        """Memory that a forward pass keeps per token for the backward one, roughly, in float32."""
        return 4.0 * (self.depth * (20 * self.width + 6 * self.mlp) + 4 * self.vocabulary)

    def training_bytes(self, batch: int) -> float:
        """Memory that training one model takes, on `batch` sequences a step."""
        return WEIGHT_BYTES * self.weights() + min(PIECE_BYTES, batch * self.context * self.kept_bytes())

    def flops_per_token(self) -> float:
        """Floating-point operations of one training step per token: 6 a weight in a product (forward, and twice that
        backward), the embedding being no product, and 12·width·context a layer for attention, causality not counted."""
        products = self.vocabulary * self.width + self.depth * self.layer_weights()
        return 6.0 * products + 12.0 * self.depth * self.width * self.context


PRESETS = {
    "tiny": Shape(depth=2, width=32, heads=2, mlp=128, context=64),
    "3m": Shape(depth=4, width=256, heads=4, mlp=683, context=256),
    "15m": Shape(depth=3, width=192, heads=3, mlp=768, context=1024),
    "30m": Shape(depth=6, width=384, heads=6, mlp=1536, context=1024),
    "90m": Shape(depth=9, width=576, heads=9, mlp=2304, context=1024),
}


def shape_of(parameters: Mapping[str, Any]) -> Shape:
    """The shape of a row's model: its preset, with depth, width and context of its own where they are not 0.

    ValueError if the width does not divide into the preset's heads.
    """
    preset = PRESETS[str(parameters["preset"])]
    width = int(parameters["width"]) or preset.width
    if width % preset.head_width:
        raise ValueError(
            f"expected a multiple of the head width {preset.head_width} of preset {parameters['preset']}, got {width}"
        )
    return Shape(
        depth=int(parameters["depth"]) or preset.depth,
        width=width,
        heads=width // preset.head_width,
        mlp=round(preset.mlp * width / preset.width),
        context=int(parameters["context"]) or preset.context,
        vocabulary=vocabulary_of(str(parameters["source"])),
    )


def vocabulary_of(text: str) -> int:
    """Number of different tokens that the text of a name has."""
    found = _TOKENS.match(text)
    return int(found[1]) if found else VOCABULARY
