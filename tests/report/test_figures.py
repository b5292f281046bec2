"""The order of lines in figures."""

from __future__ import annotations

from raysweep.report.figures.drawing import by_numbers


def test_names_stand_in_the_order_of_their_numbers() -> None:
    models = ["model pythia-160m", "model pythia-410m", "model pythia-70m"]
    assert sorted(models, key=by_numbers) == [models[2], models[0], models[1]]
    assert sorted(["b", 10.0, 9.0, "a"], key=by_numbers) == [9.0, 10.0, "a", "b"]
