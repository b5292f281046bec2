"""Remove credentials from text before it is printed, logged or kept. Needs only the standard library."""

from __future__ import annotations

import functools
import os
import re

STARS = "***"
_USER = re.compile(r"(?<=://)[^\s/'\"][^\s'\"]*@")
_KEY = r"[\w-]*(?:passw(?:or)?d|pwd|secret|token|credential|signature|api[_-]?key|access[_-]?key)[\w-]*"
_PLAIN_KEY = r"(?:password|passwd|pwd|secret|token|access_token|api_key)"  # also outside a query, but not `tokens`
_QUERY = re.compile(rf"(?i)((?<=[?&]){_KEY}|\b{_PLAIN_KEY})=[^&\s'\"]+")
_PART_OF_QUERY = re.compile(rf"(?i)(?<=[?&])(?:{_KEY})=[^&]*&?")
_WITH_PASSWORD = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_SECRET_NAME = re.compile(
    r"(?i)(?:PASSWORD|PASSWD|_PWD|PASSPHRASE|\bPASS|_PASS|SECRET|TOKEN|\bPAT|_PAT|CREDENTIALS?|CONNECTION_STRING|"
    r"(?:API|SECRET|PRIVATE|ACCESS|ACCOUNT)_KEY|ACCESS_KEY_ID)$"
)
_SHORTEST = 8  # characters; a shorter secret would match parts of ordinary words
LONGEST_ERROR = 20_000
"""Characters of an error that rows and logs keep. The message of an exception may be an array of many megabytes."""
_EDGE = 2_000  # characters beside a cut, which may hold a part of a secret that is not recognized without the rest


def redact(text: str) -> str:
    """Replace secrets in a text by stars: user and password of every URI, passwords and tokens in query strings, and
    the values of environment variables that hold a secret (MLFLOW_TRACKING_PASSWORD, AWS_SECRET_ACCESS_KEY, …_TOKEN,
    …_CREDENTIALS), of which each line counts by itself.
    """
    text = _QUERY.sub(rf"\1={STARS}", _USER.sub(f"{STARS}@", text))
    for secret in _of_the_environment():
        text = text.replace(secret, STARS)
    return text


def error_text(text: str) -> str:
    """An error as rows and logs keep it: redacted, and of one that is longer than LONGEST_ERROR the beginning and the
    end, with a note of how much is left out between them."""
    if len(text) <= LONGEST_ERROR:
        return redact(text)
    reach = LONGEST_ERROR // 2 + _EDGE
    head, tail = redact(text[:reach])[:-_EDGE], redact(text[-reach:])[_EDGE:]
    return f"{head}\n[... {len(text) - len(head) - len(tail):,} characters left out ...]\n{tail}"


def without_credentials(uri: str) -> str:
    """A URI without user, password and tokens, so that a record can keep it."""
    bare = re.sub(r"(?<=://)[^\s/]*@", "", uri)
    return _PART_OF_QUERY.sub("", bare).rstrip("?&")


def has_password(text: str) -> bool:
    """Whether a URI in the text names a user with a password."""
    return _WITH_PASSWORD.search(text) is not None


def _of_the_environment() -> list[str]:
    """The lines of the values of environment variables that hold a secret, the longest first. A key has many lines,
    which a message that is one line quotes without their ends."""
    values = (value for name, value in os.environ.items() if _may_hold_a_secret(name))
    lines = {line.strip() for value in values for line in value.splitlines()}
    return sorted((line for line in lines if len(line) >= _SHORTEST), key=len, reverse=True)


@functools.cache
def _may_hold_a_secret(name: str) -> bool:
    """Whether a variable of this name may hold a secret; asked of every variable for every text."""
    return _SECRET_NAME.search(name) is not None
