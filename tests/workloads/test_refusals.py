"""What a workload refuses, by the command line: one line that begins with the key, exit 2, nothing left behind."""

import json

import image_files
import numpy as np
import pytest
import tiny_hub
import yaml
from checkpoint_rows import QUICK
from conftest import refused

from raysweep.workloads import cache
from raysweep.workloads.image_data import FORMS

pytest.importorskip("sklearn")
SMALL = {
    "multiview": {"classes": 3, "dim": 8, "patches": 6, "samples": 40, "target_samples": 30, "finetune_steps": 12},
    "linear_spectrum": {"dim": 8, "target_spectrum": "1"},
    "linear_covariance": {"dim": 24},
    "checkpoints": QUICK,
}
SINGULAR, COUNTS = "expected singular values", "expected eigenvalues with their counts"
WHOLE = "expected a whole count of at least 1, got"
CLASSES = "expected all, or classes such as 3, 0-4"
FOLDER = {"source": "images:{here}/images", "target": "images:{here}/images", "image_size": 12, "target_samples": 8}


def put(name, content):
    """What writes a file of a case."""
    if isinstance(content, np.ndarray):
        return lambda own: np.save(own / name, content)
    return lambda own: (own / name).write_bytes(content.encode() if isinstance(content, str) else content)


def text(name, content, message, role="source"):
    return {role: f"file:{{own}}/{name}"}, f"{role}: {message.replace('FILE', f'{{own}}/{name}')}", put(name, content)


def tokens(count=60_000):
    """Documents of 99 tokens up to 499, with a 0 after each."""
    made = np.random.default_rng(0).integers(1, 500, count).astype(np.uint16)
    made[99::100] = 0
    return made


def packed(form, content, message, name="t.npy", **fixed):
    both = dict.fromkeys(("source", "target"), f"tokens:{form}:{{own}}/{name}")
    return both | fixed, f"source: {message.replace('FILE', f'{{own}}/{name}')}", put(name, content)


def model(message, change=lambda own: None, **fixed):
    """A folder with a model without a chat template, which is then changed."""

    def write(own):
        tiny_hub.save(own, 0, template=None)
        change(own)

    return {"model": "{own}", "revision": "main", **fixed}, message, write


def of_images(own):
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "model_type": "vit"}))


def chats(message, *lines, role="target", **fixed):
    """A file of sixty short conversations, and these lines."""
    content = "\n".join([*(json.dumps({"prompt": f"{n}?", "response": "yes"}) for n in range(60)), *lines])
    return {role: "chat:{own}/c.jsonl", **fixed}, message, put("c.jsonl", content)


