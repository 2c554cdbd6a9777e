"""Why a bullet's counters are what they are: every step of them, with the session, the verdict and
the reason.

Invariant: the running totals end at the counters that the playbook shows, under the policy in
force; a tag that does not count is listed too, with the reason it does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.events import event as ev
from reflector.events.bullets import DROPPED
from reflector.events.event import RESTATED, Event, identity
from reflector.events.sessions import quoted_in, rationale_of, said_wrong
from reflector.handover import words
from reflector.ledger.as_of import Past
from reflector.ledger.reader import events_where, whose

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Why a tag does not count by itself whose bullet a merge recounted.
IN_A_MERGE = "what the merge counted holds it, unless counters set by hand had taken it out"


class UnknownBullet(LookupError):
    """No bullet of this name was ever in the ledger."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The event because of which a tag is not in the count: a retraction, a recount, the tag
    that counts instead.
    """

    position: int
    event_id: str
    recorded_at: str
    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where to read on: positions of the window and of the judge's answer, and the transcript
    that the window is of.
    """

    window: int | None
    answer: int | None
    transcript: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event that set, moved or failed to move a bullet's counters.

    name        the bullet that the event is about: this one, or one that was merged into it
    tag         helpful, harmful, neutral, or None for a baseline (imported, added with counts,
                recounted)
    counted     whether it is in the count today
    followed    whether the agent did as the bullet says: yes, no, unclear; None where no judge said
                so
    words       whose words the judge quotes: person, run; of a verdict that was dropped also those
                of what proves nothing. `turn` counts what the judge was shown, `sure` is its word
                for how sure it is
    unquoted    whether it counts without a quote, since the person's own template asked for none
    disposition counted, neutral, unknown_bullet, … as the event says; checked for what `reflector
    check` found and
                does not count; retracted, recounted or double for a counted tag that is not in the
                count today; baseline for a start value, undone for one that was undone, undo for
                what undid it
    helpful, harmful   the totals after this step
    prompt_sha256, template_sha256   of what the judge was asked; None if the judge has no prompt
    uncounted_by       None for a tag that counts and for one that never could
    said_wrong  why the agent called the bullet wrong in that window, "" where it did not say; None
                where it did not
    """

    position: int
    recorded_at: str
    occurred_at: str
    session_id: str | None
    reflection_id: str | None
    name: str
    tag: str | None
    counted: bool
    disposition: str
    rationale: str | None
    followed: str | None = None
    words: str | None = None
    quote: str | None = None
    turn: int | None = None
    sure: str | None = None
    unquoted: bool = False
    backend: str | None = None
    model: str | None = None
    helpful: int
    harmful: int
    event_id: str
    prompt_sha256: str | None = None
    template_sha256: str | None = None
    evidence: Evidence | None = None
    uncounted_by: Cause | None = None
    said_wrong: str | None = None

    @property
    def uncounted(self) -> str:
        """Why it does not count; "" of one that does, and of a neutral one, which never could."""
        if self.counted or self.disposition == "neutral":
            return ""
        told = f"not counted: {DROPPED.get(self.disposition) or self.disposition.replace('_', ' ')}"
        by = self.uncounted_by
        if by is None:
            return told
        if self.disposition == "double":
            return f"{told}, position {by.position} counts"
        return f"{told} by {by.actor} at {by.position}{f': {by.reason}' if by.reason else ''}"


def blame(ledger: Ledger, name: str, past: Past | None = None) -> list[Step]:
    """The steps of a bullet's counters, oldest first, as of now or of a moment. Raises
    UnknownBullet, LedgerError.
    """
    with ledger.snapshot():
        then = past or Past(ledger)
        if then.row(name) is None:
            if past is None and ledger.row(name) is not None:
                then.family(name)  # raises: a table alone has the bullet
            raise UnknownBullet(name)
        return blames(ledger, [name], then)[name]


def blames(ledger: Ledger, names: Collection[str], then: Past) -> dict[str, list[Step]]:
    """The steps of each of these bullets, which are all there at the moment. Raises LedgerError."""
    known = _Known(ledger, then, {name: then.family(name) for name in names})
    return {name: _Blame(known, name).steps() for name in names}


class _Known:
    """What the ledger says of the bullets of some families, asked for once: a question each
    would be a hundred.
    """

    def __init__(
        self, ledger: Ledger, then: Past, families: Mapping[str, Mapping[str, int]]
    ) -> None:
        self.then, self.families = then, families
        self.standing = Standing(then)
        members = {name for family in families.values() for name in family}
        self.births = {name: then.entries[name].position for name in members}
        self.tags: dict[str, list[Verdict]] = defaultdict(list)
        with ledger.asking() as sql:
            for tag in verdicts_in(sql, then.position, members):
                self.tags[tag.name].append(tag)
        for one in ledger.events(types=[ev.BULLET_CHECKED], upto=then.position):
            name = str(one.facts.get("name"))
            # that has a tag of its own
            if name in members and one.facts.get("disposition") != "counted":
                self.tags[name].append(
                    Verdict(one.position, name, 0, one.session_id, one.reflection_id)
                )
        first = min(self.births.values(), default=0)
        recounts = ledger.events(types=[ev.BULLET_RECOUNTED], after=first, upto=then.position)
        self.recounts: dict[str, list[Event]] = defaultdict(list)
        for event in recounts:
            if event.position > self.births.get(
                name := str(event.facts.get("name")), then.position
            ):
                self.recounts[name].append(event)
        # All in one question; an import may hold as many bytes as the tags together and is read
        # once.
        positions = {tag.position for tags in self.tags.values() for tag in tags}
        self.events = ledger.all_at(positions | {*self.births.values()})
        #: The entries of each import, by their names.
        self.imported = {
            position: {
                str(item.get("name")): item for item in reversed(event.facts.get("bullets", ()))
            }
            for position, event in self.events.items()
            if event.type == ev.PLAYBOOK_IMPORTED
        }
        self.judged = _judged(ledger, self.events.values())
        self.retractions = {
            one.event_id: one for one in ledger.having(set(self.standing.retractions.values()))
        }


class _Blame:
    """The steps of a bullet, and of all whose evidence counts for it because they were merged
    into it.
    """

    def __init__(self, known: _Known, name: str) -> None:
        self.known, self.name = known, name
        self.then, self.standing = known.then, known.standing
        self.family = known.families[name]
        self.totals = {1: 0, -1: 0}
        self.baselines: dict[str, tuple[int, int]] = {}
        recounts = ((event, of) for of in self.family for event in known.recounts.get(of, ()))
        self.all_recounts = sorted(recounts, key=lambda one: one[0].position)
        #: Those that were not undone: a bullet counts from the last of them.
        self.recounts = [
            (e, of)
            for e, of in self.all_recounts
            if e.position <= self.then.entries[of].recounted_at
        ]
        self.undone = {
            event.target_id: event for event, _ in self.all_recounts if "since" in event.facts
        }

    def steps(self) -> list[Step]:
        known, found = self.known, list[tuple[Event, str | Verdict]](self.all_recounts)
        for name in self.family:
            found.append((known.events[known.births[name]], name))
            found += [(known.events[tag.position], tag) for tag in known.tags[name]]
        found.sort(key=lambda one: one[0].position)
        steps = (
            self._baseline(one, of) if isinstance(of, str) else self._judgement(one, of)
            for one, of in found
        )
        return [step for step in steps if step is not None]

    def _judgement(self, event: Event, verdict: Verdict) -> Step:
        data = dict(event.facts)
        tag, disposition = data.get("tag"), words(data, "disposition") or "malformed"
        cause: Event | None = None
        if disposition == "counted":
            disposition, cause = self._standing_of(verdict)
        if event.type == ev.BULLET_CHECKED:
            done = identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
            is_active = all(map(self.then.is_active, (event.event_id, done, event.target_id)))
            disposition = disposition if is_active else "retracted"
        if counts := disposition == "counted":
            self.totals[verdict.tag] += 1
        judged = self.known.judged.get(event.reflection_id or "", _Judged({}, {}, {}, None))
        return self._made(
            event,
            name=verdict.name,
            tag=str(tag) if tag is not None else None,
            counted=counts,
            disposition=disposition,
            rationale=rationale_of(judged.completed, data),
            followed=words(data, "followed") or None,
            **quoted_in(judged.completed, data),
            unquoted=data.get("unquoted") is True,
            backend=words(judged.completed, "backend") or event.actor,
            model=words(judged.completed, "model") or None,
            prompt_sha256=words(judged.answer, "prompt_sha256") or None,
            template_sha256=words(judged.answer, "template_sha256") or None,
            evidence=judged.evidence,
            uncounted_by=_cause(cause),
            said_wrong=said_wrong(judged.window, verdict.name),
        )

    def _standing_of(self, verdict: Verdict) -> tuple[str, Event | None]:
        """Return what became of a verdict that was given to be counted, and by which event it
        does not count.
        """
        if not verdict.tag:
            return "malformed", None
        fault = self.standing.fault(verdict, self.family[verdict.name])
        if fault == "recounted":
            held = {verdict.name, *self.then.heirs(verdict.name)}
            later = [
                event
                for event, of in self.recounts
                if of in held and verdict.position < event.position
            ]
            # What a merge says in the end has both machines' tags in it; else the first that set
            # the counters did it.
            return fault, later[-1] if RESTATED in later[-1].meta else later[0]
        if fault == "retracted":
            return fault, self.known.retractions.get(self.standing.retractions[verdict.position])
        if fault is None and (first := self.standing.repeats(self.name, verdict)) is not None:
            return "double", self.known.events[first]
        return fault or "counted", None

    def _baseline(self, event: Event, name: str) -> Step | None:
        items = self.known.imported.get(event.position, {str(event.facts.get("name")): event.facts})
        values = items.get(name)
        if values is None:
            return None
        baseline = (values.get("helpful", 0), values.get("harmful", 0))
        if event.type not in (ev.BULLET_RECOUNTED, ev.BULLET_MERGED) and baseline == (0, 0):
            return None
        if (
            event.type == ev.BULLET_RECOUNTED
            and event.position > self.then.entries[name].recounted_at
        ):
            return self._undoing(event, name, values)
        if event.type == ev.BULLET_RECOUNTED:
            # What it says holds what was counted for it before, its sources' baselines included.
            for held in self.then.family(name):
                self.baselines.pop(held, None)
        self.baselines[name] = baseline
        by = "hand" if event.actor == "human" else event.actor
        how = {ev.PLAYBOOK_IMPORTED: "imported", ev.BULLET_RECOUNTED: f"set by {by}"}.get(
            event.type, "added"
        )
        if RESTATED in event.meta:
            how = "counted by a merge, in one order for both ledgers,"
        reason = f"{how} with {baseline[0]} helpful, {baseline[1]} harmful"
        if event.type == ev.BULLET_MERGED:
            reason = f"merged from {', '.join(values.get('sources', ()))}"
        return self._made(
            event, name=name, tag=None, counted=True, disposition="baseline", rationale=reason
        )

    def _undoing(self, event: Event, name: str, data: Mapping[str, Any]) -> Step:
        """Return the step of counters that were set by hand and undone since, or of the undoing."""
        if "since" in data:
            of = f"{data.get('baseline_helpful')}/{data.get('baseline_harmful')}"
            values: dict[str, Any] = {
                "counted": True,
                "disposition": "undo",
                "rationale": f"counts on from {of} again",
            }
        else:
            how = f"set by hand with {data.get('helpful')} helpful, {data.get('harmful')} harmful"
            by = _cause(self.undone.get(event.event_id))
            values = {
                "counted": False,
                "disposition": "undone",
                "rationale": how,
                "uncounted_by": by,
            }
        return self._made(event, name=name, tag=None, **values)

    def _made(self, event: Event, **values: Any) -> Step:
        return Step(
            position=event.position,
            recorded_at=event.recorded_at,
            occurred_at=event.occurred_at,
            session_id=event.session_id,
            reflection_id=event.reflection_id,
            helpful=sum(helpful for helpful, _ in self.baselines.values()) + self.totals[1],
            harmful=sum(harmful for _, harmful in self.baselines.values()) + self.totals[-1],
            event_id=event.event_id,
            **values,
        )


class _Judged(NamedTuple):
    """What is known of a reflection: the data of its completion, its answer and its window, and
    where to read on.
    """

    completed: dict[str, Any]
    answer: dict[str, Any]
    window: dict[str, Any]
    evidence: Evidence | None


def _judged(ledger: Ledger, tags: Iterable[Event]) -> dict[str, _Judged]:
    """Return what is known of the tags' reflections, by their id."""
    completions = ledger.having(
        {identity(ev.REFLECTION_COMPLETED, tag.reflection_id or "") for tag in tags}
    )
    targets = {event.target_id for event in completions if event.target_id}
    windows = {one.event_id: one for one in ledger.having(targets)}
    answers: dict[tuple[str | None, str], list[Event]] = defaultdict(list)
    with ledger.asking() as sql:
        of_windows = f"{whose([ev.REFLECTION_ANSWERED])} AND target_id IN ? ORDER BY position"
        for one in events_where(sql, of_windows, targets):
            answers[one.target_id, one.actor].append(one)
    found = {}
    for event in completions:
        window = windows.get(event.target_id or "")
        # A reading of an old answer by a newer parser has an id of its own: the judge's last answer
        # before it counts.
        given = answers[event.target_id, event.actor]
        answer = next((one for one in reversed(given) if one.position < event.position), None)
        completed, seen, said = (
            dict((one.data if one else None) or {}) for one in (event, window, answer)
        )
        read = seen.get("transcript")
        path = words(read, "path") or None if isinstance(read, dict) else None
        where = Evidence(
            window.position if window else None, answer.position if answer else None, path
        )
        found[event.reflection_id or ""] = _Judged(completed, said, seen, where)
    return found


def _cause(event: Event | None) -> Cause | None:
    if event is None:
        return None
    is_merge = event.type == ev.BULLET_RECOUNTED and RESTATED in event.meta
    reason = IN_A_MERGE if is_merge else event.facts.get("reason")
    return Cause(
        event.position,
        event.event_id,
        event.recorded_at,
        event.actor,
        str(reason) if reason else None,
    )
