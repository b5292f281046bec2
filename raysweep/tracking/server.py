"""Checks, creates and connects to the place where MLflow keeps its runs. Passwords are never printed.

Checking an address does not import MLflow (which takes two seconds), so that a bad address is reported before anything
starts.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import logging
import os
import re
import shlex
import sqlite3
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from raysweep.errors import RaysweepError
from raysweep.redaction import redact
from raysweep.storage import files, signs
from raysweep.storage.paths import AnyPath

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

PATIENCE = 3.0
"""Seconds that a server has to answer a check."""
EXPERIMENT = "/api/2.0/mlflow/experiments/get?experiment_id=0"
EXPECTED = "expected sqlite:///FILE, http(s)://SERVER, a database URI that MLflow knows, or none"


class Unreachable(RaysweepError):
    """The tracking URI cannot be reached or created. The message is one line without credentials."""

    def __init__(self, message: str) -> None:
        super().__init__("", message)  # the caller knows the key of the address


class NotLetIn(Unreachable):
    pass


def reason(error: BaseException) -> str:
    """The first line of an error, shortened and without credentials."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    first = first.partition(" with exception ")[0]  # MLflow appends a long text of urllib3
    return redact(first)[:300]


def check(tracking_uri: str) -> None:
    """Raise Unreachable, within seconds, if nothing can be logged at this address. Creates nothing."""
    try:
        scheme = urlsplit(tracking_uri).scheme.partition("+")[0]
    except ValueError:
        raise Unreachable(f"{EXPECTED}, got {tracking_uri!r}") from None
    if scheme == "sqlite":
        _check_sqlite(tracking_uri)
    elif scheme in ("http", "https"):
        _check_server(tracking_uri)
    elif scheme in ("postgresql", "postgres", "mysql", "mssql"):
        _check_database(tracking_uri)
    elif not scheme.startswith("databricks"):
        raise Unreachable(f"{EXPECTED} (MLflow no longer takes folders), got {tracking_uri!r}")


def is_server(tracking_uri: str) -> bool:
    """Whether this is an MLflow server, which decides where artifacts go, and not a database."""
    return not re.match(r"(sqlite|postgres|postgresql|mysql|mssql)\b", tracking_uri)


def is_absent(tracking_uri: str) -> bool:
    return tracking_uri.startswith("sqlite") and not sqlite_file(tracking_uri).exists()


def connect(tracking_uri: str) -> MlflowClient:
    """An MLflow client that prints nothing. A missing SQLite database is created first. The first call imports MLflow
    and takes seconds. Environment variables that turn off MLflow's telemetry, its prints and its long retrying are set,
    unless the user has set them. The global tracking URI and the active run are not changed."""
    create_if_absent(tracking_uri)
    return _client(tracking_uri)


def all_runs(client: MlflowClient, experiment_id: str, where: str = "") -> list[Any]:
    """The runs of an experiment that this filter lets through, and that are not deleted."""
    search = functools.partial(client.search_runs, [experiment_id], where, max_results=1000)
    runs = list(page := search())
    while page.token:
        runs += (page := search(page_token=page.token))
    return runs


