"""A GPU that is pretended: tensors say that they are on `cuda`, and are computed on the CPU.

What a GPU would not do is refused: products of tensors on different devices, `.numpy()` of a tensor on the GPU, pinning
one. What makes a GPU wait for the host, or the host for the GPU, is refused under
torch.cuda.set_sync_debug_mode("error"). The bytes of tensors on the GPU count as its memory, which can be
full. Autocast to bfloat16 on `cuda` is that of the CPU, whose lists of operations are nearly the same. A part that
is recorded is run each time.

Tensors stay plain tensors, so that autograd is the usual one; which of them are on the GPU is known by their storage.
"""

import contextlib
import threading
import weakref
from types import SimpleNamespace
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from raysweep.training import gpu

GPU, HOST = torch.device("cuda", 0), torch.device("cpu")
MEMORY = 80 * 2**30
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # whose indices may lie on the host
_WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"}


class Pretended:
    """What was pretended.

    held, peak: bytes of the GPU's memory that tensors have, and the most that they had.
    room: bytes that they may have.
    """

    def __init__(self):
        self.room = MEMORY
        self.held = self.peak = 0
        self.mode = "default"
        self._work = threading.local()
        self._there = {}
        self._pinned = {}

    @property
    def on_gpu(self):
        """Where tensors are made: what torch does of itself says only the device that they really have."""
        return getattr(self._work, "on_gpu", False)

    def is_there(self, tensor):
        """Whether a tensor is on the pretended GPU."""
        return _known(tensor) in self._there

    @contextlib.contextmanager
    def at_work(self, on_gpu):
        """While the block runs, tensors that torch makes of nothing are on the GPU, or on the host."""
        before, self._work.on_gpu = self.on_gpu, on_gpu
        try:
            yield
        finally:
            self._work.on_gpu = before

    def copied(self, source, to_gpu, how):
        """Note a copy between host and GPU, unless nobody waits for it."""
        if to_gpu != self.is_there(source):
            unheeded = to_gpu and self.is_pinned(source) and bool((how or {}).get("non_blocking", False))
            if not unheeded:
                self.waited("copy to the GPU" if to_gpu else "copy to the host")

    def waited(self, name):
        """Host and GPU wait for each other: an error in the mode that refuses it."""
        if self.mode == "error":
            raise RuntimeError(f"called a synchronizing CUDA operation: {name}")

    def put(self, tensor):
        if not self.is_there(tensor):
            storage = _storage(tensor)
            size = storage.nbytes()
            if self.held + size > self.room:
                raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
            self.held += size
            self.peak = max(self.peak, self.held)
            weakref.finalize(storage, self._freed, size)
        return _put(self._there, tensor)

    def _freed(self, size):
        self.held -= size

    def there(self, tensor, on_gpu):
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.clone()
        return self.put(copy) if on_gpu else copy

    def pin(self, tensor):
        if self.is_there(tensor):
            raise RuntimeError("cannot pin a tensor that is on the GPU")
        return _put(self._pinned, tensor.clone())

    def is_pinned(self, tensor):
        return _known(tensor) in self._pinned


def _storage(tensor):
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # within torch.func
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()


def _known(tensor):
    return int(_storage(tensor)._cdata)


def _put(known, tensor):
    # a weak reference keeps the number of a storage from being given to another one
    if len(known) % 1000 == 999:
        for number in [number for number, storage in list(known.items()) if storage.expired()]:
            known.pop(number, None)
    known[_known(tensor)] = StorageWeakRef(_storage(tensor))
    return tensor


class _Dispatch(TorchDispatchMode):
    """Sees every operation, those of backward passes too."""

    def __init__(self, pretended):
        super().__init__()
        self._of = pretended

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        tensors = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
        there = [self._of.is_there(each) for each in tensors]
        if any(there) and not all(there) and name != "copy_":
            outside = [each for each, on in zip(tensors, there, strict=True) if not on and each.dim()]
            if outside and name not in _INDEXING:
                raise RuntimeError(
                    f"{func}: expected all tensors on one device, got {tuple(outside[0].shape)} on the host"
                )
            if outside:
                self._of.waited(f"{name} by indices of the host")
        if name in _WAITING and any(there):
            self._of.waited(name)
        if name in _INDEXING and any(there) and any(each.dtype == torch.bool for each in _indices(args)):
            self._of.waited(f"{name} by a mask")
        if name == "copy_":
            self._of.copied(args[1], self._of.is_there(args[0]), kwargs)
        result = func(*args, **(kwargs or {}))
        # torch itself believes that all tensors are on the host; what it makes of nothing is where it is at work
        if name not in ("copy_", "_local_scalar_dense", "equal") and (any(there) if tensors else self._of.on_gpu):
            tree_map(lambda each: self._of.put(each) if isinstance(each, Tensor) else each, result)
        return result


def _indices(args):
    return [each for each in (args[1] if len(args) > 1 else ()) or () if isinstance(each, Tensor)]


class Moved(torch.autograd.Function):
    """A copy of a tensor on the other device."""

    @staticmethod
    def forward(context, tensor, of, to_gpu):
        context.of, context.back = of, of.is_there(tensor)
        return of.there(tensor.detach(), to_gpu)

    @staticmethod
    def backward(context, above):
        return context.of.there(above, context.back), None, None


