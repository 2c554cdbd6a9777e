"""What a machine's playbook should be, computed from what people and judges did, by
docs/counting.md and machines.md.

Nothing of `reflector` is imported, and nothing is read from a merge: a machine knows acts, an
import adds those of the other machine, and the playbook is what all known acts come to in the order
in which they were first done anywhere. As one program plays all machines one step after the other,
that order is the order of the steps.

A bullet is known by its birth. Two births under one name with one text are one bullet, that of the
first. So are two births with one text under different names, if both bullets were live with that
text when one ledger met the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SECTIONS = {
    "pat": "PATTERNS & APPROACHES",
    "mis": "MISTAKES TO AVOID",
    "pref": "USER PREFERENCES",
    "ctx": "PROJECT CONTEXT",
    "oth": "OTHERS",
}
ERASED = "[redacted]"
VERDICTS = ("helpful", "harmful")
#: What may come of verdicts that two people gave on one citation, neither knowing of the other's.
DECISIONS = ("all", "first", "last")


@dataclass(frozen=True)
class Birth:
    """A bullet as it came into being."""

    key: str
    name: str
    section: str
    text: str
    counters: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Act:
    """Something that was done once, wherever it is known.

    data    with births in place of names
    target  the key of the act that it is about, or nothing
    """

    key: str
    kind: str
    data: Mapping[str, Any]
    target: str = ""
    session: str = ""
    reflection: str = ""
    is_by_person: bool = False


@dataclass
class View:
    """What one machine knows: each act with the step at which it was first done, as far as the
    machine knows.
    """

    acts: dict[str, int] = field(default_factory=dict)
    births: dict[str, Birth] = field(default_factory=dict)
    #: Which birth each name means on this machine.
    names: dict[str, str] = field(default_factory=dict)

    def copy(self) -> View:
        return View(dict(self.acts), dict(self.births), dict(self.names))

    def learn(self, other: View) -> None:
        """Know what another machine knows; names are this machine's own."""
        for key, step in other.acts.items():
            self.acts[key] = min(step, self.acts.get(key, step))
        self.births |= other.births


@dataclass
class Bullet:
    """A bullet at the end of a play.

    since  the step from which verdicts count; `held` is the step up to which a count set by hand
           holds what came from bullets that were merged into it
    """

    birth: Birth
    born: int
    section: str
    text: str
    baseline: tuple[int, int]
    since: int
    held: int = -1
    status: str = "live"
    heir: str = ""
    was_removed: bool = False


@dataclass(frozen=True)
class Verdict:
    key: str
    bullet: str
    kind: str
    step: int
    session: str
    reflection: str
    is_by_person: bool


#: (section, text, status, the heir's text, helpful, harmful) of a bullet, whatever its name.
Holding = tuple[str, str, str, str, int, int]


