"""Undoes changes of bullets by other changes. `retractions` does this for evidence.

Invariant: the undo is computed from the history. The bullets before and after the events are
compared, and each difference is taken back. If a later change conflicts, the refusal names it and
nothing is undone. Later counts stay. Each event that undoes another one points to it, so the next
`undo` goes further back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reflector.changes.apply import BulletRefused
from reflector.changes.retractions import evidence_below
from reflector.events.event import (
    BULLET_RECOUNTED,
    BULLET_REMOVED,
    BULLET_UNMERGED,
    CHANGE_APPROVED,
    EVIDENCE_RETRACTED,
    LEDGER_MERGED,
    PLAYBOOK_IMPORTED,
    POLICY_ADOPTED,
    REFLECTION_COMPLETED,
    RULES_MOVED,
    Event,
    also_undone,
    tx_of,
)
from reflector.events.registry import EVENT_TYPES, WINDOW_TYPES, names_in
from reflector.events.state import REDACTED
from reflector.ledger.as_of import Past
from reflector.playbook.change import (
    CHANGE_EVENTS,
    KINDS,
    SET_FIELDS,
    SETTING_KINDS,
    Change,
    ChangeKind,
    hidden_changes,
)
from reflector.playbook.entry import Entry

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Types of events that change bullets, apart from counts.
CHANGING = CHANGE_EVENTS | {PLAYBOOK_IMPORTED}
_REMOVING = frozenset({BULLET_REMOVED, BULLET_UNMERGED})
#: The steps of a bullet's status (before, after) that may also have changed its fields.
_STEPS_WITH_FIELDS = frozenset(
    {
        ("live", "live"),
        ("live", "merged"),
        ("live", "removed"),
        ("watched", "live"),
        ("watched", "watched"),
    }
)
_MAX_SUMMARY_CHARACTERS = 80


class NothingToUndo(BulletRefused):
    """The named change is undone already, was never a change, or cannot be undone; the text shows
    which.
    """


class Undoing(NamedTuple):
    """The changes that undo events.

    targets    the ids of the undone events, by the name of each bullet
    baselines  the counts that count again, by the name of each bullet whose counters were set
    """

    changes: Sequence[Change]
    targets: Mapping[str, Sequence[str]]
    baselines: Mapping[str, Mapping[str, object]]


def undone(ledger: Ledger) -> dict[str, int]:
    """Return the positions of the events that undid something, by the id of the undone event: a
    change of a bullet, its approval, or evidence.
    """
    types = {*CHANGING, EVIDENCE_RETRACTED, POLICY_ADOPTED, CHANGE_APPROVED}
    types.add(RULES_MOVED)
    return undone_among(ledger.events(types=types))


def undone_among(history: Iterable[Event]) -> dict[str, int]:
    """Return the answer of `undone` for some events of a ledger, in order."""
    events = {event.event_id: event for event in history}
    positions: dict[str, int] = {}
    # By the change that one append undid: a merge that was made again, for example, is undone as
    # one.
    positions_of_appends: dict[tuple[str | None, str], int] = {}
    for event in reversed(events.values()):
        target_id = event.target_id
        is_undo = target_id in events or event.type == EVIDENCE_RETRACTED
        if target_id is None or not is_undo:
            continue
        append = (target_id, event.recorded_at)
        if append in positions_of_appends:
            positions.setdefault(event.event_id, positions_of_appends[append])
        if event.event_id in positions:
            continue
        positions[target_id] = event.position
        for other_id in also_undone(event.meta):
            other = events.get(other_id)
            # A forged event may name a later one.
            if other and other.position < event.position:
                positions.setdefault(other_id, event.position)
        target = events.get(target_id)
        if target and target.target_id in events:
            positions_of_appends[target.target_id, target.recorded_at] = event.position
    return _undone_approvals(events.values(), positions) | positions


def _undone_approvals(events: Iterable[Event], positions: Mapping[str, int]) -> dict[str, int]:
    """Return the positions at which the last change of each approval was undone."""
    approvals: dict[str | None, str] = {}
    changes: dict[str | None, list[str]] = {}
    for event in events:
        if event.type == CHANGE_APPROVED:
            approvals[event.target_id] = event.event_id
        elif event.type in CHANGING:
            changes.setdefault(event.target_id, []).append(event.event_id)
    undone_approvals: dict[str, int] = {}
    for proposal, approval in approvals.items():
        event_ids = changes.get(proposal, [])
        if event_ids and positions.keys() >= set(event_ids):
            undone_approvals[approval] = positions[event_ids[-1]]
    return undone_approvals


def undo_of(event: Event, undone_at: Mapping[str, int], command: str) -> str | None:
    """Return the command that undoes an event, or the position at which it was undone; None for an
    event that cannot be undone.

    undone_at  the positions that `undone` returns
    command    the command line of `reflector undo`
    """
    if event.event_id in undone_at:
        return f"undone at {undone_at[event.event_id]}"
    is_import = event.type == LEDGER_MERGED and tx_of(event.meta) is not None
    is_change = event.type in {*CHANGING, CHANGE_APPROVED, POLICY_ADOPTED, RULES_MOVED}
    event_type = EVENT_TYPES.get(event.type)
    is_evidence = event_type is not None and not event_type.no_retraction
    is_undoable = is_import or is_change or is_evidence
    return f"{command} {event.position}" if is_undoable else None


def last_change(ledger: Ledger, name: str) -> list[Event]:
    """Return the one event that `undo NAME` takes back: the removal of a removed bullet, else the
    newest change of the bullet that is in force.

    A plain undo is not in force as a change. An undo of an undo makes the first change again, so it
    replaces that change.

    Raises: NothingToUndo.
    """
    events = {event.event_id: event for event in ledger.events(types=CHANGING)}
    undone_at = undone(ledger)
    in_force: dict[str, Event] = {}
    removal: Event | None = None
    for event in events.values():
        if name not in names_in(event.type, event.facts):
            continue
        if event.type in _REMOVING:
            removal = event
        if event.event_id in undone_at:
            continue
        undone_events = _events_undone_by(event, events)
        makes_a_change = len(undone_events) % 2 == 0
        if makes_a_change:
            for undone_event in undone_events:
                in_force.pop(undone_event.event_id, None)
            in_force[event.event_id] = event
    row = ledger.row(name)
    if row and row.status == "removed" and removal:
        return [removal]
    if not in_force:
        raise NothingToUndo(f"{name} does not have a change left to undo; see `reflector log`")
    return [list(in_force.values())[-1]]


def _events_undone_by(event: Event, events: Mapping[str, Event]) -> list[Event]:
    """Return the event that an undo took back, the event that this one took back, and so on. The
    list is empty for an event that is not an undo.
    """
    chain: list[Event] = []
    target = events.get(event.target_id or "")
    while target and target not in chain:
        chain.append(target)
        target = events.get(target.target_id or "")
    return chain


class Act(NamedTuple):
    """The events to take back: changes of bullets; and evidence, retractions and adoptions of
    policies.

    reason       the reason in the ledger if you give none
    is_imported  whether they came with the import of a ledger
    """

    changes: Sequence[Event]
    evidence: Sequence[Event] = ()
    reason: str = "undo"
    is_imported: bool = False

    @classmethod
    def of_evidence(cls, events: Sequence[Event]) -> Act:
        """Return the act of evidence. Its reason must be true in each ledger, so it does not
        contain a position.
        """
        return cls((), events, f"undid event {events[0].event_id[:8]}")


def imported(ledger: Ledger, merged: Event) -> Act:
    """Return the events that came with a `ledger.merged`.

    Raises: NothingToUndo for a `ledger.merged` of an older version, which has no transaction id.
    """
    tx = tx_of(merged.meta)
    if tx is None:
        raise NothingToUndo(
            f"an older version of reflector recorded the import at position {merged.position}, so "
            "`undo` does not know the events of this import. Undo the changes by their "
            "positions, such as `reflector undo 41..43`"
        )
    types = {
        *CHANGING,
        *WINDOW_TYPES,
        EVIDENCE_RETRACTED,
        REFLECTION_COMPLETED,
        POLICY_ADOPTED,
    }
    events = [event for event in ledger.events(types=types) if tx_of(event.meta) == tx]
    windows = {event.event_id for event in events if event.type in WINDOW_TYPES}
    changes: list[Event] = []
    evidence: list[Event] = []
    for event in events:
        # If the import also brought the window of the evidence, the evidence goes with the window.
        is_in_window = event.type == REFLECTION_COMPLETED and event.target_id in windows
        # A retraction goes with the evidence that it excludes.
        below = evidence_below(ledger, event) if event.type == EVIDENCE_RETRACTED else None
        is_with_evidence = below is not None and tx_of(below.meta) == tx
        if event.type in CHANGING:
            changes.append(event)
        elif not is_in_window and not is_with_evidence:
            evidence.append(event)
    return Act(changes, evidence, is_imported=True)


def approved(ledger: Ledger, approval: Event) -> list[Event]:
    """Return the events of the change that an approval made."""
    return ledger.targeting(approval.target_id or "", CHANGING)


class _Moments(NamedTuple):
    """The playbook before and after the events to undo, and now."""

    before: Past
    after: Past
    now: Past


class _Bullet(NamedTuple):
    """A bullet before and after the events to undo, and now."""

    before: Entry | None
    after: Entry
    now: Entry


def undoing(ledger: Ledger, events: Sequence[Event]) -> Undoing:
    """Return the changes that undo events that change bullets.

    Raises: NothingToUndo, or BulletRefused if a later change conflicts.
    """
    if not events:
        raise NothingToUndo("no event changed a rule, so there is nothing to undo")
    events = _with_same_append(ledger, events)
    first = events[0].position
    last = events[-1].position
    moments = _Moments(Past(ledger, first - 1), Past(ledger, last), Past(ledger))
    targets = _targets(ledger, events)
    event_ids = {event.event_id for event in events}
    changes: list[Change] = []
    baselines: dict[str, Mapping[str, object]] = {}
    # The ids of events that cancel each other. They need no undo, but one bullet's undo also names
    # them, so that the next `undo` goes further back.
    cancelled: list[str] = []
    last_name = ""
    for name, entry in moments.after.entries.items():
        if name not in targets:
            continue
        bullet = _Bullet(moments.before.entries.get(name), entry, moments.now.entries[name])
        bullet_changes = _inverse_of(moments, bullet)
        if not bullet_changes:
            cancelled += [event_id for event_id in targets[name] if event_id in event_ids]
            continue
        if _is_back(moments, bullet, bullet_changes):
            continue
        if not _is_unchanged(ledger, bullet, bullet_changes):
            raise BulletRefused(_obstacle(ledger, name, last))
        kinds = [change.kind for change in bullet_changes]
        if bullet.before and "recount" in kinds and "merge" not in kinds:
            baselines[name] = _baseline_again(ledger, bullet.before)
        changes += _with_counts(moments, name, bullet_changes)
        last_name = name
    if any(change.text == REDACTED for change in changes):
        raise BulletRefused("the earlier text was erased from the ledger, so nothing was undone")
    if not changes:
        raise NothingToUndo(_no_change_left(ledger, events))
    # The merge of a merged bullet is undone before the merge that made this bullet.
    unmerges = [change for change in changes if change.kind == "unmerge"]
    others = [change for change in changes if change.kind != "unmerge"]
    changes = sorted([*reversed(unmerges), *others], key=_undo_order)
    targets[last_name] = cancelled + targets[last_name]
    return Undoing(changes, targets, baselines)


def _no_change_left(ledger: Ledger, events: Sequence[Event]) -> str:
    """Return the reason why nothing is left to undo, with the command that makes undone changes
    again.
    """
    first = events[0].position
    last = events[-1].position
    span = f"position {first}" if first == last else f"positions {first} to {last}"
    undone_at = undone(ledger)
    places = sorted({undone_at.get(event.event_id, 0) for event in events} - {0})
    if not places:
        return f"nothing to undo at {span}; see `reflector log`"
    again = f"{places[0]}..{places[-1]}" if len(places) > 1 else f"{places[0]}"
    return (
        f"the change at {span} was already undone. To make this change again: "
        f"`reflector undo {again}`"
    )


def _undo_order(change: Change) -> int:
    """Return the place of a change among those that undo something. A change without a name is
    about the merge before it, so it stays after the merge.
    """
    return KINDS["merge" if change.name is None else change.kind].undo_order


def _with_same_append(ledger: Ledger, events: Sequence[Event]) -> list[Event]:
    """Return events together with those that undid the same change in the same append. For example,
    a merge that is made again takes several events.
    """
    whole = {event.event_id: event for event in events}
    target_ids = [event.target_id for event in events if event.target_id is not None]
    for target in ledger.having(target_ids):
        if target.type not in CHANGING:
            continue
        times = {event.recorded_at for event in events if event.target_id == target.event_id}
        for event in ledger.targeting(target.event_id):
            if event.recorded_at in times:
                whole[event.event_id] = event
    return sorted(whole.values(), key=lambda event: event.position)


def _targets(ledger: Ledger, events: Sequence[Event]) -> dict[str, list[str]]:
    """Return the ids of the undone events of each bullet by its name, the target of its undo last.

    For a change that was undone and made again, the event that made it again is also undone. A
    change that the events themselves undid, or its undo, is not a target if there is another one.
    """
    changes = {event.event_id: event for event in events if event.type in CHANGING}
    undone_at = undone_among(changes.values())

    def is_in_force(change: Event) -> bool:
        is_undo = len(_events_undone_by(change, changes)) % 2 == 1
        return change.event_id not in undone_at and not is_undo

    targets: dict[str, list[str]] = {}
    for change in sorted(changes.values(), key=is_in_force):
        event_ids = dict.fromkeys((change.event_id, _made_last(ledger, change).event_id))
        for name in names_in(change.type, change.facts):
            earlier = [each for each in targets.get(name, ()) if each not in event_ids]
            targets[name] = [*earlier, *event_ids]
    return targets


def _made_last(ledger: Ledger, change: Event) -> Event:
    """Return the newest event that made a change again after an undo, else the change itself."""
    undo = _undo_event_of(ledger, change)
    redo = _undo_event_of(ledger, undo) if undo else None
    return change if redo is None else _made_last(ledger, redo)


def _undo_event_of(ledger: Ledger, change: Event) -> Event | None:
    undos = ledger.targeting(change.event_id, CHANGING)
    is_undone = bool(undos) and undos[-1].position > change.position
    return undos[-1] if is_undone else None


def _inverse_of(moments: _Moments, bullet: _Bullet) -> list[Change]:
    """Return the changes that bring a bullet back to its earlier state: to its status, and to its
    fields if the step may have changed them. `_with_counts` gives the counts to a recount.

    A merge and its undo are changes of the merged bullet.
    """
    before = bullet.before
    after = bullet.after
    if before is None and after.status == "removed":
        # The bullets that were merged into it are still merged.
        merged_now = any(entry.heir == after.name for entry in moments.now.entries.values())
        kinds = ("restore", "unmerge") if merged_now else ()
        return [Change(kind, after.name) for kind in kinds]
    if before is None:
        is_merged = any(entry.heir == after.name for entry in moments.after.entries.values())
        if after.status == "watched":
            return [Change("forget", after.name)]
        return [Change("unmerge" if is_merged else "remove", after.name)]
    step = (before.status, after.status)
    if step == ("removed", "removed"):
        # The undo of its merge and of its removal brought its sources back.
        sources = _sources_again(moments, before.name)
        entries = moments.after.entries
        return [Change("remove", name) for name in sources if entries[name].status == "live"]
    if step == ("live", "removed"):
        sources_again = [*_sources_again(moments, before.name)]
        if sources_again:
            return _merged_again(moments, before, sources_again)
    changes = [Change(kind.name, before.name) for kind in KINDS.values() if step in kind.undoes]
    return changes + _fields_back(before, after) if step in _STEPS_WITH_FIELDS else changes


def _sources_again(moments: _Moments, name: str) -> Iterator[str]:
    """Yield the former sources of a merged bullet that are not merged after the events. For a
    source whose own merge was undone, these are its sources.
    """
    for entry in moments.before.entries.values():
        if entry.heir != name:
            continue
        status = moments.after.entries[entry.name].status
        if status == "live":
            yield entry.name
        elif status == "removed":
            yield from [*_sources_again(moments, entry.name)] or [entry.name]


def _merged_again(moments: _Moments, merged: Entry, sources: Sequence[str]) -> list[Change]:
    """Return the changes that merge the sources of an undone merge again. The bullet of that merge
    is now one of the sources, because its own evidence counts for it alone.
    """
    new = Entry("", merged.section, merged.text, position=0, ordinal=0, recounted_at=0)
    entries = moments.after.entries
    removed = [name for name in (merged.name, *sources) if entries[name].status == "removed"]
    return [
        *(Change("restore", name) for name in removed),
        Change("merge", names=(*sources, merged.name), section=merged.section, text=merged.text),
        *hidden_changes(new, merged, None),
        Change("recount"),
    ]


def _fields_back(before: Entry, after: Entry) -> list[Change]:
    """Return the changes that set the fields of a bullet to their earlier values: one of each kind
    that sets a field which differs now.
    """
    changes = [kind.change_to(before) for kind in SETTING_KINDS if kind.fits(before)]
    changes = [change for change in changes if not change.is_so(after)]
    if before.recounted_at != after.recounted_at:
        changes.append(Change("recount", before.name))
    return changes


def _is_back(moments: _Moments, bullet: _Bullet, changes: Sequence[Change]) -> bool:
    """Return whether a bullet is in its earlier state again, so that nothing is left to undo."""
    if bullet.before is None:
        return bullet.after.status != "removed" and bullet.now.status == "removed"
    for change in changes:
        name = change.name or bullet.before.name
        kind = KINDS[change.kind]
        before = moments.before.entries[name]
        if kind.is_count or not _is_same(kind, before, moments.now.entries[name]):
            return False
    return True


def _is_unchanged(ledger: Ledger, bullet: _Bullet, changes: Sequence[Change]) -> bool:
    """Return whether a bullet still has the state that the events gave it, in the parts that they
    changed.
    """
    for change in changes:
        kind = KINDS[change.kind]
        if kind.is_count:
            counted_from = _counted_from(ledger, bullet.after)
            is_same = counted_from == _counted_from(ledger, bullet.now)
        else:
            is_same = _is_same(kind, bullet.after, bullet.now)
        if not is_same:
            return False
    return True


def _is_same(kind: ChangeKind, entry: Entry, other: Entry) -> bool:
    """Return whether two states of a bullet are the same in the parts that a change of this kind
    takes back.
    """
    fields = kind.set_fields or ("status",)
    if kind.status == "removed":
        fields = ("status", *SET_FIELDS)
    return all(getattr(entry, field) == getattr(other, field) for field in fields)


def _counted_from(ledger: Ledger, entry: Entry) -> int:
    """Return the position of the recount in force. A recount that undid another one restores the
    recount before that.
    """
    for event in ledger.at([entry.recounted_at]):
        if event.type == BULLET_RECOUNTED and event.target_id is not None:
            for recount in ledger.having([event.target_id]):
                before = Past(ledger, recount.position - 1)
                return _counted_from(ledger, before.entries[entry.name])
    return entry.recounted_at


def _baseline_again(ledger: Ledger, before: Entry) -> dict[str, object]:
    """Return the data of a recount that makes a bullet's earlier baseline and later verdicts count
    again.
    """
    helpful, harmful = before.baseline
    since = ledger.at([before.recounted_at])[0].event_id
    return {"since": since, "baseline_helpful": helpful, "baseline_harmful": harmful}


def _with_counts(moments: _Moments, name: str, changes: Sequence[Change]) -> list[Change]:
    """Return changes with the counts of a recount: the earlier counts, plus the counts of these
    bullets since.
    """
    names = next((change.names for change in changes if change.kind == "merge"), (name,))
    counted: list[Change] = []
    for change in changes:
        if change.kind == "recount":
            former = moments.before.counters([name])[name]
            then = moments.after.together(names)
            now = moments.now.together(names)
            helpful, harmful = (
                max(0, former[index] + now[index] - then[index]) for index in range(2)
            )
            change = change._replace(helpful=helpful, harmful=harmful)
        counted.append(change)
    return counted


def _obstacle(ledger: Ledger, name: str, last: int) -> str:
    """Return a message about the change after a position that conflicts with an undo."""
    events = ledger.events(after=last, types=CHANGING)
    later = [event for event in events if name in names_in(event.type, event.facts)]
    if not later:
        return (
            f"{name} was changed after the change that you want to undo, so nothing was undone; "
            f"see `reflector show {name}`"
        )
    event = later[-1]
    summary = EVENT_TYPES[event.type].summary(event.facts)[:_MAX_SUMMARY_CHARACTERS]
    return (
        f"{name} has a newer change, at position {event.position} ({event.type}: {summary}), so "
        "nothing was undone; "
        f"first undo the newer change with `reflector undo {event.position}`"
    )
