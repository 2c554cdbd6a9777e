"""The words that the next start prints for the user, about the last processed session and about
waiting proposals.

Invariant: the words are about one session, however many windows it has. If the folder cannot be
written, the drain still succeeds. The drain and `reflector review` write the words, and the hook
prints them unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reflector import handover
from reflector.events.event import BULLET_PROPOSED, CHANGE_PROPOSED
from reflector.locate import own_folder
from reflector.text.bounds import clean
from reflector.text.lazy import lazy_pattern
from reflector.text.phrases import counted

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.reflection.recorder import Reflected

_MAX_WORDS_CHARACTERS = 100
#: At least this many undecided bullets are counted instead of named.
_FEWEST_COUNTED = 3
_UNDECIDED = " cited, no verdict: reflector review"
_VERDICT = lazy_pattern(r"(\S+) (?:helpful|harmful|neutral)\b.*")
#: The beginnings of texts that are not about a judgement.
_UNJUDGED = (
    "no rule cited",
    "not judged",
    "judging failed",
    "reflector has used ",
    "this month's ",
)
#: The text if no verdict counts, the most important outcome first.
_OUTCOMES = {
    "completed": "no verdict",
    "waiting": "not judged yet",
    "failed": "judging failed, see `reflector status`",
    "skipped": "not judged: ",
}


def leave_last_session(
    project: Path, reflected: Sequence[Reflected], *, only: bool = False
) -> None:
    """Leave the text about the session that was processed last, with the verdicts of its earlier
    windows. With `only`, leave it only if the present text is about that session.
    """
    session_ids = (window.session_id for window in reversed(reflected))
    session_id = next(filter(None, session_ids), None)
    if session_id is None:
        return
    text = handover.read_own(str(project), handover.LAST_SESSION, 1000).decode("utf-8", "replace")
    earlier, _, last_id = text.partition("\n")
    windows = [window for window in reflected if window.session_id == session_id]
    best = min(windows, key=lambda window: list(_OUTCOMES).index(window.outcome))
    if last_id.strip() != session_id:
        is_first = earlier.startswith(handover.FIRST)
        if only or (is_first and best.outcome in ("skipped", "waiting")):
            return  # the first verdicts are shown until a session is judged
        earlier = ""
    elif best.outcome == "skipped":
        return  # a window that was not judged adds nothing
    words = _session_words(windows, best, earlier)
    with suppress(OSError):
        content = f"{words}\n{session_id}\n".encode("utf-8", "replace")
        handover.write_own(str(project), handover.LAST_SESSION, content)


def leave_first(
    project: Path, words: str, since: float, session_ids: Collection[str], *, answered: bool
) -> None:
    """Leave the text about a first reading of some sessions.

    A newer text about the judgement of another session stays. Without an answer, every text stays
    that is not about a first reading.
    """
    text = handover.read_own(str(project), handover.LAST_SESSION, 1000).decode("utf-8", "replace")
    line, _, session_id = text.partition("\n")
    is_first = not line or line.startswith(handover.FIRST)
    is_newer = _written_at(project) > since and session_id.strip() not in session_ids
    if not is_first and (not answered or (is_newer and not line.startswith(_UNJUDGED))):
        return
    with suppress(OSError):
        content = f"{handover.FIRST}{words}\n".encode("utf-8", "replace")
        handover.write_own(str(project), handover.LAST_SESSION, content)


def _written_at(project: Path) -> float:
    with suppress(OSError):
        return Path(own_folder(str(project)), handover.LAST_SESSION).stat().st_mtime
    return 0.0


def forget_last_session(project: Path) -> None:
    """Remove the text about the last session, which the start and the status line show."""
    handover.remove_own(str(project), handover.LAST_SESSION)


def _session_words(windows: Sequence[Reflected], best: Reflected, earlier: str) -> str:
    """Return the text about a session; `earlier` is the text about its earlier windows."""
    judged = [window.detail for window in windows if window.outcome == "completed"]
    if verdicts := _verdicts([earlier, *judged]):
        return clean(", ".join(verdicts), _MAX_WORDS_CHARACTERS)
    if best.outcome == "completed":
        names = dict.fromkeys(name for window in windows for name in window.undecided)
        if names:
            bullets = f"{len(names)} rules"
            return (" and ".join(names) if len(names) < _FEWEST_COUNTED else bullets) + _UNDECIDED
        return earlier if earlier.endswith(_UNDECIDED) else _OUTCOMES["completed"]
    if best.outcome == "skipped":
        from reflector.reflection.gate import CITES_NOTHING, waiting_words

        if best.detail == CITES_NOTHING:
            return "no rule cited"
        if waits := waiting_words(best.detail):
            return waits
        return _OUTCOMES["skipped"] + clean(best.detail, _MAX_WORDS_CHARACTERS)
    return _OUTCOMES[best.outcome]


def _verdicts(texts: Iterable[str]) -> Iterable[str]:
    """Return the verdicts in some texts, the last one of each bullet."""
    matches = map(_VERDICT.match, ", ".join(texts).split(", "))
    return {match[1]: match[0] for match in matches if match}.values()


def waiting_proposals(ledger: Ledger, *, sweeps: bool = False) -> int:
    """Return the number of proposals that wait for a decision. With `sweeps`, proposals that no
    longer apply lapse first.

    Raises: LedgerError.
    """
    if not (ledger.has(BULLET_PROPOSED) or ledger.has(CHANGE_PROPOSED)):
        return 0
    from reflector.changes.propose import read_proposals, sweep_proposals

    if sweeps:
        sweep_proposals(ledger)
    return len(read_proposals(ledger))


def leave_waiting(project: Path, count: int, *, is_users: bool, files: int) -> None:
    """Leave the number of proposals that wait for a decision, and of memory files that an agent
    changed. The file is removed if there is nothing to decide.
    """
    parts = []
    if count:
        parts.append("1 proposal waits" if count == 1 else f"{count} proposals wait")
    if files:
        parts.append(f"your agent changed {counted(files, 'memory file')}")
    command = "reflector --user review" if is_users else "reflector review"
    line = f"{', '.join(parts)}: {command}\n".encode()
    with suppress(OSError, ValueError):
        if not parts:
            handover.remove_own(str(project), handover.WAITING)
        elif line != handover.read_own(str(project), handover.WAITING, 1000):
            handover.write_own(str(project), handover.WAITING, line)
