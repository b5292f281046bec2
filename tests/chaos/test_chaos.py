"""A small sweep disturbed at random moments comes out as if it had been left alone. `make chaos` does more of it."""

import pytest

from tests.chaos.world import chaos


@pytest.mark.long
def test_what_is_disturbed_comes_out_as_what_is_left_alone():
    said = []
    with chaos(3, ["rows", "staged"], said.append) as world:
        for kind in ("rows", "staged"):
            world.disturb(kind, 3, without=("database locked",))  # which takes half a minute
    assert world.tally.faults >= 4, said
    assert world.tally.well, said
