"""What tests share: spaces on disk, the command line (here and as a process), a sandbox workload, one Ray."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import documented
import pytest
import yaml
from spaces import small_space, written

from tests.chaos.waiting import PATIENCE, hear, wait_for

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: beside other tests its workers would starve
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch: the cores are shared by several workers

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background has it, and processes started here too
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("checkpoint_rows", "driven", "image_files", "language_fixtures", "servers")  # of tests/support

TESTS = Path(__file__).parent
SUPPORT = TESTS / "support"
pytest.register_assert_rewrite("stored_stage")
QUIET = ("--no-report", "--tracking-uri", "none")
ONE_AFTER_ANOTHER_ON_RAY = """
import sys
from raysweep.main import main
for space in sys.argv[2:]:
    try:
        main(["run", space, "--storage", sys.argv[1], "--executor", "ray", "--no-report", "--tracking-uri", "none"])
        print(0, flush=True)
    except SystemExit as stop:
        print(stop.code, flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def command(*arguments, first=""):
    """The command line `raysweep` of the interpreter that tests, as a list for subprocess, after the code `first`."""
    program = f"{first}\nimport sys; from raysweep.main import main; main(sys.argv[1:])"
    return [sys.executable, "-c", program, *map(str, arguments)]


def process(*arguments, first="", **options):
    """The command line as a process of its own, to its end; `first` is executed in it first."""
    return _ended(command(*arguments, first=first), **options)


def python(program, *arguments, **options):
    """Code, or a file of it, as a process of its own, to its end."""
    return _ended([sys.executable, *(("-c",) if isinstance(program, str) else ()), program, *arguments], **options)


def _ended(words, env=None, **options):
    """A process at its end, with these changes to the environment and these options of Popen."""
    environment = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    usual = {"stdin": subprocess.DEVNULL, "timeout": PATIENCE, "env": environment, **options}
    done = subprocess.run(words, capture_output=True, text=True, check=False, **usual)
    return Outcome(done.returncode, done.stdout, done.stderr)


def ok(outcome):
    """The outcome of a command that ended with exit code 0."""
    assert outcome.code == 0, outcome
    return outcome


@contextlib.contextmanager
def told(begins, *parts):
    """The block ends in an InputError of one line that begins so and holds these parts."""
    from raysweep.errors import InputError

    with pytest.raises(InputError) as found:
        yield
    line = str(found.value)
    assert line.startswith(begins), line
    assert "\n" not in line
    for part in parts:
        assert part in line, line


def refused(outcome, begins, *parts):
    """Exit 2, nothing on stdout, no traceback; the last line on stderr, which begins so and holds these parts."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith(begins), outcome.err
    assert "Traceback" not in outcome.err
    assert "│" not in outcome.err
    assert len(outcome.err) < 1000, "a line that no one can read"
    for part in parts:
        assert part in outcome.err


def halted(outcome, begins, *parts):
    """The last line on stderr, which begins so and holds these parts; exit 2, nothing on stdout, no traceback."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    last = outcome.err.splitlines()[-1]
    assert last.startswith(begins), last
    for part in parts:
        assert part in last, last
    return last


def sql(database, statement):
    """Apply a statement to a database of SQLite; the rows that it gives."""
    with contextlib.closing(sqlite3.connect(database, timeout=PATIENCE)) as db, db:
        return db.execute(statement).fetchall()


def until(condition, process=None, seconds=PATIENCE):
    """Wait for a condition. Fail if it is late, or if a process it depends on ends, with what that process said."""
    if wait_for(condition, process, seconds):
        return
    if process is None:
        pytest.fail(f"waited {seconds:g} s in vain")
    code = process.poll()
    process.kill()
    ended = "goes on" if code is None else f"ended with {code}"
    pytest.fail(f"waited for a process that {ended} and said {process.communicate(timeout=PATIENCE)}")


@contextlib.contextmanager
def nobody_else_writes(database):
    """What wants to write there waits."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@contextlib.contextmanager
def driving(*arguments, first="", before=(), **options):
    """A command that goes on as a process of its own, in a session of its own; killed at the end of the block. `first`
    is executed in it; `before` are words before the command, `options` those of Popen."""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    usual = {"stdin": subprocess.DEVNULL, **pipes, "text": True, "start_new_session": True, "preexec_fn": hear}
    driver = subprocess.Popen([*before, *command(*arguments, first=first)], **{**usual, **options})
    try:
        yield driver
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()


@pytest.fixture(scope="session", autouse=True)
def notes(tmp_path_factory):
    """The notes of this user are those of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def own_notes(tmp_path, monkeypatch):
    """The notes of this user are those of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session", autouse=True)
def fits_in_this_process():
    """Beside other tests a fit has no core to spare for processes of its own."""
    from raysweep.fits import processes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "WORTH", float("inf"))
        yield


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")


@pytest.fixture(params=["pretended", pytest.param("real", marks=pytest.mark.gpu)])
def a_gpu(request):
    """A GPU: one that is pretended, and a real one where there is one."""
    from pretend_cuda import pretended_gpu

    return pretended_gpu if request.param == "pretended" else contextlib.nullcontext


@pytest.fixture
def gpu(a_gpu):
    with a_gpu():
        yield


@pytest.fixture
def call(capfd):
    """The command line in this process: the same function, hundreds of times faster."""
    from raysweep.driver import signal_handlers
    from raysweep.main import main

    def run(*arguments):
        capfd.readouterr()
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
        written = capfd.readouterr()
        return Outcome(code, written.out, written.err)

    with pytest.MonkeyPatch.context() as patch:  # which no test undoes: signals would end these tests, and with 0
        patch.setattr(signal_handlers, "leave_on_signal", lambda code: None)
        # An interrupted command ends its process, never this one.
        patch.setattr(signal_handlers, "leave_soon", lambda: None)
        patch.setattr(signal_handlers, "ending_process", contextlib.nullcontext)
        yield run


@pytest.fixture
def storage(tmp_path):
    """Where sweeps of this test go; not there yet."""
    return tmp_path / "storage"


@pytest.fixture
def space(tmp_path):
    return written(tmp_path, small_space())


@pytest.fixture
def small(call, storage, tmp_path):
    """The folder of a finished sweep."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small_space()))
    ok(call("run", tmp_path / "small.yaml", "--storage", storage, *QUIET))
    return storage / "small"


@pytest.fixture
def finished(small):
    """A storage with the finished sweep `small`."""
    return small.parent


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The working directory: a folder with nothing in it."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def sandbox_path(tmp_path_factory):
    """A folder that, on the path, brings workloads of tests/support and the documented `digits` by entry point."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(documented.EXAMPLE, folder / "digits")
    documented.put_together(folder)
    modules = ("sandbox", "careless", "cramped", "logging", "staged", "valley")
    brought = {name: f"{name}_workload:WORKLOAD" for name in modules} | {"together": "gang_workload:WORKLOAD"}
    brought |= {name: f"sandbox_workload:{name.upper()}" for name in ("annotated", "apart")}
    toys = ("switched", "losing", "engines", "logarithmic")
    brought |= {f"toy_{kind}": f"toy_workloads:{kind.upper()}" for kind in toys} | {"toy": "toy_workloads:TOY"}
    for target in brought.values():
        shutil.copy(SUPPORT / f"{target.partition(':')[0]}.py", folder)
    installed(folder, **brought, digits="digits:WORKLOAD", digits_together="digits_together:WORKLOAD")
    return folder


def installed(folder, group="raysweep.workloads", **points):
    """What pip would leave in a folder on the path for a package that brings these workloads, or other entry points."""
    information = folder / "raysweep_tested-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: raysweep-tested\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{lines}")


@pytest.fixture
def bring(tmp_path, monkeypatch):
    """Brings workloads by entry point in this process, as a package would; the folder that is on the path for it."""

    def bring(**workloads):
        installed(tmp_path / "site", **workloads)
        monkeypatch.syspath_prepend(tmp_path / "site")
        return tmp_path / "site"

    return bring


@pytest.fixture
def apart(sandbox, tmp_path):
    """The small space in a file, the rows of each seed a pack alone."""
    return written(tmp_path, small_space(workload="apart"))


@pytest.fixture
def sandbox(sandbox_path, monkeypatch):
    """The workload `sandbox` and its like, here and in processes started here; returns the folder on the path."""
    monkeypatch.syspath_prepend(str(sandbox_path))
    monkeypatch.setenv("PYTHONPATH", _before(sandbox_path))
    return sandbox_path


def _before(folder):
    """PYTHONPATH with a folder in front."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(scope="session")
def ray_cluster(sandbox_path):
    """One Ray of two CPUs for the whole run; its address."""
    import logging

    import ray

    ray.shutdown()  # of a test before, in which a sweep started one of its own
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", _before(sandbox_path))  # its workers are started from this environment
        context = ray.init(num_cpus=2, logging_level=logging.ERROR, address="local", **quiet)
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture(params=["inline", pytest.param("ray", marks=pytest.mark.long)])
def executor(request):
    """This process, and in `make test-long` Ray too."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    return str(request.param)


@pytest.fixture
def local(tmp_path):
    from raysweep.stages.store import Store

    return Store(tmp_path / "store", lease_seconds=20.0)


@pytest.fixture(params=["local", "memory"])
def any_store(request, tmp_path):
    """A stage store in a folder, then one on another file system."""
    from raysweep.stages.store import Store

    if request.param == "local":
        yield Store(tmp_path / "store", lease_seconds=20.0)
        return
    import fsspec

    url = f"memory://{tmp_path.name}/store"
    yield Store(url, lease_seconds=20.0)
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def run(storage, space=None, **options):
    """A sweep alone with its rows: in this process, without mirror and report, and nothing is said."""
    import raysweep

    usual = {"tracking_uri": "none", "report": False, "executor": "inline", "say": lambda line: None}
    return raysweep.run(space or small_space(), storage=storage, **{**usual, **options})


def rows(sweep):
    return sweep.results().to_dict("records")


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_same_rows(rows, expected):
    """The same rows in the same order, numbers to 1e-9 (batching changes the last digits), seconds aside."""
    assert len(rows) == len(expected)
    for one, other in zip(rows, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            if name == "seconds":
                continue
            if isinstance(value, float):
                value = pytest.approx(value, rel=1e-9, abs=1e-13, nan_ok=True)
            assert one[name] == value, (name, one["cell"], one["seed"])
