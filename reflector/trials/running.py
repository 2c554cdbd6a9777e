"""Opening and closing a trial, and what the hook and `verify` need to know of the one that runs.

Invariant: the key of a trial is the chain of the event before its opening, taken while nobody else appends. The hook
withholds by a note in the person's own folder, which says what the ledger's trial says, and is not there without one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from reflector.events.event import HUMAN, TRIAL_CLOSED, TRIAL_OPENED, NewEvent, identity
from reflector.files import write_durably
from reflector.handover import TRIAL, TRIAL_HEADS, WITHOUT, open_own, read_own
from reflector.ledger.append import append, prepare, utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.locate import own_folder
from reflector.mistakes import Finding, Mistake
from reflector.trials.draw import MILLION
from reflector.trials.statistics import ALPHA, LEAST, MARGIN
from reflector.trials.status import TrialStatus, running, status_of, time_of, trials

#: A trial that nobody stops is over after a year.
_LONGEST: Final = timedelta(days=365)
#: How often the head is noted while a trial runs.
_NOTED: Final = timedelta(days=7)
_HEAD: Final = re.compile(r"^(\d{1,15}):(pl1:[0-9a-f]{64})  # (\S+)$", re.MULTILINE | re.ASCII)
_MOST_HEADS: Final = 1 << 20
#: What decides when a trial ends, as its opening says it.
_STOP: Final = {"alpha": str(ALPHA), "least": LEAST, "margin": str(MARGIN), "method": "beta-binomial"}


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
    """Close the trial that runs, with what it shows by now. Raises Mistake where none runs, LedgerError."""
    trial = running(ledger)
    if trial is None:
        raise Mistake("no trial runs; `reflector trial plan` says what one would take")
    with ledger.writing() as writing:
        status = status_of(ledger, trial, writing.position)
        opened, data = trial.opened.event_id, result_of(status)
        event = NewEvent(TRIAL_CLOSED, identity(TRIAL_CLOSED, opened), data, HUMAN, target_id=opened)
        append(writing, [prepare(event)])
    return status


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
        head = ledger.head()
        lines = "".join(f"{anchor.position}:{anchor.chain}  # {at}\n" for anchor, at in kept)
        text = f"{lines}{head.position}:{head.chain}  # {now}\n"
        write_durably(open_own(os.fspath(root)), text.encode(), TRIAL_HEADS)


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
