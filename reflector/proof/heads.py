"""The head of a ledger: how it is published, read back as an anchor, and mended: set back where
somebody moved it, and led on behind events that change nothing.

Invariant: a head is one line, `POSITION:CHAIN`, and a file of them is one a line, so that `>>`
keeps a record of many. Anything else in a file is refused, never ignored: an anchor that was not
understood proves nothing. Heads may be in a file that git has: no part of its name becomes an
option or a word of a shell, and git gives one blob of bounded size.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.append import utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerCorrupt, LedgerError, translated
from reflector.ledger.migration import create_triggers
from reflector.ledger.reader import Reader, events_where, retraction_line
from reflector.ledger.rows import Anchor, Head
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.proof.reading import SET_ASIDE
from reflector.proof.verify import verify

_END: Final = (
    "position = (SELECT max(position) FROM event AS behind WHERE behind.playbook_id = "
    "event.playbook_id)"
)
_LAST = (
    "SELECT position, chain, recorded_at FROM event WHERE playbook_id = ? ORDER BY position "
    "DESC LIMIT 1"
)
_HEAD: Final = re.compile(r"(?P<position>\d{1,15}):(?P<chain>pl1:[0-9a-f]{64})", re.ASCII)
#: How each signature of a signed note (C2SP) begins, in which an earlier version published heads.
_SIGNATURE: Final = "\N{EM DASH} "
#: Where a ref's heads are looked for when no path is named, from the project's folder.
USUAL_PATHS: Final = (".claude/playbook.head.json", ".claude/playbook.head", "heads.txt")
_NEITHER: Final = "it is neither POSITION:CHAIN nor a file"


class NoAnchor(ValueError):
    """A text that holds no head, or a ref of git's that names no file; its own text says what
    was found instead.
    """


def head_at(ledger: Reader, position: int) -> Head:
    """Return the head as it was after the event at a position; 0 is the genesis. Raises NoAnchor
    for one to come.
    """
    head = ledger.head()
    if position == 0:
        return replace(head, position=0, chain=genesis(head.playbook, head.origin))
    found = ledger.at([position])
    if not found:
        raise NoAnchor(f"position {position} is not in the ledger, which ends at {head.position}")
    return replace(head, position=position, chain=found[0].chain, recorded_at=found[0].recorded_at)


def is_head(text: str) -> bool:
    """Return whether a text is one head, and not a file's name."""
    return _HEAD.fullmatch(text.strip()) is not None


def anchors_in(text: str) -> tuple[Anchor, ...]:
    """The heads of a text: one a line, empty lines and lines that begin with # aside, or the JSON
    of `head --json`. Raises NoAnchor for a text without a head, or with anything else.
    """
    lines = [line.strip() for line in _lines(text)]
    if any(line.startswith(_SIGNATURE) for line in lines):
        raise NoAnchor(
            "it is a signed note of an earlier version, which this version does not read; keep "
            "heads as lines, and "
            "sign their file with `ssh-keygen -Y sign` or their commit with `git tag -s`"
        )
    heads = [line for line in lines if line and not line.startswith("#")]
    if not heads:
        raise NoAnchor(
            "it holds no head; a head is POSITION:CHAIN as `reflector ledger head` prints it"
        )
    return tuple(_anchor(line) for line in heads)


def _lines(text: str) -> list[str]:
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    try:
        return [str(json.loads(text).get("head", ""))]
    except (ValueError, RecursionError) as error:
        raise NoAnchor(f"it is neither heads nor JSON ({error})") from error


def _anchor(line: str) -> Anchor:
    found = _HEAD.fullmatch(line)
    if found is None:
        raise NoAnchor(f"{line[:100]!r} is not POSITION:CHAIN as `reflector ledger head` prints it")
    return Anchor(int(found["position"]), found["chain"])


