"""What all events up to a position said of use and answers: one row a playbook, to count on from.

Invariant: an answer is the same with the row and without it. The row is what `counted` returns for its position and
this `_VERSION`, as `verify` proves; one of another version or behind the head counts for nothing. A rebuild, which
every redaction brings, removes it. Asking writes it again once `_STEP` events came, if whoever asks may write and
nobody else is writing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reflector.events.event import MAX_INT
from reflector.events.registry import TELLING_TYPES
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerError, translated
from reflector.ledger.reader import Reader, between, one_of
from reflector.ledger.statements import Statements
from reflector.ledger.usage import Usage, heirs_at, usage

if TYPE_CHECKING:
    from reflector.ledger.answers import Answers

_T = TypeVar("_T")
#: Raised when the same events come to other counts, or a price of a model changes.
_VERSION: Final = 2
#: So many events are counted at each question sooner than the row is written for them.
_STEP: Final = 1000
_ROW: Final = "SELECT position, state FROM cached_usage WHERE playbook_id = ? AND code_version = ?"
_HELPED: Final = (
    "SELECT name, max(position) FROM tag WHERE playbook_id = ? AND active = 1 AND tag = 1 AND position <= ?"
    " GROUP BY name"
)
_HEAD: Final = "SELECT position FROM playbook WHERE id = ?"


def usage_at(ledger: Reader, upto: int | None = None) -> Usage:
    """Return how bullets were used up to a position, None for now. Raises LedgerError."""
    return _at(ledger, upto, 0, Usage.load, usage)


def answers_at(ledger: Reader, upto: int | None = None) -> Answers:
    """Return how far windows came and what answers took up to a position, None for now. Raises LedgerError."""
    from reflector.ledger.answers import Answers, answers

    return _at(ledger, upto, 1, Answers.load, answers)


def _at(
    ledger: Reader,
    upto: int | None,
    number: int,
    load: Callable[[Any], _T],
    count: Callable[[Statements, int, tuple[int, _T]], _T],
) -> _T:
    """Return one of the two states, counted on from the row where that counts."""
    with ledger.asking() as sql:
        head, position, state = _known(sql) if upto is None else (upto, 0, EMPTY)
        if upto is not None or head - position < _STEP:
            return count(sql, head, (position, load(state[number])))
    return load(_advanced(ledger)[number])


def told_texts(ledger: Reader) -> int:
    """Return how many texts were told, each resume and compaction with its own. Raises LedgerError."""
    query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {one_of(TELLING_TYPES)}"  # noqa: S608
    with ledger.asking() as sql:
        return int(sql.run(query).fetchone()[0])


@dataclass(frozen=True, slots=True)
class Tellings:
    """What was recorded of tellings up to a position.

    told   how many sessions were told each bullet, by its name
    idle   how many of them were told it since a verdict last said that it helped, or ever
    texts  how many texts were told, each resume and compaction with its own
    """

    told: Mapping[str, int]
    idle: Mapping[str, int]
    texts: int


def tellings(ledger: Reader, upto: int | None = None) -> Tellings:
    """Return what was told up to a position; None for now. Raises LedgerError."""
    used = usage_at(ledger, upto)
    with ledger.asking() as sql:
        helped = dict(sql.run(_HELPED, MAX_INT if upto is None else upto).fetchall())
        idle = {name: one.told - one.told_then for name, one in used.bullets.items() if one.told}
        # A retraction took the last helpful verdict out of the count: what was told by an earlier one is counted.
        earlier = {name: helped.get(name, 0) for name in idle if helped.get(name, 0) != used.bullets[name].helped}
        if earlier:
            shown: dict[str, set[str]] = defaultdict(set)
            for one in between(sql, TELLING_TYPES, 0, max(earlier.values())):
                by = one.session_id or one.target_id
                for name in (one.data or {}).get("bullets", ()) if by is not None else ():
                    if one.position <= earlier.get(name, 0):
                        shown[name].add(by or "")
            idle |= {name: used.bullets[name].told - len(shown[name]) for name in earlier}
    return Tellings({name: used.bullets[name].told for name in idle}, idle, used.texts)


def counted(sql: Statements, upto: int, since: tuple[int, Any]) -> list[Any]:
    """Return the state of the row for a position, counted on from that of an earlier one."""
    from reflector.ledger.answers import Answers, answers

    after, state = since
    used = usage(sql, upto, (after, Usage.load(state[0])))
    given = answers(sql, upto, (after, Answers.load(state[1])))
    return [used.dump(), given.dump()]


#: The state before the first event.
EMPTY: Final[list[Any]] = [[0, 0, {}], [0, 0, {}, [0, 0, 0, "0", 0, 0, 0, 0], []]]


def is_sound(sql: Statements) -> bool:
    """Return whether the row, where there is one of this version, is what the events say."""
    row = sql.run(_ROW, _VERSION).fetchone()
    (head,) = sql.run(_HEAD).fetchone()
    return row is None or (0 < row[0] <= head and json.loads(row[1]) == _json(counted(sql, row[0], (0, EMPTY))))


def _json(state: list[Any]) -> Any:
    return json.loads(json.dumps(state))


def _known(sql: Statements) -> tuple[int, int, list[Any]]:
    """Return the head's position, and the row's position and state; 0 and the empty state for no row that counts."""
    (head,) = sql.run(_HEAD).fetchone()
    position, state = sql.run(_ROW, _VERSION).fetchone() or (0, "")
    # Counting on costs more than counting where most of the events are new.
    if head // 2 < position <= head and heirs_at(sql, position) == heirs_at(sql, head):
        return head, position, json.loads(state)
    return head, 0, EMPTY


def _advanced(ledger: Reader) -> list[Any]:
    """Return the state at the head, and write the row if that can be done at once."""
    with ledger.asking() as sql:
        head, position, before = _known(sql)
        state = counted(sql, head, (position, before))
    with (
        suppress(LedgerError),
        translated(ledger.engine.url.shown),
        write_transaction(ledger.engine, wait=False) as driver,
    ):
        to = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        to.run(
            "INSERT INTO cached_usage (playbook_id, code_version, position, state) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (playbook_id) DO UPDATE SET code_version = excluded.code_version,"
            " position = excluded.position, state = excluded.state",
            *(_VERSION, head, json.dumps(state, ensure_ascii=False, separators=(",", ":"))),
        )
    return state
