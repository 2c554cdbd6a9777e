"""The steps of a bullet's counters, each with its session, its verdict and its reason.

Invariant: the running totals end at the counters that the playbook shows under the current policy.
A tag that does not count is listed too, with the reason. `blame`, the report and the MCP server use
this module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.events.bullets import UNCOUNTED
from reflector.events.event import (
    BULLET_CHECKED,
    BULLET_MERGED,
    BULLET_RECOUNTED,
    HUMAN,
    PLAYBOOK_IMPORTED,
    REFLECTION_ANSWERED,
    RESTATED,
    Event,
    completion_id,
)
from reflector.events.sessions import quoted_in, rationale_of, said_wrong
from reflector.handover import words
from reflector.ledger.as_of import Past
from reflector.ledger.reader import whose

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: The reason why a tag does not count if a merge recounted its bullet.
IN_A_MERGE = "a merged rule's counters include this verdict, or you set the counters by hand"


class UnknownBullet(LookupError):
    """The ledger never had a bullet of this name."""


# Not frozen, because these are printed once and a frozen class takes three times as long to define
# at each start.
@dataclass
class Cause:
    """The event because of which a verdict does not count: a retraction, a recount, or the verdict
    that counts instead.
    """

    position: int
    event_id: str
    recorded_at: str
    actor: str
    reason: str | None


@dataclass
class Evidence:
    """The places of a verdict's evidence.

    window      the position of the event that recorded this part of the session
    answer      the position of the judge's answer
    transcript  the transcript of the session
    """

    window: int | None
    answer: int | None
    transcript: str | None


@dataclass(kw_only=True)
class Step:
    """One event that set or changed a rule's counters, or would have changed them.

    name        the rule that the event is about: this rule, or a rule that was merged into it
    tag         the verdict: helpful, harmful or neutral; None if the event set the counters
    counted     whether the event counts now
    followed    whether the agent followed the rule: yes, no, unclear; None if no judge answered
    words       the source of the judge's quote: person or run; if the verdict does not count, the
                source may be another one
    turn        the number of the quoted turn among the turns that the judge was shown
    sure        the judge's own word for its certainty
    unquoted    whether the verdict counts without a quote, because the user's own template does not
                ask for a quote
    disposition  counted, neutral, unknown_bullet, … as in the event; checked for a finding of
                `reflector check` that does not count; retracted, recounted or double for a verdict
                that no longer counts; baseline for a start value, undone for an undone start value,
                undo for the change that undid this start value
    helpful, harmful   the totals after this step
    prompt_sha256, template_sha256   of the judge's question; None if the judge did not use a prompt
    uncounted_by       the event because of which a verdict no longer counts; None for any other
    said_wrong  the agent's reason why it called the rule wrong in this part of the session; ""
                without a reason, None if the agent did not call the rule wrong
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
        """The reason why it does not count; "" if it counts or is neutral."""
        if self.counted or self.disposition == "neutral":
            return ""
        reason = UNCOUNTED.get(self.disposition) or self.disposition.replace("_", " ")
        cause = self.uncounted_by
        if cause is None:
            return f"not counted: {reason}"
        if self.disposition == "double":
            return f"not counted: {reason}, at position {cause.position}"
        detail = f": {cause.reason}" if cause.reason else ""
        return f"not counted: {reason} by {cause.actor} at position {cause.position}{detail}"


def blame_bullet(ledger: Ledger, name: str, past: Past | None = None) -> list[Step]:
    """Return the steps of a bullet's counters, oldest first, as of now or of a moment.

    Raises:
        UnknownBullet: no bullet had this name at the moment.
        LedgerError: the ledger cannot be read.
    """
    with ledger.snapshot():
        then = past or Past(ledger)
        if then.row(name) is None:
            if past is None and ledger.row(name):
                then.family(name)  # raises, because only the table has the bullet
            raise UnknownBullet(name)
        return blame_bullets(ledger, [name], then)[name]


