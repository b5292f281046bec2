"""Reports of plain functions: whatever their arguments and metrics are called, and however large their numbers are."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import raysweep
from raysweep.analyses.rows import comparable
from raysweep.errors import InputError
from raysweep.numbers import interval, number, with_error
from raysweep.report.figures.scales import set_log
from raysweep.reporting import taken_names
from raysweep.reporting.report import Report
from raysweep.storage.sealed import seal, unseal


def swept(function: Any, storage: Path, **keywords: Any) -> raysweep.Sweep:
    """The sweep of a function, without MLflow and not yet with a report."""
    return raysweep.run(function, storage=storage, tracking_uri="none", report=False, **keywords)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are empty files: drawing them takes most of the time of a report."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **options: Path(path).touch())


def report_text(report: Report) -> str:
    return (Path(str(report.directory)) / "report.md").read_text()


def test_every_metric_has_its_own_files_inside_the_report(undrawn: None, storage: Path) -> None:
    names = ["val/loss", "val_loss", "Val_loss", "m/..pwn", "m" * 100]

    def train(lr: float, seed: int) -> dict[str, float]:
        return {name: lr * place + seed for place, name in enumerate(names)}

    asked = [{"curves": {"metrics": names, "x": "lr"}}]
    sweep = swept(train, storage, axes={"lr": [0.1, 0.2]}, seeds=2, analysis=asked)
    before = {path for path in storage.parent.rglob("*") if sweep.folder / "report" not in (path, *path.parents)}
    report = sweep.report()
    after = {path for path in storage.parent.rglob("*") if sweep.folder / "report" not in (path, *path.parents)}
    assert after == before
    tables = [path for path in report.files if path.suffix == ".csv"]
    assert [pd.read_csv(path)["mean"].tolist() for path in tables] == [
        pytest.approx([0.1 * place + 0.5, 0.2 * place + 0.5]) for place in range(len(names))
    ]
    assert {path.parent.name for path in report.files} == {"figures", "tables", "report"}
    assert len({path.name.casefold() for path in report.files}) == len(report.files) == 3 * len(names) + 2
    assert (report.directory / "report.html").read_text().count("data:image/png;base64,") == len(names)


LEARNING: dict[str, Any] = {"curves": {"metric": "loss", "x": "step"}}
KINDS: list[dict[str, Any]] = [
    LEARNING,
    {"best": {"metric": "loss"}},
    {"curves": {"metric": "loss", "x": "x"}},
    {"boundary": {"metric": "loss", "x": "x", "y": "y"}},
    {"inflection": {"metric": "loss", "x": "x"}},
    {"optimum": {"metric": "loss", "x": "x"}},
    {"trend": {"metric": "loss", "x": "x"}},
    {"power_law": {"metric": "loss", "x": "x"}},
    {"predicted_boundary": {"metric": "loss", "x": "x", "law": "loss", "meets": "gain"}},
    {"regime": {"metric": "loss", "lr": "x", "length": "y"}},
    {"relation": {"x": "loss", "y": "gain", "by": ["y"]}},
    {"r_squared": {"metric": "gain", "predictors": ["loss"], "x": "x", "unit": "y"}},
]


def valley(x: float, y: int, seed: int, log: Any = None) -> dict[str, float]:
    loss = (x - 2 - 0.1 * y) ** 2 - 0.5 + 0.01 * (seed + 1) * x
    log(0, loss=loss)
    return {"loss": loss, "gain": -loss * (1 + 0.1 * seed)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join((*kind, *map(str, kind[next(iter(kind))].values()))))
def test_every_column_beside_the_axes_is_known_so_that_an_argument_can_give_way(
    kind: dict[str, Any], undrawn: None, storage: Path
) -> None:
    axes = {"x": [1.0, 2.0, 3.0, 4.0], "y": [1, 2]}
    report = swept(valley, storage, axes=axes, seeds=3, analysis=[kind]).report()
    found = {name for path in report.files if path.suffix == ".csv" for name in pd.read_csv(path).columns}
    lines = report_text(report).splitlines()
    heads = [line for line, below in itertools.pairwise(lines) if below.startswith("|---")]
    found |= {head.strip().replace(" ", "_") for line in heads for head in line.strip("|").split("|")}
    others = {name for name in found if name.isidentifier() and not {"x", "y", "loss", "gain"} & set(name.split("_"))}
    name = "learning_curves" if kind == LEARNING else next(iter(kind))
    assert others
    assert others <= set(taken_names.ADDED[name].split())


def test_no_sentence_of_a_report_is_left_empty(undrawn: None, storage: Path) -> None:
    axes = {"x": [1.0, 2.0], "y": [1, 2]}
    text = report_text(swept(valley, storage, axes=axes, seeds=1, analysis=KINDS).report())
    assert re.findall(r".*(?:[:;,] ?|Method: none)\.(?:\s|$)", text) == []


def test_arguments_with_such_names_have_columns_of_their_own(undrawn: None, storage: Path) -> None:
    def named(low: float, draws: int, seed: int, log: Any = None) -> dict[str, float]:
        return valley(low, draws, seed, log)

    text = json.dumps(KINDS).replace('"x": "x"', '"x": "low"').replace('"y": "y"', '"y": "draws"')
    text = text.replace('"unit": "y"', '"unit": "draws"')
    text = text.replace('"lr": "x", "length": "y"', '"lr": "low", "length": "draws"').replace('["y"]', '["draws"]')
    values = {"low": [1.0, 2.0, 3.0, 4.0], "draws": [1, 2]}
    theirs = swept(named, storage, axes=values, seeds=3, analysis=json.loads(text)).report()
    plain = {"x": values["low"], "y": values["draws"]}
    ours = swept(valley, storage, axes=plain, seeds=3, analysis=KINDS).report()
    assert [path.name for path in theirs.files] == [path.name for path in ours.files]
    for one, other in zip(theirs.files, ours.files, strict=True):
        if one.suffix == ".csv":
            table = pd.read_csv(one)
            expected = pd.read_csv(other)
            names = {"low_argument": "x", "draws_argument": "y"} | ({} if "low" in expected else {"low": "x"})
            table = table.rename(columns=names).replace("draws argument", "y", regex=True)
            table = table.replace({"axis": {"low": "x", "draws_argument": "y"}})
            pd.testing.assert_frame_equal(table, expected)
    assert "Varied: low 1, 2, 3, 4; draws 1, 2." in report_text(theirs)
    assert " at low = 2, draws argument = 1; " in theirs.headline[1]


def test_steps_that_are_too_large_for_an_integer_stay_what_they_are(undrawn: None, storage: Path) -> None:
    def train(lr: float, seed: int, log: Any) -> float:
        for step in (1, 1e20, 3e20):
            log(step, loss=lr)
        return lr

    asked = [{"curves": {"metric": "loss", "x": "step"}}]
    sweep = swept(train, storage, axes={"lr": [0.5, 0.25]}, seeds=1, analysis=asked)
    assert sweep.curves()["step"].tolist() == [1, 1e20, 3e20] * 2
    assert sweep.report().headline[0].startswith("loss of train ends lowest with lr = 0.25: at 0.25 (a single draw)")


def test_values_that_are_too_large_are_said_to_be_that(storage: Path) -> None:
    def huge(x: float, seed: int) -> float:
        return 1e308

    assert swept(huge, storage, axes={"x": [1.0, 2.0]}, seeds=2).report().headline == [
        "best: value is beyond 1e+150 (too large to be squared) or not finite in every row, so there is nothing to "
        "analyse"
    ]

    def far(x: float, seed: int) -> float:
        return seed

    asked = [{"curves": {"metric": "value", "x": "x"}}]
    assert swept(far, storage, axes={"x": [1e308, -1e308, 0.0]}, seeds=2, analysis=asked).report().headline == [
        "curves: an axis is analysed up to 1e+150, and x has values beyond"
    ]


def test_no_control_character_of_a_value_reaches_the_terminal(undrawn: None, storage: Path) -> None:
    def train(kind: str, seed: int) -> float:
        return len(kind) + seed

    report = swept(train, storage, axes={"kind": ["\x1b[31mred", "a\rb"]}, seeds=2).report()
    assert report.headline[0] == (
        "value is lower with kind a\\rb than with \\x1b[31mred: 3.5 [-2.9, 9.9] against 8.5 [2.1, 14.9]; "
        "difference -5 (exact) (95 %, paired by seed)"
    )
    assert report_text(report).replace("\n", "").isprintable()


def test_one_axis_under_by_needs_no_list(undrawn: None, storage: Path) -> None:
    axes = {"x": [1.0, 2.0, 3.0, 4.0], "y": [1, 2]}
    entries = [
        {"curves": {"metric": "loss", "x": "x", "by": "y"}},
        {"curves": {"metric": "loss", "x": "step", "by": "y"}},
        {"relation": {"x": "loss", "y": "gain", "by": "y"}},
    ]
    one = swept(valley, storage, axes=axes, seeds=2, analysis=entries).report().headline
    for entry in entries:
        next(iter(entry.values()))["by"] = ["y"]
    assert swept(valley, storage, axes=axes, seeds=2, name="listed", analysis=entries).report().headline == one


def test_a_cost_that_no_row_can_have_is_no_description_of_a_function(storage: Path) -> None:
    def train(lr: float, seed: int) -> float:
        return lr

    record = swept(train, storage, axes={"lr": [0.5]}, seeds=1).folder / "sweep.json"
    body = unseal(record.read_bytes())
    for seconds in (math.inf, math.nan, -1, 10**400):
        body["space"]["function"]["seconds"] = seconds
        record.write_bytes(seal(body))
        with pytest.raises(InputError, match="function: is no description of a function"):
            raysweep.open("train", storage)


def test_panels_show_a_few_values_of_each_axis_in_all_combinations() -> None:
    lengths, angles = [2**power for power in range(10)], [0, 30, 60, 90]
    grid = list(itertools.product(lengths, angles))
    chosen = [grid[place] for place in comparable(grid, 9)]
    assert chosen == list(itertools.product([1, 16, 512], [0, 60, 90]))
    three = list(itertools.product(range(5), range(4), "abc"))
    assert [three[place] for place in comparable(three, 9)] == list(itertools.product([0, 4], [0, 3], "ac"))
    zipped = [(length, length) for length in lengths]
    assert [zipped[place] for place in comparable(zipped, 3)] == [(1, 1), (16, 16), (512, 512)]
    assert comparable(grid[:7], 9) == list(range(7))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (interval(0.0, -3e-14, 3e-14), "0 [-3e-14, 3e-14]"),
        (interval(0.0, 0.0, 0.0), "0 (exact)"),
        (interval(1.23456789, 1.23456779, 1.23456799), "1.23456789 [1.23456779, 1.23456799]"),
        (interval(0.5, 0.4, 0.6), "0.50 [0.40, 0.60]"),
        (interval(524288.0, 524000.0, 525000.0), "524,288 [524,000, 525,000]"),
        (interval(1.5e20, 1e20, 2e20), "1.5e+20 [1e+20, 2e+20]"),
        (with_error(0.1, 1e-17), "0.1 (exact)"),
        (with_error(0.0, 0.0), "0 (exact)"),
        (with_error(1.2345678912, 2.5e-8), "1.234567891 ± 2.5e-08"),
        (with_error(0.0, 1e-9), "0 ± 1e-09"),
        (number(524288), "524,288"),
        (number(9999999.0), "9,999,999"),
        (number(-12345), "-12,345"),
        (number(1000), "1000"),
        (number(1e7), "1e+07"),
        (number(12345.6), "12,350"),
        (number(math.exp(math.log(262144))), "262,144"),
        (number(-0.0), "0"),
    ],
)
def test_numbers_show_the_digits_that_are_known(text: str, expected: str) -> None:
    assert text == expected


def test_ticks_of_a_logarithmic_axis_are_short() -> None:
    axis = Figure().subplots().xaxis
    set_log(axis)
    shown = {value: axis.get_major_formatter()(value, 0) for value in (1e-9, 0.001, 1e3, 5e4, 1e12, 1e15, 1e33)}
    assert list(shown.values()) == ["$10^{-9}$", "0.001", "1000", "50k", "1T", "$10^{15}$", "$10^{33}$"]


def test_words_of_a_report_are_words_also_where_a_metric_is_called_so(undrawn: None, storage: Path) -> None:
    def train(lr: float, seed: int) -> dict[str, float]:
        return {"mean": lr, "varied": lr + seed, "val_loss": lr}

    asked = [{"trend": {"metric": name, "x": "lr"}} for name in ("mean", "val_loss")]
    text = report_text(swept(train, storage, axes={"lr": [0.1, 0.2]}, seeds=2, analysis=asked).report())
    assert "\nVaried: lr 0.1, 0.2.\n" in text
    assert "\nVaried: lr 0.1, 0.2. Workload `train`:" in text
    assert "`mean`" not in text
    assert "- **No trend of mean over lr can be tested " in text
    assert "- **`val_loss` does not change" in text or "- **No trend of `val_loss` over lr" in text

    def broken(lr: float, seed: int) -> float:
        raise ValueError("never")

    text = report_text(swept(broken, storage, axes={"lr": [0.1, 0.2]}, seeds=2).report())
    assert "``" not in text.replace("```", "")
    assert "\nVaried: lr 0.1, 0.2. Workload `broken`:" in text


def test_a_larger_grid_is_not_asked_for_where_the_runs_at_its_end_diverged(undrawn: None, storage: Path) -> None:
    def gain(x: float, y: int, seed: int) -> dict[str, float]:
        return {"gain": math.nan if x > y else 6.5 - x + 0.1 * math.sin(7 * x + 3 * seed)}

    def said(y: list[int]) -> list[str]:
        asked = [{"boundary": {"metric": "gain", "x": "x"}}]
        axes = {"x": [float(value) for value in range(7)], "y": y}
        return swept(gain, storage, axes=axes, seeds=5, analysis=asked, name=f"to{len(y)}{y[0]}").report().answer

    one = said([4])
    assert one[0].startswith(
        "Beyond the rows that are ok, above 4 (positive below, no row is ok above): zero x of gain."
    )
    assert one[-1] == "Undecided: Zero x of gain (deciding it takes rows that are ok at larger x)."
    assert "beyond the rows that are ok in 1 (above 4" in " ".join(said([4, 6]))
    assert said([6])[-1] == "Undecided: Zero x of gain (deciding it takes x above 6, if it is there at all)."
