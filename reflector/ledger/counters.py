"""The counters in the table of bullets: the current policy, whose evidence counts for which bullet,
and the counting.

Invariant: a counter is a baseline plus the size of a set of tags, or of the union of the sets of a
family of merged bullets. A playbook without merges is counted without a query about merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reflector.events.state import Playbook
from reflector.ledger.statements import TABLES
from reflector.playbook.bullet import DEFAULT, Counting, is_counting
from reflector.playbook.entry import Entry

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: The bullets whose evidence counts for each heir, and the position after which it counts.
Families = Mapping[str, Mapping[str, int]]
#: The number of tags that count, in SQL. Under the last two policies a tag without the id counts
#: as one more reflection or session.
MEMBERS: Final[dict[Counting, str]] = {
    "as_applied": "count(*)",
    "once_per_reflection": "count(DISTINCT reflection_id) + count(*) - count(reflection_id)",
    "once_per_session": "count(DISTINCT session_id) + count(*) - count(session_id)",
}

#: The current policy, whether any bullet was merged, and whether a retraction is active.
IN_FORCE_COLUMNS = (
    "policy_id, EXISTS (SELECT 1 FROM bullet"
    " WHERE bullet.playbook_id = projection.playbook_id AND bullet.status = 'merged'),"
    " EXISTS (SELECT 1 FROM retraction"
    " WHERE retraction.playbook_id = projection.playbook_id AND active = 1)"
)
#: One query for all of these, because every append runs it. Its other value is `TABLES`.
IN_FORCE = (
    f"SELECT {IN_FORCE_COLUMNS} FROM projection"  # noqa: S608
    " WHERE playbook_id = ? AND name = ?"
)
#: Its result; None if there is no row.
InForce = Sequence[Any] | None
#: The number of tags that count for each heir. These are the tags of the members of its family, of
#: each member those after its own position. Each heir has its own subquery, which uses the index,
#: because GROUP BY would sort every tag.
_TALLY = (
    "SELECT {heir}, sign.tag, (SELECT {counted} FROM {members} CROSS JOIN tag"
    " WHERE playbook_id = ? AND name = {member} AND tag.tag = sign.tag"
    " AND position > {after}{more})"
    " FROM {heirs}, (SELECT 1 AS tag UNION ALL SELECT -1) AS sign"
)

#: The verdicts of each session on each heir. A window without a session's id counts as a session.
_VERDICTS = (
    "SELECT {heir} AS heir, coalesce(session_id, reflection_id, {position}) AS session,"
    " count(*) FILTER (WHERE tag.tag = 1) AS helpful,"
    " count(*) FILTER (WHERE tag.tag = -1) AS harmful"
    " FROM {heirs}, {members} CROSS JOIN tag"
    " WHERE playbook_id = ? AND name = {member} AND tag.tag <> 0"
    " AND position > {after}{more} GROUP BY 1, 2"
)
#: The votes of sessions for and against each heir. The verdicts of a session share one vote.
_VOTES = (
    "SELECT heir, sum(CAST(helpful AS double precision) / (helpful + harmful)),"  # noqa: S608
    " sum(CAST(harmful AS double precision) / (helpful + harmful))"
    f" FROM ({_VERDICTS}) AS votes GROUP BY heir"
)
#: SQL by which SQLite and PostgreSQL read the families, [[heir, [[member, after], …]], …].
_FAMILIES = (
    {
        "heirs": "json_each(?) AS heir",
        "members": "json_each(heir.value, '$[1]') AS member",
        "heir": "json_extract(heir.value, '$[0]')",
        "member": "json_extract(member.value, '$[0]')",
        "after": "json_extract(member.value, '$[1]')",
        "position": "position",
    },
    {
        "heirs": "json_array_elements(?::json) AS heir (value)",
        "members": "json_array_elements(heir.value -> 1) AS member (value)",
        "heir": "heir.value ->> 0",
        "member": "member.value ->> 0",
        "after": "(member.value ->> 1)::bigint",
        "position": "position::text",
    },
)

_MORE = "helpful = helpful + {helpful}, harmful = harmful + {harmful}"
_FROM_BASELINE = "helpful = baseline_helpful + {helpful}, harmful = baseline_harmful + {harmful}"

ENTRY_COLUMNS = Entry._fields
ENTRIES = (
    f"SELECT {', '.join(ENTRY_COLUMNS)}"  # noqa: S608
    " FROM bullet WHERE playbook_id = ?"
)
_OF_MERGES = (
    f"{ENTRIES} AND (status = 'merged'"  # noqa: S608
    " OR name IN (SELECT removed_into FROM bullet WHERE playbook_id = ? AND status = 'merged'))"
)


class Counters:
    """Counts one playbook's tags on an open transaction."""

    def __init__(self, sql: Statements, in_force: InForce = None) -> None:
        self.sql = sql
        self._known = in_force
        self._families: Playbook | None = None

    def forget(self) -> None:
        """Drop the cached policy, retractions, merges and baselines."""
        self._known = self._families = None

    def _in_force(self) -> Sequence[Any]:
        if self._known is None:
            self._known = self.sql.row(IN_FORCE, TABLES) or (DEFAULT, False, False)
        return self._known

    def counting(self) -> Counting:
        """Return the current counting policy."""
        policy = self._in_force()[0]
        return policy if is_counting(policy) else DEFAULT

    def has_retractions(self) -> bool:
        """Return whether any retraction is active."""
        return bool(self._in_force()[2])

    def families(self) -> Playbook:
        """Return the merged bullets, and the bullets that have their evidence."""
        if self._families is None:
            rows = self.sql.rows(_OF_MERGES, self.sql.id) if self._in_force()[1] else ()
            self._families = Playbook(entries={row[0]: Entry(*row) for row in rows})
        return self._families

    def increase(self, counted: Mapping[tuple[str, int], int]) -> None:
        """Add new tags that count, by the bullet's name and the verdict. The rows of the tags must
        already be written.
        """
        if self.counting() != "as_applied":
            self.recount({name for name, _ in counted})
            return
        more: dict[str, list[int]] = {}
        families = self.families()
        for (name, tag), count in counted.items():
            for one in (name, *families.heirs(name)):
                more.setdefault(one, [0, 0])[tag < 0] += count
        self._set(_MORE, [(*counts, name) for name, counts in more.items()])

    def recount(self, names: Iterable[str] | None) -> None:
        """Count the tag sets of these bullets again under the current policy; None means all
        bullets.
        """
        book = self.families()
        if names is None:
            bullets = [
                row[0] for row in self.sql.rows("SELECT name FROM bullet WHERE playbook_id = ?")
            ]
        else:
            bullets = sorted({one for name in names for one in (name, *book.heirs(name))})
        families = {
            name: book.family(name) if book.sources(name) else {name: 0} for name in bullets
        }
        counts = tallied(self.sql, families, " AND active = 1", counting=self.counting())
        rows = []
        for name, family in families.items():
            helpful, harmful = book.baseline(
                {one: after for one, after in family.items() if one != name}
            )
            rows.append(
                (helpful + counts.get((name, 1), 0), harmful + counts.get((name, -1), 0), name)
            )
        self._set(_FROM_BASELINE, rows)

    def _set(self, sets: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Change the counters of bullets by rows of (helpful, harmful, name)."""
        self.sql.change("bullet", sets, "name = {name}", ("helpful", "harmful", "name"), rows)


def tallied(
    sql: Statements,
    families: Families,
    more: str,
    *values: object,
    counting: Counting,
) -> dict[tuple[str, int], int]:
    """Return the number of tags that count for the remaining bullet of each of these families, by
    its name and the verdict. `more` is a condition of the tags.
    """
    if not families:
        return {}
    query = _TALLY.format(counted=MEMBERS[counting], more=more, **_FAMILIES[sql.postgres])
    rows = sql.execute(query, sql.id, *values, _listed(families)).fetchall()
    return {(heir, tag): count for heir, tag, count in rows}


def _listed(families: Families) -> str:
    return json.dumps([(heir, [*family.items()]) for heir, family in families.items()])


def votes_of_sessions(
    sql: Statements, families: Families, more: str, *values: object
) -> dict[str, tuple[float, float]]:
    """Return the number of sessions that vote (for, against) the remaining bullet of each family.
    `more` is a condition of the tags.
    """
    votes = _of_families(sql, _VOTES, families, more, *values)
    return {heir: (round(yes, 6), round(no, 6)) for heir, yes, no in votes}


class SessionVote(NamedTuple):
    """The vote of a session on a bullet, which its verdicts share."""

    name: str
    session: str
    helped: float
    harmed: float


def session_votes(
    sql: Statements, families: Families, more: str, *values: object
) -> list[SessionVote]:
    """Return the vote of each session on the remaining bullet of each family. `more` is a condition
    of the tags.
    """
    verdicts = _of_families(sql, _VERDICTS, families, more, *values)
    return [
        SessionVote(heir, session, helpful / (helpful + harmful), harmful / (helpful + harmful))
        for heir, session, helpful, harmful in verdicts
    ]


def _of_families(
    sql: Statements,
    query: str,
    families: Families,
    more: str,
    *values: object,
) -> list[Any]:
    """Return the rows of a query about families. `more` is a condition of the tags."""
    if not families:
        return []
    filled = query.format(more=more, **_FAMILIES[sql.postgres])
    return list(sql.execute(filled, _listed(families), sql.id, *values).fetchall())
