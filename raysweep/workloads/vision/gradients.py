"""How much the loss changes along its gradient, and how large the gradient is in each layer (D §4, Fig. 6 and 7)."""

import contextlib

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

FURTHEST = 0.1
"""The longest step along the gradient: ten times D's rate 0.01, as in D's App. A."""
_STEPS = 20


def variation(net: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """The largest |L(W - s g) - L(W)| over steps s up to FURTHEST along the gradient g of the mean loss L.

    D's text: "we take steps in the direction of gradient ... to calculate the maximum changes of loss in that
    direction. The step size is set to the size of gradient" (App. A). Here g is the gradient in all weights, and s goes
    through 20 equal steps. D's code takes 100 steps of 0.001 in one layer of ResNet-50 alone, the loss being that of
    the batch of training, and the largest value of the loss instead of its largest change.

    pixels: (images, channels, height, width). labels: (images,). The net is in evaluation mode.
    """
    net.eval()
    weights = {name: each.detach().requires_grad_() for name, each in net.named_parameters()}
    before = cross_entropy(functional_call(net, weights, (pixels,)), labels)
    gradient = dict(zip(weights, torch.autograd.grad(before, list(weights.values())), strict=True))
    most = 0.0
    with torch.no_grad():
        for step in range(1, _STEPS + 1):
            size = FURTHEST * step / _STEPS
            shifted = {name: each - size * gradient[name] for name, each in weights.items()}
            after = cross_entropy(functional_call(net, shifted, (pixels,)), labels)
            change = abs(float(after.double() - before.double()))
            most = change if change != change else max(most, change)
    return most


def scales(net: nn.Module, pixels: Tensor, labels: Tensor) -> dict[str, float]:
    """The size of the gradient that goes back through each layer with weights, first layer first.

    It is the root of the mean over images of ‖∂ℓ/∂x‖², ℓ being the loss of one image and x what the layer makes of it,
    before the activation: what D §4 follows through W_k. D does not say how Fig. 7d reduces it to a number.
    """
    net.eval()
    outputs: dict[str, Tensor] = {}
    layers = [(name, layer) for name, layer in net.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    with contextlib.ExitStack() as stack:
        for name, layer in layers:

            def keep(layer: nn.Module, inputs: object, output: Tensor, name: str = name) -> Tensor:
                # frozen weights do not ask for a gradient
                outputs[name] = output if output.requires_grad else output.requires_grad_()
                return outputs[name]

            stack.callback(layer.register_forward_hook(keep).remove)
        loss = cross_entropy(net(pixels), labels, reduction="sum")  # so that the count of images is no factor
    gradients = torch.autograd.grad(loss, list(outputs.values()))
    return {
        name: float(each.double().flatten(1).square().sum(1).mean().sqrt())
        for name, each in zip(outputs, gradients, strict=True)
    }