def published(project: Path, spec: str, limit: int) -> bytes:
    """Return the content of `REV:PATH` in git's own syntax, or of a ref's file at one of
    `USUAL_PATHS`.

    `limit` is in bytes. Raises NoAnchor.
    """
    from reflector.git import GitUnavailable, ask_git  # most anchors are heads and files

    names = [spec] if ":" in spec else [f"{spec}:./{usual}" for usual in USUAL_PATHS]
    try:
        for name in names if spec and spec.isprintable() and not spec.startswith("-") else ():
            if (ask_git(project, "cat-file", "-t", name) or b"").strip() == b"blob":
                if (size := int(ask_git(project, "cat-file", "-s", name) or 0)) > limit:
                    raise NoAnchor(
                        f"it has {size:,} bytes, more than the {limit:,} that a file "
                        "of heads may have"
                    )
                return ask_git(project, "cat-file", "blob", name) or b""
    except GitUnavailable as error:
        raise NoAnchor(f"{_NEITHER}, and no ref can be looked up: {error}") from error
    raise NoAnchor(
        f"{_NEITHER}, and git has no such file here; name one as REV:PATH (`git ls-tree -r "
        "--name-only REV`), or a "
        f"branch, tag or commit (`git branch -a`) with one of {', '.join(USUAL_PATHS)}"
    )


def mend(ledger: Ledger, why: str | None = None) -> list[str]:
    """Set a head that was moved to the last event, rebuild the tables, and put aside what changes
    nothing; return what was done, in words.

    Put aside, with a reason, is each event that cannot be read, and a last one that says that the
    playbook went elsewhere. Where any event is not what was appended, nothing changes: a new head
    must not make a history look sound that the chain does not prove. The trigger that lets the head
    only move forward is down meanwhile, which on a server is the owner's right. Raises
    LedgerCorrupt where the events are not sound, LedgerError where a reason is missing.
    """
    found, done, where = list(verify(ledger)), list[str](), ledger.engine.url.shown
    is_moved = any(one.code == "head" for one in found)
    worse = [
        one
        for one in found
        if one.code in {"chain", "order", "data", "database"} and one.remedy != SET_ASIDE
    ]
    if worse and (is_moved or why):
        raise LedgerCorrupt(
            f"the events of {where} are not what was appended ({worse[0].message}), so the head "
            "was left as it is; "
            f"{worse[0].remedy}"
        )
    with ledger.asking() as sql:
        positions = {one.position for one in found if one.remedy == SET_ASIDE}
        aside = events_where(sql, "position IN ? ORDER BY position", positions)
        gone = [one for one in events_where(sql, _END) if one.type == ev.LEDGER_MOVED]
        aside += [one for one in gone if not one.fault] if why or is_moved else []
        ends = [[event, *retraction_line(sql, event.event_id)][-1] for event in aside]
    if is_moved and aside and not why:
        raise LedgerError(
            f"the {aside[0].type} at position {aside[0].position} of {where} is one to put aside, "
            "so the head was left "
            "as it is; say why with `reflector rebuild --mend --why REASON`"
        )
    if is_moved:
        done.append(_set_head(ledger))
    if aside and why:
        events = [_about(ev.LEDGER_ARRIVED, one, at=where) for one in gone]
        events += [
            _about(ev.EVIDENCE_RETRACTED, end, one, reason=why)
            for one, end in zip(aside, ends, strict=True)
        ]
        ledger.append(events)
        done += [f"the {one.type} at position {one.position} is put aside" for one in aside]
    return done


def _about(type_: str, target: Event, aside: Event | None = None, **data: str) -> NewEvent:
    meta = {ev.ASIDE: aside.event_id} if aside is not None else {}
    return NewEvent(
        type_,
        identity(type_, target.event_id),
        data,
        ev.HUMAN,
        target_id=target.event_id,
        meta=meta,
    )


def _set_head(ledger: Ledger) -> str:
    stood = ledger.head()
    with translated(ledger.engine.url.shown), write_transaction(ledger.engine) as driver:
        sql = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        last = sql.run(_LAST).fetchone() or (0, genesis(stood.playbook, stood.origin), utc_now())
        sql.execute(
            f"DROP TRIGGER IF EXISTS playbook_head_moves_on{' ON playbook' if sql.postgres else ''}"
        )
        sql.execute(
            "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?",
            *last,
            sql.id,
        )
        create_triggers(driver, ledger.engine.dialect)
    ledger.rebuild()
    return (
        f"the head stood at {stood.position:,} ({stood.recorded_at}) and stands at the last "
        f"event again, {last[0]:,}"
    )
