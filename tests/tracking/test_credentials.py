"""Passwords stay where the user put them, and what is started here talks to this machine and this user alone."""

import http.server
import os
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from conftest import QUIET, driving, files_of, ok, process, refused, until
from mlflow.tracking import MlflowClient
from spaces import sandbox_space, small_space, written

from raysweep.errors import InputError
from raysweep.ledger import sweep_record
from raysweep.redaction import LONGEST_ERROR, error_text, redact
from raysweep.tracking import address
from tests.chaos.tracking_server import Server
from tests.chaos.waiting import PATIENCE

PASSWORD = "correct-horse-battery"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://ada:pw@host:5000/x", "http://***@host:5000/x"),
        ("at 'http://ada:p@w/d@host'.", "at 'http://***@host'."),
        ("postgresql+psycopg2://ada:pw@host/db?sslmode=require", "postgresql+psycopg2://***@host/db?sslmode=require"),
        ("https://host/?token=abc&x=1", "https://host/?token=***&x=1"),
        (
            "https://host/?X-Amz-Signature=abc&x=1&X-Amz-Security-Token=d",
            "https://host/?X-Amz-Signature=***&x=1&X-Amz-Security-Token=***",
        ),
        ("https://host/?my_api_key=abc", "https://host/?my_api_key=***"),
        ("connect(password=pw)", "connect(password=***"),
        ("tokens=16384, seed=3", "tokens=16384, seed=3"),
        ("a@b.org wrote to s3://bucket/x", "a@b.org wrote to s3://bucket/x"),
        ("sqlite:////a/b@c.db", "sqlite:////a/b@c.db"),
    ],
)
def test_what_is_printed_has_stars_for_credentials(text, clean):
    assert redact(text) == clean
    assert redact(redact(text)) == clean


def test_secrets_of_the_environment_are_starred_and_nothing_else(monkeypatch):
    for name in (
        *(
            "MLFLOW_TRACKING_PASSWORD",
            "MLFLOW_TRACKING_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "HF_TOKEN",
        ),
        *("DB_PASS", "PGPASSWORD", "GOOGLE_CREDENTIALS", "DATABASE_CREDENTIAL", "GITHUB_PAT", "SSH_PRIVATE_KEY"),
        *("KEY_PASSPHRASE", "azure_storage_connection_string"),
    ):
        monkeypatch.setenv(name, f"{name.lower()}-value")
        assert redact(f"quoted: {name.lower()}-value!") == "quoted: ***!"
        assert str(InputError("key", f"{name.lower()}-value")) == "key: ***"
    for name in ("TOKENIZERS_PARALLELISM", "PWD", "COMPASS", "NODE_PATH", "XDG_CREDENTIALS_DIR", "SPAT"):
        monkeypatch.setenv(name, value := f"{name.lower()}-words")
        assert redact(value) == value


def test_a_secret_of_several_lines_is_starred_line_by_line(monkeypatch):
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
    monkeypatch.setenv("DEPLOY_PRIVATE_KEY", key)
    assert redact(f"read {key}") == "read ***\n***\n***\n***\n"
    assert str(InputError("key", key)) == "key: *** *** *** ***"


