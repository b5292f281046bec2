"""The command line keeps to its contract: what goes to stdout, which exit code, and that it is quick to answer."""

import json
import os
import re
import subprocess

import pytest
from conftest import QUIET, TESTS, Outcome, command, driving, files_of, ok, process, python
from spaces import small_space

import raysweep
from raysweep import workloads
from raysweep.commands import listing
from raysweep.space import space_files
from raysweep.theory import papers
from tests.chaos.waiting import PATIENCE

COMMANDS = ("run", "resume", "sync", "list", "status", "results", "report", "debug", "delete", "workloads", "spaces")


def test_help_names_every_command(call):
    told = ok(call("--help"))
    for name in COMMANDS:
        assert f"  {name} " in told.out
        assert ("--storage" in ok(call(name, "--help")).out) == (name not in ("workloads", "spaces"))


def test_version(call):
    assert call("--version") == Outcome(0, f"raysweep, version {raysweep.__version__}\n", "")


def test_without_a_command_it_says_what_there_is(call):
    told = ok(call())
    assert "How does what you get after fine-tuning depend on" in told.out
    assert "raysweep run quickstart" in told.out
    assert not [name for name in space_files.packaged() if f"\n{name} " not in told.out]
    assert told.err == ""


def test_trials_theory_and_workloads_need_neither_ray_nor_mlflow():
    blocked = "import sys; sys.modules.update(dict.fromkeys(['ray', 'mlflow', 'pandas', 'optuna', 'matplotlib']))"
    code = (
        f"{blocked}; import numpy as np; from raysweep.plan.cells import enumerate_cells; "
        "from raysweep.space.schema import validate; from raysweep.trial.compute import compute; "
        f"space = validate({small_space()!r}); cells = enumerate_cells(space); "
        "seeds = np.zeros(6, dtype=np.int64); "
        "print(*compute(space.declaration, cells.columns, seeds, '/nonexistent').status)"
    )
    assert python(code).out.split() == ["ok"] * 6


def test_the_file_that_is_shipped_alone_is_the_same_program_or_says_that_it_is_of_another_version(tmp_path):
    source, copy = TESTS.parent / "raysweep" / "main.py", tmp_path / "main.py"
    copy.write_text(source.read_text())
    expected = process("workloads", "linear_transfer")
    for file in (source, copy):
        assert python(file, "workloads", "linear_transfer", cwd=tmp_path) == expected
    copy.write_text(source.read_text().replace(f'VERSION = "{raysweep.__version__}"', 'VERSION = "0.0.7"'))
    done = python(copy, "spaces")
    assert done.code != 0
    assert "0.0.7" in done.err
    assert raysweep.__version__ in done.err
    assert "Traceback" not in done.err


def test_workloads_are_explained(call):
    assert [line.split()[0] for line in call("workloads").out.splitlines()] == workloads.names()
    told = call("workloads", "linear_transfer").out
    declared = workloads.get("linear_transfer")
    for entry in (*declared.parameters, *declared.metrics):
        assert f"  {entry.name} " in told
    assert "from 0 to 180 (degrees); default 45.0" in told
    assert "stage" not in told


def test_the_chain_of_a_workload_is_shown_with_the_parameters_of_each_stage(call):
    told = call("workloads", "language").out
    assert "\nstages: trunk > pretrain > finetune > evaluate; kept: trunk, pretrain\n" in told
    chain = workloads.get("language").chain
    parts = re.split(r"^parameters of (\w+)$|^(metrics)$", told, flags=re.MULTILINE)[1:]
    shown = {stage or metrics: text for stage, metrics, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}
    assert list(shown) == [*chain.names, "metrics"]
    for stage, names in zip(chain.names, chain.parameters, strict=True):
        assert re.findall(r"^  (\w+)", shown[stage], flags=re.MULTILINE) == list(names)
    lines = {line.split()[0]: line for line in shown["metrics"].strip().splitlines()}
    for stage, names in zip(chain.names, chain.metrics, strict=True):
        assert all(lines[name].endswith(f", measured in {stage}") == (stage != "evaluate") for name in names)
    assert any(chain.metrics[:-1])


@pytest.mark.long
def test_every_packaged_space_is_listed_and_can_be_planned(call, storage):
    listed = call("spaces").out.splitlines()
    legend = [line.split(maxsplit=2) for line in listed if line.startswith("paper ")]
    assert {letter: title for _, letter, title in legend} == papers.PAPERS
    listed = listed[: -len(legend)]
    assert [line.split()[0] for line in listed] == list(space_files.packaged())
    assert all(len(line.split()) > 3 for line in listed)
    for name in space_files.packaged():
        outcome = call("run", name, "--storage", storage, *QUIET, "--dry-run")
        if outcome.code:  # a space on images that nobody has fetched
            hints = "`make data`", "expected a folder with folders train and test"
            assert any(hint in outcome.err for hint in hints), outcome
        else:
            assert "rows to compute" in outcome.out
    assert not storage.exists()


def test_what_a_space_asks_is_said_to_the_end(call):
    lines = [line for line in call("spaces").out.splitlines() if not line.startswith("paper ")]
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    for name, path in space_files.packaged().items():
        paragraph = path.read_text().split("\n#\n")[0].split("\nname:")[0]
        assert said[name] == " ".join(line.removeprefix("# ") for line in paragraph.splitlines())
        assert said[name].endswith((".", ")", "?")), name
    folded = listing.listed(said, 34, 80)
    assert max(map(len, folded)) <= 80
    assert " ".join(" ".join(folded).split()) == " ".join(f"{name} {text}" for name, text in said.items())


