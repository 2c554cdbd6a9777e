"""`--as-of MOMENT` and `A..B`, the same on every command that takes them.

Invariant: what names no moment is a usage error that says what would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger

_Command = TypeVar("_Command", bound=Callable[..., Any])


def as_of(command: _Command) -> _Command:
    """The option `--as-of`; the command gets it as `moment`, None for now."""
    return click.option(
        "--as-of", "moment", metavar="MOMENT", help="As it was then: a position, a time or a session's id."
    )(command)


def position(ledger: Ledger, moment: str | None) -> int | None:
    """The position of a moment, None for now. A usage error where it names none."""
    from reflector.audit.moments import UnknownMoment, position_of

    if moment is None:
        return None
    try:
        return position_of(ledger, moment)
    except UnknownMoment as error:
        raise click.UsageError(str(error)) from error


def position_before(ledger: Ledger, moment: str) -> int:
    """The position in front of a moment. A usage error where it names none."""
    from reflector.audit.moments import UnknownMoment, position_before

    try:
        return position_before(ledger, moment)
    except UnknownMoment as error:
        raise click.UsageError(str(error)) from error


def span(ledger: Ledger, text: str) -> tuple[int, int]:
    """The positions of A..B. A usage error where they name none."""
    from reflector.audit.moments import UnknownMoment, span_of

    try:
        return span_of(ledger, text)
    except UnknownMoment as error:
        raise click.UsageError(str(error)) from error


def past(ledger: Ledger, moment: str | None) -> Past | None:
    """The playbook of a moment, None for now."""
    from reflector.ledger.as_of import Past

    at = position(ledger, moment)
    return None if at is None else Past(ledger, at)
