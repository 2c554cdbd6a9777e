"""Planning, opening and closing a trial, and what the hook and `verify` need to know of the one that runs.

Invariant: a plan is measured on trials that are simulated with this project's own figures and decided as `trial status`
decides, so half of the real ones end by what it calls the half, if the difference is the true one. The key of a trial
is the chain of the event before its opening, taken while nobody else appends. The hook withholds by a note in the
person's own folder, which says what the ledger's trial says, and is not there without one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Final

from reflector.events.event import HUMAN, SESSION_RECORDED, TRIAL_CLOSED, TRIAL_OPENED, NewEvent, identity
from reflector.files import write_durably
from reflector.handover import TRIAL, TRIAL_HEADS, WITHOUT, open_own, read_own
from reflector.ledger.append import append, prepare, utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.locate import own_folder
from reflector.mistakes import Finding, Mistake
from reflector.reflection.window import names_in
from reflector.trials.draw import MILLION
from reflector.trials.outcome import OUTCOMES
from reflector.trials.statistics import ALPHA, LEAST, MARGIN, ends
from reflector.trials.status import Ended, TrialStatus, lacking, running, sessions, status_of, time_of, trials

#: A trial that nobody stops is over after a year.
_LONGEST: Final = timedelta(days=365)
#: How often the head is noted while a trial runs.
_NOTED: Final = timedelta(days=7)
_HEAD: Final = re.compile(r"^(\d{1,15}):(pl1:[0-9a-f]{64})  # (\S+)$", re.MULTILINE | re.ASCII)
_MOST_HEADS: Final = 1 << 20
#: What decides when a trial ends, as its opening says it.
_STOP: Final = {"alpha": str(ALPHA), "least": LEAST, "margin": str(MARGIN), "method": "beta-binomial"}

#: The differences that a plan speaks of, in points.
POINTS: Final = (5, 10, 20, 30)
#: Beyond so many sessions nothing is simulated: a year of 100 a week.
_MOST: Final = 5_200
_WEEKS: Final = 52
#: The sessions that a plan looks at, the last ones.
_LAST: Final = 200


@dataclass(frozen=True, slots=True)
class Length:
    """How long trials take where the sessions that use what is withheld differ by so many points: half of them end
    after so many `sessions` or `weeks`, nine of ten after `late` weeks; null where that is more than a year."""

    points: int
    sessions: int | None
    weeks: int | None
    late: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial here can find out, and when.

    sessions  that were looked at, `weekly` so many a week
    rate      of them that ended well, and `known` the share of which anything is known
    used      the share of sessions that use what is withheld: a difference in one of ten is a tenth of it in all
    """

    sessions: int
    weekly: float
    rate: float
    known: float
    used: float
    share: float
    outcome: str
    lengths: list[Length]

    @property
    def is_long(self) -> bool:
        """Whether half of the trials take more than half a year even where the difference is 20 points."""
        (weeks,) = (one.weeks for one in self.lengths if one.points == 20)
        return weeks is None or weeks > _WEEKS // 2


def plan(ledger: Reader, *, bullets: Sequence[str] = (), share: float = 0.5, outcome: str = "correction-free") -> Plan:
    """Return how long a trial would take in a ledger's project; `bullets` of it are withheld, none for all of them.

    Sessions that an earlier version recorded are read from their transcripts, where these are still there.
    Raises LedgerError.
    """
    more = (replace(window, data=dict(new.data)) for window, new in lacking(ledger, _LAST))
    last = sessions(ledger, more=more)[-_LAST:]
    facts = [one.facts for one in last]
    weeks = (last[-1].began - last[0].began).total_seconds() / (7 * 86_400) if last else 0.0
    weekly = len(last) / max(weeks, 1.0)
    rate = sum(map(OUTCOMES[outcome], facts)) / len(facts) if facts else 0.5
    said = ("words", "refusals", "interruptions", "tests", "build")
    known = sum(any(one.get(key) for key in said) for one in facts) / len(facts) if facts else 0.0
    used = _used(ledger, last, bullets) if bullets else 1.0
    most = min(_MOST, ceil(weekly * _WEEKS))
    lengths = [_length(points, used, rate, share, most, weekly) for points in POINTS]
    return Plan(len(last), round(weekly, 1), round(rate, 3), round(known, 3), round(used, 3), share, outcome, lengths)


