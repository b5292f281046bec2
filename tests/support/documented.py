"""What docs/staged_workloads.md shows, and the package of the example in the form that a gang trains together."""

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCS / "staged_workloads.md").read_text()
EXAMPLE = DOCS / "digits" / "digits"


def blocks(language="python", document=DOCUMENT):
    """The fenced blocks of a language in a page."""
    result = re.findall(rf"^ *```{language}\n(.*?)^ *```$", document, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for text in result]


def block(having):
    """The one block that has this text."""
    (result,) = [text for text in blocks() if having in text]
    return result


def points(declaration):
    """The lines of the example's declaration that cut its pretraining into epochs."""
    return re.search(r" +points=.*\n +until=.*\n +cost=.*\n", declaration).group(0)


def function(net, name):
    """The text of one function of the example."""
    return re.search(rf"^def {name}\(.*?(?=^def |\Z)", net, re.MULTILINE | re.DOTALL).group(0)


def put_together(folder):
    """The package `digits_together`: the example with the documented functions for long stages and for gangs.

    It notes every epoch in the file `epochs` of its folder. While there is a file `stop`, the second worker of a gang
    stops for ever before its third epoch, and leaves the file `reached`."""
    package = folder / "digits_together"
    package.mkdir()
    declaration = (EXAMPLE / "__init__.py").read_text()
    for old, new in (
        (points(declaration), ""),
        ("digits.net:", "digits_together.net:"),
        ('sources=("digits",)', 'sources=("digits_together",)'),
        ('name="digits"', 'name="digits_together",\n    data_parallel=True'),
    ):
        assert old in declaration
        declaration = declaration.replace(old, new)
    (package / "__init__.py").write_text(declaration)
    net = (EXAMPLE / "net.py").read_text()
    for name, shown in (("pretrain", "context.restored()"), ("train", "all_reduce")):
        net = net.replace(function(net, name), f"{block(shown)}\n\n")
    (package / "net.py").write_text(net + _STOPS)


_STOPS = """

import pathlib, threading
from unittest import mock
import raysweep.trial.context

_HERE, _train, _pretrain = pathlib.Path(__file__).parent, train, pretrain


def pretrain(rows, parent, context):
    with mock.patch.object(raysweep.trial.context, "CHECKPOINT_SECONDS", -1.0):
        return _pretrain(rows, parent, context)


def train(net, optimizer, batches, context, first=0):
    if context.stage == "pretrain" and context.rank == 0:
        with (_HERE / "epochs").open("a") as stream:
            stream.write(f"{first // 12 + 1}\\n")
    if first == 24 and context.rank == 1 and (_HERE / "stop").exists():
        (_HERE / "reached").touch()
        threading.Event().wait()
    _train(net, optimizer, batches, context, first)
"""
