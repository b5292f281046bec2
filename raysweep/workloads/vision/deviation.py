"""How far training moved the weights of each layer, as D §3 and Table 1 measure it: ‖W_l - W0_l‖_F / √n.

n is the number of target examples, not of weights ("where n denotes the number of target examples", D §3). W0 is what
fine-tuning starts from: pretrained layers and the new last layer, which D's fixed setting trains alone. Biases and the
weights of batch normalisation are not counted: D writes weight matrices, and its code sums over those of convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def by_layer(start: Mapping[str, Tensor], end: Mapping[str, Tensor], samples: int) -> dict[str, float]:
    """‖W - W0‖_F / √samples of each weight matrix or stack of filters, in the order of the layers.

    start, end: two states of one net. D's value for fine-tuning all layers is the sum of these (Table 1, last column);
    its value for a fixed net is that of the last layer.
    """
    return {
        name: float((end[name].double() - before.double()).norm()) / samples**0.5
        for name, before in start.items()
        if before.dim() > 1
    }
