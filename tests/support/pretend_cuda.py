"""A GPU that is pretended: tensors say that they are on `cuda`, and are computed on the CPU.

What a GPU would not do is refused: products of tensors on different devices, `.numpy()` of a tensor on the GPU.
Autocast to bfloat16 on `cuda` is that of the CPU, whose lists of operations are nearly the same. A part that is
recorded is run each time. What waits, and what there is memory for, a real GPU alone says (`make test-gpu`).

Tensors stay plain tensors, so that autograd is the usual one; which of them are on the GPU is known by their storage.
"""

import contextlib
import threading
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

from raysweep.training import gpu

GPU, HOST = torch.device("cuda", 0), torch.device("cpu")
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # whose indices may lie on the host


class Pretended:
    """What was pretended. used: bytes that tensors ever had on the GPU."""

    def __init__(self):
        self.used = 0
        self._work = threading.local()
        self._there = {}

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

    def put(self, tensor):
        """Note that a tensor is on the GPU."""
        if not self.is_there(tensor):
            self.used += _storage(tensor).nbytes()
            # a weak reference keeps the number of a storage from being given to another one
            if len(self._there) % 1000 == 999:
                for number in [number for number, storage in list(self._there.items()) if storage.expired()]:
                    self._there.pop(number, None)
            self._there[_known(tensor)] = StorageWeakRef(_storage(tensor))
        return tensor

    def there(self, tensor, on_gpu):
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.clone()
        return self.put(copy) if on_gpu else copy


def _storage(tensor):
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # within torch.func
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()


def _known(tensor):
    return int(_storage(tensor)._cdata)


class _Dispatch(TorchDispatchMode):
    """Sees every operation, those of backward passes too."""

    def __init__(self, pretended):
        super().__init__()
        self._of = pretended

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        tensors = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
        there = [self._of.is_there(each) for each in tensors]
        if any(there) and not all(there) and name not in {"copy_", *_INDEXING}:
            outside = [tuple(each.shape) for each, on in zip(tensors, there, strict=True) if not on and each.dim()]
            if outside:
                raise RuntimeError(f"{func}: expected all tensors on one device, got {outside[0]} on the host")
        result = func(*args, **(kwargs or {}))
        if name.removeprefix("new_").startswith("empty") and result.is_floating_point():
            result.fill_(torch.nan)  # what is read before it is written
        # torch itself believes that all tensors are on the host; what it makes of nothing is where it is at work
        if name not in ("copy_", "_local_scalar_dense", "equal") and (any(there) if tensors else self._of.on_gpu):
            tree_map(lambda each: self._of.put(each) if isinstance(each, Tensor) else each, result)
        return result


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
            return GPU if of.is_there(args[0]) else func(*args)  # or on `meta`
        if func == Tensor.is_cuda.__get__:
            return of.is_there(args[0])
        if func is Tensor.pin_memory:
            return args[0]
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
        if target is None or target == here:
            return Tensor.to(tensor, dtype=dtype or tensor.dtype, copy=kwargs.get("copy", False))
        found = Moved.apply(tensor, self._of, target == "cuda")
        return found if dtype is None else found.to(dtype)

    def _made(self, func, args, kwargs):
        if func is torch.as_tensor and isinstance(args[0], Tensor):
            return self._moved(args[:1], kwargs)
        device = kwargs.get("device") or (GPU if func is Tensor.new_tensor and self._of.is_there(args[0]) else HOST)
        if torch.device(device).type != "cuda":
            return func(*args, **kwargs)
        return self._moved((func(*args, **{**kwargs, "device": HOST}), device), {})


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

    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "max_memory_allocated": lambda device=None: found.used,
        "reset_peak_memory_stats": lambda device=None: None,
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
