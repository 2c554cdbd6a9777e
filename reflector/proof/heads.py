"""The head of a ledger: publishing it, reading it back as an anchor, and repairing it by setting it
back or by putting events aside that change nothing.

Invariant: a head is one line, `POSITION:CHAIN`, and a file of heads has one on each line, so `>>`
keeps a record of many. Any other content of a file is refused, never ignored, because an unreadable
anchor proves nothing. Heads can be in a file in git. No part of its name becomes an option or a
word of a shell, and git returns one blob of bounded size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from reflector.events.event import (
    ASIDE,
    EVIDENCE_RETRACTED,
    HUMAN,
    LEDGER_ARRIVED,
    LEDGER_MOVED,
    Event,
    NewEvent,
    identity,
)
from reflector.ledger.append import utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerCorrupt, LedgerError
from reflector.ledger.migration import make_triggers_and_views
from reflector.ledger.reader import Reader, events_where, retraction_line
from reflector.ledger.rows import Anchor, Head
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.proof.reading import SET_ASIDE
from reflector.proof.verify import verify

_END = (
    "position = (SELECT max(position) FROM event AS behind WHERE behind.playbook_id = "
    "event.playbook_id)"
)
_LAST = (
    "SELECT position, chain, recorded_at FROM event WHERE playbook_id = ? ORDER BY position "
    "DESC LIMIT 1"
)
_HEAD = re.compile(r"(?P<position>\d{1,15}):(?P<chain>pl1:[0-9a-f]{64})", re.ASCII)
#: The beginning of each signature in a signed note (C2SP). An earlier version published heads in
#: such notes.
_SIGNATURE = "\N{EM DASH} "
#: The paths of a ref's heads if no path is given, from the project's folder.
USUAL_PATHS = (".claude/playbook.head.json", ".claude/playbook.head", "heads.txt")


class NoAnchor(ValueError):
    """A text without a head, or a ref of git without such a file. The error's text names the actual
    content.
    """


def head_at(ledger: Reader, position: int) -> Head:
    """Return the head as it was after the event at a position; 0 is the genesis.

    Raises: NoAnchor for a position after the end.
    """
    head = ledger.head()
    if position == 0:
        return replace(head, position=0, chain=genesis(head.playbook, head.origin))
    events = ledger.at([position])
    if not events:
        raise NoAnchor(
            f"position {position} is not in the ledger, which ends at position {head.position}"
        )
    (event,) = events
    return replace(head, position=position, chain=event.chain, recorded_at=event.recorded_at)


def is_head(text: str) -> bool:
    """Return whether a text is one head, and not a file's name."""
    return _HEAD.fullmatch(text.strip()) is not None


def anchors_in(text: str) -> tuple[Anchor, ...]:
    """Return the heads of a text: one on each line, or the JSON of `head --json`. Empty lines and
    lines that begin with # are ignored.

    Raises: NoAnchor for a text without a head, or with any other content.
    """
    lines = [line.strip() for line in _lines(text)]
    if any(line.startswith(_SIGNATURE) for line in lines):
        raise NoAnchor(
            "the file is a signed note, a form that reflector no longer reads. Write each head "
            "on a separate line. Sign the file with `ssh-keygen -Y sign`, or the commit with "
            "`git tag -s`"
        )
    heads = [line for line in lines if line and not line.startswith("#")]
    if not heads:
        raise NoAnchor(
            "the file does not contain a head; a head has the form POSITION:CHAIN, and "
            "`reflector ledger head` prints the head of a ledger"
        )
    return tuple(_anchor(line) for line in heads)


def _lines(text: str) -> list[str]:
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    try:
        return [str(json.loads(text).get("head", ""))]
    except (ValueError, RecursionError) as error:
        raise NoAnchor(f"the file does not contain heads or JSON ({error})") from error


def _anchor(line: str) -> Anchor:
    head = _HEAD.fullmatch(line)
    if head is None:
        raise NoAnchor(
            f"{line[:100]!r} is not a head of the form POSITION:CHAIN, which `reflector ledger "
            "head` prints"
        )
    return Anchor(int(head["position"]), head["chain"])


def published(project: Path, spec: str, limit: int) -> bytes:
    """Return the content of `REV:PATH` in git's own syntax, or of a ref's file at one of
    `USUAL_PATHS`. `limit` is in bytes.

    Raises: NoAnchor.
    """
    from reflector.git import GitUnavailable, ask_git  # most anchors do not need git

    names = [spec] if ":" in spec else [f"{spec}:./{path}" for path in USUAL_PATHS]
    is_of_git = spec.isprintable() and spec and not spec.startswith("-")
    try:
        for name in names if is_of_git else ():
            if (ask_git(project, "cat-file", "-t", name) or b"").strip() != b"blob":
                continue
            size = int(ask_git(project, "cat-file", "-s", name) or 0)
            if size > limit:
                raise NoAnchor(
                    f"the file has {size:,} bytes, but a file of heads has at most {limit:,}"
                )
            return ask_git(project, "cat-file", "blob", name) or b""
    except GitUnavailable as error:
        raise NoAnchor(
            f"this is not a head (POSITION:CHAIN) or a file, and git cannot search for it: {error}"
        ) from error
    raise NoAnchor(
        "this is not a head (POSITION:CHAIN), a file, or a file in git. Name a file in git as "
        "REV:PATH; `git ls-tree -r --name-only REV` lists the paths. Or name a branch, tag or "
        f"commit that contains one of {', '.join(USUAL_PATHS)}"
    )


