"""What the last session brought, in words: a person reads it when the next one starts.

Invariant: the words are of one session, be it recorded in one window or in many. Leaving them fails no drain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from reflector import folders
from reflector.handover import LAST_SESSION
from reflector.reflection.gate import CITES_NOTHING
from reflector.reflection.runner import Reflected
from reflector.text.secrets import clean

_MOST_SAID = 100
_VERDICT = re.compile(r"(\S+) (?:helpful|harmful|neutral)\b.*")
#: What is said where no verdict counts, what says most first.
_ELSE = {
    "completed": "nothing decided",
    "waiting": "not judged yet",
    "failed": "judging it failed, see `reflector failures`",
    "skipped": "not judged: ",
}


def leave(project: Path, reflected: Sequence[Reflected]) -> None:
    """Leave what came of the session that was processed last, with what its earlier windows brought."""
    named = [one for one in reflected if one.session_id is not None]
    if not named:
        return
    session = str(named[-1].session_id)
    state = folders.state_folder(str(project))
    try:
        before, _, of_session = folders.read_file(f"{state}/{LAST_SESSION}", 1000).decode().partition("\n")
    except (OSError, ValueError):
        before = of_session = ""
    last = min((one for one in named if one.session_id == session), key=lambda one: list(_ELSE).index(one.outcome))
    if of_session.strip() != session:
        before = ""
    elif last.outcome == "skipped":
        return
    judged = [one.detail for one in named if one.session_id == session and one.outcome == "completed"]
    parts = ", ".join([before, *judged]).split(", ")
    verdicts = {found[1]: found[0] for part in parts if (found := _VERDICT.match(part))}
    said = clean(", ".join(verdicts.values()), _MOST_SAID) or _ELSE[last.outcome]
    if said == _ELSE["skipped"]:
        said = "nothing cited" if last.detail == CITES_NOTHING else said + clean(last.detail, _MOST_SAID)
    with suppress(OSError):
        content = f"{said}\n{session}\n".encode("utf-8", "replace")
        folders.write_durably(folders.open_state(str(project)), content, LAST_SESSION)
