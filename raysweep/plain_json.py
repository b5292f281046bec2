"""JSON as the standard library writes and reads it, whatever the code of a sweep makes of the module `json`.

A function of the user may replace `json.dumps`, in the driver's process too and before our modules are imported. What
we keep must not depend on that. So this takes the two classes from where they are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from typing import Any


def dumps(value: Any, **options: Any) -> str:
    """As `json.dumps`. options: those of JSONEncoder."""
    return JSONEncoder(**options).encode(value)


def loads(text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """As `json.loads`, of text or of UTF-8. ValueError if it is no JSON, RecursionError if it is too deep."""
    return _decoder(object_hook).decode(text if isinstance(text, str) else text.decode())


@lru_cache
def _decoder(object_hook: Callable[[dict[str, Any]], Any] | None) -> JSONDecoder:
    """It takes as long to make as a row to read."""
    return JSONDecoder(object_hook=object_hook)