WEIGHTS = "model.safetensors"
ROLES = [{"role": "user", "content": "NUMBER?"}, {"role": "assistant", "content": "yes"}]
DIALOGUES = "\n".join(json.dumps({"messages": ROLES}).replace("NUMBER", str(n)) for n in range(60))
LINES = "\n".join(json.dumps({"text": f"document number {n} of many"}) for n in range(60))
SHORT = "|FILE|at least 65"
CASES = {  # by workload: what is fixed, what is said, parts behind |, and what writes its files
    "image_regression": [
        ({"pair": "2-3"}, "pair: expected SOURCE:TARGET|2-3:5-6"),
        ({"pair": "2-2:5-6"}, "pair: expected SOURCE:TARGET|different"),
        ({"pair": "2-3:5-10"}, "pair: |0 to 9"),
        ({"target_samples": 295}, "target_samples: expected at most 294, the training images of classes 5 and 6 in di"),
        ({"data": "mnist:{here}/none"}, "data: no folder {here}/none|torchvision|npm"),
    ],
    "checkpoints": [
        ({"revision": "step3"}, "revision: |step3 is not here, in |hub0 (--download|step1, step2"),
        ({"model": "some/model"}, "revision: |--download|there: nothing"),
        model("revision: |late is not here, in |; there: nothing", revision="late"),
        model("revision: |pickled weights only", lambda own: (own / WEIGHTS).rename(own / "pytorch_model.bin")),
        model("revision: |has no model.safetensors", lambda own: (own / WEIGHTS).unlink()),
        model(
            "revision: |model.safetensors is damaged or cut off (|load or copy it again",
            lambda own: (own / WEIGHTS).write_bytes((own / WEIGHTS).read_bytes()[:-1]),
        ),
        model("revision: |expected a causal language model", of_images),
        model("target: |no chat template|template: tulu", put("m.jsonl", DIALOGUES), target="chat:{own}/m.jsonl"),
        ({"context": 65}, "context: |at most 64 tokens"),
        chats("target: |c.jsonl line 61|JSON object", "{"),
        chats('target: |c.jsonl line 61|"prompt" and "response"', '{"prompt": "3"}'),
        chats(
            "target: |c.jsonl line 62: 2 of 63 responses are longer than the context of 32|raise context, or drop",
            *(json.dumps({"prompt": "?", "response": "n" * n}) for n in (31, 32, 40)),
        ),
        chats("source: |got conversations", role="source"),
        ({"target": "chat:{own}/none.jsonl"}, "target: |none.jsonl"),
        ({"epochs": 2}, "epochs: |got 5 steps|finetune_steps: 0|2 epochs"),
        ({"packing": True}, "packing: |chat:PATH|got text"),
    ],
    "language": [
        text("empty.txt", " \n\n", "FILE: |empty"),
        text("short.txt", "a b\n\nc d\n\ne f\n\ng", SHORT),
        text("same.txt", "abcdefgh" * 20_000, "|at least 3 different documents"),
        text("latin.txt", b"na\xefve " * 900, "FILE: |UTF-8|byte 2 "),
        text("l.jsonl", LINES.encode() + b'\n{"text": "\xff"}', f"FILE: |UTF-8|byte {len(LINES) + 11:,} "),
        text("l.jsonl", LINES + '\n\n{"text": "a', "FILE line 62: |JSON object"),
        text("l.jsonl", '{"text": "a"}\n' + "[" * 100_000, "FILE line 2: |expected a JSON object"),
        text("l.jsonl", '{"text": "a"}\n{"text": "\\ud800"}\n', "FILE line 2: field 'text' holds half a character"),
        text("l.jsonl", LINES + '\n{"text": 3}', "FILE line 61: |'text'", "target"),
        ({"source": "file:{own}/*.txt"}, "source: |{own}/*.txt"),
        ({"source": "file:{own}"}, "source: |no such file|{own}", put("x.bin", "x")),
        *(({"source": name}, "source: expected") for name in ("grammar:2", "python-source:-1")),
        ({"target": "task:{own}.jsonl"}, "target: |file:PATH|'task:{own}.jsonl'"),
        ({"source": "tokens:500:0:{own}.npy", "target": "tokens:500:0:{own}.npy"}, "source: |no such file|{own}.npy"),
        ({"source": "tokens:500:0:{own}/t.npy"}, "target: |500", put("t.npy", tokens())),
        packed("500:0", tokens().astype(float), "FILE: |unsigned integers|float64"),
        packed("500:0", np.array([{}, 1], dtype=object), "FILE: "),  # it would have to be unpickled
        packed("500:0", tokens().tobytes()[:-1], "FILE: ", "t.bin"),
        packed("400:0", tokens(), "FILE: |vocabulary of 400|499"),
        packed("500:0", np.insert(np.tile(tokens(10_000), 2000), 10**7, 777), "FILE: |777"),
        packed("600:599", tokens(), "FILE: |token 599"),
        packed("500:0", tokens(150), "FILE: |hold out"),
        *(
            ({"pretrain_length": value}, f"pretrain_length: |{said}")
            for value, said in ((10_000, "1,024|10,240"), (10, "nearest: 1,024"), (float("inf"), "whole number"))
        ),
        ({"width": 33}, "width: |head width 16"),
    ],
    "linear_covariance": [
        ({"spectrum": "1.5:50,0.3"}, "spectrum: expected eigenvalues for dim = 24 directions, got 51"),
        ({"spectrum": "1.5:4,0.3:5"}, "spectrum: |got 9"),
        ({"spectrum": "0:3,1"}, "spectrum: expected eigenvalues above 0, got 0"),
        ({"spectrum": "1:3,1e-320"}, "spectrum: expected eigenvalues from 1e-12 to 1e+12, got 1e-320"),
        ({"spectrum": "1:0,2"}, f"spectrum: {WHOLE} 0"),
        *(({"spectrum": text}, f"spectrum: {COUNTS}") for text in ("a,2", "1:2:3,4", "", "inf,1")),
        (
            {"spectrum": "2", "shift": "bottom"},
            "shift: expected top or all where the spectrum has one value, got bottom",
        ),
    ],
    "linear_spectrum": [
        *(({"source_spectrum": text}, f"source_spectrum: {SINGULAR}") for text in ("", "2,,1", "2;1", "nan")),
        ({"source_spectrum": "powr:1:1"}, "source_spectrum: |power:FIRST:EXPONENT"),
        ({"source_spectrum": "power:1"}, "source_spectrum: |two or three numbers"),
        ({"source_spectrum": "power:1:1:2.5"}, "source_spectrum: |whole COUNT"),
        ({"source_spectrum": "geometric:1:0.5:9"}, "source_spectrum: |at most dim = 8"),
        ({"source_spectrum": "1,2"}, "source_spectrum: |from the largest to the smallest"),
        ({"source_spectrum": "2,-1"}, "source_spectrum: |at least 0"),
        ({"source_spectrum": "0,0"}, "source_spectrum: |above 0"),
        ({"source_spectrum": "geometric:1e300:1e300"}, "source_spectrum: |finite"),
    ],
    "multiview": [
        ({"dim": 5}, "dim: expected at least 6, one for each feature"),
        ({"patches": 5}, "patches: expected at least 6, room for 6 features"),
        ({"sparsity": 4}, "sparsity: expected at most 3, the number of classes"),
    ],
    "relu_features": [
        ({"ablation": 1}, "ablation: expected a share that leaves at least one of teacher_width = 20 neurons, got 1")
    ],
    "relu_kernel": [
        ({"data": "digit"}, f"data: expected sphere, {FORMS}, got 'digit'"),
        ({"data": "digits", "source_samples": 1437}, "source_samples: expected fewer than the 1,437 training"),
        ({"data": "digits", "target_samples": 1400}, "target_samples: expected at most the 1,337 training"),
        ({"data": "mnist:/nowhere"}, "data: "),
        ({"width": 0.5}, "width: expected a whole number of at least 1, or .inf"),
    ],
    "vision": [
        ({"source_classes": "0-12"}, "source_classes: there is no class 12; expected some of 0-9 in digits"),
        *(({"target_classes": text}, f"target_classes: {CLASSES}|{text!r}") for text in ("none", "3-")),
        ({"target_classes": "٣"}, f"target_classes: {CLASSES}"),
        ({"target_classes": 3}, 'target_classes: expected text, in quotes: "3", got 3'),
        ({"target_classes": "5-2"}, "target_classes: expected ranges from a smaller class|'5-2'"),
        ({"target_samples": 800}, "target_samples: expected at most |half of them|got 800"),
        ({"source_samples": 9999}, "source_samples: expected at most |digits|got 9,999"),
        ({"model": "lenet"}, "model: expected images of at least 12 x 12 pixels for lenet|8 x 8"),
        ({"model": "lenet", "image_size": 11}, "image_size: expected images of at least 12 x 12|11 x 11"),
        ({"frozen_layers": 3}, "frozen_layers: expected at most 2, the layers of small_cnn|3"),
        ({"overlap_angle": 30, "target_classes": "0-4"}, "overlap_angle: expected an angle whose|36.87"),
        ({"overlap_angle": 90}, "overlap_angle: at 90 degrees the source has 10 classes beside|has 0"),
        ({"overlap_angle": 0, "source_classes": "0-4"}, "overlap_angle: expected source_classes: all"),
        ({"label": "colour"}, "label: expected class or brightness for grey images, got colour"),
        ({"model": "resnet18", "target_samples": 1}, "batch_size: expected batches of two images|1 images"),
        ({"source": "fashion_mnist:nowhere"}, "source: no folder nowhere; expected a folder in which|data"),
        ({"source": "cifar10:{here}/images"}, "source: {here}/images: no CIFAR-10 in it"),
        ({**FOLDER, "target": "images:{here}/none"}, "target: no folder {here}/none; expected a folder with"),
        ({**FOLDER, "target_classes": "0,3"}, "target_classes: there is no class 3"),
        ({"eigen_cam_images": 361}, "eigen_cam_images: expected at most the 360 test images of the target, got 361"),
        ({"examined_images": 101}, "examined_images: expected at most target_samples, which is 100, got 101"),
        ({"landscape_points": 5}, "landscape_points: expected 0 without examined_images"),
        ({"landscape_points": 4, "examined_images": 9}, "landscape_points: expected 0 or an odd number"),
    ],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    result = tmp_path_factory.mktemp("here")
    image_files.write_images(result / "images", {"a": 10, "b": 10, "c": 10})
    return result


@pytest.mark.parametrize(
    ("workload", "case"), [(workload, case) for workload, cases in CASES.items() for case in cases]
)
def test_what_cannot_be_computed_is_one_line_and_leaves_nothing(
    workload, case, here, call, tmp_path, tmp_path_factory, monkeypatch, request
):
    if workload == "checkpoints":
        request.getfixturevalue("hub_cache")
    monkeypatch.setenv(cache.VARIABLE, str(here / "cache"))
    fixed, message, *writes = case
    own = tmp_path_factory.mktemp("own")
    for write in writes:
        write(own)
    given = {key: value.format(here=here, own=own) if isinstance(value, str) else value for key, value in fixed.items()}
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump({"name": "bad", "workload": workload, "fixed": SMALL.get(workload, {}) | given}))
    begins, *parts = f"fixed.{message}".format(here=here, own=own).split("|")
    for more in ((), ("--dry-run",)):
        refused(call("run", space, "--storage", tmp_path / "s", "--tracking-uri", "none", *more), begins, *parts)
        assert list(tmp_path.iterdir()) == [space]
