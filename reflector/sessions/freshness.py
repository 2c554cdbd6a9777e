"""Whether anything happened to a project since a question was last answered there.

Invariant: where this says that nothing happened, processing the spool and the edits of playbook.json would change
nothing and say nothing. It compares what those depend on, as a text: the ledger and its head, the settings, the state
of each file that they read, and that no delivery waits. A missing or different text costs time, never an answer. It is
kept as it is, because to import a hash function takes longer than to compare the text; nothing in it is secret.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reflector import __version__, files
from reflector.git import repository
from reflector.handover import state_of
from reflector.locate import AGENT_FILES, user_folder, user_settings
from reflector.sessions.fallback import stand_ins

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: In the state folder.
SEEN: Final = "seen"
#: More than such a text has.
_MOST_BYTES: Final = 1 << 20


def is_untouched(project: Project) -> bool:
    """Return whether there is neither ledger, playbook nor delivery: a question there has nothing to read."""
    if project.has_ledger() or project.playbook_json.exists():
        return False
    from reflector.sessions import spool

    return not spool.ready_for(project.root)


def seen(project: Project, ledger: Ledger) -> str | None:
    """Return what an answer depends on, as a text; None where a delivery waits. Raises LedgerError."""
    spools = [str(project.spool_dir), *(f"{state}/spool" for state in stand_ins())]
    if any(_waits(spool) for spool in spools):
        return None
    head = ledger.head()
    # A URL may hold a password.
    settings = replace(project.config, ledger_url="", base_url="")
    parts = [
        __version__,
        ledger.engine.url.place,
        repr(settings),
        head.chain,
        str(head.position),
        str(ledger.updated_at()),
    ]
    # A question renders it anew with the same content: that it is there is enough.
    parts.append(str((project.state_dir / "injection.txt").exists()))
    parts += map(_state, _files(project))
    return "\n".join(parts)


def was_seen(project: Project, now: str | None) -> bool:
    """Return whether the last question left this text."""
    if now is None:
        return False
    try:
        return files.read_file(f"{project.state_dir}/{SEEN}", _MOST_BYTES) == _bytes(now)
    except (OSError, ValueError):
        return False


def keep(project: Project, now: str) -> None:
    """Leave the text to the next question, where the state folder can be written."""
    with suppress(OSError, ValueError):
        files.write_durably(files.open_state(os.fspath(project.root)), _bytes(now), SEEN)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _files(project: Project) -> list[str]:
    root, state = str(project.root), str(project.state_dir)
    claude, users = f"{root}/.claude", user_folder()
    found = [f"{claude}/{name}" for name in ("playbook.json", ".gitattributes")]
    found += [f"{state}/{name}" for name in ("ranks.json", "lessons.ndjson", "prompts/playbook.txt")]
    found += [f"{users}/.claude/playbook.json", f"{user_settings()}/prompts/playbook.txt"]
    found += [f"{root}/{name}" for name in AGENT_FILES]
    _, git = repository(project.root)
    return found if git is None else [*found, f"{git}/HEAD", f"{git}/index"]


def _state(path: str) -> str:
    try:
        return state_of(os.stat(path))  # noqa: PTH116
    except OSError:
        return "-"


def _waits(spool: str) -> bool:
    """Return whether a folder holds a delivery, be it of another project."""
    try:
        return any(name.endswith(".json") for name in os.listdir(spool))  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:
        return True
