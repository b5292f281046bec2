"""Every number of CLAIMS.md that has an error or an interval stands in a committed table of its space; the gallery of
reports agrees with the claims, with these tables and with the spaces."""

import json
import re
import runpy
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from conftest import TESTS
from documented import DOCS
from scipy.stats import spearmanr, t

from raysweep.commands.listing import first_comment
from raysweep.space import space_files
from raysweep.theory.papers import PAPERS, cited

REPORTS = TESTS.parent / "reports"
CLAIMS, WITHOUT_A_TABLE = (REPORTS / "CLAIMS.md").read_text().split("## Numbers that stand in no table")
VALUE = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"(?:°| points?| d)?"
MEASURED = [rf"({VALUE}){UNIT} ± ({VALUE})", rf"({VALUE}){UNIT} \[({VALUE}), ({VALUE})\]"]
SCALES = (1, 10, 100)  # in tenths (a slope by ten times x is one by x), in percent


class Number(NamedTuple):
    """A measured number as it is written, and the values of which it consists."""

    text: str
    values: tuple[str, ...]


class Claim(NamedTuple):
    """A row of the table of claims: the spaces whose rows it rests on, and what it says of them."""

    spaces: tuple[str, ...]
    text: str


def measured(text):
    return [Number(m[0], m.groups()) for each in MEASURED for m in re.finditer(rf"(?<![\w.,]){each}", text)]


def claims():
    lines = [line.strip("| ").split(" | ") for line in CLAIMS.splitlines() if line.startswith("| ")]
    rows = [cells for cells in lines[2:] if len(cells) == 5 and not cells[4].startswith("`pytest")]
    return [Claim(tuple(re.findall(r"(?:`|--name )([a-z]\w+)", row[4])), " | ".join(row[2:4])) for row in rows]


def table(space, name):
    return pd.read_csv(REPORTS / "tables" / space / f"{name}.csv")


def written(space):
    """What a space's tables hold: arrays whose rows hold what belongs together, as a mean and its interval."""
    arrays = []
    for path in sorted((REPORTS / "tables" / space).glob("*.csv")):
        rows = pd.read_csv(path)
        if {"mean", "standard_error", "draws"} <= set(rows):
            half = t.ppf(0.975, np.maximum(rows["draws"] - 1, 1)) * rows["standard_error"]
            rows = rows.assign(below=rows["mean"] - half, above=rows["mean"] + half)
        arrays.append(rows.select_dtypes("number").to_numpy(float))
    return arrays


def half_a_digit(value):
    """Half of the last digit that is written, not counting the zeros at the end of thousands: 3,400 is in hundreds."""
    if "." in value or "," not in value:
        return 0.5 * 10.0 ** -len(value.partition(".")[2])
    digits = value.replace(",", "")
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))


def stands(number, arrays):
    """Whether a row holds all values of a number, as they are rounded. A fall of 0.9 is a change of -0.9."""
    for array, scale in ((array, scale) for array in arrays for scale in SCALES):
        rows = np.ones(len(array), bool)
        for value in number.values:
            away = np.abs(np.abs(array) * scale - abs(float(value.replace(",", ""))))
            rows &= (away <= half_a_digit(value) * (1 + 1e-6)).any(axis=1)
        if rows.any():
            return True
    return False


def test_numbers_with_an_error_or_an_interval_stand_in_a_table_or_are_listed_with_the_command_that_makes_them():
    arrays = {space: written(space) for claim in claims() for space in claim.spaces}
    numbers = [
        (number, [array for space in claim.spaces for array in arrays[space]])
        for claim in claims()
        for number in measured(claim.text)
    ]
    assert len(claims()) > 80
    assert len(numbers) > 270
    missing = {number.text for number, own in numbers if not stands(number, own)}
    assert missing == {number.text for number in measured(WITHOUT_A_TABLE.partition("\n## ")[0])}


def test_every_claim_rests_on_a_committed_table():
    bare = [claim.text for claim in claims() if not any(list(REPORTS.glob(f"tables/{s}/*.csv")) for s in claim.spaces)]
    assert bare == []