def test_no_part_of_a_secret_stands_beside_a_cut(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", SECRET)
    for place in (*range(9_900, 12_200, 11), *range(37_800, 40_100, 11)):
        kept = error_text("." * place + SECRET + "." * (50_000 - place))
        assert not any(SECRET[i : i + 4] in kept for i in range(len(SECRET) - 3))
        assert len(kept) < LONGEST_ERROR + 100


def test_the_log_of_a_trial_has_stars_too(tmp_path, monkeypatch):
    from raysweep.trial import log

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with log.recorded(tmp_path / "log", "pack", 1, capture=True):
        print(f"connecting to s3://key:{PASSWORD}@bucket")
        log.LOGGER.error("with %s", SECRET)
        sys.stderr.write(f"token={PASSWORD}\n")
    message = (tmp_path / "log").read_text()
    assert message.count("***") == 3
    assert PASSWORD not in message
    assert SECRET not in message


@pytest.mark.parametrize(
    "change",
    [
        {"description": f"s3://key:{PASSWORD}@bucket"},
        {"fixed": {"engine": f"http://u:{PASSWORD}@host"}},
        {"axes": {"gamma": [0.3], f"http://u:{PASSWORD}@host": [1]}},
        {"analysis": [{f"x://u:{PASSWORD}@h": None}]},
        {"axes": {"gamma": [0.3, f"http://u:{PASSWORD}@host"]}},
        {f"x://u:{PASSWORD}@host": 1},
    ],
)
def test_a_space_cannot_hold_a_password(change, storage, tmp_path, call):
    outcome = call("run", written(tmp_path, small_space(**change)), "--storage", storage, *QUIET)
    refused(outcome, "", "an address with a password cannot stand in a space")
    assert PASSWORD not in outcome.err
    outcome = call("run", "quickstart", "--set", f"description=http://u:{PASSWORD}@host", "--storage", storage)
    refused(outcome, "description: an address with a password")
    assert PASSWORD not in outcome.err
    assert not storage.exists()


def test_the_address_of_a_store_holds_no_password(storage, call):
    for words in (("store", "list"), ("run", "overtraining_language_tiny", "--storage", storage, *QUIET)):
        outcome = call(*words, "--store", f"s3://key:{PASSWORD}@bucket/store")
        refused(outcome, "s3://***@bucket/store: ", "by the environment")
    assert not storage.exists()


def answering(received, target=""):
    """A server that says yes to every request, or where to ask instead; `received` gets the credentials of each."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            received.append(self.headers.get("Authorization"))
            self.send_response(302 if target else 200)
            self.send_header("Location", target + self.path)
            self.end_headers()

        def log_message(self, *words):
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def theirs(small, monkeypatch, own_notes):
    """The sweep `small`, as somebody else made it: its record names a server that this user, who has a password, never
    gave. The server's address, and the credentials that it hears."""
    for name, value in {"USERNAME": "ada", "PASSWORD": PASSWORD, "TOKEN": SECRET}.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    requests = []
    server = answering(requests)
    uri = f"http://127.0.0.1:{server.server_port}"
    record = sweep_record.load(small)
    sweep_record.update(small, replace(record, tracking_uri=uri))
    yield uri, requests
    server.shutdown()


def test_a_password_goes_to_no_address_that_only_a_storage_names(theirs, small, space, call):
    uri, received = theirs
    before = files_of(small)
    for words in (["sync", "small"], ["resume", "small"], ["delete", "small", "--yes"], ["run", space]):
        refused(call(*words, "--storage", small.parent), "--tracking-uri: missing", uri)
    ok(call("status", "small", "--storage", small.parent))
    assert files_of(small) == before
    assert received == []
    ok(call("resume", "small", "--storage", small.parent, *QUIET))
    assert received == []


def test_an_address_that_this_user_gave_is_used_from_then_on(theirs, small, monkeypatch):
    uri, received = theirs
    record = sweep_record.load(small)

    def chosen():
        return address.chosen(None, record, small.parent)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("://", f"://ada:{PASSWORD}@") + "/")
    assert chosen() == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri + "9")
    with pytest.raises(InputError, match="--tracking-uri: missing"):
        chosen()
    address.check(uri.replace("://", f"://ada:{PASSWORD}@"), None, small.parent, print)
    assert chosen() == uri
    assert all(received)
    notes = files_of(small.parent.parent / "state")
    assert [PASSWORD.encode() in note for note in notes.values()] == [False]
    address.check("sqlite:///elsewhere.db", None, small.parent, print)
    assert files_of(small.parent.parent / "state") == notes


