"""The code that torch's compiler writes for a GPU (an H100), without a GPU: forward and backward of a function.

The operations are traced on the CPU, as a backward pass on pretended CUDA tensors needs a device. Then their graphs are
moved to `cuda`, and everything up to Triton's source is made of them. Nothing of it is run.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import CudaInterface
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

_H100 = SimpleNamespace(
    name="NVIDIA H100",
    major=9,
    minor=0,
    total_memory=80 * 2**30,
    multi_processor_count=132,
    regs_per_multiprocessor=2**16,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    shared_memory_per_block=48 * 2**10,
    shared_memory_per_block_optin=227 * 2**10,
    L2_cache_size=50 * 2**20,
)
_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "get_device_properties": lambda device=None: _H100,
    "get_device_capability": lambda device=None: (9, 0),
    "synchronize": lambda device=None: None,
}


def generated(function: Callable[..., Tensor], *inputs: Any) -> tuple[str, str]:
    """The code of the forward pass of a function to bfloat16 products, and that of its backward pass."""
    found: list[str] = []

    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        found.append(_code(copy.deepcopy(graph)))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
    )
    with torch.autocast("cpu", torch.bfloat16):
        made = torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    made.float().sum().backward()
    forward, backward = found
    return forward, backward


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
        _forget()
        stack.callback(_forget)
        yield


def _forget() -> None:
    """What torch has found out about the GPU and Triton."""
    for each in (DeviceProperties.create, *vars(_triton).values()):
        if hasattr(each, "cache_clear"):
            each.cache_clear()