def test_a_dry_run_says_what_would_be_done_and_does_nothing(call, space, storage):
    outcome = call("run", space, "--storage", storage, "--dry-run")
    assert (outcome.code, outcome.err) == (0, "")
    assert "6 cells x 3 draws = 18 rows" in outcome.out
    assert "overlap_angle      30, 60" in outcome.out
    for word in (" pack of", "estimated", "memory", "on disk"):
        assert word in outcome.out
    assert not storage.exists()


def test_a_run_speaks_on_stderr_in_plain_lines(call, space, storage):
    outcome = call("run", space, "--storage", storage, *QUIET)
    assert (outcome.code, outcome.out) == (0, "")
    assert "18 of 18 rows" in outcome.err
    assert "\r" not in outcome.err
    assert "\x1b" not in outcome.err
    there = sorted(path.name for path in (storage / "small").iterdir())
    assert there == ["driver.lock", "ledger", "logs", "sweep.json"]


def test_a_run_from_anywhere_puts_its_sweeps_beside_it(tmp_path, space):
    home = tmp_path / "home"
    home.mkdir()
    ok(process("run", "../space.yaml", *QUIET, cwd=home))
    assert sorted(files_of(home))[0] == "sweeps/small/driver.lock"
    assert ok(process("results", "small", cwd=home)).out.count("\n") == 19


def test_only_the_table_is_on_stdout(finished):
    binary = subprocess.run(
        command("results", "small", "--storage", finished, "--format", "parquet"), capture_output=True, check=True
    )
    assert binary.stdout[:4] == binary.stdout[-4:] == b"PAR1"
    assert binary.stderr == b""


def test_a_reader_that_goes_away_is_no_error_to_speak_of(call, space, storage):
    ok(call("run", space, "--storage", storage, *QUIET, "--set", "seeds=400"))
    with driving("results", "small", "--storage", storage) as printing:
        assert printing.stdout.readline().startswith("sweep,cell,seed,status,")
        printing.stdout.close()
        assert printing.stderr.read() == ""
        printing.wait(timeout=PATIENCE)
        printing.stdout = None


def test_looking_leaves_no_trace(call, finished):
    before = files_of(finished)
    cell = call("results", "small", "--storage", finished).out.splitlines()[1].split(",")[1]
    for arguments in (
        ["list"],
        ["status", "small"],
        ["results", "small"],
        ["debug", "small", cell],
        ["debug", "small", cell[:6], "7"],
    ):
        outcome = call(*arguments, "--storage", finished)
        said = "small: seed 7 is not one of the sweep's; its row is computed here alone\n" if "7" in arguments else ""
        assert (outcome.code, outcome.err) == (0, said)
        assert outcome.out
    assert files_of(finished) == before


def test_debug_computes_the_row_that_was_recorded(call, finished):
    for row in json.loads(call("results", "small", "--storage", finished, "--format", "json").out)[::5]:
        again = json.loads(call("debug", "small", row["cell"], row["seed"], "--storage", finished).out)
        assert (again["cell"], again["seed"], again["status"]) == (row["cell"], row["seed"], "ok")
        assert again["parameters"] == {name: row[name] for name in again["parameters"]}
        for name, value in again["metrics"].items():
            expected = "NaN" if row[name] is None else row[name]
            assert value == (pytest.approx(expected, rel=1e-9, abs=1e-13) if isinstance(value, float) else expected)


def test_on_a_terminal_the_line_is_live_and_a_deletion_is_asked_for(space, storage):
    pty = pytest.importorskip("pty")

    def on_terminal(*arguments, answer=b""):
        ours, theirs = pty.openpty()
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        started = subprocess.Popen(command(*arguments), env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}, **pipes)
        os.close(theirs)
        os.write(ours, answer)
        told = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            told += part
        os.close(ours)
        return started.wait(timeout=PATIENCE), told.decode()

    code, told = on_terminal("run", space, "--storage", storage, *QUIET)
    assert code == 0
    assert "18 of 18 rows" in told
    code, told = on_terminal("delete", "small", "--storage", storage, "--tracking-uri", "none", answer=b"n\n")
    assert code == 130
    assert "delete small (18 rows)?" in told
    assert (storage / "small" / "sweep.json").exists()
    code, _ = on_terminal("delete", "small", "--storage", storage, "--tracking-uri", "none", answer=b"y\n")
    assert code == 0
    assert not (storage / "small").exists()


def test_a_dry_run_is_no_shorter_than_its_longest_pack(call):
    """Half of all tokens are in one pretraining: more than three trials at a time cannot make it shorter."""
    endless = ("--set", "fixed.source=grammar:0", "--set", "fixed.target=grammar:0")  # instead of megabytes of text
    asked = ("run", "overtraining_olmo30m", *endless, "--dry-run", "--workers")
    three, six = (re.search(r"estimated (.+?) in Ray Tune", call(*asked, workers).out)[1] for workers in ("3", "6"))
    assert three == six


def test_a_dry_run_counts_on_gangs_where_there_are_some(call):
    """In this process there are none; on Ray they are said to be as fast as they are many, and that this is said."""
    asked = ("run", "overtraining_language_tiny", "--dry-run", "--executor")
    alone, gangs = (call(*asked, "inline", "--set", f"resources={{gang: {count}}}").out for count in (1, 8))
    estimated = re.compile("estimated .* in this process")
    assert estimated.findall(alone) == estimated.findall(gangs) != []
    assert "taken to be k times as fast" not in gangs
    assert "taken to be k times as fast" in call(*asked, "ray", "--set", "resources={gang: 2}").out
