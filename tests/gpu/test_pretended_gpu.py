"""What a GPU says and refuses: the pretended one as a real one."""

import pytest
import torch

from raysweep.training import trainer

pytestmark = pytest.mark.usefixtures("gpu")


def test_tensors_say_where_they_are_and_refuse_what_a_gpu_refuses():
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    assert (here.device.type, there.device.type) == ("cpu", "cuda")
    assert (there * 2 + torch.tensor(1.0)).is_cuda
    with pytest.raises(RuntimeError, match="all tensors"):
        here + there
    with pytest.raises(TypeError, match="can't convert cuda"):
        there.numpy()
    assert there.cpu().numpy().tolist() == [1, 1, 1]


def test_gradients_of_what_is_there_are_there():
    leaf = torch.ones(3, device="cuda").requires_grad_()
    (leaf.exp() * torch.ones(3).to("cuda")).sum().backward()
    assert leaf.grad.is_cuda


def test_products_are_in_bfloat16_under_autocast():
    there = torch.ones(3, 3, device="cuda")
    with trainer.mixed_precision(there.device):
        assert (there @ there).dtype == torch.bfloat16
    assert (there @ there).dtype == torch.float32