def _length(points: int, used: float, rate: float, share: float, most: int, weekly: float) -> Length:
    found = ends(points / 100 * used, rate, share, most) if most else []
    half, late = (at if found and (at := found[len(found) * tenths // 10]) <= most else None for tenths in (5, 9))
    in_weeks = [None if at is None else max(1, ceil(at / weekly)) for at in (half, late)]
    return Length(points, half, *in_weeks)


def _used(ledger: Reader, last: Sequence[Ended], bullets: Sequence[str]) -> float:
    """Return the share of the last sessions that cite one of these bullets."""
    roots = {one.root for one in last}
    cite = {
        event.session_id
        for event in ledger.events(types=(SESSION_RECORDED,))
        if event.session_id in roots and not {*bullets}.isdisjoint(names_in(event, "cited"))
    }
    return len(cite) / len(roots) if roots else 0.0


def start(ledger: Ledger, *, bullets: Sequence[str], exempt: Sequence[str], share: float, outcome: str) -> None:
    """Open a trial. `bullets` are withheld, all where there are none, but never the `exempt` ones.

    Raises Mistake while one runs, LedgerError.
    """
    if running(ledger) is not None:
        raise Mistake("a trial runs already: see `reflector trial status`, end it with `reflector trial stop`")
    data = {
        "bullets": [*bullets],
        "exempt": [*exempt],
        "share": round(share * MILLION),
        "outcome": outcome,
        "stop": _STOP,
        "until": (datetime.now(UTC) + _LONGEST).isoformat(timespec="seconds"),
    }
    with ledger.writing() as writing:
        key = writing.chain
        event = NewEvent(TRIAL_OPENED, identity(TRIAL_OPENED, key), data | {"key": key}, HUMAN)
        append(writing, [prepare(event)])


def stop(ledger: Ledger) -> TrialStatus:
    """Close the trial that runs, and return what it shows. Raises Mistake where none runs, LedgerError."""
    trial = running(ledger)
    if trial is None:
        raise Mistake("no trial runs; `reflector trial plan` says what one would take")
    with ledger.writing() as writing:
        status = status_of(ledger, trial, writing.position)
        opened, data = trial.opened.event_id, result_of(status)
        event = NewEvent(TRIAL_CLOSED, identity(TRIAL_CLOSED, opened), data, HUMAN, target_id=opened)
        append(writing, [prepare(event)])
    return replace(status, state="closed")


def result_of(status: TrialStatus) -> dict[str, Any]:
    """Return what a closing records of where a trial stands."""
    low, high, difference = (
        None if one is None else f"{one:.4f}" for one in (status.low, status.high, status.difference)
    )
    return {
        "verdict": status.verdict,
        "told": {"sessions": status.told.sessions, "good": status.told.good},
        "without": {"sessions": status.without.sessions, "good": status.without.good},
        "difference": difference,
        "interval": {"low": low, "high": high},
        "sessions": status.sessions_sha256,
    }


def keep_note(root: Path, ledger: Reader) -> None:
    """Leave the trial that runs to the hook, or take the note away, and note the ledger's head once a week.

    Raises LedgerError, OSError.
    """
    trial = running(ledger)
    if trial is None:
        for name in (TRIAL, WITHOUT):  # the text may hold what is erased later
            Path(own_folder(os.fspath(root)), name).unlink(missing_ok=True)
        return
    data, until = trial.data, int(trial.until.timestamp() * 1_000_000_000)
    names = [*(data["bullets"] or ["*"]), *(f"-{name}" for name in data["exempt"])]
    note = " ".join([data["key"], str(data["share"]), str(until), *names]).encode() + b"\n"
    if read_own(os.fspath(root), TRIAL, len(note) + 1) != note:
        write_durably(open_own(os.fspath(root)), note, TRIAL)
    now, kept = utc_now(), noted(root)
    last = time_of(kept[-1][1]) if kept else None
    if last is None or last < trial.began or last + _NOTED <= (time_of(now) or last):
        lines = "".join(f"{anchor}  # {at}\n" for anchor, at in [*kept, (ledger.head(), now)])
        write_durably(open_own(os.fspath(root)), lines.encode(), TRIAL_HEADS)


def noted(root: Path) -> list[tuple[Anchor, str]]:
    """Return the heads that were noted in a project while trials ran, each with its time, oldest first."""
    text = read_own(os.fspath(root), TRIAL_HEADS, _MOST_HEADS).decode("ascii", "replace")
    return [(Anchor(int(found[1]), found[2]), found[3]) for found in _HEAD.finditer(text)]


def check(ledger: Reader) -> list[Finding]:
    """Return what is wrong with the trials of a ledger: a key that was chosen, a result that does not follow.

    What a merge brought was checked where it was appended. Raises LedgerError.
    """
    found = []
    for trial in trials(ledger):
        at = trial.opened.position
        before, head = ledger.at([at - 1]), ledger.head()
        key = before[0].chain if before else genesis(head.playbook, head.origin)
        if not trial.opened.meta and trial.data["key"] != key:
            what = "the trial's key is not the chain of the event before it, so its draw may have been chosen"
            found.append(Finding("trial", at, what, "do not rely on this trial; open another"))
        closed = trial.closed
        if closed is None or closed.meta or closed.data is None:
            continue
        by_this = trial.data["stop"] == _STOP  # a later version may decide otherwise
        if by_this and dict(closed.data) != result_of(status_of(ledger, trial, closed.position - 1)):
            what = "the trial's result does not follow from the key, the sessions and their outcomes before it"
            found.append(Finding("trial", closed.position, what, "see `reflector trial status` for the true one"))
    return found