def mend_head(ledger: Ledger, why: str | None = None) -> list[str]:
    """Repair a moved head, put aside events that change nothing, and return the repairs in words.

    A moved head is set to the last event, and the tables are rebuilt. With a reason `why`, these
    events are put aside: each unreadable event, each event with a wrong time, and a last event that
    moves the playbook elsewhere.

    If any event is not as it was appended, nothing changes, because a new head must not hide a
    history that the chain does not prove. The trigger that lets the head only move forward is
    dropped during the repair. On a server only the owner may do this.

    Raises:
        LedgerCorrupt: the events are not sound.
        LedgerError: a reason is missing.
    """
    findings = list(verify(ledger))
    place = ledger.engine.url.shown
    is_moved = any(finding.code == "head" for finding in findings)
    if is_moved or why:
        _refuse_unsound(findings, place)
    put_aside = _events_to_put_aside(ledger, findings, with_move=bool(why) or is_moved)
    if is_moved and put_aside and not why:
        first = put_aside[0]
        raise LedgerError(
            f"the head of {place} was not changed, because the {first.type} at position "
            f"{first.position} must be excluded first. To exclude this event and to set the head, "
            "run `reflector rebuild --fix --why REASON`"
        )
    repairs = []
    if is_moved:
        repairs.append(_set_head(ledger))
    if put_aside and why:
        ledger.append(_putting_aside(ledger, put_aside, why))
        for event in put_aside:
            repairs.append(f"the {event.type} at position {event.position} no longer has an effect")
    return repairs


def _refuse_unsound(findings: Iterable[Finding], place: str) -> None:
    """Raise LedgerCorrupt for a finding about an event, unless putting the event aside removes the
    finding.
    """
    for finding in findings:
        is_of_events = finding.code in {"chain", "order", "data", "database"}
        if is_of_events and finding.remedy != SET_ASIDE:
            raise LedgerCorrupt(
                f"the events of {place} were changed after they were written "
                f"({finding.message}), so the head was not changed; {finding.remedy}"
            )


def _events_to_put_aside(
    ledger: Ledger, findings: Iterable[Finding], *, with_move: bool
) -> list[Event]:
    """Return the events of the findings with the remedy `SET_ASIDE`. With `with_move`, include a
    last event that moves the playbook elsewhere.
    """
    positions = {finding.position for finding in findings if finding.remedy == SET_ASIDE}
    with ledger.asking() as sql:
        events = events_where(sql, "position IN ? ORDER BY position", positions)
        if with_move:
            events += [event for event in _last_moves(sql) if not event.fault]
    return events


def _last_moves(sql: Statements) -> list[Event]:
    """Return the last event if it moves the playbook elsewhere, even if it cannot be read."""
    return [event for event in events_where(sql, _END) if event.type == LEDGER_MOVED]


def _putting_aside(ledger: Ledger, put_aside: Sequence[Event], why: str) -> list[NewEvent]:
    """Return the events that put others aside. A playbook that moved elsewhere arrives here again.
    Each event is retracted, after its retractions so far.
    """
    place = ledger.engine.url.shown
    with ledger.asking() as sql:
        events = [_about(LEDGER_ARRIVED, event, {"at": place}) for event in _last_moves(sql)]
        for event in put_aside:
            end = [event, *retraction_line(sql, event.event_id)][-1]
            meta = {ASIDE: event.event_id}
            events.append(_about(EVIDENCE_RETRACTED, end, {"reason": why}, meta))
    return events


def _about(
    type_: str, target: Event, data: dict[str, str], meta: dict[str, str] | None = None
) -> NewEvent:
    """Return a user's event about another event."""
    event_id = identity(type_, target.event_id)
    return NewEvent(type_, event_id, data, HUMAN, target_id=target.event_id, meta=meta or {})


def _set_head(ledger: Ledger) -> str:
    """Move the head to the last event, and rebuild the tables. Return both positions, in words."""
    moved_head = ledger.head()
    with write_transaction(ledger.engine) as driver:
        sql = ledger.statements(driver)
        begin = (0, genesis(moved_head.playbook, moved_head.origin), utc_now())
        last = sql.row(_LAST) or begin
        sql.execute(
            f"DROP TRIGGER IF EXISTS playbook_head_moves_on{' ON playbook' if sql.postgres else ''}"
        )
        sql.execute(
            "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?",
            *last,
            sql.id,
        )
        make_triggers_and_views(driver, ledger.engine.dialect)
    ledger.rebuild()
    return (
        f"the head was at position {moved_head.position:,} ({moved_head.recorded_at}), and is now "
        f"at the last event, position {last[0]:,}"
    )