class _Functions(TorchFunctionMode):
    """Answers in Python what a tensor on a GPU would: its device, and what it refuses."""

    def __init__(self, pretended):
        super().__init__()
        self._of = pretended

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        of = self._of
        if func == Tensor.device.__get__:
            return GPU if of.is_there(args[0]) else HOST
        if func == Tensor.is_cuda.__get__:
            return of.is_there(args[0])
        if func is Tensor.pin_memory:
            return of.pin(args[0])
        if func is Tensor.is_pinned:
            return of.is_pinned(args[0])
        if func in (Tensor.numpy, Tensor.__array__) and of.is_there(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        if func in (Tensor.cpu, Tensor.cuda):
            return self._moved((args[0], HOST if func is Tensor.cpu else GPU), {})
        if func is Tensor.to:
            return self._moved(args, kwargs)
        if func is Tensor.new_tensor or func in (torch.tensor, torch.as_tensor):
            return self._made(func, args, kwargs)
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
            return of.put(func(*args, **{**kwargs, "device": HOST}))
        with of.at_work(any(isinstance(each, Tensor) and of.is_there(each) for each in tree_iter((args, kwargs)))):
            return func(*args, **kwargs)

    def _moved(self, args, kwargs):
        tensor, *rest = args
        device = kwargs.get("device")
        for each in rest:
            if isinstance(each, Tensor):
                device, kwargs = GPU if self._of.is_there(each) else HOST, {**kwargs, "dtype": each.dtype}
            elif isinstance(each, (str, torch.device)):
                device = each
        target = None if device is None else torch.device(device).type
        here = "cuda" if self._of.is_there(tensor) else "cpu"
        dtype = kwargs.get("dtype", next((each for each in rest if isinstance(each, torch.dtype)), None))
        blocking = kwargs.get("non_blocking", next((each for each in rest if isinstance(each, bool)), False))
        if target is None or target == here:
            return Tensor.to(tensor, dtype=dtype or tensor.dtype, copy=kwargs.get("copy", False))
        self._of.copied(tensor, target == "cuda", {"non_blocking": blocking})
        found = Moved.apply(tensor, self._of, target == "cuda")
        return found if dtype is None else found.to(dtype)

    def _made(self, func, args, kwargs):
        given = dict(kwargs)
        device = given.pop("device", None)
        if func is torch.as_tensor and isinstance(args[0], Tensor):
            return self._moved(args[:1], kwargs)
        if func is Tensor.new_tensor:
            device = device or (GPU if self._of.is_there(args[0]) else HOST)
        made = func(*args, **given)
        return made if device is None or torch.device(device).type == "cpu" else self._moved((made, device), {})


@contextlib.contextmanager
def pretended_gpu():
    """Pretend a GPU while the block runs."""
    found = Pretended()

    def of_host(function):
        return lambda kind="cpu", *rest: function("cpu" if str(kind).startswith("cuda") else kind, *rest)

    autocast = torch.autocast

    class Autocast(autocast):
        def __init__(self, device_type, *args, **kwargs):
            super().__init__("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    functions, run_backward = _Functions(found), torch.autograd._engine_run_backward

    def backward(outputs, *args, **kwargs):
        # torch has gone out of the mode there: what is computed again asks for devices too
        with functions, found.at_work(any(found.is_there(each) for each in outputs)):
            return run_backward(outputs, *args, **kwargs)

    run = threading.Thread.run

    def run_with_a_gpu(thread):
        with _Functions(found), _Dispatch(found):  # modes are those of a thread
            run(thread)

    properties = SimpleNamespace(total_memory=MEMORY, name="pretended", multi_processor_count=108)
    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda device=None: (MEMORY - found.held, MEMORY),
        "memory_reserved": lambda device=None: found.held,
        "memory_allocated": lambda device=None: found.held,
        "max_memory_allocated": lambda device=None: found.peak,
        "reset_peak_memory_stats": lambda device=None: setattr(found, "peak", found.held),
        "set_per_process_memory_fraction": lambda share, device=None: setattr(found, "room", int(share * MEMORY)),
        "set_sync_debug_mode": lambda mode: setattr(found, "mode", mode),
        "get_device_properties": lambda device=None: properties,
    }
    with contextlib.ExitStack() as stack:
        for name, pretence in cuda.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, pretence))
        for name in ("is_autocast_enabled", "get_autocast_dtype"):
            stack.enter_context(mock.patch.object(torch, name, of_host(getattr(torch, name))))
        for module in (torch, torch.amp, torch.amp.autocast_mode):
            stack.enter_context(mock.patch.object(module, "autocast", Autocast))
        stack.enter_context(mock.patch.object(torch.autograd, "_engine_run_backward", backward))
        # what is computed again is compared from within torch, where devices are what they really are
        checks = torch.utils.checkpoint._allowed_determinism_checks_to_fns
        stack.enter_context(mock.patch.dict(checks, {"default": lambda tensor: (tensor.shape, tensor.dtype)}))
        stack.enter_context(mock.patch.object(threading.Thread, "run", run_with_a_gpu))
        stack.enter_context(mock.patch.object(gpu, "recorded", lambda run, *like: run))
        check = "_accelerator_graph_capture_health_check"  # asks the driver
        stack.enter_context(mock.patch.object(torch.optim.Optimizer, check))
        stack.enter_context(functions)
        stack.enter_context(_Dispatch(found))
        yield