class Play:
    """What known acts come to, in the order in which they were first done."""

    def __init__(self, acts: Mapping[str, Act], view: View, *, unites_texts: bool = False) -> None:
        self.bullets: dict[str, Bullet] = {}
        self.policy = "as_applied"
        self._steps = view.acts
        self._course = [acts[key] for key, _ in sorted(view.acts.items(), key=lambda item: item[1])]
        self._same = self._twins(view, unites_texts=unites_texts)
        self._erased = {
            (key, act.data["text"])
            for act in self._course
            if act.kind == "redact"
            for key in act.data["acts"]
        }
        self._out = {act.target: act.key for act in self._course if act.kind == "retract"}
        self._completed = {act.reflection: act for act in self._course if act.kind == "completed"}
        for act in self._course:
            self._do(act, view)
        self._verdicts = list(self._standing())

    def bullet_of(self, birth: str) -> str:
        """The birth by which the bullet of a birth is known."""
        return self._same.get(birth, birth)

    def holdings(self, decision: str = "all") -> list[Holding]:
        """Every bullet with its counters, where people's verdicts on one citation met as
        `decision` says.
        """
        dropped = self._dropped(decision)
        return sorted(self._holding(key, dropped) for key in self.bullets)

    def holding(self, birth: str) -> Holding:
        """One bullet with its counters."""
        return self._holding(self.bullet_of(birth), frozenset())

    @property
    def is_contested(self) -> bool:
        """Whether people's verdicts met on a citation."""
        return bool(self._dropped("first"))

    def text(self, birth: str) -> str:
        """A bullet's text, as it is shown."""
        return self.bullets[self.bullet_of(birth)].text

    # Bullets

    def _twins(self, view: View, *, unites_texts: bool) -> dict[str, str]:
        first: dict[tuple[str, str], str] = {}
        same: dict[str, str] = {}
        for act in self._course:
            for key in act.data.get("births", ()):
                birth = view.births[key]
                name = "" if unites_texts else birth.name
                same[key] = first.setdefault((name, birth.text), key)
        return same

    def _do(self, act: Act, view: View) -> None:
        step = self._steps[act.key]
        for key in act.data.get("births", ()):
            birth = view.births[key]
            if self.bullet_of(key) == key:
                text = self._left_of(act, birth.text)
                self.bullets[key] = Bullet(birth, step, birth.section, text, birth.counters, step)
        if act.kind == "policy":
            self.policy = act.data["counting"]
        bullet = self.bullets.get(self.bullet_of(act.data.get("bullet", "")))
        if bullet is None:
            return
        if act.kind == "revise":
            bullet.text = self._left_of(act, act.data["text"])
        elif act.kind == "move":
            bullet.section = act.data["section"]
        elif act.kind == "remove":
            if bullet.status == "merged":
                bullet.was_removed = True
            else:
                bullet.status, bullet.heir = "removed", ""
        elif act.kind == "restore":
            bullet.was_removed = False
            if bullet.status == "removed":
                bullet.status = "live"
        elif act.kind == "recount":
            self._recount(bullet, act, step)
        elif act.kind == "merge":
            for source in map(self.bullet_of, act.data["sources"]):
                if self.bullets[source].status == "live" and self.bullets[source] is not bullet:
                    self.bullets[source].status, self.bullets[source].heir = (
                        "merged",
                        bullet.birth.key,
                    )
        elif act.kind == "unmerge":
            for source in self._sources(bullet.birth.key):
                source.status, source.heir = "removed" if source.was_removed else "live", ""
            if bullet.status == "live":
                bullet.status = "removed"

    def _left_of(self, act: Act, text: str) -> str:
        """A text as redactions left it, which are about what was recorded, not about what is
        recorded later.
        """
        return ERASED if (act.key, text) in self._erased else text

    def _recount(self, bullet: Bullet, act: Act, step: int) -> None:
        bullet.baseline, bullet.since, bullet.held = act.data["counters"], step, step
        if since := act.data.get("since"):
            # A count set by hand was undone: what counted before it counts again.
            bullet.baseline = act.data["former"]
            bullet.since = self._steps.get(since, step)
            is_birth = bullet.birth.key.startswith(since)
            bullet.held = -1 if is_birth else bullet.since

    def _sources(self, key: str) -> list[Bullet]:
        return [one for one in self.bullets.values() if one.status == "merged" and one.heir == key]

    # Counters

    def _is_out(self, key: str) -> bool:
        """Whether a retraction takes an act out of the count, which none takes back."""
        return key in self._out and not self._is_out(self._out[key])

    def _standing(self) -> Iterator[Verdict]:
        for act in self._course:
            if act.kind != "tag" or act.data["tag"] not in VERDICTS or not act.data["bullet"]:
                continue
            done = self._completed.get(act.reflection)
            if not any(
                self._is_out(key)
                for key in (act.key, done.key if done else "", done.target if done else "")
            ):
                bullet, step = self.bullet_of(act.data["bullet"]), self._steps[act.key]
                own = act.session, act.reflection, act.is_by_person
                yield Verdict(act.key, bullet, act.data["tag"], step, *own)

    def _dropped(self, decision: str) -> frozenset[str]:
        """The verdicts of people that another person's verdict on the same citation takes the
        place of.
        """
        if decision == "all":
            return frozenset()
        met: dict[tuple[str, str], list[Verdict]] = {}
        for act in self._course:
            if act.kind == "tag" and act.is_by_person:
                done = self._completed[act.reflection]
                if not any(self._is_out(key) for key in (act.key, done.key, done.target)):
                    verdict = Verdict(
                        act.key, "", "", self._steps[act.key], act.session, act.reflection, True
                    )
                    met.setdefault((act.session, self.bullet_of(act.data["bullet"])), []).append(
                        verdict
                    )
        keep = 0 if decision == "first" else -1
        return frozenset(
            one.key for together in met.values() for one in together if one is not together[keep]
        )

    def _gathered(
        self, key: str
    ) -> tuple[dict[str, Verdict], dict[str, tuple[tuple[int, int], int]]]:
        """The verdicts and baselines that count for a bullet, those of its sources included."""
        bullet = self.bullets[key]
        verdicts = {
            one.key: one for one in self._verdicts if one.bullet == key and one.step > bullet.since
        }
        baselines = {key: (bullet.baseline, bullet.since)}
        for source in self._sources(key):
            theirs, there = self._gathered(source.birth.key)
            verdicts |= {k: one for k, one in theirs.items() if one.step > bullet.held}
            baselines |= {k: one for k, one in there.items() if one[1] > bullet.held}
        return verdicts, baselines

    def _holding(self, key: str, dropped: frozenset[str]) -> Holding:
        bullet = self.bullets[key]
        verdicts, baselines = self._gathered(key)
        totals = []
        for number, kind in enumerate(VERDICTS):
            of_kind = [
                one for one in verdicts.values() if one.kind == kind and one.key not in dropped
            ]
            members = {self._member(one) for one in of_kind}
            totals.append(
                sum(counters[number] for counters, _ in baselines.values()) + len(members)
            )
        heir = self.bullets[bullet.heir].text if bullet.status == "merged" else ""
        return SECTIONS[bullet.section], bullet.text, bullet.status, heir, totals[0], totals[1]

    def _member(self, verdict: Verdict) -> str:
        if self.policy == "once_per_session":
            return verdict.session or verdict.key
        if self.policy == "once_per_reflection":
            return verdict.reflection or verdict.key
        return verdict.key
