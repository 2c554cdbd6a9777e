"""Where a user's own playbook lies, which applies in every project.

Invariant: it is a project like any other, in a folder that no project is in; so everything that works on a
project works on it. The hook knows the same folder without this module (`fast.user_folder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_root(environ: Mapping[str, str] | None = None) -> Path:
    """`${XDG_DATA_HOME:-~/.local/share}/reflector/user`. Touches nothing."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):  # the XDG specification: relative paths are to be ignored
        base = (environ.get("HOME") or environ.get("USERPROFILE") or "") + "/.local/share"
    return Path(base) / "reflector" / "user"
