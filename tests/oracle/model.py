"""The answer to every audit question, computed from an NDJSON export by the rules of the documents.

Written from docs/counting.md, machines.md and ledger-format.md without a look at the program:
nothing of `reflector` is imported, and nothing here is fast. Where a command and this model differ,
one of them or the page is wrong.
"""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

SECTIONS = {
    "pat": "PATTERNS & APPROACHES",
    "mis": "MISTAKES TO AVOID",
    "pref": "USER PREFERENCES",
    "ctx": "PROJECT CONTEXT",
    "oth": "OTHERS",
}
POLICIES = ("as_applied", "once_per_reflection", "once_per_session")
KINDS = ("helpful", "harmful")
REACH = 10_000
Pair = tuple[int, int]
Twin = Callable[[str, str], bool]


class Event:
    """One line of an export; `data` is what a redaction kept of it, where it was redacted."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.position: int = line["position"]
        self.id: str = line["id"]
        self.type: str = line["type"]
        self.recorded_at: str = line["time"]
        self.actor: str = line["actor"]
        self.session: str | None = line.get("sessionid")
        self.reflection: str | None = line.get("reflectionid")
        self.target: str | None = line.get("targetid")
        self.hash: str = line["datahash"]
        self.meta: dict[str, Any] = json.loads(line["meta"])
        self.redacted = "data" not in line
        self.data: dict[str, Any] = line.get("data") or {}

    @property
    def name(self) -> str:
        return self.data.get("name") or ""

    @property
    def kind(self) -> str | None:
        """`helpful` or `harmful` of a verdict, None of any other event."""
        tag = self.data.get("tag")
        return tag if self.data.get("disposition") == "counted" and tag in KINDS else None

    @property
    def bullets(self) -> list[dict[str, Any]]:
        """The bullets that the event brings."""
        if self.type == "playbook.imported":
            return list(self.data.get("bullets", ()))
        return [self.data] if self.type == "bullet.added" and self.data else []


def read(lines: Iterable[str]) -> list[Event]:
    """The events of an export."""
    _, *parsed = [json.loads(line) for line in lines]
    events = [Event(line) for line in parsed]
    redactions = {event.target: event for event in events if event.type == "event.redacted"}
    for event in events:
        if event.redacted:
            last = event
            while last.id in redactions:
                last = redactions[last.id]
            event.data = last.data.get("kept") or {}
    return events


class Bullet:
    """A bullet with its baseline and the events that set it."""

    def __init__(self, event: Event, data: dict[str, Any]) -> None:
        self.birth = event
        self.text, self.section = data["text"], data["section"]
        self.first: Pair = (data.get("helpful") or 0, data.get("harmful") or 0)
        self.baseline, self.since = self.first, event.position
        self.status, self.reason, self.into = "live", None, None
        self.recounts: list[Event] = []


class Moment:
    """The ledger as of a position."""

    def __init__(self, events: list[Event], position: int | None = None) -> None:
        self.events = [event for event in events if position is None or event.position <= position]
        self.position = self.events[-1].position if self.events else 0
        self.bullets: dict[str, Bullet] = {}
        self.policy = "as_applied"
        for event in self.events:
            self._apply(event)
        self.tags = [event for event in self.events if event.type == "bullet.tagged"]
        self.windows = {
            event.id: event for event in self.events if event.type == "session.recorded"
        }
        self.retractions = {
            event.target: event for event in self.events if event.type == "evidence.retracted"
        }
        self.completed = {
            event.reflection or "": event
            for event in self.events
            if event.type == "reflection.completed"
        }
        self.answers: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.type == "reflection.answered":
                self.answers[event.reflection or ""].append(event)

    def _apply(self, event: Event) -> None:
        for data in event.bullets:
            self.bullets.setdefault(data["name"], Bullet(event, data))
        if event.type == "policy.adopted":
            self.policy = event.data["counting"]
        bullet = self.bullets.get(event.name)
        if bullet is None:
            return
        if event.type == "bullet.revised":
            bullet.text = event.data["text"]
        elif event.type == "bullet.moved":
            bullet.section = event.data["section"]
        elif event.type == "bullet.removed":
            bullet.status, bullet.reason, bullet.into = (
                "removed",
                event.data.get("reason"),
                event.data.get("into"),
            )
        elif event.type == "bullet.recounted":
            bullet.baseline, bullet.since = (
                (event.data["helpful"], event.data["harmful"]),
                event.position,
            )
            bullet.recounts.append(event)

    # What counts

    def _out(self, identity: str | None) -> Event | None:
        """The last retraction of the line that begins at an event, where that line takes the
        event out.
        """
        line = []
        while identity in self.retractions:
            line.append(self.retractions[identity])
            identity = line[-1].id
        return line[-1] if len(line) % 2 else None

    def _completion(self, tag: Event) -> Event | None:
        done = self.completed.get(tag.reflection or "")
        return done if done is not None and 0 < tag.position - done.position <= REACH else None

    def covered_by(self, tag: Event) -> Event | None:
        done = self._completion(tag)
        by_reflection = (self._out(done.id) or self._out(done.target)) if done is not None else None
        return by_reflection or self._out(tag.id)

    def standing(self) -> list[Event]:
        def stands(tag: Event) -> bool:
            bullet = self.bullets.get(tag.name)
            behind = bullet is not None and tag.position > bullet.since
            return behind and tag.kind is not None and self.covered_by(tag) is None

        return [tag for tag in self.tags if stands(tag)]

    def counting(self, policy: str | None = None) -> dict[int, Event]:
        """The verdict that counts for each standing one, by position: itself, or the first of
        its equals.
        """
        field = {"once_per_reflection": "reflection", "once_per_session": "session"}.get(
            policy or self.policy
        )
        first: dict[tuple[str, str | None, str | None, str | None], Event] = {}
        counting = {}
        for tag in self.standing():
            member = getattr(tag, field) if field else None
            key = (tag.name, tag.kind, member, tag.id if member is None else None)
            counting[tag.position] = first.setdefault(key, tag)
        return counting

    def counters(self, policy: str | None = None) -> dict[str, Pair]:
        counters = {name: list(bullet.baseline) for name, bullet in self.bullets.items()}
        for position, tag in self.counting(policy).items():
            if position == tag.position:
                counters[tag.name][KINDS.index(tag.kind or "")] += 1
        return {name: (helpful, harmful) for name, (helpful, harmful) in counters.items()}

    # list, blame

    def told(self, name: str, counters: dict[str, Pair]) -> dict[str, Any]:
        bullet = self.bullets[name]
        return {
            "section": SECTIONS.get(bullet.section, "OTHERS"),
            "text": bullet.text,
            "helpful": counters[name][0],
            "harmful": counters[name][1],
            "status": bullet.status,
            "reason": bullet.reason,
            "removed_into": bullet.into,
        }

    def listed(self) -> list[dict[str, Any]]:
        counters = self.counters()
        return [
            {"name": name, "position": bullet.birth.position, **self.told(name, counters)}
            for name, bullet in self.bullets.items()
        ]

    def disposition(self, tag: Event, counting: dict[int, Event]) -> tuple[str, Event | None]:
        """What became of a tag, and what took it out of the count."""
        if tag.kind is None:
            return tag.data.get("disposition") or "malformed", None
        if tag.position in counting:
            first = counting[tag.position]
            return ("counted", None) if first is tag else ("double", first)
        bullet = self.bullets.get(tag.name)
        later = (
            [event for event in bullet.recounts if event.position > tag.position] if bullet else []
        )
        if later:
            return "recounted", later[-1 if later[-1].meta.get("restated") else 0]
        if bullet is None or tag.position < bullet.birth.position:
            return "unknown_bullet", None
        return "retracted", self.covered_by(tag)

    def blame(self, name: str) -> list[tuple[Any, ...]]:
        """(position, id, time, session, tag, disposition, helpful, harmful, uncounted by,
        (window, answer)).
        """
        bullet, counting = self.bullets[name], self.counting()
        steps, totals = [], [0, 0]
        for event in self.events:
            tag, evidence, disposition, by = None, None, "baseline", None
            if event is bullet.birth:
                totals = list(bullet.first)
                if bullet.first == (0, 0):
                    continue
            elif event in bullet.recounts:
                totals = [event.data["helpful"], event.data["harmful"]]
            elif event.type == "bullet.tagged" and event.name == name:
                tag = event.data.get("tag")
                disposition, by = self.disposition(event, counting)
                if disposition == "counted":
                    totals[KINDS.index(event.kind or "")] += 1
                done = self.completed.get(event.reflection or "")
                window = self.windows.get(done.target or "") if done else None
                answers = self.answers[event.reflection or ""]
                evidence = (
                    window.position if window else None,
                    answers[-1].position if answers else None,
                )
            else:
                continue
            what = (event.position, event.id, event.recorded_at, event.session, tag, disposition)
            steps.append((*what, *totals, by.position if by else None, evidence))
        return steps

    # log, show

    def about(self, name: str) -> list[Event]:
        """The events that add, change, cite or tag a bullet."""
        kinds = ("cited", "unknown", "retired")

        def names(event: Event) -> list[str]:
            cites = [one for kind in kinds for one in event.data.get(kind) or ()]
            return [event.name, *(bullet["name"] for bullet in event.bullets), *cites]

        return [event for event in self.events if name in names(event)]

    # stats --doubles

    def doubles(self) -> dict[str, list[tuple[str, str, int]]]:
        """(bullet, tag, position) of each surplus verdict, by class."""
        lists: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for tag in self.standing():
            if tag.reflection is not None:
                lists[tag.name, tag.reflection, tag.kind or ""].append(tag)
        rows: dict[str, list[tuple[str, str, int]]] = {
            code: [] for code in ("D1", "D2", "D3", "D4", "D5", "D6")
        }
        sessions: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for (name, reflection, kind), tags in lists.items():
            rows["D1"] += [(name, kind, tag.position) for tag in tags[1:]]
            if kind == "helpful":
                pairs = zip(tags, lists.get((name, reflection, "harmful"), ()), strict=False)
                rows["D2"] += [
                    (name, "both", max(one.position, other.position)) for one, other in pairs
                ]
            if tags[0].session is not None:
                sessions[name, tags[0].session, kind].append(tags[0])
        for (name, _, kind), firsts in sessions.items():
            rows["D4"] += [(name, kind, tag.position) for tag in firsts[1:]]
        before: list[tuple[str, str, str]] = []
        for (name, reflection, kind), tags in sorted(
            lists.items(), key=lambda item: item[1][0].position
        ):
            for code, twin in self._twins().items():
                if any(
                    (n, k) == (name, kind) and twin(other, reflection) for n, other, k in before
                ):
                    rows[code] += [(name, kind, tag.position) for tag in tags]
            before.append((name, reflection, kind))
        return {code: sorted(found) for code, found in rows.items()}

    def _twins(self) -> dict[str, Twin]:
        def given(reflection: str) -> list[tuple[str, str | None]]:
            tags = [
                tag
                for tag in self.tags
                if tag.reflection == reflection and self._completion(tag) is not None
            ]
            return [(tag.name, tag.kind) for tag in tags]

        def same_tags(one: str, other: str) -> bool:
            a, b = self.completed.get(one), self.completed.get(other)
            if a is None or b is None or a.session is None or a.session != b.session:
                return False
            return bool(given(one)) and given(one) == given(other)

        def sharing(one: str, other: str, *, same: bool) -> bool:
            a, b = (
                self.windows.get(self.completed[of].target or "")
                for of in (one, other)
                if of in self.completed
            )
            if a is None or b is None or a is b or (a.session == b.session) != same:
                return False
            return bool(records(a) & records(b))

        return {
            "D3": same_tags,
            "D5": lambda one, other: sharing(one, other, same=False),
            "D6": lambda one, other: sharing(one, other, same=True),
        }

    # stats

    def stats(self) -> tuple[Counter[str], dict[str, dict[str, Counter[str]]]]:
        """The totals, and the same by model, template and day."""
        total: Counter[str] = Counter(events=len(self.events), windows=len(self.windows))
        total["sessions"] = len({window.session or window.id for window in self.windows.values()})
        by: dict[str, dict[str, Counter[str]]] = {
            key: defaultdict(Counter) for key in ("model", "template", "day")
        }
        homes: dict[str, tuple[str, str, str]] = {}

        def add(key: str, reflection: str, amount: int = 1) -> None:
            total[key] += amount
            for parts, part in zip(by.values(), homes.get(reflection, ()), strict=False):
                parts[part][key] += amount

        for reflection, answers in self.answers.items():
            for answer in answers:
                said = {} if answer.redacted else answer.data
                model, template = said.get("model"), said.get("template_sha256")
                homes[reflection] = (
                    model or answer.actor,
                    (template or "none")[:12],
                    answer.recorded_at[:10],
                )
                tokens = (
                    "input_tokens",
                    "output_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
                )
                add("answers", reflection)
                add("tokens", reflection, sum(answer.meta.get(key) or 0 for key in tokens))
        for reflection in self.completed:
            add("reflections", reflection)
        for tag in self.tags:
            if self.covered_by(tag) is None:
                add(tag.kind or "neither", tag.reflection or "")
        return total, by

    def of_sessions(self, name: str) -> dict[str | None, Counter[str]]:
        """How many members of a bullet's standing verdicts each session has, by kind."""
        found: dict[str | None, Counter[str]] = defaultdict(Counter)
        for position, tag in self.counting().items():
            if tag.name == name and tag.position == position:
                found[tag.session][tag.kind or ""] += 1
        return found


