"""What bullets and counters come to where bullets are merged by reference: plain dictionaries, written from the rules.

Nothing of `reflector` is imported, and nothing here is fast: every answer starts from the list of events again. A
verdict climbs from the bullet that it names to the one that this was merged into, and on, until a count set by hand
stops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

POLICIES = ("as_applied", "once_per_reflection", "once_per_session")
#: How far behind its completion a tag of a reflection may be.
REACH = 10_000
Pair = tuple[int, int]


class Oracle:
    """The playbook after some events, in order; an event's place in the list is its position."""

    def __init__(self, events: Iterable[Any]) -> None:
        self.bullets: dict[str, dict[str, Any]] = {}
        self.tags: list[dict[str, Any]] = []
        self.policy = "as_applied"
        self.retracted_by: dict[str, str] = {}
        self.completed: dict[str, tuple[int, str, str | None]] = {}
        for position, event in enumerate(events, start=1):
            self._take(position, event, dict(event.data or {}))

    def _take(self, position: int, event: Any, data: dict[str, Any]) -> None:
        bullet = self.bullets.get(data.get("name") or "") if isinstance(data.get("name"), str) else None
        if event.type == "playbook.imported":
            for one in data["bullets"]:
                self._born(position, one["name"], one["section"], one["text"], one["helpful"], one["harmful"])
        elif event.type == "bullet.added" and data:
            self._born(
                position, data["name"], data["section"], data["text"], data.get("helpful", 0), data.get("harmful", 0)
            )
        elif event.type == "bullet.merged" and data and bullet is None:
            self._born(position, data["name"], data["section"], data["text"], 0, 0)
            for source in data["sources"]:
                if source != data["name"] and self.bullets.get(source, {}).get("status") == "live":
                    self.bullets[source] |= {"status": "merged", "into": data["name"], "reason": None}
        elif event.type == "bullet.unmerged":
            for source in self.bullets.values():
                if source["status"] == "merged" and source["into"] == data["name"]:
                    # One that was removed meanwhile would be removed without the merge.
                    source |= {"status": "removed" if source["reason"] else "live", "into": None}
            if bullet is not None and bullet["status"] == "live":
                bullet |= {"status": "removed", "into": None, "reason": "unmerged"}
        elif event.type == "bullet.restored":
            if bullet is not None and bullet["status"] == "removed":
                bullet |= {"status": "live", "into": None, "reason": None}
            elif bullet is not None:
                bullet["reason"] = None
        elif event.type == "bullet.removed" and bullet is not None:
            if bullet["status"] == "merged" and "follows" not in data:
                bullet["reason"] = data.get("reason") or "removed"
            else:
                status = "merged" if data.get("follows") else "removed"
                bullet |= {"status": status, "into": data.get("into"), "reason": data.get("reason")}
        elif event.type == "bullet.revised" and bullet is not None:
            bullet["text"] = data.get("text", "[redacted]")
        elif event.type == "bullet.moved" and bullet is not None:
            bullet["section"] = data["section"]
        elif event.type == "bullet.recounted" and bullet is not None:
            bullet |= {"baseline": (data["helpful"], data["harmful"]), "since": position, "by_hand": True}
        elif event.type == "policy.adopted" and data.get("counting") in POLICIES:
            self.policy = data["counting"]
        elif event.type == "evidence.retracted":
            self.retracted_by.setdefault(event.target_id, event.event_id)
        elif event.type == "reflection.completed" and event.reflection_id:
            self.completed[event.reflection_id] = (position, event.event_id, event.target_id)
        elif (
            event.type == "bullet.tagged"
            and data.get("disposition") == "counted"
            and data.get("tag") in ("helpful", "harmful")
            and isinstance(data.get("name"), str)
        ):
            self.tags.append(
                {
                    "position": position,
                    "name": data["name"],
                    "tag": data["tag"],
                    "as_applied": event.event_id,
                    "once_per_reflection": event.reflection_id or event.event_id,
                    "once_per_session": event.session_id or event.event_id,
                    "reflection": event.reflection_id,
                }
            )

    def _born(self, position: int, name: str, section: str, text: str, helpful: int, harmful: int) -> None:
        self.bullets.setdefault(
            name,
            {
                "section": section,
                "text": text,
                "status": "live",
                "into": None,
                "reason": None,
                "position": position,
                "baseline": (helpful, harmful),
                "since": position,
                "by_hand": False,
            },
        )

    def _is_out(self, event_id: str | None) -> bool:
        line = 0
        while event_id in self.retracted_by:
            event_id = self.retracted_by[event_id]
            line += 1
        return line % 2 == 1

    def _stands(self, tag: dict[str, Any]) -> bool:
        completed = self.completed.get(tag["reflection"] or "")
        ids = [tag["as_applied"]]
        if completed is not None and completed[0] < tag["position"] <= completed[0] + REACH:
            ids += [one for one in completed[1:] if one]
        return not any(self._is_out(one) for one in ids)

    def _counts_for(self, name: str, position: int) -> list[str]:
        """The bullets for which something of this one counts, as old as a position: itself, and its heirs."""
        found = [name]
        while self.bullets[found[-1]]["status"] == "merged":
            into = self.bullets[found[-1]]["into"]
            if self.bullets[into]["by_hand"] and self.bullets[into]["since"] >= position:
                break
            found.append(into)
        return found

    def baselines(self) -> dict[str, Pair]:
        """What is counted without any tag."""
        found = dict.fromkeys(self.bullets, (0, 0))
        for name, bullet in self.bullets.items():
            for one in self._counts_for(name, bullet["since"]):
                found[one] = (found[one][0] + bullet["baseline"][0], found[one][1] + bullet["baseline"][1])
        return found

    def counters(self, policy: str | None = None) -> dict[str, Pair]:
        """(helpful, harmful) of every bullet, tombstones included."""
        baselines = self.baselines()
        sets: dict[str, tuple[set[str], set[str]]] = {name: (set(), set()) for name in self.bullets}
        for tag in self.tags:
            bullet = self.bullets.get(tag["name"], {})
            if bullet and tag["position"] > bullet["since"] and self._stands(tag):
                for one in self._counts_for(tag["name"], tag["position"]):
                    sets[one][tag["tag"] == "harmful"].add(tag[policy or self.policy])
        return {
            name: (baselines[name][0] + len(helpful), baselines[name][1] + len(harmful))
            for name, (helpful, harmful) in sets.items()
        }

    def rows(self) -> dict[str, tuple[Any, ...]]:
        """(section, text, status, reason, into, helpful, harmful) of every bullet, under the policy in force."""
        counters = self.counters()
        return {
            name: (*(of[key] for key in ("section", "text", "status", "reason", "into")), *counters[name])
            for name, of in self.bullets.items()
        }
