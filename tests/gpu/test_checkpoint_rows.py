"""Released checkpoints on a GPU: rows end as on the CPU, with all weights and with adapters, packed and not."""

import numpy as np
import pytest
import torch
from checkpoint_rows import compute, table

from raysweep.training import devices

pytestmark = pytest.mark.usefixtures("one_thread", "hub_cache")
FORMS = {
    "full": {"noise": 0.1},
    "lora": {"finetune_method": "lora", "lora_rank": 4},
    "packed": {"packing": True, "epochs": 1.0, "finetune_steps": 0},
    "bfloat16": {"precision": "bfloat16"},
}


@pytest.mark.parametrize(
    "form", ["full", *(pytest.param(form, marks=pytest.mark.long) for form in FORMS if form != "full")]
)
def test_rows_end_as_on_the_cpu(form, a_gpu, chats, texts):
    """Stated tolerance, bfloat16 products: 5 % of a loss."""
    rows = [{"finetune_lr": rate, "source": texts, "target": chats, **FORMS[form]} for rate in (1e-3, 1e-2)]
    columns, seeds = table(*rows), np.zeros(2, int)
    with devices.granted(0):
        plain, plain_status = compute(columns, seeds)
    with a_gpu(), devices.granted(1):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
        metrics, status = compute(columns, seeds)
        assert torch.cuda.max_memory_allocated() > before, "nothing was computed on the GPU"
    assert status.tolist() == plain_status.tolist() == ["ok", "ok"]
    assert (metrics["finetune_loss"] < metrics["finetune_loss_before"]).all()
    for name, values in plain.items():
        if "perplexity" not in name:
            np.testing.assert_allclose(metrics[name], values, rtol=0.05, atol=0.05, err_msg=name)
