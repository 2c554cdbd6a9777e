"""Which APIs refuse an answer's schema, remembered from one process to the next.

Invariant: what is remembered saves a request and decides nothing else. It is an empty file per address and model in
the user's own state folder, which anybody may delete; where it cannot be kept, each question costs the request again.
After a month the API is asked once more, for gateways learn.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from reflector.locate import user_state
from reflector.reflection.backends.anthropic.settings import ModelSettings

_REMEMBERED_SECONDS = 30 * 86_400


def takes_schema(settings: ModelSettings) -> bool:
    """False for an API that lately refused a schema for this model."""
    path = _mark(settings)
    try:
        return path is None or time.time() - path.stat().st_mtime > _REMEMBERED_SECONDS
    except OSError:
        return True


def remember_no_schema(settings: ModelSettings) -> None:
    """Remember that an API answers for this model without a schema only."""
    if (path := _mark(settings)) is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)


def _mark(settings: ModelSettings) -> Path | None:
    # Hashed, because an address may hold a password.
    key = sha256(f"{settings.base_url or ''}\n{settings.model}".encode("utf-8", "replace")).hexdigest()[:32]
    state = user_state()
    return Path(state, "without-schema", key) if state else None
