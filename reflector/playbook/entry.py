"""A bullet with all its fields: as the events make it, and as the ledger has it with its counters.

Invariant: a bullet stays when it was removed, as a tombstone, so its name means one bullet
permanently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .bullet import Bullet


class Entry(NamedTuple):
    """A bullet with all facts that its counters depend on; removed ones stay as tombstones.

    Each field is a column of the table of bullets: the projection writes it, and `verify` compares
    it. A new field is a number (`sa.Integer`). The bullet that a merge makes does not inherit it:
    the field begins with its default, and the sources keep theirs. Do not store a position in it,
    because merges of ledgers change positions. If you look for the time of its change, skip events
    with `RESTATED` in their `meta`, because a merge of ledgers repeats them. If playbook.json does
    not show the field, `hidden_changes` keeps it when a merge is undone or git renames the bullet.

    position      of the event that added the bullet
    ordinal       its place in the order of creation
    recounted_at  the position of the event that set the baseline: only later tags count
    status        live, removed, merged, or watched: judged, but not part of the playbook
    reason        of the removal; of a merged one, the reason of a removal since the merge
    removed_into  the bullet that replaced it; of a merged one, the bullet that has its evidence
    """

    name: str
    section: str
    text: str
    position: int
    ordinal: int
    recounted_at: int
    baseline_helpful: int = 0
    baseline_harmful: int = 0
    status: str = "live"
    removed_into: str | None = None
    reason: str | None = None

    @property
    def heir(self) -> str | None:
        """The bullet for which this one's evidence also counts; None unless this one was merged."""
        return self.removed_into if self.status == "merged" else None

    @property
    def baseline(self) -> tuple[int, int]:
        """(helpful, harmful) before any tag."""
        return self.baseline_helpful, self.baseline_harmful


@dataclass(frozen=True, slots=True)
class BulletRow(Bullet):
    """A rule of the playbook or a removed rule, with the position of the event that added it."""

    status: str = "live"
    reason: str | None = None
    removed_into: str | None = None
    position: int = 0

    @property
    def bullet(self) -> Bullet:
        """The part that readers of a playbook see."""
        return Bullet(self.name, self.section, self.text, self.helpful, self.harmful)

    @property
    def counts(self) -> bool:
        """Whether evidence on the bullet counts: it does unless the bullet was removed. Evidence on
        a merged bullet counts for the one that it was merged into.
        """
        return self.status != "removed"

    @property
    def is_rule(self) -> bool:
        """Whether the bullet is a rule now: in the playbook, or in your file."""
        return self.status in ("live", "watched")

    @property
    def label(self) -> str:
        """The word that a list shows before the text; "" for a rule."""
        return "" if self.is_rule else self.status

    @property
    def end(self) -> str:
        """The end of the bullet, such as "removed (pruned)" or "merged into pat-004"; "" for a live
        one.
        """
        if self.status == "merged":
            return f"merged into {self.removed_into}"
        if self.status == "removed":
            into = f", into {self.removed_into}" if self.removed_into else ""
            return f"removed ({self.reason}{into})"
        return "" if self.status == "live" else self.status