def create_if_absent(tracking_uri: str) -> None:
    """Create an empty MLflow database where a SQLite address names none. It is whole or not there."""
    if is_absent(tracking_uri):
        path = sqlite_file(tracking_uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            files.create(path, _template(Path(folder)))


def _client(tracking_uri: str) -> MlflowClient:
    defaults = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_LOGGING_LEVEL": "CRITICAL",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    if is_server(tracking_uri):  # raysweep itself tries again (MLflow's own retries hold a call for four minutes)
        defaults |= {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    # if MLflow was imported before with its usual level, this logger prints pages about a locked database
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    return MlflowClient(tracking_uri=tracking_uri)


def _template(folder: Path) -> bytes:
    """An empty MLflow database, kept in the cache of the user, since its migrations take seconds."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raysweep"
    kept = cache / f"mlflow-{metadata.version('mlflow')}.db"
    if kept.is_file():
        return kept.read_bytes()
    made, whole = folder / "mlflow.db", folder / "whole.db"
    with _unsynchronized(made):  # it need not survive a crash
        _client(f"sqlite:///{made}").search_experiments(max_results=1)
    with contextlib.closing(sqlite3.connect(made)) as connection:
        connection.execute("VACUUM INTO ?", (str(whole),))
    content = whole.read_bytes()
    with contextlib.suppress(OSError):  # the cache cannot be written
        cache.mkdir(parents=True, exist_ok=True)
        files.replace(kept, content)
    return content


@contextlib.contextmanager
def _unsynchronized(path: Path) -> Iterator[None]:
    """No connection to this SQLite file that is made inside the block waits for the disk."""
    from sqlalchemy import Engine, event

    def relax(connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            (_, _, file), *_ = connection.execute("PRAGMA database_list").fetchall()
            if os.path.realpath(file) == os.path.realpath(path):  # of which one may be gone
                connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)


def sqlite_file(tracking_uri: str) -> Path:
    """The file of a SQLite address. Raises Unreachable if it names none."""
    _, separator, rest = tracking_uri.partition(":///")
    name = unquote(rest.partition("?")[0])
    if not separator or not name or name.startswith(":memory:"):
        raise Unreachable(f"{EXPECTED}, got {tracking_uri!r}, which names no file")
    return Path(name)


def _check_sqlite(tracking_uri: str) -> None:
    path = sqlite_file(tracking_uri)
    if path.is_dir():
        raise Unreachable(f"{path} is a folder, expected a SQLite file")
    if not path.exists():
        if reason := files.why_not_writable(path.absolute().parent):
            raise Unreachable(f"cannot create {path} ({reason})")
        return
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.absolute().parent, os.W_OK):
        raise Unreachable(f"cannot write {path} (nor a journal next to it)")
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=PATIENCE)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return  # another process is writing to it; the next writer waits
        raise Unreachable(f"{path}: {error}") from None
    if tables and "experiments" not in tables:
        raise Unreachable(f"{path} is a database of something else, not of MLflow")


def _check_server(tracking_uri: str) -> None:
    """Check that a server answers on /health or on MLflow's API, and that it accepts the user and password."""
    base = tracking_uri.rstrip("/")
    for page in ("/health", EXPERIMENT):
        try:
            status = _get(base + page)
        except (ValueError, http.client.InvalidURL):  # the error's text may quote a part of a password
            raise Unreachable(f"{tracking_uri} is no valid address (percent-encode special characters)") from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            raise Unreachable(f"cannot reach {tracking_uri}: {cause or type(error).__name__}") from None
        if status == 401 or (status < 300 and page == "/health" and _refuses(base)):
            known = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN) that it knows"
            raise NotLetIn(f"{tracking_uri} does not let this user in; expected {known}")
        if status < 300 or status == 403:  # 403: the user is known, but may not see this experiment
            return
    what = "with an error; its log may say why" if status >= 500 else "not as an MLflow server"
    raise Unreachable(f"{tracking_uri} answers, but {what} (HTTP {status})")


def _refuses(base: str) -> bool:
    """Whether a live server refuses this user. No answer within PATIENCE seconds counts as no."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return _get(base + EXPERIMENT) == 401
    return False


def _get(url: str) -> int:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host)))
    user = parts.username or os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = parts.password or os.environ.get("MLFLOW_TRACKING_PASSWORD") or ""
    bearer = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if user:
        token = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")  # not sent to the target of a redirection
    elif bearer:
        request.add_unredirected_header("Authorization", f"Bearer {bearer}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _check_database(tracking_uri: str) -> None:
    try:
        import sqlalchemy  # comes with MLflow

        seconds = {} if tracking_uri.startswith("mssql") else {"connect_timeout": int(PATIENCE)}
        engine = sqlalchemy.create_engine(tracking_uri, connect_args=seconds)
        with contextlib.closing(engine.connect()):
            pass
        engine.dispose()
    except ImportError as error:
        raise Unreachable(f"{tracking_uri} needs a package that is not installed: {reason(error)}") from None
    except Exception as error:  # every database driver has its own errors
        raise Unreachable(f"cannot reach {tracking_uri}: {reason(error)}") from None


def runs_page(folder: AnyPath, tracking_uri: str | None) -> list[str]:
    """A line that says where to see the runs of the sweep in this folder; empty if that is not known. Without
    `workflowType=machine_learning` in its address, MLflow's page opens on traces, and a sweep has none."""
    mirrored = signs.mirrored(folder)
    if mirrored is None or tracking_uri is None or mirrored.tracking_uri != tracking_uri:
        return []
    if not re.fullmatch(r"\d+", mirrored.experiment or ""):
        return []
    page = f"/#/experiments/{mirrored.experiment}?workflowType=machine_learning"
    if tracking_uri.startswith(("http:", "https:")):
        return [f"runs: {tracking_uri.rstrip('/')}{page}"]
    if tracking_uri.startswith("sqlite:"):
        serve = f"mlflow ui --backend-store-uri {shlex.quote(tracking_uri)}"
        return [f"runs: http://127.0.0.1:5000{page} while `{serve}` serves"]
    return []