def blame_bullets(ledger: Ledger, names: Collection[str], then: Past) -> dict[str, list[Step]]:
    """Return the steps of each of these bullets, which must have existed at the moment.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    history = _History(ledger, then, {name: then.family(name) for name in names})
    return {name: _Blame(history, name).steps() for name in names}


class _History:
    """The data of the ledger about the bullets of some families.

    It is read in a few queries, because one query for each bullet would be a hundred.

    tags      the verdicts, and the answers of checks without a verdict, by bullet
    recounts  the events that set a bullet's counters by hand, by bullet
    events    the events of the tags and those that added the bullets, by position
    imported  the entries of each import by name, by the position of the import
    """

    def __init__(
        self, ledger: Ledger, then: Past, families: Mapping[str, Mapping[str, int]]
    ) -> None:
        self.then = then
        self.families = families
        self.standing = Standing(then)
        members = {name for family in families.values() for name in family}
        self.births = {name: then.entries[name].position for name in members}
        self.tags = self._read_tags(ledger)
        self.recounts = self._read_recounts(ledger)
        # Read them in one query, because an import may have as many bytes as all tags together.
        positions = {tag.position for tags in self.tags.values() for tag in tags}
        self.events = ledger.all_at(positions | {*self.births.values()})
        imports = [event for event in self.events.values() if event.type == PLAYBOOK_IMPORTED]
        self.imported = {
            event.position: {
                str(entry.get("name")): entry for entry in reversed(event.fact("bullets", ()))
            }
            for event in imports
        }
        self.judged = _judged(ledger, self.events.values())
        retraction_ids = set(self.standing.retractions.values())
        self.retractions = {event.event_id: event for event in ledger.having(retraction_ids)}

    def _read_tags(self, ledger: Ledger) -> Mapping[str, list[Verdict]]:
        """Return the verdicts on each bullet, and the answers of checks that do not count."""
        tags: dict[str, list[Verdict]] = defaultdict(list)
        with ledger.asking() as sql:
            for tag in verdicts_in(sql, self.then.position, self.births.keys()):
                tags[tag.name].append(tag)
        for event in ledger.events(types=[BULLET_CHECKED], upto=self.then.position):
            name = _name_in(event)
            # An answer that counts has its own tag.
            if name in self.births and event.fact("disposition") != "counted":
                tags[name].append(
                    Verdict(event.position, name, 0, event.session_id, event.reflection_id)
                )
        return tags

    def _read_recounts(self, ledger: Ledger) -> Mapping[str, list[Event]]:
        """Return the recounts of each bullet after the event that added it."""
        recounts: dict[str, list[Event]] = defaultdict(list)
        first = min(self.births.values(), default=0)
        upto = self.then.position
        for event in ledger.events(types=[BULLET_RECOUNTED], after=first, upto=upto):
            name = _name_in(event)
            if name in self.births and event.position > self.births[name]:
                recounts[name].append(event)
        return recounts

    def values_in(self, event: Event, name: str) -> Mapping[str, Any] | None:
        """Return the fields of an event about a bullet; None if it has none."""
        bullets = self.imported.get(event.position, {_name_in(event): event.facts})
        return bullets.get(name)


class _Blame:
    """The steps of a bullet and of all bullets that were merged into it.

    The evidence of the merged bullets counts for this bullet.
    """

    def __init__(self, history: _History, name: str) -> None:
        self.history = history
        self.name = name
        self.then = history.then
        self.family = history.families[name]
        self.totals = {1: 0, -1: 0}
        self.baselines: dict[str, tuple[int, int]] = {}
        recounts = [event for member in self.family for event in history.recounts.get(member, ())]
        self.recounts = sorted(recounts, key=lambda event: event.position)
        self.undone = {event.target_id: event for event in self.recounts if "since" in event.facts}

    def steps(self) -> list[Step]:
        """Return the steps of the family, oldest first."""
        history = self.history
        events: list[tuple[Event, str | Verdict]] = [
            (event, _name_in(event)) for event in self.recounts
        ]
        for name in self.family:
            events.append((history.events[history.births[name]], name))
            events += [(history.events[tag.position], tag) for tag in history.tags[name]]
        events.sort(key=lambda pair: pair[0].position)
        steps = (
            self._baseline(event, subject)
            if isinstance(subject, str)
            else self._judgement(event, subject)
            for event, subject in events
        )
        return [step for step in steps if step]

    def _judgement(self, event: Event, verdict: Verdict) -> Step:
        """Return the step of a verdict, or of an answer of `check`. Add the verdict to the totals
        if it counts.
        """
        data = dict(event.facts)
        tag = data.get("tag")
        disposition = words(data, "disposition") or "malformed"
        cause: Event | None = None
        if disposition == "counted":
            disposition, cause = self._disposition_now(verdict)
        if event.type == BULLET_CHECKED:
            reading_id = completion_id(event.reflection_id)
            ids = (event.event_id, reading_id, event.target_id)
            disposition = disposition if all(map(self.then.is_active, ids)) else "retracted"
        if disposition == "counted":
            self.totals[verdict.tag] += 1
        judged = self.history.judged.get(event.reflection_id or "", _Reflection({}, {}, {}, None))
        return self._step(
            event,
            name=verdict.name,
            tag=str(tag) if tag is not None else None,
            counted=disposition == "counted",
            disposition=disposition,
            rationale=rationale_of(judged.completed, data),
            followed=_text(data, "followed"),
            **quoted_in(judged.completed, data),
            unquoted=data.get("unquoted") is True,
            backend=words(judged.completed, "backend") or event.actor,
            model=_text(judged.completed, "model"),
            prompt_sha256=_text(judged.answer, "prompt_sha256"),
            template_sha256=_text(judged.answer, "template_sha256"),
            evidence=judged.evidence,
            uncounted_by=_cause(cause),
            said_wrong=said_wrong(judged.window, verdict.name),
        )

    def _disposition_now(self, verdict: Verdict) -> tuple[str, Event | None]:
        """Return whether a verdict still counts that counted when it was given: "counted", or the
        reason as in `Step.disposition`, with the event that caused it.
        """
        if not verdict.tag:
            return "malformed", None
        standing = self.history.standing
        # A verdict on a merged bullet counts for this bullet only if it is newer than its counters.
        counts_after = self.family[verdict.name]
        fault = standing.fault(verdict, counts_after)
        if fault == "recounted":
            return fault, self._recount_after(verdict)
        if fault == "retracted":
            return fault, self.history.retractions.get(standing.retractions[verdict.position])
        if fault is not None:
            return fault, None
        first = standing.repeats(self.name, verdict)
        return ("counted", None) if first is None else ("double", self.history.events[first])

    def _recount_after(self, verdict: Verdict) -> Event:
        """Return the event that set the counters after a verdict and was not undone."""
        counted_for = {verdict.name, *self.then.heirs(verdict.name)}
        recounts = [event for event in self.recounts if _name_in(event) in counted_for]
        later = [
            event
            for event in recounts
            if event.position > verdict.position and not self._is_undone(event)
        ]
        # The last recount of a merge includes the tags of both machines. Without a merge, the first
        # recount is the reason.
        return later[-1] if RESTATED in later[-1].meta else later[0]

    def _is_undone(self, recount: Event) -> bool:
        """Return whether a recount was undone. A bullet counts from its last valid recount."""
        return recount.position > self.then.entries[_name_in(recount)].recounted_at

    def _baseline(self, event: Event, name: str) -> Step | None:
        """Return the step of an event that sets a bullet's start value; None if it sets none, or
        0/0. A recount replaces the start values of the whole family.
        """
        values = self.history.values_in(event, name)
        if values is None:
            return None
        is_recount = event.type == BULLET_RECOUNTED
        is_merge = event.type == BULLET_MERGED
        baseline = (values.get("helpful", 0), values.get("harmful", 0))
        if baseline == (0, 0) and not (is_recount or is_merge):
            return None
        if is_recount and self._is_undone(event):
            return self._undoing(event, name, values)
        if is_recount:
            # It contains the earlier counts, including the baselines of its sources.
            for member in self.then.family(name):
                self.baselines.pop(member, None)
        self.baselines[name] = baseline
        reason = f"{_origin(event)} with {baseline[0]} helpful, {baseline[1]} harmful"
        if is_merge:
            reason = f"merged from {', '.join(values.get('sources', ()))}"
        return self._step(
            event, name=name, tag=None, counted=True, disposition="baseline", rationale=reason
        )

    def _undoing(self, event: Event, name: str, data: Mapping[str, Any]) -> Step:
        """Return the step of an undone recount, or of the undoing."""
        is_undo = "since" in data
        reason = f"set by hand with {data.get('helpful')} helpful, {data.get('harmful')} harmful"
        if is_undo:
            earlier = (
                f"{data.get('baseline_helpful')} helpful, {data.get('baseline_harmful')} harmful"
            )
            reason = f"undone; the counters continue from {earlier}"
        return self._step(
            event,
            name=name,
            tag=None,
            counted=is_undo,
            disposition="undo" if is_undo else "undone",
            rationale=reason,
            uncounted_by=None if is_undo else _cause(self.undone.get(event.event_id)),
        )

    def _step(self, event: Event, **values: Any) -> Step:
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


def _name_in(event: Event) -> str:
    return str(event.fact("name"))


def _origin(event: Event) -> str:
    """Return the origin of a start value in words."""
    if RESTATED in event.meta:
        return "counted again after a merge of two ledgers,"
    if event.type == PLAYBOOK_IMPORTED:
        return "imported"
    if event.type == BULLET_RECOUNTED:
        return f"set by {'hand' if event.actor == HUMAN else event.actor}"
    return "added"


class _Reflection(NamedTuple):
    """A reflection: the data of its completion, its answer and its window, and its evidence."""

    completed: dict[str, Any]
    answer: dict[str, Any]
    window: dict[str, Any]
    evidence: Evidence | None

    @classmethod
    def of_completion(
        cls, completed: Event, window: Event | None, answers: Sequence[Event]
    ) -> _Reflection:
        """Return the reflection of a completion.

        answers  the answers of its judge about the window
        """
        # A reading of an old answer by a newer parser has its own id. It belongs to the last
        # answer before it.
        earlier = [answer for answer in answers if answer.position < completed.position]
        answer = earlier[-1] if earlier else None
        window_data = dict(window.facts) if window else {}
        transcript = window_data.get("transcript")
        evidence = Evidence(
            window.position if window else None,
            answer.position if answer else None,
            _text(transcript, "path") if isinstance(transcript, dict) else None,
        )
        answer_data = dict(answer.facts) if answer else {}
        return cls(dict(completed.facts), answer_data, window_data, evidence)


def _judged(ledger: Ledger, tags: Iterable[Event]) -> dict[str, _Reflection]:
    """Return the reflections of tags, by their id."""
    completions = ledger.having({completion_id(tag.reflection_id) for tag in tags})
    window_ids = {event.target_id for event in completions if event.target_id}
    windows = {event.event_id: event for event in ledger.having(window_ids)}
    answers: dict[tuple[str | None, str], list[Event]] = defaultdict(list)
    where = f"{whose([REFLECTION_ANSWERED])} AND target_id IN ? ORDER BY position"
    for event in ledger.matching(where, window_ids):
        answers[event.target_id, event.actor].append(event)
    return {
        completed.reflection_id or "": _Reflection.of_completion(
            completed,
            windows.get(completed.target_id or ""),
            answers[completed.target_id, completed.actor],
        )
        for completed in completions
    }


def _text(data: dict[str, Any], key: str) -> str | None:
    return words(data, key) or None


def _cause(event: Event | None) -> Cause | None:
    if event is None:
        return None
    is_merge = event.type == BULLET_RECOUNTED and RESTATED in event.meta
    reason = IN_A_MERGE if is_merge else event.fact("reason")
    return Cause(
        event.position,
        event.event_id,
        event.recorded_at,
        event.actor,
        str(reason) if reason else None,
    )
