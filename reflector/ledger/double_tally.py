"""Which sessions and tags may hold a double count.

Invariant: a tag that is counted twice, in whatever way, is one of a session that has two tags on one bullet, is named
here itself, or stands beside another window of the same records. So whoever looks for doubles looks at these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from reflector.ledger.tallies import Tally, texts, whole

if TYPE_CHECKING:
    from reflector.ledger.tail import Tail


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
        self.keys += whole(state["keys"])
        self.sessions.update(texts(state["sessions"]))
        self.tags.update(whole([*state["tags"]]))

    def count(self, tail: Tail) -> None:
        self.keys += sum(window.keys for window in tail.windows)
        named: dict[str, set[str]] = {}
        for session, reflection, rows in tail.runs:
            if session is not None:
                names = {row[1] for row in rows}
                before = named[session] if session in named else tail.judged_before.get(session, set())
                if len(names) < len(rows) or not names.isdisjoint(before):
                    self.sessions.add(session)
                named[session] = names | before
            done = tail.completions.get(reflection)
            behind = done.position if done is not None and session is not None and done.session_id == session else None
            if behind is None or behind >= rows[0][0]:
                self.tags.update(row[0] for row in rows if row[2] and (behind is None or behind >= row[0]))
