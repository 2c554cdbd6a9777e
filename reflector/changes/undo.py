"""Undoing what happened: changes of the playbook by changes that take them back, and evidence by
what counts no more.

Invariant: what was undone is computed from the history: the bullets before and after the events are
compared, and each difference is taken back. Where a later change is in the way, it is named and
nothing is undone. Counts that came since stay. Each event that undoes another points to it, so the
next `undo` goes further back.

Nothing is subtracted: a retraction makes the set of counted tags smaller, and undoing it is a
retraction of the retraction. An event is retracted at most once, so the retractions that follow
from one are a line, and only its last one may be retracted next. An adoption of a policy that takes
another one back points to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from reflector.changes.apply import BulletRefused
from reflector.events import event as ev
from reflector.events.bullets import TYPE_OF
from reflector.events.event import Appended, Event, NewEvent, identity, tx_of
from reflector.events.registry import EVENT_TYPES, WINDOW_TYPES, names_in
from reflector.events.state import REDACTED, Entry
from reflector.ledger.as_of import Past
from reflector.ledger.errors import AlreadyRetracted, LedgerError
from reflector.playbook.change import Change
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger
    from reflector.playbook.bullet import Counting

#: Types of events that change bullets, apart from counts.
CHANGING: Final = frozenset({ev.PLAYBOOK_IMPORTED, *TYPE_OF.values()})
_REMOVING: Final = frozenset({ev.BULLET_REMOVED, ev.BULLET_UNMERGED})
_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "revise": ("text",),
    "move": ("section",),
    **dict.fromkeys(("remove", "unmerge"), ("status", "text", "section")),
}
_ORDER: Final = ("restore", "unmerge", "revise", "move", "merge", "recount", "watch", "remove")
_MAX_REASON: Final = 500
_Entries = Mapping[str, Entry]


class NothingToUndo(BulletRefused):
    """What was named is undone already, was never a change, or cannot be undone; the text says
    which.
    """


class Undoing(NamedTuple):
    """What undoes events that stand in a row: the changes, and by the name of each bullet the event
    that is undone, and what counts again where that set its counters.
    """

    changes: Sequence[Change]
    targets: Mapping[str, str]
    baselines: Mapping[str, Mapping[str, object]]


def undone(ledger: Ledger) -> dict[str, int]:
    """Return the position of the event that undid a change of a bullet or took evidence out of the
    count, by the id of the change, of its approval, or of the evidence.
    """
    types = {*CHANGING, ev.EVIDENCE_RETRACTED, ev.POLICY_ADOPTED, ev.CHANGE_APPROVED}
    events = {one.event_id: one for one in ledger.events(types=types)}
    made: dict[str | None, list[str]] = {}
    for event in events.values():
        if event.type in CHANGING:
            made.setdefault(event.target_id, []).append(event.event_id)
    found: dict[str, int] = {}
    whole: dict[tuple[str, str], int] = {}
    for event in reversed(events.values()):
        if event.target_id is None or not (
            event.target_id in events or event.type == ev.EVIDENCE_RETRACTED
        ):
            continue
        # What undid a change in one append, such as the making again of a merge, is undone as one.
        if (position := whole.get((event.target_id, event.recorded_at))) is not None:
            found.setdefault(event.event_id, position)
        if event.event_id not in found:
            found[event.target_id] = event.position
            changed = events.get(event.target_id)
            if changed is not None and changed.target_id in events:
                whole[changed.target_id or "", changed.recorded_at] = event.position
    for event in events.values():
        of = made.get(event.target_id, ())
        if event.type == ev.CHANGE_APPROVED and of and all(id in found for id in of):
            found.setdefault(event.event_id, found[of[-1]])
    return found


def undo_of(event: Event, gone: Mapping[str, int], command: str) -> str | None:
    """Return the command that undoes an event, or where it was undone; None for one that changed
    nothing.

    `gone` is what `undone` returns, and `command` that of `reflector undo`.
    """
    if event.event_id in gone:
        return f"undone at {gone[event.event_id]}"
    one = EVENT_TYPES.get(event.type)
    undoable = event.type in {*CHANGING, ev.CHANGE_APPROVED, ev.POLICY_ADOPTED}
    undoable = undoable or (event.type == ev.LEDGER_MERGED and tx_of(event.meta) is not None)
    return (
        f"{command} {event.position}"
        if undoable or (one is not None and not one.no_retraction)
        else None
    )


def last_change(ledger: Ledger, name: str) -> list[Event]:
    """Return the last change of a bullet that was not undone and that undid none; of a removed
    bullet, its removal.

    What undid an undoing stands for the change that it made again. Raises NothingToUndo.
    """
    events = {event.event_id: event for event in ledger.events(types=CHANGING)}
    gone = undone(ledger)
    standing: dict[str, Event] = {}
    removal: Event | None = None
    for event in events.values():
        if event.event_id in gone or name not in names_in(event.type, event.data or {}):
            continue
        if event.type in _REMOVING:
            removal = event
        chain = [event]
        while (before := events.get(chain[-1].target_id or "")) is not None:
            chain.append(before)
        if len(chain) % 2:
            standing[event.event_id] = event
            for before in chain[1:]:
                standing.pop(before.event_id, None)
    row = ledger.row(name)
    if row is not None and row.status == "removed" and removal is not None:
        return [removal]
    if not standing:
        raise NothingToUndo(f"{name} has no change that is not undone; see `reflector log`")
    *_, last = standing.values()
    return [last]


class Import(NamedTuple):
    """What the import of another machine's ledger brought, or what took one back: changes of
    bullets, and evidence with adoptions of policies.
    """

    changes: Sequence[Event]
    evidence: Sequence[Event]


def imported(ledger: Ledger, merged: Event) -> Import:
    """Return what came with a `ledger.merged`. Raises NothingToUndo for one of an older version,
    which has no transaction id.
    """
    tx = tx_of(merged.meta)
    if tx is None:
        raise NothingToUndo(
            f"the import at position {merged.position} was recorded by an older version, so its "
            "events cannot be told "
            "from others; undo its changes by their positions, such as `reflector undo 41..43`"
        )
    types = {
        *CHANGING,
        *WINDOW_TYPES,
        ev.EVIDENCE_RETRACTED,
        ev.REFLECTION_COMPLETED,
        ev.POLICY_ADOPTED,
    }
    events = [event for event in ledger.events(types=types) if tx_of(event.meta) == tx]
    windows = {event.event_id for event in events if event.type in WINDOW_TYPES}
    evidence = [
        event
        for event in events
        if event.type not in CHANGING
        # The evidence of a part of a session that came too goes with that part.
        and not (event.type == ev.REFLECTION_COMPLETED and event.target_id in windows)
    ]
    return Import([event for event in events if event.type in CHANGING], evidence)


def taken_out(ledger: Ledger, evidence: Sequence[Event], why: str, tx: str) -> list[NewEvent]:
    """Return the events that take evidence out of the count, put back what retractions took out,
    and put the policy in force that was before. `tx` is the command's.

    Evidence that is out already stays out, and so does a policy that another one replaced since.
    """
    policies = [event for event in evidence if event.type == ev.POLICY_ADOPTED]
    lines = [_line(ledger, event) for event in evidence if event.type != ev.POLICY_ADOPTED]
    ends = [line[-1] for line in lines if len(line) % 2]
    events = _retractions(ends, why) if ends else []
    if policies and adoptions(ledger)[-1].event_id == policies[-1].event_id:
        before = Past(ledger, policies[0].position - 1).counting
        if before != ledger.counting():
            events.append(_adoption(before, tx, why, policies[-1].event_id))
    return events


def approved(ledger: Ledger, approval: Event) -> list[Event]:
    """Return the events of the change that an approval made."""
    return [event for event in ledger.targeting(approval.target_id or "") if event.type in CHANGING]


def undoing(ledger: Ledger, events: Sequence[Event]) -> Undoing:
    """Return what undoes events that change bullets. Raises NothingToUndo, or BulletRefused where a
    later change is in the way.
    """
    if not events:
        raise NothingToUndo("nothing was changed, so nothing can be undone")
    events = _together(ledger, events)
    first, last = events[0].position, events[-1].position
    before, after, now = Past(ledger, first - 1), Past(ledger, last), Past(ledger)
    ids = {event.event_id for event in events}
    within = [
        event
        for event in ledger.events(after=first - 1, upto=last, types=CHANGING)
        if event.event_id in ids
    ]
    targets = {
        name: _made_last(ledger, event).event_id
        for event in within
        for name in names_in(event.type, event.data or {})
    }
    changes: list[Change] = []
    baselines: dict[str, Mapping[str, object]] = {}
    for name, entry in after.entries.items():
        if name not in targets:
            continue
        found = _inverses(before.entries, after.entries, name)
        if not found or _is_back(before.entries.get(name), entry, now.entries[name], found):
            continue
        if not _stands(ledger, entry, now.entries[name], found):
            raise BulletRefused(_in_the_way(ledger, name, last))
        names = next((one.names for one in found if one.kind == "merge"), (name,))
        if names == (name,) and any(one.kind == "recount" for one in found):
            was = before.entries[name]
            since = ledger.at([was.recounted_at])[0].event_id
            counts = zip(("baseline_helpful", "baseline_harmful"), was.baseline, strict=True)
            baselines[name] = {"since": since, **dict(counts)}
        changes += [
            _recount(one, before, after, now, name, names) if one.kind == "recount" else one
            for one in found
        ]
    if any(change.text == REDACTED for change in changes):
        raise BulletRefused(
            "the text that was there before was erased from the ledger; nothing was undone"
        )
    if not changes:
        span = f"position {first}" if first == last else f"positions {first} to {last}"
        raise NothingToUndo(f"nothing of {span} is left to undo; see `reflector log`")
    return Undoing(sorted(changes, key=lambda one: _ORDER.index(one.kind)), targets, baselines)


def _together(ledger: Ledger, events: Sequence[Event]) -> list[Event]:
    """Return events with what undid the same change in the same append: a merge that is made
    again takes several.
    """
    found = {event.event_id: event for event in events}
    for changed in ledger.having(
        [event.target_id for event in events if event.target_id is not None]
    ):
        if changed.type in CHANGING:
            times = {event.recorded_at for event in events if event.target_id == changed.event_id}
            found |= {
                e.event_id: e for e in ledger.targeting(changed.event_id) if e.recorded_at in times
            }
    return sorted(found.values(), key=lambda event: event.position)


def _made_last(ledger: Ledger, change: Event) -> Event:
    """Return the event that made a change again after an undo, the newest one; the change itself
    if none did.
    """
    undo = _undo_of(ledger, change)
    again = _undo_of(ledger, undo) if undo is not None else None
    return change if again is None else _made_last(ledger, again)


def _undo_of(ledger: Ledger, change: Event) -> Event | None:
    later = [event for event in ledger.targeting(change.event_id) if event.type in CHANGING]
    return later[-1] if later and later[-1].position > change.position else None


def _inverses(before: _Entries, after: _Entries, name: str) -> list[Change]:
    """Return the changes that make of a bullet what it was; a merge and its undoing are those of
    the merged one.
    """
    was, entry = before.get(name), after[name]
    if was is None:
        is_merged = any(one.heir == name for one in after.values())
        return [Change("unmerge" if is_merged else "remove", name)]
    if was.status == "live" and entry.status == "removed":
        sources = [
            one.name
            for one in before.values()
            if one.heir == name and after[one.name].status == "live"
        ]
        return (
            _merged_again(was, sources)
            if sources
            else [Change("restore", name), *_said(was, entry)]
        )
    if was.status == "removed" and entry.status in ("live", "merged"):
        return [Change("remove", name)]
    if was.status == "watched" and entry.status == "live":
        return [Change("watch", name), *_said(was, entry)]
    if was.status == "live" and entry.status == "watched":
        return [Change("restore", name)]
    return _said(was, entry) if was.status == entry.status == "live" else []


def _merged_again(merged: Entry, sources: Sequence[str]) -> list[Change]:
    """Return the changes that merge the sources of a merge that was undone: the bullet that it had
    made is one of them now, because what was counted for it counts for it alone. Its counters are
    set to those that it had.
    """
    return [
        Change("restore", merged.name),
        Change("merge", names=(*sources, merged.name), section=merged.section, text=merged.text),
        Change("recount", helpful=0, harmful=0),
    ]


def _said(was: Entry, entry: Entry) -> list[Change]:
    changes = []
    if was.text != entry.text:
        changes.append(Change("revise", was.name, text=was.text))
    if was.section != entry.section:
        changes.append(Change("move", was.name, section=was.section))
    if was.recounted_at != entry.recounted_at:
        changes.append(Change("recount", was.name))
    return changes


def _is_back(was: Entry | None, entry: Entry, now: Entry, found: Sequence[Change]) -> bool:
    """Return whether a bullet is what it was before, so that nothing of it is left to undo."""
    if was is None:
        return entry.status == "live" and now.status == "removed"
    return all(
        one.kind != "recount" and _seen(was, one.kind) == _seen(now, one.kind) for one in found
    )


def _stands(ledger: Ledger, entry: Entry, now: Entry, found: Sequence[Change]) -> bool:
    """Return whether a bullet still is what the events made of it, as far as they changed it."""
    return all(
        _counted_from(ledger, entry) == _counted_from(ledger, now)
        if one.kind == "recount"
        else _seen(entry, one.kind) == _seen(now, one.kind)
        for one in found
    )


def _counted_from(ledger: Ledger, entry: Entry) -> int:
    """Return the position of the recount that stands: one that undid another brought back what
    was before that.
    """
    for event in ledger.at([entry.recounted_at]):
        if event.type == ev.BULLET_RECOUNTED and event.target_id is not None:
            for undone in ledger.having([event.target_id]):
                return _counted_from(ledger, Past(ledger, undone.position - 1).entries[entry.name])
    return entry.recounted_at


def _seen(entry: Entry, kind: str) -> object:
    """What of a bullet a change of a kind takes back."""
    return [getattr(entry, field) for field in _SEEN.get(kind, ("status",))]


def _recount(
    change: Change, before: Past, after: Past, now: Past, name: str, names: Sequence[str]
) -> Change:
    """Return the recount to what was counted before, with what was counted since for these
    bullets.
    """
    then = before.counters([name])[name]
    helpful, harmful = (
        max(0, a + c - b)
        for a, b, c in zip(then, after.together(names), now.together(names), strict=True)
    )
    return replace(change, helpful=helpful, harmful=harmful)


def _in_the_way(ledger: Ledger, name: str, last: int) -> str:
    later = [
        e
        for e in ledger.events(after=last, types=CHANGING)
        if name in names_in(e.type, e.data or {})
    ]
    if not later:
        return (
            f"{name} is not what the change made of it, so nothing was undone; see `reflector "
            f"show {name}`"
        )
    event = later[-1]
    said = EVENT_TYPES[event.type].summary(event.data or {})
    return (
        f"{name} was changed since, at position {event.position} ({event.type}: {said[:80]}), so "
        "nothing was undone; "
        f"undo that first with `reflector undo {event.position}`"
    )


class RetractionRefused(LedgerError):
    """Something that cannot be retracted, or whose retraction cannot be undone."""


def take_back(ledger: Ledger, events: Sequence[Event], why: str) -> list[Appended]:
    """Take evidence out of the count, put it back, or put the policy in force that was before.
    Raises as these do.
    """
    first = events[0]
    if first.type == ev.POLICY_ADOPTED:
        return adopt(
            ledger, Past(ledger, first.position - 1).counting, reason=why, target=first.event_id
        )
    return (put_back if first.type == ev.EVIDENCE_RETRACTED else retract)(ledger, events, why)


def retract(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Take the evidence of these events out of the count; those that are out already stay so.

    The playbook's lock must be held. Raises AlreadyRetracted where all are out, RetractionRefused,
    LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    counting = [line[-1] for line in lines if len(line) % 2]
    if not counting:
        target, *_, last = lines[0]
        raise AlreadyRetracted(
            f"{_named(target)} is out of the count since position {last.position}{_reason(last)}; "
            f"put it back with `reflector undo {last.position}`"
        )
    lifted = [line[-1] for target in targets for line in _replaced(ledger, target) if len(line) % 2]
    return _append(ledger, [*counting, *lifted], why)


def put_back(ledger: Ledger, targets: Sequence[Event], why: str) -> list[Appended]:
    """Put evidence back that was retracted; a retraction may be named instead of what it took out.

    The playbook's lock must be held. Raises RetractionRefused where nothing of it is out,
    LedgerError.
    """
    lines = [_line(ledger, target) for target in targets]
    out = [line[-1] for line in lines if len(line) % 2 == (line[0].type == ev.EVIDENCE_RETRACTED)]
    if not out:
        target, *after = lines[0]
        since = f" since position {after[-1].position}{_reason(after[-1])}" if after else ""
        what = "is undone" if target.type == ev.EVIDENCE_RETRACTED else "is not retracted"
        raise RetractionRefused(
            f"{_named(target)} {what}{since}; there is nothing to undo. See `reflector log`"
        )
    replaced = [
        line[-1]
        for target in targets
        for line in _replaced(ledger, target, out=True)
        if not len(line) % 2
    ]
    return _append(ledger, [*out, *replaced], why)


def moved(
    before: Sequence[BulletRow], after: Sequence[BulletRow]
) -> list[tuple[BulletRow, BulletRow]]:
    """Return the bullets whose counters differ, as they were and as they are."""
    then = {row.name: row for row in before}
    pairs = [(then[row.name], row) for row in after if row.name in then]
    return [
        (old, new) for old, new in pairs if (old.helpful, old.harmful) != (new.helpful, new.harmful)
    ]


def adoptions(ledger: Ledger) -> list[Event]:
    """Return every adoption of a policy, oldest first."""
    return list(ledger.events(types=[ev.POLICY_ADOPTED]))


def adopt(
    ledger: Ledger, counting: Counting, *, reason: str | None = None, target: str | None = None
) -> list[Appended]:
    """Put a counting policy in force: every counter is counted again under it. [] where it is in
    force already.

    target  the adoption that this one takes back
    """
    if ledger.counting() == counting:
        return []
    tx = ledger.draw()
    return ledger.append([_adoption(counting, tx, reason, target)], tx=tx)


def _adoption(counting: Counting, tx: str, reason: str | None, target: str | None) -> NewEvent:
    data = {
        "policy": identity("policy", "counting", counting),
        "counting": counting,
        "reason": reason,
    }
    return NewEvent(
        ev.POLICY_ADOPTED, identity(ev.POLICY_ADOPTED, tx), data, "human", target_id=target
    )


def _append(ledger: Ledger, ends: Sequence[Event], why: str) -> list[Appended]:
    return ledger.append(_retractions(ends, why), tx=ledger.draw())


def _retractions(ends: Sequence[Event], why: str) -> list[NewEvent]:
    """Return a retraction of each of these events, which are the last ones of their lines."""
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise RetractionRefused(
            "the reason is empty; give one with --why, for later readers of the ledger"
        )
    type_, data = ev.EVIDENCE_RETRACTED, {"reason": reason}
    ids = dict.fromkeys(end.event_id for end in ends)
    return [NewEvent(type_, identity(type_, id), data, "human", target_id=id) for id in ids]


def _line(ledger: Ledger, target: Event) -> list[Event]:
    """Return an event, its retraction, the retraction of that one, and so on. Raises
    RetractionRefused.
    """
    _check(ledger, target)
    line = [target]
    while found := [
        event
        for event in ledger.targeting(line[-1].event_id)
        if event.type == ev.EVIDENCE_RETRACTED
    ]:
        if found[0].position <= line[-1].position:
            break  # a forged ledger may hold a circle
        line.append(found[0])
    return line


def _replaced(ledger: Ledger, target: Event, *, out: bool = False) -> list[list[Event]]:
    """Return the lines of the retractions by which a person's verdict took the place of others.

    None of a verdict that does not count; with `out`, of one that more than this target keeps out
    of the count.
    """
    evidence = _evidence(ledger, target)
    if evidence is None or evidence.actor != ev.HUMAN or evidence.reflection_id is None:
        return []
    types = (ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED, ev.EVIDENCE_RETRACTED)
    events = [
        event
        for event in ledger.events(types=types, session_id=evidence.session_id)
        if event.reflection_id == evidence.reflection_id
    ]
    said = [_line(ledger, event) for event in events if event.type != ev.EVIDENCE_RETRACTED]
    if sum(len(line) % 2 == 0 for line in said) != out:
        return []
    return [_line(ledger, event) for event in events if event.type == ev.EVIDENCE_RETRACTED]


def _check(ledger: Ledger, target: Event) -> None:
    if way := EVENT_TYPES[target.type].no_retraction:
        raise RetractionRefused(f"{_named(target)} is not evidence that counts; {way}")
    evidence = _evidence(ledger, target)
    if evidence is not None and evidence.type == ev.BULLET_PROPOSED:
        raise RetractionRefused(
            f"{_named(target)} is the rejection of a proposal, which is final; add the bullet "
            "with `reflector add`"
        )


def _evidence(ledger: Ledger, event: Event) -> Event | None:
    """Return what a line of retractions is about, any other event itself; None where a forged
    ledger holds a circle.
    """
    evidence: Event | None = event
    while evidence is not None and evidence.type == ev.EVIDENCE_RETRACTED:
        below = ledger.event(evidence.target_id or "")
        evidence = below if below is not None and below.position < evidence.position else None
    return evidence


def _named(event: Event) -> str:
    return f"the {event.type} at position {event.position}"


def _reason(event: Event) -> str:
    return f" ({event.data['reason']})" if event.data and event.data.get("reason") else ""
