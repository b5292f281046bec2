"""The kernels that torch's compiler writes for an H100, run by Triton's interpreter on the CPU, forward and backward.

A script, because Triton interprets in a whole process or not at all: it prints the relative errors of attention with
dropout and of its gradients, and the names of the kernels.

The operations are traced on the CPU, as a backward pass on pretended CUDA tensors needs a device. Then their graphs are
moved to `cuda`, and torch writes its code for them. In the code, tensors are put on the CPU again, and what finds the
best sizes of blocks is left out. The interpreter knows no bfloat16: products are in float32.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import CudaInterface
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers
from torch._inductor.virtualized import V
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn.attention import flex_attention
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from benchmarks.joined import CARD
from raysweep.training import dropout
from raysweep.training.dropout import Dropout
from raysweep.workloads.language import layer

_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "get_device_properties": lambda device=None: CARD,
    "get_device_capability": lambda device=None: (9, 0),
    "synchronize": lambda device=None: None,
}


class Kernel:
    """A kernel, interpreted.

    ran: the names of the kernels that ran.
    """

    ran: list[str] = []
    written = itertools.count()

    def __init__(self, name: str, source: str, folder: str) -> None:
        source = re.sub(r"@triton_heuristics\.\w+\(.*?\n\)\n@triton.jit", "@triton.jit", source, flags=re.DOTALL)
        source = re.sub(r"\b(libdevice|tl_math)\.(?=\w+\()", "tl.", source)  # from a library of CUDA
        path = f"{folder}/kernel_{next(self.written)}.py"  # Triton reads the source of what it runs
        with open(path, "w") as file:
            file.write(source)
        module: dict[str, Any] = {"__name__": name, "__file__": path}
        exec(compile(source, path, "exec"), module)
        self.name, self.function = name, module[name]

    def run(self, *inputs: Any, stream: int) -> None:
        """Run it as torch's code does, with the numbers of blocks or of results behind the inputs."""
        self.ran.append(self.name)
        blocks, names = {}, self.function.arg_names
        if self.name.startswith("triton_tem"):
            inputs, grid = inputs[:-3], inputs[-3:]
        else:
            blocks = {name: 64 for name in ("XBLOCK", "R0_BLOCK") if name in names}
            if not {"r0_numel", "R0_BLOCK"} & set(names):
                blocks["XBLOCK"] = 4096
            grid = (-(-inputs[names.index("xnumel")] // blocks["XBLOCK"]), 1, 1)
        self.function[grid](*inputs, **blocks)


def runnable(code: str, folder: str) -> Callable[..., Any]:
    """What runs torch's code on the CPU."""

    class AsyncCompile:
        def triton(self, name: str, source: str, device_str: str) -> Kernel:
            return Kernel(name, source, folder)

        def wait(self, names: Any) -> None:
            pass

    module: dict[str, Any] = {"__name__": "code"}
    code = code.replace("from torch._inductor.async_compile import AsyncCompile\n", "")
    code = code.replace("from torch._C import _cuda_getCurrentRawStream as get_raw_stream\n", "")
    code = code.replace("torch.cuda._DeviceGuard", "Guard").replace("torch.cuda.set_device(0)", "")
    code = re.sub("empty_strided_cuda = .*", "empty_strided_cuda = empty_strided_cpu", code)
    module |= {"AsyncCompile": AsyncCompile, "Guard": contextlib.nullcontext, "get_raw_stream": lambda device: 0}
    exec(compile(code, "code", "exec"), module)
    return make_boxed_func(lambda *inputs: module["call"](list(inputs)))


def _code(graph: torch.fx.GraphModule) -> str:
    for part in graph.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if node.kwargs.get("device") is not None:
                    node.kwargs = {**node.kwargs, "device": torch.device("cuda", 0)}
            part.recompile()
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    fake = next(each.fake_mode for each in inputs if isinstance(each, Tensor))
    with fake:
        moved = [
            torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda")
            if isinstance(each, Tensor)
            else each
            for each in inputs
        ]
    with _h100():
        FakeTensorProp(graph, fake).propagate(*moved)
        lowered = GraphLowering(graph, example_inputs=moved, shape_env=fake.shape_env)
        with (
            V.set_debug_handler(DebugContext()),
            V.set_graph_handler(lowered),
            V.set_fake_mode(fake),
            torch._guards.tracing(torch._guards.TracingContext(fake)),
            V.set_extern_kernel_nodes([]),
        ):
            lowered.run(*moved)
            code: str = lowered.codegen()[0].value
    return code


@contextlib.contextmanager
def _h100() -> Iterator[None]:
    """Torch and Triton find an H100 while the block runs."""
    pretended = mock.Mock()
    pretended.get_current_target.return_value = GPUTarget("cuda", 90, 32)
    with contextlib.ExitStack() as stack:
        for name, pretence in _CUDA.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, pretence))
            if hasattr(CudaInterface, name):
                stack.enter_context(mock.patch.object(CudaInterface, name, staticmethod(pretence)))
        worker = staticmethod(_CUDA["get_device_properties"])
        stack.enter_context(mock.patch.object(CudaInterface.Worker, "get_device_properties", worker))
        stack.enter_context(mock.patch.object(driver, "_active", pretended))
        yield


def main(folder: str) -> None:
    """Print what was found."""

    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return runnable(_code(copy.deepcopy(graph)), folder)

    backend = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
    )
    models, batch, length, heads, width = 1, 1, 136, 2, 32  # in two blocks, the second of which is not full
    generator = torch.Generator().manual_seed(0)
    shapes = (models, batch * length, width), (models, width), (models, width, 3 * width), (models, width, width)
    tensors = [torch.randn(shape, generator=generator).div(width**0.25).requires_grad_() for shape in shapes]
    masks = Dropout.of_step(0.4, 0, "a", 0, 1).masks(0, dropout.ATTENTION, 3 * heads * length).on(torch.device("cpu"))
    rest = length, heads, layer.rotation(length, width // heads, tensors[0]), masks
    form = torch.compile(layer.attention_with_dropout, backend=backend, fullgraph=True)
    above = torch.randn(shapes[0], generator=generator)
    found, plain = (
        [heard.detach(), *torch.autograd.grad(heard, tensors, above)]
        for heard in (form(*tensors, *rest), layer.attention(*tensors, *rest))
    )
    errors = [float((each - true).norm() / true.norm()) for each, true in zip(found, plain, strict=True)]
    print(json.dumps({"errors": errors, "kernels": Kernel.ran}))


if __name__ == "__main__":
    triton_helpers.set_driver_to_gpu = lambda: None
    flex_attention._validate_device = lambda *tensors: None  # torch refuses a gradient on the CPU
    main(sys.argv[1])
