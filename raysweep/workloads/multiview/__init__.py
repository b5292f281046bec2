"""Multi-view data: which features networks learn by mask-reconstruction pretraining, and which by labels (paper M).

k classes with two features each; a multi-view sample shows both features of its class, a single-view sample one (M Def.
3.1, after Allen-Zhu & Li 2020). Networks are k·m kernels with a smoothed ReLU, h_r(X) = Σ_p σ(w_r·x_p). This file is
the declaration; it does not import the other files here, which compute the workload.

What M leaves open or gives by its order in k, and what is taken here:
- Features are coordinate axes. Initial weights and Gaussian noise have no preferred direction, so this is the same
  distribution as for any orthonormal vectors.
- Sums of z_p, drawn uniformly: main features in [A, 2A] with A = C_p^((q-1)/q), so that Σ z_p and Σ z_p^q are both at
  least 1; features of other classes in [0.2, 0.4] (M: [Ω(1), 0.4]); the weak feature of a single-view sample in
  [ρ, 2ρ]. The sum is spread evenly over the C_p patches. Feature noise is uniform on [0, γ], Gaussian noise N(0, σ_p²I)
  (M prints N(0, σ_p I)); patches are chosen uniformly.
- ρ = 0.1. M sets ρ = k^-0.01, which is 0.98 at k = 10: no sample of a k that can be computed would be single-view.
- σ_0 = 0.03, ϱ = 0.4 (about 1/log k), γ = σ_0/k, √d σ_p = 0.2 (about 1/log² k). M's Assumption 1 has σ_0 = O(1/√k),
  its Assumption C.2 σ_0^(q-2) ≤ 1/k: 0.32 and, at q = 3, 0.1 at k = 10. That one of two features wins needs more. From
  scratch a feature takes ϱ^(q-1)/((q-2) a^(q-2)) to grow from a to ϱ, and in the same unit about log k from there to
  outputs that fit the labels. With q = 4 and a = 1.3 σ_0, the largest of six numbers, the first is 0.9 of the second at
  σ_0 = 0.1, and 9 times it at 0.03. The space single_view_error runs both values of σ_0. At d = 30 kernels that
  have won also learn from the noise 0.2 on patches of the other feature, less at 0.02 (reports/CLAIMS.md).
- Pretraining follows the expected gradient over masks, as M does (eq. 2); no mask is drawn. M's θ is the share of
  patches that are seen: mask_ratio is 1 - θ. M's teacher: τ = 1 + (1-θ)/(C_p θ) + 1/(t+1), the constant of the last
  term is 1 (M's Assumption C.2 has 1/(t^(1/q)+1) instead). The teacher is not differentiated.
- The autoencoder follows the exact gradient of M's loss (Appendix H). M's Fact 2.2 differs from it across the features.
- Trained from scratch: F_i = Σ h_r over the m kernels of class i (Allen-Zhu & Li), all weights of the head being 1; the
  same initial kernels as pretraining's. Fine-tuned: a head that starts at 0, its rate far above that of the kernels.
- A sample is right if the output of its class is above every other one. M counts equal outputs as right.
- "Captures": a kernel's weight along the feature is at least ϱ (M Appendix D.1); also counted at ϱ/2 and 2ϱ. From
  scratch, only kernels of the feature's own class count.
- M^(0), the kernels that may win a feature: within 1 - 1/log k of the largest weight at the start (M: 1 - O(1/log k)).
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any

from raysweep.workloads import common
from raysweep.workloads.declaration import Metric, Parameter, Workload, stage_of

TEACHER_STUDENT, AUTOENCODER = FRAMEWORKS = "teacher_student", "autoencoder"
_ASKED = f"3 ({TEACHER_STUDENT}) or 4 ({AUTOENCODER})"
FIRST_LENGTH = 10  # steps to the first stop of pretraining; the next ones are at 2, 4, 8, … times that

Scratch, Pretraining, Finetuning = (partial(Parameter, stage=name) for name in ("scratch", "pretrain", "finetune"))
Number = partial(Scratch, minimum=0, maximum=1e3)
Count = partial(Scratch, minimum=1, maximum=100_000)
Share, Size = partial(Scratch, minimum=0, maximum=1), partial(Scratch, **common.ABOVE_0, maximum=10)
_HYPHENED = methodcaller("replace", "_", "-")
START: dict[str, Any] = {**common.START, "symbol": "σ_0", "maximum": 10}
LENGTH: dict[str, Any] = {"unit": "steps", "minimum": 0, "maximum": 10**7, "scale": "log"}

PARAMETERS = (
    Count("classes", int, 10, "classes; each has two features", minimum=2, maximum=1000, symbol="k"),
    Count("dim", int, 30, "dimension of a patch, at least two for each class", symbol="d"),
    Count("patches", int, 20, "patches of a sample: room for every feature", symbol="P"),
    Count("feature_patches", int, 1, "patches that show one feature", symbol="C_p"),
    Number(
        "sparsity", float, 2.0, "a feature of another class is in a sample with chance sparsity / classes", symbol="s"
    ),
    Share("single_view_fraction", float, 0.1, "share of single-view samples", symbol="μ", label="single-view fraction"),
    Share("weak_view", float, 0.1, "size of a single-view sample's second feature", symbol="ρ"),
    Share("feature_noise", float, 0.003, "largest feature noise on a patch", symbol="γ"),
    Scratch("noise", float, 0.2, "length √d σ_p of the noise on a patch with a feature", minimum=0, maximum=10),
    Scratch(
        "power", int, 4, f"power of the smoothed ReLU; M's theorem asks for {_ASKED}", minimum=2, maximum=10, symbol="q"
    ),
    Size("threshold", float, 0.4, "where the smoothed ReLU becomes linear, and what counts as captured", symbol="ϱ"),
    Scratch("init_scale", float, 0.03, "standard deviation of the initial weights", **START),
    Count("kernels", int, 3, "kernels for each class", scale="log", symbol="m"),
    Count("target_samples", int, 500, "samples with labels", symbol="N₂"),
    Number("scratch_lr", float, 1.0, "rate of gradient descent from scratch", label="rate from scratch"),
    Scratch("finetune_steps", int, 600, "steps of fine-tuning, and from scratch", minimum=0, maximum=10**7),
    Pretraining("framework", str, AUTOENCODER, "what is reconstructed", choices=FRAMEWORKS, words=_HYPHENED),
    Pretraining("mask_ratio", float, 0.5, "share of patches that are masked, 1 - θ", minimum=0, maximum=0.99),
    Pretraining("samples", int, 500, "samples without labels", minimum=1, maximum=1_000_000, symbol="N"),
    Pretraining("pretrain_lr", float, 1.0, "rate of gradient descent", minimum=0, maximum=1e3, symbol="η"),
    Pretraining(
        "pretrain_length",
        int,
        1280,
        f"steps of pretraining; lengths {FIRST_LENGTH}, {2 * FIRST_LENGTH}, {4 * FIRST_LENGTH}, … share their steps",
        **LENGTH,
    ),
    Finetuning("finetune_lr", float, 2.0, "rate of the head", minimum=0, maximum=1e3, scale="log", symbol="η₂"),
    Finetuning(
        "kernel_lr_share",
        float,
        0.01,
        "kernels' rate over finetune_lr",
        minimum=0,
        maximum=10,
        label="relative kernel rate",
    ),
)

FromScratch, Pretrained = (partial(Metric, stage=name) for name in ("scratch", "pretrain"))
Fewer, Captured = partial(Pretrained, direction="minimize"), partial(Pretrained, direction="maximize", share=True)


def _errors(make: Callable[..., Metric], end: str, how: str) -> list[Metric]:
    error, training = (f"error {how}", f"error {how}") if end else ("error", "error after fine-tuning")
    kinds = [
        ("error", f"share of test samples named wrong, {how}", error if end else ""),
        ("error_multi_view", f"the same among multi-view samples, {how}", f"{error} on multi-view samples"),
        ("error_single_view", f"the same among single-view samples, {how}", f"{error} on single-view samples"),
        ("train_error", f"share of training samples named wrong, {how}", f"training {training}"),
    ]
    return [make(f"{name}{end}", what, direction="minimize", share=True, label=label) for name, what, label in kinds]


METRICS = (
    *_errors(FromScratch, "_scratch", "from scratch"),
    FromScratch(
        "features_captured_scratch",
        "share of the features that some kernel of their own class captures, from scratch",
        direction="maximize",
        share=True,
        label="share of captured features from scratch",
    ),
    Captured(
        "features_captured", "share of the features that some kernel captures", label="share of captured features"
    ),
    Captured(
        "features_captured_half",
        "the same where half of the threshold is enough",
        label="share captured at half threshold",
    ),
    Captured(
        "features_captured_double",
        "the same where twice the threshold is asked for",
        label="share captured at double threshold",
    ),
    Pretrained(
        "features_per_kernel",
        "features that a kernel captures, mean over kernels that capture any",
        label="feature count per capturing kernel",
    ),
    Fewer(
        "most_features",
        "features that one kernel captures, largest over kernels",
        label="largest feature count per kernel",
    ),
    Pretrained("correlation", "largest weight of a kernel along a feature, mean over features"),
    Fewer(
        "second_correlation",
        "second largest weight of a kernel along a feature, largest over kernels, over init_scale",
        label="relative second-largest correlation",
    ),
    Captured("winners", "share of the captured features whose strongest kernel was in M^(0)"),
    *_errors(Metric, "", "pretrained and fine-tuned"),
    common.Helped("transferability", "test error from scratch minus that here; positive: pretraining helps"),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    """Errors of one cell that no single range can catch: features without room."""
    classes, dim, patches, sparsity = (parameters[name] for name in ("classes", "dim", "patches", "sparsity"))
    features, each = 2 * classes, parameters["feature_patches"]
    if dim < features:
        return "dim", f"expected at least {features:,}, one for each feature of {classes:,} classes, got {dim:,}"
    if patches < (least := features * each):
        room = f"room for {features:,} features of {each:,} each"
        return "patches", f"expected at least {least:,}, {room}, got {patches:,}"
    if sparsity > classes:
        return "sparsity", f"expected at most {classes:,}, the number of classes, got {sparsity:g}"
    return None


def lengths(parameters: Mapping[str, Any]) -> list[int]:
    """The steps at which pretraining stops on its way to pretrain_length, from 0 on."""
    end, stops, step = int(parameters["pretrain_length"]), [0], FIRST_LENGTH
    while step < end:
        stops.append(step)
        step *= 2
    return [*stops, end] if end else stops


_stage = partial(stage_of, "raysweep.workloads.multiview")
WORKLOAD = Workload(
    name="multiview",
    summary="networks of smoothed-ReLU kernels on multi-view data: features learned by mask-reconstruction pretraining "
    "and from labels alone (paper M, Mask Reconstruction Pretraining); diverged: weights that are not finite",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(
        _stage("scratch", keeps=True),
        _stage("pretrain", "scratch", keeps=True, points=lengths, until="pretrain_length"),
        _stage("finetune", "pretrain"),
        _stage("evaluate", "finetune"),
    ),
    sources=("raysweep.workloads.multiview", "raysweep.training.draws"),
    check=check,
)
