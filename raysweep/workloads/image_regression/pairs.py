"""How a source and a target task are written: two classes each."""

from __future__ import annotations

import re

FORM = "SOURCE:TARGET with two different classes each, as in 2-3:5-6"
Classes = tuple[int, int]


def in_words(text: str) -> str:
    """A pair for a reader: "pair 2/3 to 5/6"."""
    return "pair " + text.replace("-", "/").replace(":", " to ")


def pair_of(text: str) -> tuple[Classes, Classes]:
    """The classes of source and target; ValueError says what was expected."""
    # one way to write each pair: its images are drawn from its text
    match = re.fullmatch(r"{0}-{0}:{0}-{0}".format("(0|[1-9][0-9]{0,3})"), text)
    classes = [int(digit) for digit in match.groups()] if match else []
    if not classes or classes[0] == classes[1] or classes[2] == classes[3]:
        raise ValueError(f"expected {FORM}; got {text!r}")
    return (classes[0], classes[1]), (classes[2], classes[3])
