"""What a model is made of: presets, the model that a row asks for, and its tensors. Imports nothing heavy.

muP (Yang et al. 2022, for Adam), stated at BASE_WIDTH, is in the initial weights and the rates alone: hidden matrices
start at 1/sqrt(fan-in) and have a rate ∝ 1/width; the head has both ∝ 1/width, which stands for a factor of the logits;
and queries have both ∝ 1/sqrt(head width), which makes the usual 1/sqrt(head width) of scores 1/(head width). The
embedding and the gains keep both. So rates found at one width serve all widths.
"""

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.training.schedules import trunk_steps
from raysweep.training.sizes import PIECE_BYTES

BASE_WIDTH, BASE_HEAD_WIDTH = 256, 64
"""The widths, of the stream and of heads, at which rates and initialization are stated; muP converts them to others."""
VOCABULARY = 256  # bytes
STANDARD_DEVIATION = 0.02  # at a fan-in of BASE_WIDTH; OLMo's value
CHUNK = 2**28
"""Logits that may exist at a time: 1 GB of float32. A constant, so that no result depends on a machine's memory."""
NORM_EPSILON, ROTARY_BASE = 1e-6, 10_000.0
_TOKENS = re.compile(r"tokens:(\d+):")  # a text with a vocabulary of its own


def share_of(angle: float) -> float:
    """The share of the target that is drawn from the source: the cosine of overlap_angle (degrees), to 12 digits."""
    return round(math.cos(math.radians(angle)), 12) + 0.0


def steps_of(parameters: Mapping[str, Any]) -> int:
    return round(parameters["pretrain_length"] / (config_of(parameters).context * int(parameters["pretrain_batch"])))


def trunk_points(parameters: Mapping[str, Any]) -> list[int]:
    """The steps at which the trunk of a row is kept; none if its lengths share nothing."""
    return trunk_steps(steps_of(parameters)) if parameters["pretrain_schedule"] == "wsd" else []


@dataclass(frozen=True)
class Part:
    """One tensor of a model.

    name: as in the state dict of transformers' LlamaForCausalLM. shape: of matrices (out, in).
    deviation: its standard deviation at initialization; 0 for gains, which start at 1.
    lr_factor: its rate relative to the stated one.
    """

    name: str
    shape: tuple[int, ...]
    deviation: float
    lr_factor: float

    def initial(self, seed: int) -> np.ndarray:
        return self.noise(seed, "initial") if self.deviation else np.ones(self.shape)

    def noise(self, seed: int, role: str = "noise") -> np.ndarray:
        """A perturbation of strength 1, from N(0, Σ), Σ the covariance of the initialization (O §3.3, eq. 1, App. C.2):
        none of gains. All rows of one seed use one direction, at different strengths."""
        return self.deviation * draws.normal(seed, f"language/{role}/{self.name}", *self.shape)


@dataclass(frozen=True)
class ModelConfig:
    """A decoder: layers, residual width, attention heads, inner width of the MLP, context and vocabulary in tokens."""

    depth: int
    width: int
    heads: int
    mlp: int
    context: int
    vocabulary: int = VOCABULARY

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def parts(self) -> tuple[Part, ...]:
        """All tensors of a model, in the order of its module."""
        return _parts(self)

    def initial(self, seed: int) -> dict[str, np.ndarray]:
        return {part.name: part.initial(seed) for part in self.parts()}

    def lr_factors(self) -> dict[str, float]:
        return {part.name: part.lr_factor for part in self.parts()}

    def weights(self) -> int:
        return 2 * self.vocabulary * self.width + self.depth * self.layer_weights() + self.width

    def layer_weights(self) -> int:
        return 4 * self.width**2 + 3 * self.width * self.mlp + 2 * self.width

    def sample_bytes(self, wide: bool = False, dropout: bool = False, compiled: bool = False) -> float:
        """Bytes of a sequence that are kept for the gradient, besides logits. wide: products are in float32, as on a
        CPU. dropout: masks are kept; on a CPU the probabilities of attention too. compiled: half is computed again."""
        of_width, of_mlp = (54, 18) if wide else (20, 6) if compiled else (40, 12)
        layer = (of_width + 8 * dropout) * self.width + of_mlp * self.mlp
        pairs = 17 * self.heads * self.context if dropout and wide else 4 * self.heads
        return float(self.context * (self.depth * (layer + pairs) + 16 * self.width))

    def recomputes(self) -> bool:
        """Whether layers are computed again in the backward pass: if one sequence would keep too much."""
        return self.sample_bytes() > PIECE_BYTES

    def curvature_bytes(self) -> float:
        """Bytes of a sequence that a product with the Hessian takes, in float32. Attention keeps the probabilities of
        all pairs of positions: only its plain form can be differentiated twice."""
        layer = 7 * self.heads * self.context + 12 * self.width + 17 * self.mlp
        return 4.0 * self.context * (self.depth * layer + 64 * self.width + 8 * self.vocabulary)

    def flops_per_token(self) -> float:
        """Floating-point operations of a training step, per token: 6 a weight in a product, which the embedding is not,
        and 12·width·context a layer of attention, without a discount for causality."""
        products = self.vocabulary * self.width + self.depth * self.layer_weights()
        return 6.0 * products + 12.0 * self.depth * self.width * self.context


@functools.lru_cache(maxsize=16)
def _parts(config: ModelConfig) -> tuple[Part, ...]:
    width, mlp, ratio = config.width, config.mlp, BASE_WIDTH / config.width
    shapes = {f"self_attn.{name}_proj": (width, width) for name in "qkvo"}
    shapes |= {"mlp.gate_proj": (mlp, width), "mlp.up_proj": (mlp, width), "mlp.down_proj": (width, mlp)}
    layer = []
    for name, shape in shapes.items():
        factor = math.sqrt(BASE_HEAD_WIDTH / config.head_width) if name == "self_attn.q_proj" else 1.0
        deviation = factor * STANDARD_DEVIATION * math.sqrt(BASE_WIDTH / shape[1])
        if name in ("self_attn.o_proj", "mlp.down_proj"):  # 2·depth outputs are added to the residual stream
            deviation /= math.sqrt(2 * config.depth)
        layer.append(Part(f"{name}.weight", shape, deviation, factor * ratio))
    layer += [Part(f"{name}_layernorm.weight", (width,), 0.0, 1.0) for name in ("input", "post_attention")]
    return (
        Part("model.embed_tokens.weight", (config.vocabulary, width), STANDARD_DEVIATION, 1.0),
        *(replace(part, name=f"model.layers.{i}.{part.name}") for i in range(config.depth) for part in layer),
        Part("model.norm.weight", (width,), 0.0, 1.0),
        Part("lm_head.weight", (config.vocabulary, width), STANDARD_DEVIATION * ratio, ratio),
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
        head = f"the head width {preset.head_width} of preset {parameters['preset']}"
        raise ValueError(f"expected a multiple of {head}, got {width}")
    return ModelConfig(
        depth=int(parameters["depth"]) or preset.depth,
        width=width,
        heads=width // preset.head_width,
        mlp=round(preset.mlp * width / preset.width),
        context=int(parameters["context"]) or preset.context,
        vocabulary=vocabulary_of(str(parameters["source"])),
    )


def vocabulary_of(text: str) -> int:
    return int(match[1]) if (match := _TOKENS.match(text)) else VOCABULARY
