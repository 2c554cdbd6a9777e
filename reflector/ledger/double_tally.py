"""Which sessions and tags may hold a double count.

Invariant: a tag that is counted twice, in whatever way, is one of a session that has two tags on one bullet, is named
here itself, or stands beside another window of the same records. So whoever looks for doubles looks at these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from reflector.events.event import REFLECTION_COMPLETED, SESSION_RECORDED, identity
from reflector.events.registry import COMPLETION_TYPES
from reflector.ledger.bullet_tally import going_on, judged_before
from reflector.ledger.reader import kept_of
from reflector.ledger.tallies import Tally
from reflector.ledger.windows import one_of

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements


class DoubleTally(Tally):
    """What came since the checkpoint before.

    keys      record keys that windows brought, those that others had brought included
    sessions  those with two tags on one bullet, of any kind
    tags      positions of tags that belong to no session, or to another one than their reflection
    """

    name: ClassVar[str] = "doubles"
    is_part: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.keys = 0
        self.sessions: set[str] = set()
        self.tags: set[int] = set()

    def state(self) -> Any:
        return {"keys": self.keys, "sessions": sorted(self.sessions), "tags": sorted(self.tags)}

    def load(self, state: Any) -> None:
        self.keys += state["keys"]
        self.sessions.update(state["sessions"])
        self.tags.update(state["tags"])

    def count(self, sql: Statements, after: int, upto: int) -> None:
        self.keys += _keys(sql, after, upto)
        query = "SELECT position, name, session_id, reflection_id FROM tag WHERE playbook_id = ? AND tag <> 0"
        tags = sql.run(f"{query} AND position > ? AND position <= ? ORDER BY position", after, upto).fetchall()
        sessions = {tag[2] for tag in tags if tag[2] is not None}
        judged = judged_before(sql, going_on(sql, sessions, after), after) if after else {}
        query = "SELECT reflection_id, event_id, position, session_id FROM event WHERE playbook_id = ? AND {}"
        between = f"{one_of(COMPLETION_TYPES)} AND position > ? AND position <= ?"
        rows = sql.run(query.format(between), after, upto).fetchall()
        done = {row[0]: row[2:] for row in rows if row[1] == identity(REFLECTION_COMPLETED, row[0] or "")}
        if missing := {tag[3] for tag in tags if tag[3] is not None} - done.keys():
            among, values = sql.among("event_id", [identity(REFLECTION_COMPLETED, one) for one in missing])
            rows = sql.run(query.format(f"{among} AND position <= ?"), values, upto).fetchall()
            done |= {row[0]: row[2:] for row in rows}
        for position, name, session, reflection in tags:
            if session is not None:
                names = judged.setdefault(session, set())
                if name in names:
                    self.sessions.add(session)
                names.add(name)
            at, of = done.get(reflection, (position, None))
            if at >= position or of is None or of != session:
                self.tags.add(position)


def _keys(sql: Statements, after: int, upto: int) -> int:
    """Return how many keys the windows between two positions brought."""
    keys = sql.text_at("data", "window", "keys")
    query = (
        f"SELECT event_id, data IS NULL, {keys} FROM event WHERE playbook_id = ? AND {one_of((SESSION_RECORDED,))}"  # noqa: S608
        " AND position > ? AND position <= ?"
    )
    rows = sql.run(query, after, upto).fetchall()
    erased = [row[0] for row in rows if row[1]]
    kept = kept_of(sql, erased) if erased else {}
    texts = (((kept[row[0]] or {}).get("window", {}).get("keys") if row[1] else row[2]) or "" for row in rows)
    # Eight bytes each, in base64.
    return sum(len(text.rstrip("=")) * 6 // 64 for text in texts)
