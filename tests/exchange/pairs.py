"""What two ledgers hold after one took the other in."""

from collections import Counter
from typing import Any

from reflector.exchange.merge import Merged, merge_ledger
from reflector.exchange.transfer import exported
from reflector.ledger.store import Ledger
from reflector.playbook.change import SET_FIELDS
from reflector.proof.verify import verify


def bullets(ledger: Ledger) -> dict[str, tuple[object, ...]]:
    """All that a merge promises to be the same on both sides, with each field of a change."""
    known = ("section", "text", "status", "reason", "removed_into")
    counters = ("helpful", "harmful")
    later = sorted(set(SET_FIELDS) - {*known, *counters})
    return {
        row.name: (
            # Most tests set none of them.
            *((field, value) for field in later if (value := getattr(row, field))),
            *(getattr(row, field) for field in (*known, *counters)),
        )
        for row in ledger.rows()
    }


def counts(ledger: Ledger, name: str = "pat-001") -> tuple[object, ...]:
    return bullets(ledger)[name][-2:]


def sound(*ledgers: Ledger) -> None:
    for ledger in ledgers:
        assert list(verify(ledger)) == []


def taken(ledger: Ledger, other: Ledger | list[str], **options: Any) -> Merged:
    """Merge another ledger in, twice: the second time adds nothing."""
    before = ledger.head()
    lines = list(exported(other)) if isinstance(other, Ledger) else other
    merged = merge_ledger(ledger, lambda: lines, **options)
    assert merged.head == ledger.head()
    is_new = merged.merged_at is not None or merged.forward
    assert is_new == (ledger.head() != before)
    head = ledger.head()
    again = merge_ledger(ledger, lambda: lines, **options)
    assert (again.added, again.head, ledger.head()) == (0, head, head)
    return merged


def both_take(one: Ledger, two: Ledger) -> Merged:
    """Merge each ledger, as it was, into the other; both are the same playbook then."""
    first = list(exported(one))
    merged = taken(one, two)
    taken(two, first)
    assert bullets(one) == bullets(two)
    assert one.counting() == two.counting()
    sound(one, two)
    return merged


def told(ledger: Ledger) -> Counter[tuple[object, ...]]:
    """What a merge promises where machines gave bullets names of their own: all but the names."""
    return Counter(
        (r.section, r.text, r.status, r.reason, r.helpful, r.harmful) for r in ledger.rows()
    )
