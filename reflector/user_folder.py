"""Where a user's own things lie: the playbook that applies in every project, and what is remembered beside projects.

Invariant: the user's playbook is a project like any other, in a folder that no project is in; so everything that works
on a project works on it. The hook knows the same folder without this module (`fast.user_folder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_root(environ: Mapping[str, str] | None = None) -> Path:
    """`${XDG_DATA_HOME:-~/.local/share}/reflector/user`. Touches nothing."""
    base = _base("XDG_DATA_HOME", ".local/share", os.environ if environ is None else environ)
    return Path(base or "/.local/share") / "reflector" / "user"


def user_state(environ: Mapping[str, str] | None = None) -> Path | None:
    """`${XDG_STATE_HOME:-~/.local/state}/reflector`, None where the user has no home. Touches nothing."""
    base = _base("XDG_STATE_HOME", ".local/state", os.environ if environ is None else environ)
    return Path(base) / "reflector" if base else None


def _base(variable: str, below_home: str, environ: Mapping[str, str]) -> str:
    base = environ.get(variable, "")
    if Path(base).is_absolute():  # the XDG specification: relative paths are to be ignored
        return base
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return f"{home}/{below_home}" if home else ""
