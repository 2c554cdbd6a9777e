"""Where a delivery goes when its project cannot be written: read-only, deleted, on a full disk.

Invariant: one place per user, `${XDG_STATE_HOME:-~/.local/state}/reflector`, laid out as a project's
state folder; each record names its project, so a later drain knows whose it is.
"""

from pathlib import Path

from reflector.hooks import fast
from reflector.user_folder import user_state


def fallback_state() -> str:
    """The user's own state folder, "" where the user has no home. Touches nothing."""
    return str(user_state() or "")


def open_fallback() -> str:
    """The user's own state folder, made where it is missing. Raises OSError where it cannot be."""
    state = fallback_state()
    if not state:
        raise FileNotFoundError(2, "neither XDG_STATE_HOME nor HOME names a folder")
    Path(state).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return fast.private_folder(state)
