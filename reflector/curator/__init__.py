"""What people ask for and what a model thinks, as proposals. The settings decide before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.ledger.store import Ledger
    from reflector.transcripts.message import Message


def hear(
    config: Config, ledger: Ledger, window_ids: Iterable[str], said: Mapping[str, Sequence[Message] | None]
) -> str:
    """Hear what people ask for in windows; return what to tell the person, "" for nothing.

    `said` is what they said in windows that were read before.
    The playbook's lock must be held. Raises LedgerError.
    """
    if not config.wishes:
        return ""
    from reflector.curator.listening import hear as run

    return _waiting(run(ledger, window_ids, said))


def propose(ledger: Ledger, *, curates: bool) -> str:
    """Propose what models said that the playbook lacks; return what to tell the person. The playbook's lock must be
    held. Raises LedgerError."""
    if not curates:
        return ""
    from reflector.curator.listening import propose_learned

    return _waiting(propose_learned(ledger))


def _waiting(count: int) -> str:
    return f"{count} proposal{'s wait' if count > 1 else ' waits'} for you: `reflector proposals`" if count else ""
