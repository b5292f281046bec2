"""Kernels that torch's compiler joins operations into for a GPU, counted without one.

A function is traced on tensors without content on the CPU, forward and backward. Its graphs are put on `cuda`, and
torch's compiler plans kernels for them as for an H200, up to where it would write Triton. A kernel reads each of its
inputs once and writes each of its results once. torch 2.15's compiler: other versions may join otherwise, and this uses
what torch does not promise to keep.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import compile_fx, ir, scheduler
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn.attention import flex_attention
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks import roofline
from benchmarks.cuda_types import cuda_types, kernels
from raysweep.training import compiled
from raysweep.workloads.language.costs import Work
from raysweep.workloads.language.model_config import ModelConfig

COMPILE = torch.compile
CARD = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    total_memory=141 * 2**30,
    multi_processor_count=132,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    gcnArchName="",
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    L2_cache_size=50 * 2**20,
)
_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def step(config: ModelConfig, batch: int, models: int = 1, dropout: float = 0.0) -> Work:
    """The work of one training step, as roofline.step has it, with the kernels of the compiler where it is used.

    Flops are those without a compiler.
    """
    calls = Calls()
    with cuda_types():
        alone = roofline.step(config, batch, models, dropout)
    with (
        cuda_types(),
        mock.patch.object(compiled, "available", return_value=True),
        mock.patch.object(compiled, "made", {}),
        mock.patch.object(compiled, "watched", return_value=None),
        mock.patch.object(torch, "compile", calls.stand_in),
    ):
        roofline.step(config, batch, models, dropout)  # the first step tries gradients
        calls.counts.clear()
        rest = roofline.step(config, batch, models, dropout)
    moved, launches = rest.bytes, rest.launches
    for (function, inputs, backward), count in calls.counts.items():
        work = planned(function, inputs)[backward]
        moved, launches = moved + count * work.bytes, launches + count * work.launches
    return Work(alone.flops, moved, launches)


class Calls:
    """How often functions were called that a compiler has made, and their gradients, by their inputs.

    counts: by (function, what its inputs are, whether it is the gradient).
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[Callable[..., Any], Any, bool]] = Counter()

    def stand_in(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What stands for the compiled function: its operations are not counted one by one."""

        def call(*inputs: Any) -> Any:
            key = function, tree_map(_described, inputs)
            return _StandIn.apply(self.counts, key, *inputs)

        return call


class _StandIn(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, counts: Counter[Any], key: tuple[Any, Any], *inputs: Any) -> Any:
        """What the function gives."""
        context.counts, context.key = counts, key
        counts[*key, False] += 1
        with roofline.uncounted():
            return key[0](*inputs)

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients without content."""
        context.counts[*context.key, True] += 1
        return None, None, *(_made(each) if isinstance(each, Described) else None for each in context.key[1])


class Described(NamedTuple):
    """What a tensor is like."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    differentiated: bool


def _described(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return Described(tuple(value.shape), value.stride(), value.dtype, value.requires_grad)


def _made(value: Any) -> Any:
    if not isinstance(value, Described):
        return value
    return torch.empty_strided(value.shape, value.stride, dtype=value.dtype)


@functools.lru_cache(maxsize=64)
def planned(function: Callable[..., Any], described: tuple[Any, ...]) -> tuple[Work, Work]:
    """Bytes and launches of a function's kernels, forward and backward, without flops.

    described: what its inputs are; tensors as Described.
    """
    differentiated = [isinstance(like, Described) and like.differentiated for like in described]
    with kernels("AutocastCUDA"):  # and the CPU's autocast as it is: what it makes of RMSNorm can be joined
        with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(any(differentiated)):
            inputs = tree_map(_made, described, is_leaf=lambda value: isinstance(value, Described))
            for each, wanted in zip(inputs, differentiated, strict=True):
                if wanted:
                    each.requires_grad_()
            graphs = _traced(function, inputs)
        works = [_lowered(graph) for graph in graphs]
    return works[0], works[1] if len(works) > 1 else Work()


def _traced(function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
    """The graph of a function, and that of its gradient if it has one."""
    graphs: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(copy.deepcopy(graph))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=keep,
        bw_compiler=keep,
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
    )
    torch._dynamo.reset()
    with mock.patch.object(flex_attention, "_validate_device", _nothing):  # it refuses gradients on the CPU
        found = COMPILE(function, backend=backend, fullgraph=True, dynamic=False)(*inputs)
        ends = [each for each in tree_leaves(found) if isinstance(each, Tensor) and each.requires_grad]
        if ends:
            starts = [each for each in tree_leaves(inputs) if isinstance(each, Tensor) and each.requires_grad]
            torch.autograd.grad(ends, starts, [torch.empty_like(each) for each in ends], allow_unused=True)
    return graphs


def _nothing(*inputs: Any) -> None:
    pass


def _lowered(graph: Any) -> Work:
    """Bytes and launches of the kernels that are planned for a graph."""
    fake, inputs = FakeTensorMode(), []
    with fake:
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                value = node.meta["val"]
                if isinstance(value, Tensor):
                    value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")
                inputs.append(value)
            if "device" in node.kwargs:
                node.kwargs = {**node.kwargs, "device": torch.device("cuda", 0)}
            if _ATTENTION in str(node.target):
                name = "flash_attention" + ("_backward" if "backward" in str(node.target) else "")
                node.target, node.kwargs = getattr(torch.ops.pretended, name).default, {}
                node.args = node.args[: 6 if "backward" in name else 3]
    graph.recompile()
    with _card_there():
        FakeTensorProp(graph, fake).propagate_dont_convert_inputs(*inputs)
        with torch._guards.tracing(torch._guards.TracingContext(fake)), V.set_fake_mode(fake):
            compile_fx.view_to_reshape(graph)
            if not list(graph.children()):  # FlexAttention's masks are graphs of their own, which these passes refuse
                compile_fx._recursive_post_grad_passes(graph, is_inference=False)
            lowering = GraphLowering(graph, example_inputs=inputs, shape_env=None)
            with V.set_graph_handler(lowering), V.set_extern_kernel_nodes([]), V.set_debug_handler(DebugContext()):
                lowering.run(*inputs)
                lowering._update_scheduler()
                moved, *_ = lowering.count_bytes()
    nodes = [each for each in lowering.scheduler.nodes if not isinstance(each, scheduler.NopKernelSchedulerNode)]
    return Work(0.0, float(moved), sum(not isinstance(each.node, ir.MultiOutput) for each in nodes))


@contextlib.contextmanager
def _card_there() -> Iterator[None]:
    """While the block runs, torch believes that there is the card."""
    there = {
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_properties": lambda device=None: CARD,
        "get_device_capability": lambda device=None: (CARD.major, CARD.minor),
        "synchronize": lambda device=None: None,
    }
    with contextlib.ExitStack() as stack:
        for name, said in there.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, said))
        for where, name in ((CudaInterface, "get_device_properties"), (CudaInterface.Worker, "get_device_properties")):
            stack.enter_context(mock.patch.object(where, name, staticmethod(there["get_device_properties"])))
        capability = staticmethod(lambda device=None: 10 * CARD.major + CARD.minor)
        stack.enter_context(mock.patch.object(CudaInterface, "get_compute_capability", capability))
        stack.enter_context(mock.patch.object(scheduler, "has_triton", return_value=True))
        stack.enter_context(mock.patch.object(torch.utils._triton, "triton_hash_with_backend", return_value=""))
        yield