def text_of(space):
    return "\n".join(claim.text for claim in claims() if space in claim.spaces)


def cell(space, name, **values):
    rows = table(space, name)
    chosen = np.logical_and.reduce([np.isclose(rows[key], value) for key, value in values.items()])
    return float(rows.loc[chosen, "mean"].item())


def test_risks_without_an_error_are_those_of_their_cells():
    by_depth = [cell("depth_scale", "curves_risk_finetune", depth=depth, target_norm=1.118034) for depth in (1, 50)]
    assert "{:.3f} at depth 1, {:.3f} at 50".format(*by_depth) in text_of("depth_scale")
    for gamma in (0.5, 0.8):
        target, source = (
            cell("norm_scale", "curves_risk_finetune", gamma=gamma, target_norm=to, source_norm=of)
            for to, of in ((8, 1), (1, 8))
        )
        assert f"{target:.2f} / {source:.2f} at γ = {gamma}" in text_of("norm_scale")
    assert cell("frozen_layers", "curves_risk_finetune", frozen_layers=0, gamma=1.9) < 1e-12


def test_the_network_nears_the_end_point_with_order_1_02_in_the_step():
    rows = table("engine_check", "engines_differences").query("metric == 'risk_finetune'")
    flow = rows.query("engine == 'flow'")[["median", "largest"]].max()
    assert flow.tolist() == pytest.approx([2e-12, 5e-12], rel=0.1)
    for _, part in rows.query("engine == 'network'").groupby("depth"):
        assert np.polyfit(np.log(part["finetune_lr"]), np.log(part["median"]), 1)[0] == pytest.approx(1.02, abs=0.005)


def test_up_to_90_degrees_the_kl_divergence_orders_transferability_within_each_gamma():
    cells = table("dataset_distance", "relation_cells").query("overlap_angle <= 90")
    for _, part in cells.groupby("gamma"):
        assert spearmanr(part["mean_kl_divergence"], part["mean_transferability_linear"])[0] == pytest.approx(-1)


def test_without_noise_the_closed_form_is_outside_of_one_interval():
    space = "transfer_phase_diagram_noiseless"
    zeros = pd.concat([table(space, name) for name in ("boundary_zeros", "boundary_2_zeros")])
    located = zeros.query("status == 'located'")
    outside = located.query("theory < low or theory > high")
    assert (len(outside), len(located), outside["gamma"].tolist()) == (1, 18, [0.2])
    assert "excluded in 1 of 18 slices, linear at γ = 0.2" in text_of(space)


def test_the_residual_of_the_source_is_apart_at_five_ablations_one_of_them_beyond_the_grid():
    places = table("relu_features", "predicted_boundary_2_places")
    located = places["status"] == "located"
    assert places.loc[places["apart"], "ablation"].tolist() == [0.3, 0.4, 0.6, 0.7, 0.8]
    assert places.loc[places["apart"] & ~located, "ablation"].tolist() == [0.3]
    assert places.loc[located & ~places["apart"], "ablation"].tolist() == [0.5]
    assert "apart in 4 of these 5 (not at μ = 0.5), and at μ = 0.3 too" in text_of("relu_features")


def test_a_slope_that_leaves_lengths_out_says_so():
    slopes = table("finetuning_ablation", "regime_slopes").query("lengths_left_out > 0")
    counted = ["finetune_batch", "lengths_located", "lengths_bounded", "lengths_left_out"]
    assert slopes[counted].to_numpy().tolist() == [[64, 4, 1, 1]]
    assert slopes["verdict"].tolist() == ["undetermined"]
    assert "batch 64 (there from 5 of the 6 lengths)" in text_of("finetuning_ablation")


def test_where_every_training_image_is_named_right_deviation_orders_accuracy_as_it_orders_the_error():
    assert set(table("deviation", "curves_target_training_accuracy").query("frozen_layers == 0")["mean"]) == {1.0}
    ranks = table("deviation", "relation_ranks").iloc[0]
    opposite = "{:.2f} [{:.2f}, {:.2f}] with target accuracy"
    assert opposite.format(*-ranks[["rank_correlation", "high", "low"]]) in text_of("deviation")
    ranks = table("deviation", "relation_3_ranks").iloc[0]
    assert opposite.format(*ranks[["rank_correlation", "low", "high"]]) in text_of("deviation")


