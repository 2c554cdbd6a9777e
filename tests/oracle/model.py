"""The figures of every audit answer, computed from an NDJSON export by the rules of docs/counting.md alone.

Nothing of `reflector` is imported, and nothing here is fast: where a command and this model differ, one of them or the
page is wrong.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

POLICIES = ("as_applied", "once_per_reflection", "once_per_session")
REACH = 10_000
Pair = tuple[int, int]
#: A bullet's standing verdicts by reflection and verdict, in order.
Lists = dict[tuple[str | None, str], list["Event"]]


class Event:
    """A line of the export; `data` is what a redaction kept of it, where it was redacted."""

    def __init__(self, line: dict[str, Any], kept: dict[str, Any]) -> None:
        self.position: int = line["position"]
        self.id: str = line["id"]
        self.type: str = line["type"]
        self.actor: str = line["actor"]
        self.session: str | None = line.get("sessionid")
        self.reflection: str | None = line.get("reflectionid")
        self.target: str | None = line.get("targetid")
        self.data: dict[str, Any] = line.get("data") or kept.get(self.id) or {}
        self.meta: dict[str, Any] = json.loads(line["meta"])

    @property
    def name(self) -> str:
        return str(self.data.get("name"))

    @property
    def is_verdict(self) -> bool:
        return self.data.get("disposition") == "counted" and self.data.get("tag") in ("helpful", "harmful")

    def member(self, policy: str) -> str:
        of = {"as_applied": None, "once_per_reflection": self.reflection, "once_per_session": self.session}[policy]
        return f"of {of}" if of is not None else f"event {self.id}"


class Bullet:
    """A bullet with its baseline."""

    def __init__(self, event: Event, data: dict[str, Any]) -> None:
        self.position = self.since = event.position
        self.text, self.section = data["text"], data["section"]
        self.baseline = self.first = (data.get("helpful", 0), data.get("harmful", 0))
        self.status, self.reason, self.into = "live", None, None
        self.recounts: list[Event] = []

    def told(self) -> tuple[Any, ...]:
        return (self.section, self.text, self.status, self.reason, self.into)


class Model:
    """The ledger of an export as of a position."""

    def __init__(self, lines: Iterable[str], upto: int | None = None) -> None:
        parsed = [json.loads(line) for line in lines][1:]
        kept = {line["targetid"]: line["data"].get("kept") or {} for line in parsed if line["type"] == "event.redacted"}
        events = (Event(line, kept) for line in parsed)
        self.events = [event for event in events if upto is None or event.position <= upto]
        self.bullets: dict[str, Bullet] = {}
        self.policy = "as_applied"
        for event in self.events:
            self._apply(event)
        self.tags = [event for event in self.events if event.type == "bullet.tagged"]
        self.retracted = {e.target: e for e in self.events if e.type == "evidence.retracted"}
        self.completed = {e.reflection: e for e in self.events if e.type == "reflection.completed"}
        self.windows = {e.id: e for e in self.events if e.type == "session.recorded"}

    def _apply(self, event: Event) -> None:
        data = event.data
        if event.type in ("playbook.imported", "bullet.added"):
            for item in data.get("bullets", ()) if event.type == "playbook.imported" else [data]:
                self.bullets.setdefault(item["name"], Bullet(event, item))
        elif event.type == "policy.adopted":
            self.policy = data["counting"]
        bullet = self.bullets.get(event.name)
        if bullet is None:
            return
        if event.type == "bullet.revised":
            bullet.text = data["text"]
        elif event.type == "bullet.moved":
            bullet.section = data["section"]
        elif event.type == "bullet.removed":
            bullet.status, bullet.reason, bullet.into = "removed", data.get("reason"), data.get("into")
        elif event.type == "bullet.recounted":
            bullet.baseline, bullet.since = (data["helpful"], data["harmful"]), event.position
            bullet.recounts.append(event)

    def _out(self, event_id: str | None) -> bool:
        """Whether a retraction that is itself not retracted has this as its target."""
        by = self.retracted.get(event_id)
        return by is not None and not self._out(by.id)

    def covered(self, tag: Event) -> bool:
        completed = self.completed.get(tag.reflection)
        within = completed is not None and 0 < tag.position - completed.position <= REACH
        return self._out(tag.id) or (
            within and completed is not None and (self._out(completed.id) or self._out(completed.target))
        )

    def standing(self, name: str) -> list[Event]:
        bullet = self.bullets[name]
        mine = [tag for tag in self.tags if tag.is_verdict and tag.name == name]
        return [tag for tag in mine if tag.position > bullet.since and not self.covered(tag)]

    def counters(self, name: str, policy: str | None = None) -> Pair:
        tags, (up, down) = self.standing(name), self.bullets[name].baseline
        members = {(tag.data["tag"], tag.member(policy or self.policy)) for tag in tags}
        return up + sum(tag == "helpful" for tag, _ in members), down + sum(tag == "harmful" for tag, _ in members)

    def counting(self, name: str) -> dict[int, int]:
        """The position of the verdict that counts, by that of every standing one: its own, or that of its equal."""
        first: dict[tuple[str, str], int] = {}
        return {
            tag.position: first.setdefault((tag.data["tag"], tag.member(self.policy)), tag.position)
            for tag in self.standing(name)
        }

    def listed(self) -> list[tuple[Any, ...]]:
        return [
            (name, one.text, *self.counters(name), one.status, one.reason, one.into, one.position)
            for name, one in self.bullets.items()
        ]

    def blame(self, name: str) -> list[tuple[Any, ...]]:
        """(position, tag, counted, disposition, helpful, harmful, position of what uncounted it)."""
        bullet, counting = self.bullets[name], self.counting(name)
        steps: list[tuple[int, Event | None]] = [(event.position, None) for event in bullet.recounts]
        if bullet.first != (0, 0):
            steps.append((bullet.position, None))
        steps += [(tag.position, tag) for tag in self.tags if tag.name == name]
        baselines = {event.position: (event.data["helpful"], event.data["harmful"]) for event in bullet.recounts}
        up, down = 0, 0
        found = []
        # Totals up to a step are those of verdicts that stand today, behind the baseline before it.
        start, base = bullet.position, bullet.first
        seen: set[tuple[str, int]] = set()
        for position, tag in sorted(steps, key=lambda step: step[0]):
            if tag is None:
                start, base, seen = position, baselines.get(position, bullet.first), set()
                up, down = base
                found.append((position, None, True, "baseline", up, down, None))
                continue
            disposition, by = self._disposition(bullet, tag, counting)
            if disposition == "counted" and start == bullet.since and (tag.data["tag"], position) not in seen:
                seen.add((tag.data["tag"], position))
                up, down = up + (tag.data["tag"] == "helpful"), down + (tag.data["tag"] == "harmful")
            found.append((position, tag.data.get("tag"), disposition == "counted", disposition, up, down, by))
        return found

    def _disposition(self, bullet: Bullet, tag: Event, counting: dict[int, int]) -> tuple[str, int | None]:
        if not tag.is_verdict:
            return tag.data.get("disposition", "malformed"), None
        if tag.position in counting:
            first = counting[tag.position]
            return ("counted", None) if first == tag.position else ("double", first)
        later = [event for event in bullet.recounts if event.position > tag.position]
        if later:
            return "recounted", later[-1 if later[-1].meta.get("restated") else 0].position
        if tag.position < bullet.position:
            return "unknown_bullet", None
        return "retracted", self._retraction_of(tag)

    def _retraction_of(self, tag: Event) -> int:
        completed = self.completed.get(tag.reflection)
        targets = [*((completed.id, completed.target) if completed is not None else ()), tag.id]
        in_force = [self._last(target) for target in targets if self._out(target)]
        return in_force[0]

    def _last(self, target: str | None) -> int:
        event = self.retracted[target]
        while event.id in self.retracted:
            event = self.retracted[event.id]
        return event.position

    def double_counts(self) -> dict[str, tuple[int, int]]:
        """(surplus, bullets) by class."""
        found = {code: dict.fromkeys(self.bullets, 0) for code in ("D1", "D2", "D3", "D4", "D5", "D6")}
        twins = {"D3": self._same_tags(), "D5": self._sharing(same=False), "D6": self._sharing(same=True)}
        for name in self.bullets:
            lists: Lists = {}
            for tag in self.standing(name):
                if tag.reflection is not None:
                    lists.setdefault((tag.reflection, tag.data["tag"]), []).append(tag)
            found["D1"][name] = sum(len(tags) - 1 for tags in lists.values())
            for reflection in {reflection for reflection, _ in lists}:
                both = [len(lists.get((reflection, verdict), ())) for verdict in ("helpful", "harmful")]
                found["D2"][name] += min(both)
            sessions = [(tags[0].session, verdict) for (_, verdict), tags in lists.items() if tags[0].session]
            found["D4"][name] = len(sessions) - len(set(sessions))
            for code, pairs in twins.items():
                found[code][name] = sum(self._again(lists, pairs))
        return {code: (sum(of.values()), sum(value > 0 for value in of.values())) for code, of in found.items()}

    @staticmethod
    def _again(lists: Lists, pairs: set[frozenset[str]]) -> Iterator[int]:
        before: list[tuple[str | None, str]] = []
        for (reflection, verdict), tags in lists.items():
            if any(one == verdict and frozenset((str(other), str(reflection))) in pairs for other, one in before):
                yield len(tags)
            before.append((reflection, verdict))

    def _same_tags(self) -> set[frozenset[str]]:
        given: dict[str | None, list[tuple[Any, Any]]] = {}
        for tag in self.tags:
            value = tag.data["tag"] if tag.is_verdict else None
            given.setdefault(tag.reflection, []).append((tag.data.get("name") or "", value))
        return {
            frozenset((str(one), str(other)))
            for (one, a), (other, b) in combinations(self.completed.items(), 2)
            if a.session is not None
            and a.session == b.session
            and given.get(one)
            and given.get(one) == given.get(other)
        }

    def _sharing(self, *, same: bool) -> set[frozenset[str]]:
        def records(window: Event) -> set[bytes]:
            packed = base64.b64decode(window.data["window"].get("keys") or "")
            return {packed[at : at + 8] for at in range(0, len(packed), 8)}

        keys = {id: records(window) for id, window in self.windows.items()}
        pairs = set()
        for (one, a), (other, b) in combinations(self.completed.items(), 2):
            first, second = self.windows.get(a.target or ""), self.windows.get(b.target or "")
            if first is None or second is None or first is second or (first.session == second.session) != same:
                continue
            if keys[first.id] & keys[second.id]:
                pairs.add(frozenset((str(one), str(other))))
        return pairs

    def session(self, session: str) -> list[tuple[Any, ...]]:
        """(position, name, tag, disposition, counted) of the tags of a session's reflections, by position."""
        found = []
        for tag in self.tags:
            completed = self.completed.get(tag.reflection)
            if tag.session != session or completed is None or completed.target not in self.windows:
                continue
            said = tag.data
            counting = self.counting(tag.name) if tag.name in self.bullets else {}
            counted = counting.get(tag.position) == tag.position if tag.is_verdict else None
            told = said.get("disposition", "malformed")
            found.append((tag.position, said.get("name") or "", said.get("tag") or "", told, counted))
        return found

    def members(self, name: str) -> dict[str | None, Pair]:
        """How many members of a bullet's standing verdicts each session has."""
        found: dict[str | None, tuple[set[str], set[str]]] = {}
        for tag in self.standing(name) if name in self.bullets else ():
            of = found.setdefault(tag.session, (set(), set()))
            of[tag.data["tag"] == "harmful"].add(tag.member(self.policy))
        return {session: (len(up), len(down)) for session, (up, down) in found.items()}

    def stats(self) -> dict[str, Any]:
        verdicts = [tag.data["tag"] if tag.is_verdict else None for tag in self.tags]
        kinds = [event.type for event in self.events]
        return {
            "events": len(self.events),
            "windows": len(self.windows),
            "sessions": len({window.session or window.id for window in self.windows.values()}),
            "answers": kinds.count("reflection.answered"),
            "reflections": kinds.count("reflection.completed"),
            "helpful": verdicts.count("helpful"),
            "harmful": verdicts.count("harmful"),
            "undecided": verdicts.count(None),
        }


def difference(old: Model, new: Model) -> dict[str, tuple[Any, ...]]:
    """(before, after, recounted, what each session's members moved) of the bullets in which two ledgers differ."""
    found = {}
    for name in {**old.bullets, **new.bullets}:
        sides = [one.bullets.get(name) for one in (old, new)]
        told = [one.counters(name) if name in one.bullets else None for one in (old, new)]
        by_hand = [bullet.recounts[-1].id if bullet and bullet.recounts else None for bullet in sides]
        if (told[0], sides[0] and sides[0].told()) == (told[1], sides[1] and sides[1].told()) and len(
            set(by_hand)
        ) == 1:
            continue
        before, after = old.members(name), new.members(name)
        moved = {}
        for session in {**before, **after}:
            (a, b), (c, d) = before.get(session, (0, 0)), after.get(session, (0, 0))
            if (a, b) != (c, d):
                moved[session] = (c - a, d - b)
        found[name] = (told[0], told[1], by_hand[0] != by_hand[1], moved)
    return found