def test_a_redirection_does_not_carry_the_password_elsewhere(monkeypatch):
    from raysweep.tracking import server as tracking

    by_asked, by_stranger = [], []
    stranger = answering(by_stranger)
    asked = answering(by_asked, f"http://127.0.0.1:{stranger.server_port}")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    try:
        tracking.check(f"http://127.0.0.1:{asked.server_port}")
    finally:
        asked.shutdown()
        stranger.shutdown()
    assert by_asked
    assert all(by_asked)
    assert by_stranger == [None] * len(by_asked)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, template):
    """A real MLflow server that asks for a password; its address."""
    room = tmp_path_factory.mktemp("guarded")
    (room / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = READ\nadmin_username = ada\n"
        f"admin_password = {PASSWORD}\ndatabase_uri = sqlite:///{room / 'auth.db'}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    serving = Server(
        room,
        {"MLFLOW_AUTH_CONFIG_PATH": str(room / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "of-the-test"},
        ["--app-name", "basic-auth"],
    )
    shutil.copy(template, serving.database)
    try:
        serving.start()
        yield serving.uri
    finally:
        serving.kill()


@pytest.mark.long
def test_a_server_with_a_password_takes_a_sweep_and_the_password_is_nowhere(
    guarded, sandbox, storage, tmp_path, call, monkeypatch
):
    """With rows that fail and quote every secret there is."""
    inside = guarded.replace("://", f"://ada:{PASSWORD}@")
    asked = written(tmp_path, sandbox_space(tmp_path, ["compute", "quote"], seeds=2))
    run = ("run", asked, "--storage", storage, "--executor", "inline")
    monkeypatch.setenv("QUOTED", f"{inside}/api and {SECRET} and token={PASSWORD}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    def known_by(password):
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)

    def unknown():
        monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
        monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)

    unknown()
    stranger = call(*run, "--tracking-uri", guarded)
    refused(stranger, f"--tracking-uri: {guarded} does not let this user in", "MLFLOW_TRACKING_PASSWORD")
    wrong = call(*run, "--tracking-uri", inside.replace(PASSWORD, "not-the-password"))
    refused(wrong, "--tracking-uri: http://***@127.0.0.1")
    assert "not-the-password" not in wrong.err
    known_by("not-the-password")
    wrong = call(*run, "--tracking-uri", guarded)
    refused(wrong, f"--tracking-uri: {guarded} does not let this user in")
    assert "not-the-password" not in wrong.err
    assert not storage.exists()

    unknown()
    done = [process(*run, "--tracking-uri", inside)]  # by the address, which is kept without
    later = call("resume", "sandy", "--storage", storage)
    refused(later, f"--tracking-uri: {guarded} does not let this user in")
    known_by(PASSWORD)
    done += [call(word, "sandy", "--storage", storage) for word in ("resume", "status", "sync")]
    assert [outcome.code for outcome in done] == [1, 1, 0, 0], done
    assert "2 of 4 rows failed" in done[0].err

    kept = files_of(storage)
    assert any(b"cannot reach" in content for content in kept.values())  # the traceback is kept
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    client = MlflowClient(guarded)
    experiment = client.get_experiment_by_name("sandy")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 3
    for run_ in runs:
        kept[run_.info.run_id] = str(run_.to_dictionary()).encode()
        for entry in client.list_artifacts(run_.info.run_id):
            if not entry.is_dir:
                fetched = client.download_artifacts(run_.info.run_id, entry.path, str(tmp_path))
                kept[entry.path] = Path(fetched).read_bytes()
    kept |= {str(number): (outcome.out + outcome.err).encode() for number, outcome in enumerate(done)}
    for secret in (PASSWORD, SECRET):
        assert [name for name, content in kept.items() if secret.encode() in content] == []


@pytest.mark.long
def test_a_local_ray_listens_on_loopback_behind_a_token_of_this_user(sandbox, storage, tmp_path):
    asked = written(tmp_path, sandbox_space(tmp_path, ["wait"]))
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("left by another Ray for all to read")
    (home / ".ray" / "auth_token").chmod(0o644)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"}
    with driving("run", asked, "--storage", storage, "--executor", "ray", *QUIET, env=environment) as driver:
        until(lambda: list(storage.glob("sandy/logs/*.log")), driver)  # a trial is under way
        parent = psutil.Process(driver.pid)
        everyone = [parent, *parent.children(recursive=True)]
        sockets = [socket for each in everyone for socket in each.net_connections()]
        modes = [path.stat().st_mode & 0o777 for path in (home / ".ray").iterdir() if path.is_file()]
        (tmp_path / "go").touch()
        output = driver.communicate(timeout=PATIENCE)[1]
    assert driver.returncode == 0, output
    assert len(everyone) > 3
    listening = {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
    assert listening
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert modes == [0o600]
