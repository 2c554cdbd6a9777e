"""The undecided citations, proposals and failures, each with the command that decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from reflector.changes.propose import read_proposals
from reflector.reflection.standing import citations
from reflector.reflection.trouble import trouble_of

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Returns a command as you type it, from its words.
Command = Callable[..., str]
_ROWS: Final = 30
_NO_VERDICT: Final = "no verdict"


class Wait(NamedTuple):
    """One thing that waits for you.

    name     of a rule, proposal or stage
    source   its session or origin
    reason   for the wait
    command  shows or decides it
    """

    name: str
    source: str
    reason: str
    command: str


@dataclass
class Waiting:
    """All things of one kind that wait: their number, the command for all, and the newest ones."""

    kind: str
    count: int
    command: str
    newest: list[Wait]


def waiting(ledger: Ledger, command: Command) -> list[Waiting]:
    """Return the things that wait for you, by kind.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    kinds = (
        ("undecided citations", "review", list(_undecided(ledger, command))),
        ("proposals", "review", list(_proposals(ledger, command))),
        ("failures", "reflect", list(_failures(ledger, command))),
    )
    return [Waiting(kind, len(waits), command(by), waits[:_ROWS]) for kind, by, waits in kinds]


def _undecided(ledger: Ledger, command: Command) -> Iterator[Wait]:
    for citation in citations(ledger):
        session = _short(citation.session_id)
        reason = citation.reason if citation.verdict else _NO_VERDICT
        yield Wait(citation.name, session, reason, command("show", session))


def _proposals(ledger: Ledger, command: Command) -> Iterator[Wait]:
    for proposal in read_proposals(ledger):
        short = proposal.id[:8]
        words = f"{proposal.change.line} ({proposal.reason})"
        yield Wait(short, proposal.origin, words, command("review approve", short))


def _failures(ledger: Ledger, command: Command) -> Iterator[Wait]:
    for window in reversed(ledger.windows_in("failed", "given_up")):
        trouble = trouble_of(ledger.targeting(window.event_id))
        if trouble is not None:
            session = _short(window.session_id)
            message = str((trouble.last.data or {}).get("message"))
            yield Wait(trouble.stage, session, message, command("reflect", session))


def _short(session_id: str | None) -> str:
    return (session_id or "")[:8]
