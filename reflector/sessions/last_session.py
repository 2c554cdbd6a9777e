"""What the last session brought and what waits for a person, in words: they read it when the next session starts.

Invariant: the words are of one session, be it recorded in one window or in many. Leaving them fails no drain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reflector import files
from reflector.handover import LAST_SESSION, WAITING, open_own, read_own
from reflector.locate import own_folder
from reflector.text.bounds import clean

if TYPE_CHECKING:
    from reflector.reflection.reflection_events import Reflected

_MOST_SAID = 100
#: So many undecided bullets are counted, fewer are named.
_MANY = 3
_VERDICT = re.compile(r"(\S+) (?:helpful|harmful|neutral)\b.*")
#: What is said where no verdict counts, what says most first.
_ELSE = {
    "completed": "nothing decided",
    "waiting": "not judged yet",
    "failed": "judging it failed, see `reflector status`",
    "skipped": "not judged: ",
}


def leave(project: Path, reflected: Sequence[Reflected], *, only: bool = False) -> None:
    """Leave what came of the session that was processed last, with what its earlier windows brought; with `only`,
    where it is the one that the words are about."""
    from reflector.reflection.gate import CITES_NOTHING

    session = next((one.session_id for one in reversed(reflected) if one.session_id is not None), None)
    if session is None:
        return
    windows = [one for one in reflected if one.session_id == session]
    before, _, left_of = read_own(str(project), LAST_SESSION, 1000).decode("utf-8", "replace").partition("\n")
    is_its = left_of.strip() == session
    last = min(windows, key=lambda one: list(_ELSE).index(one.outcome))
    if (last.outcome == "skipped") if is_its else only:
        return
    judged = [one.detail for one in windows if one.outcome == "completed"]
    parts = ", ".join([before if is_its else "", *judged]).split(", ")
    verdicts = {found[1]: found[0] for part in parts if (found := _VERDICT.match(part))}
    said = clean(", ".join(verdicts.values()), _MOST_SAID) or _ELSE[last.outcome]
    cited = list(dict.fromkeys(name for one in windows for name in one.undecided))
    if said == _ELSE["completed"] and cited:
        what = " and ".join(cited) if len(cited) < _MANY else f"{len(cited)} bullets"
        said = f"{what} cited, undecided: reflector judge"
    if said == _ELSE["skipped"]:
        said = "nothing cited" if last.detail == CITES_NOTHING else said + clean(last.detail, _MOST_SAID)
    with suppress(OSError):
        content = f"{said}\n{session}\n".encode("utf-8", "replace")
        files.write_durably(open_own(str(project)), content, LAST_SESSION)


def leave_waiting(project: Path, count: int, *, is_users: bool) -> None:
    """Leave how many proposals wait for a person; nothing where none does."""
    what = "1 proposal waits" if count == 1 else f"{count} proposals wait"
    said = f"{what}: reflector {'--user ' if is_users else ''}proposals\n".encode() if count else b""
    with suppress(OSError, ValueError):
        if not said:
            Path(own_folder(str(project)), WAITING).unlink(missing_ok=True)
        elif said != read_own(str(project), WAITING, 1000):
            files.write_durably(open_own(str(project)), said, WAITING)
