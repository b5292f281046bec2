"""The address of MLflow is looked at before anything is computed, and shows no credentials."""

import socket
import time

import pytest
from conftest import sql

from raysweep.redaction import without_credentials
from raysweep.tracking import server
from raysweep.tracking.server import Unreachable, check


def test_check_accepts_what_can_be_and_creates_nothing(tmp_path, template):
    check(f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}")
    check(f"sqlite:///{template}")
    (tmp_path / "empty.db").touch()
    check(f"sqlite:///{tmp_path / 'empty.db'}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["empty.db"]


def refused(uri):
    started = time.monotonic()
    with pytest.raises(Unreachable) as raised:
        check(uri)
    assert time.monotonic() - started < 10
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_check_refuses_what_cannot_be_reached_in_one_line_without_credentials(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "text.db").write_text("this is no database, but long enough to have a header " * 9)
    sql(tmp_path / "other.db", "CREATE TABLE studies (study_id INTEGER)")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    assert "not a folder" in refused(f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")
    assert "not a database" in refused(f"sqlite:///{tmp_path / 'text.db'}")
    assert "something else" in refused(f"sqlite:///{tmp_path / 'other.db'}")
    assert "is a folder" in refused(f"sqlite:///{tmp_path}")
    assert "names no file" in refused("sqlite://")
    assert "expected sqlite:///FILE" in refused(str(tmp_path / "mlruns"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound but not listening: refused
        port = probe.getsockname()[1]
        message = refused(f"http://ada:s3cret/pw@127.0.0.1:{port}")
        assert "s3cret" not in message
        assert "ada" not in message
        assert "refused" in refused(f"http://127.0.0.1:{port}").lower()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # takes the connection and never answers
        monkeypatch.setattr(server, "PATIENCE", 0.5)
        assert "timed out" in refused(f"http://ada:s3cret@127.0.0.1:{silent.getsockname()[1]}")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_an_address_can_be_kept_without_its_credentials():
    assert without_credentials("https://ada:pw@host:5000/x") == "https://host:5000/x"
    for query in ("password=x&sslmode=require", "sslmode=require&password=x"):
        assert without_credentials(f"postgresql://host/db?{query}") == "postgresql://host/db?sslmode=require"
    assert without_credentials("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"
