"""What people ask for and what a model thinks, as proposals. The settings decide before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.ledger.store import Ledger
    from reflector.reflection.runner import Runner
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


def ask(ledger: Ledger, runner: Runner) -> str:
    """Ask the model about the reflections that it was not asked about; return what went wrong. Raises LedgerError."""
    from reflector.reflection.protocol import Completes

    if not runner.gate.config.curate or not isinstance(backend := runner.backend, Completes):
        return ""
    from reflector.curator.model import ask as run

    trouble = run(ledger, runner, backend)
    return f"the curator was not asked: {trouble}" if trouble else ""


def propose(config: Config, ledger: Ledger) -> str:
    """Propose what the model answered; return what to tell the person. The playbook's lock must be held.

    Raises LedgerError.
    """
    if not config.curate:
        return ""
    from reflector.curator.model import propose_answered

    return _waiting(propose_answered(ledger))


def _waiting(count: int) -> str:
    return f"{count} proposal{'s wait' if count > 1 else ' waits'} for you: `reflector proposals`" if count else ""
