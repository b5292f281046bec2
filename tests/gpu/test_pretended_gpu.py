"""What a GPU says, refuses, waits for and has no memory for: the pretended one as a real one."""

import contextlib

import pytest
import torch

from raysweep.training import trainer

pytestmark = pytest.mark.usefixtures("gpu")

MB = 2**20
WAITS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool((x > 0).all()),
    "copy to the host": lambda x: x.cpu(),
    "copy to the GPU": lambda x: torch.ones(3).to(x.device),
    "numbers": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "index by a mask": lambda x: x[x > 0],
    "nonzero": torch.nonzero,
    "index by indices of the host": lambda x: x[torch.tensor([0])],
}


@contextlib.contextmanager
def nobody_waits():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_tensors_say_where_they_are_and_refuse_what_a_gpu_refuses():
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    assert (here.device.type, there.device.type) == ("cpu", "cuda")
    assert (there * 2 + torch.tensor(1.0)).is_cuda
    with pytest.raises(RuntimeError, match="all tensors"):
        here + there
    with pytest.raises(TypeError, match="can't convert cuda"):
        there.numpy()
    with pytest.raises(RuntimeError, match="cannot pin"):
        there.pin_memory()
    assert there.cpu().numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("what", WAITS)
def test_what_makes_host_and_gpu_wait_for_each_other_is_an_error_where_nobody_may_wait(what):
    there = torch.ones(3, device="cuda")
    with nobody_waits(), pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        WAITS[what](there)
    WAITS[what](there)


def test_what_nobody_waits_for_is_none():
    pinned = torch.ones(3).pin_memory()
    with nobody_waits():
        moved = pinned.to("cuda", non_blocking=True)
        leaf = moved.clone().requires_grad_()
        (leaf.exp() * moved).sum().backward()
    assert leaf.grad.is_cuda


def test_products_are_in_bfloat16_under_autocast():
    there = torch.ones(3, 3, device="cuda")
    with trainer.mixed_precision(there.device):
        assert (there @ there).dtype == torch.bfloat16
    assert (there @ there).dtype == torch.float32


def test_memory_is_counted_and_can_be_full():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, all_of_it = torch.cuda.memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    some = torch.zeros(MB, device="cuda")
    view = some[10:]
    assert torch.cuda.memory_allocated() - before == 4 * MB
    del some
    assert torch.cuda.memory_allocated() - before == 4 * MB
    del view
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before == 4 * MB
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 40 * MB) / all_of_it)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
            torch.zeros(20 * MB, device="cuda")
        torch.zeros(5 * MB, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
