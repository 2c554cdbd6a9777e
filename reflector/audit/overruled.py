"""The verdicts of judges that a user replaced by their own.

Invariant: `stats` and the report count the same verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from reflector.audit.blame import Step, blame_bullets
from reflector.events.event import BULLET_TAGGED, HUMAN
from reflector.ledger.reader import whose

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger


def judged_by_person(ledger: Ledger, then: Past) -> list[str]:
    """Return the rules on which the user gave a verdict.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    where = f"{whose((BULLET_TAGGED,))} AND actor = ? AND position <= ?"
    tags = ledger.matching(where, HUMAN, then.position)
    by_person = {str(event.fact("name")) for event in tags}
    return [name for name in then.entries if name in by_person]


def overruled_judges(ledger: Ledger, then: Past) -> Counter[str]:
    """Return the number of verdicts of each judge that the user overruled.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    names = judged_by_person(ledger, then)
    return by_judge(overruled(blame_bullets(ledger, names, then)) if names else ())


def by_judge(steps: Iterable[Step]) -> Counter[str]:
    """Return the number of these verdicts by the model of their judge."""
    return Counter(step.model or step.backend or "" for step in steps)


def overruled(steps: Mapping[str, Sequence[Step]]) -> list[Step]:
    """Return the verdicts of judges that the user replaced, newest first.

    A verdict that counts for several rules occurs once.
    """
    by_position = {
        step.position: step for of_rule in steps.values() for step in _overruled(of_rule)
    }
    return [step for _, step in sorted(by_position.items(), reverse=True)]


def _overruled(steps: Sequence[Step]) -> list[Step]:
    """Return the retracted verdicts of judges that differ from your verdict on the same bullet in
    the same session.
    """
    by_person = {
        (step.name, step.session_id): step.tag
        for step in steps
        if step.backend == HUMAN and step.disposition != "retracted"
    }

    def was_replaced(step: Step) -> bool:
        cause = step.uncounted_by
        if step.backend == HUMAN or step.disposition != "retracted" or cause is None:
            return False
        # A judge that read the session again replaced its own verdict.
        is_own = cause.actor in (step.backend, "reparse")
        your_tag = by_person.get((step.name, step.session_id), step.tag)
        return not is_own and your_tag != step.tag

    return [step for step in steps if was_replaced(step)]
