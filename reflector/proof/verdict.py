"""A verdict on a ledger that may be too damaged to be opened.

Invariant: damage is a finding wherever it shows, when the ledger is opened, read or closed; what cannot be reached
(a lock, a missing driver, a server that is down) is an error, for it says nothing about the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reflector.ledger.errors import LedgerCorrupt, LedgerGone
from reflector.ledger.rows import Head
from reflector.ledger.store import Ledger
from reflector.proof.finding import RESTORE, Anchor, Finding
from reflector.proof.verify import verify


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, in order, and the head; None where it cannot be read."""

    findings: tuple[Finding, ...]
    head: Head | None


def judge(open_ledger: Callable[[], Ledger], *anchors: Anchor) -> Verdict:
    """Open a ledger and verify it. Raises a LedgerError for one that cannot be reached."""
    findings: list[Finding] = []
    head = None
    try:
        with open_ledger() as ledger:
            findings += verify(ledger, *anchors)
            with suppress(LedgerCorrupt):  # what it would say was found already
                head = ledger.head()
    except LedgerCorrupt as error:
        what, _, way_out = str(error).partition("; ")
        findings.append(Finding("database", None, what, way_out if isinstance(error, LedgerGone) else RESTORE))
    return Verdict(tuple(findings), head)
