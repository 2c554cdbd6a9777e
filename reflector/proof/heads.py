"""The head of a ledger: how it is published, read back as an anchor, and set back where somebody moved it.

Invariant: a head is one line, `POSITION:CHAIN`, and a file of them is one a line, so that `>>` keeps a record of many.
Anything else in a file is refused, never ignored: an anchor that was not understood proves nothing.
"""

from __future__ import annotations

import json
import re
from typing import Final

from reflector.ledger.append import utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerCorrupt, translated
from reflector.ledger.migration import create_triggers
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor, Head
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

_LAST = "SELECT position, chain, recorded_at FROM event WHERE playbook_id = ? ORDER BY position DESC LIMIT 1"
_HEAD: Final = re.compile(r"(?P<position>\d{1,15}):(?P<chain>pl1:[0-9a-f]{64})", re.ASCII)
#: How each signature of a signed note (C2SP) begins, in which an earlier version published heads.
_SIGNATURE: Final = "\N{EM DASH} "


class NoAnchor(ValueError):
    """A text that holds no head; its own text says what was found instead."""


def head_at(ledger: Reader, position: int) -> Head:
    """Return the head as it was after the event at a position; 0 is the genesis. Raises NoAnchor for one to come."""
    head = ledger.head()
    if position == 0:
        return Head(head.playbook, head.origin, 0, genesis(head.playbook, head.origin), head.recorded_at)
    found = ledger.at([position])
    if not found:
        raise NoAnchor(f"position {position} is not in the ledger, which ends at {head.position}")
    return Head(head.playbook, head.origin, position, found[0].chain, found[0].recorded_at)


def is_head(text: str) -> bool:
    """Return whether a text is one head, and not a file's name."""
    return _HEAD.fullmatch(text.strip()) is not None


def anchors_in(text: str) -> tuple[Anchor, ...]:
    """The heads of a text: one a line, empty lines and lines that begin with # aside, or the JSON of `head --json`.

    Raises NoAnchor for a text without a head, or with anything else.
    """
    lines = [line.strip() for line in _lines(text)]
    if any(line.startswith(_SIGNATURE) for line in lines):
        raise NoAnchor(
            "it is a signed note of an earlier version, which this version does not read; keep heads as lines, and "
            "sign their file with `ssh-keygen -Y sign` or their commit with `git tag -s`"
        )
    heads = [line for line in lines if line and not line.startswith("#")]
    if not heads:
        raise NoAnchor("it holds no head; a head is POSITION:CHAIN as `reflector ledger head` prints it")
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


def mend_head(ledger: Ledger) -> str:
    """Set a head that was moved to the last event, and rebuild the tables; return what was done in words, "" where
    nothing was wrong.

    Where any event is not what was appended, nothing changes: a new head must not make a history look sound that the
    chain does not prove. The trigger that lets the head only move forward is down meanwhile, which on a server is the
    owner's right. Raises LedgerCorrupt where the events are not sound, LedgerError.
    """
    found = list(verify(ledger))
    if not any(one.code == "head" for one in found):
        return ""
    worse = [one for one in found if one.code in {"chain", "order", "data", "redaction", "database"}]
    if worse:
        raise LedgerCorrupt(
            f"the events of {ledger.engine.url.shown} are not what was appended ({worse[0].message}), so the head was "
            f"left as it is; {worse[0].remedy}"
        )
    stood = ledger.head()
    with translated(ledger.engine.url.shown), write_transaction(ledger.engine) as driver:
        sql = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        last = sql.run(_LAST).fetchone() or (0, genesis(stood.playbook, stood.origin), utc_now())
        sql.execute(f"DROP TRIGGER IF EXISTS playbook_head_moves_on{' ON playbook' if sql.postgres else ''}")
        sql.execute("UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?", *last, sql.id)
        create_triggers(driver, ledger.engine.dialect)
    ledger.rebuild()
    return f"the head stood at {stood.position:,} ({stood.recorded_at}) and stands at the last event again, {last[0]:,}"