def records(window: Event) -> set[bytes]:
    """The keys of the records that a window took in."""
    packed = base64.b64decode(window.data.get("window", {}).get("keys") or "")
    return {packed[at : at + 8] for at in range(0, len(packed), 8)}


def difference(old: Moment, new: Moment) -> dict[str, dict[str, Any]]:
    """What `diff` says of each bullet that it lists, `old` being the earlier moment."""
    found = {}
    before, after = old.counters(), new.counters()
    for name, bullet in new.bullets.items():
        one = old.told(name, before) if name in old.bullets else None
        other = new.told(name, after)
        recounted = any(event.position > old.position for event in bullet.recounts)
        if one == other and not recounted:
            continue
        if one is None:
            change = "added" if bullet.status == "live" else "came and went"
        elif one["status"] != bullet.status:
            change = "removed"
        else:
            changed = {"text": "revised", "section": "moved"}
            change = next(
                (word for key, word in changed.items() if one[key] != other[key]), "counted"
            )
        members = old.of_sessions(name), new.of_sessions(name)
        sessions = {
            session: tuple(members[1][session][kind] - members[0][session][kind] for kind in KINDS)
            for session in {*members[0], *members[1]}
        }
        found[name] = {
            "change": change,
            "before": one,
            "after": other,
            "recounted": recounted,
            "sessions": {session: moved for session, moved in sessions.items() if any(moved)},
        }
    return found