GALLERY, WHOLE = ((REPORTS / name).read_text() for name in ("README.md", "CLAIMS.md"))
MANIFEST = json.loads((REPORTS / "manifest.json").read_text())
DIGEST = runpy.run_path(str(REPORTS / "make.py"))["space_digest"]
NUMBER = re.compile(r"(?<![\w.,_])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w.])")


class Shown(NamedTuple):
    space: str
    folder: str
    said: str
    time: str


def rows():
    found = []
    for line in GALLERY.splitlines():
        if line.startswith("| <a"):
            picture, answer, papers, made = line.strip("| ").split(" | ")
            time, space = re.fullmatch(r"(.*)<br>\[(\w+)\]\(../search_spaces/\w+\.yaml\)", made).groups()
            folder = re.match(r'<a href="pictures/(\w+)\.png">', picture)[1]
            found.append(Shown(space, folder, f"{answer.split('** ')[1]} {papers}", time))
    return found


def numbers(text):
    """The numbers of a text, without the sign: a fall of 0.9 is a change of -0.9."""
    return {abs(float(each.replace(",", ""))) for each in NUMBER.findall(text)}


@pytest.mark.parametrize("shown", rows(), ids=lambda shown: shown.folder)
def test_every_number_of_a_row_stands_among_the_claims_or_in_a_table_and_its_time_in_the_space(shown):
    claims = [line for line in WHOLE.splitlines() if line.startswith("| ") and f"`{shown.space}" in line]
    assert claims
    tables = [path.read_text() for path in sorted((REPORTS / "tables" / shown.folder).glob("*.csv"))]
    space = space_files.packaged()[shown.space]
    assert numbers(shown.said) - numbers("\n".join([*claims, *tables, space.read_text()])) == set()
    assert re.search(rf"\b{re.escape(shown.time)}\b", first_comment(space))


def test_every_report_of_the_manifest_is_shown_or_is_a_variant_of_one_that_is():
    shown = {row.space for row in rows()}
    assert len(shown) == len(rows()) > 25
    without = {name for name, entry in MANIFEST.items() if entry["space"] not in shown}
    variants = {"depth_scale", "frozen_layers", "norm_scale", "ridge_transfer"}
    assert without == {"dataset_distance", "engine_check", "transfer_phase_diagram_noiseless"} | variants


def test_committed_files_are_those_of_the_manifest():
    tables = {f"{name}/{table}" for name, entry in MANIFEST.items() for table in entry["tables"]}
    assert {f"{path.parent.name}/{path.stem}" for path in REPORTS.glob("tables/*/*.csv")} == tables
    pictures = {name for name, entry in MANIFEST.items() if entry["picture"]}
    assert {path.stem for path in REPORTS.glob("pictures/*.png")} == {*pictures, "mlflow"}
    assert sum(path.stat().st_size for path in REPORTS.rglob("*") if path.is_file()) < 6e6


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_a_table_was_made_of_the_space_as_it_is(name):
    """One that was made of an older space would answer what nobody asks any more."""
    assert MANIFEST[name]["space_digest"] == DIGEST(MANIFEST[name])


def test_the_letters_of_papers_are_spelled_out_before_they_are_used():
    pages = {name: (DOCS / f"{name}.md").read_text() for name in ("questions", "analyses")}
    for name, page in {"gallery": GALLERY, "claims": WHOLE, **pages}.items():
        words = " ".join(page.split())
        for letter, title in PAPERS.items():
            if name == "analyses" and letter not in cited(page):
                continue
            assert f"*{title}*" in words
            first = re.search(rf"(?<!\w){letter}(?:'s\b|: | Fig| Thm| Table| §)", words.replace(f"**{letter}**", ""))
            assert first is None or words.index(f"*{title}*") < first.start() or f"**{letter}**" in words
