"""Changes of the playbook: what each would do, why it is refused, and all of them made at once.

Invariant: changes that are made together are one append, so all or none are made. A change produces
the same event from every source: a command, an edit of playbook.json, git, or an approved proposal.
`playbook.change.KINDS` describes the kinds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from reflector.events.event import BULLET_REMOVED, UNDOES, NewEvent, identity
from reflector.ledger.as_of import Past
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import hidden_fault, text_fault
from reflector.playbook.change import KINDS, SETTING_KINDS, Change, sources_of
from reflector.playbook.names import SECTIONS, Names
from reflector.refusal import Refusal
from reflector.text.secrets import secret_kinds as secrets_in

if TYPE_CHECKING:
    from reflector.playbook.bullet import Bullet

#: The reason for a removal if you give none.
DELETED = "deleted"
_MAX_REMOVAL_REASON = 200
#: The number of times that a name is chosen again, if another process gave it out meanwhile.
_TRIES = 100

Rows = Mapping[str, BulletRow]


class BulletRefused(Refusal, ValueError):
    """A change that cannot be made; the text gives the reason and the next step."""


class Step(NamedTuple):
    """A change that has the name of its bullet, and the live bullets that it is about, before and
    after it.

    position, event_id  of its event; None if it was not made
    """

    change: Change
    before: tuple[Bullet, ...]
    after: tuple[Bullet, ...]
    position: int | None = None
    event_id: str | None = None

    @property
    def name(self) -> str:
        """The name of the bullet that the change makes or changes."""
        return self.change.name or ""

    @property
    def lines(self) -> list[str]:
        """The bullets before (`-`) and after (`+`), one a line. New bullets alone have no sign. If
        a bullet looks the same before and after, its line begins with the change. For a rule that
        stays in a file, only the change is shown.
        """
        if not self.before and not self.after:
            return [self.change.line]
        if not self.before:
            return [bullet.line for bullet in self.after]
        if self.before == self.after:
            return [f"{self.change.kind} {bullet.line}" for bullet in self.after]
        sections = {bullet.section for bullet in (*self.before, *self.after)}
        lines = []
        for sign, bullets in (("-", self.before), ("+", self.after)):
            for bullet in bullets:
                place = f" ({SECTIONS[bullet.section]})" if len(sections) > 1 else ""
                lines.append(f"{sign} {bullet.line}{place}")
        return lines


def fault(rows: Sequence[BulletRow], change: Change) -> str | None:
    """Return the reason why a change of these bullets cannot be made, with the next step; None if
    it can.
    """
    return _fault({row.name: row for row in rows}, change)


def plan_changes(
    ledger: Ledger,
    changes: Sequence[Change],
    *,
    first: int = 0,
    names: Sequence[str] = (),
    again: bool = False,
) -> list[Step]:
    """Return the steps of changes to a ledger's bullets, one after the other.

    first  the lowest number of a new name
    names  names that a new bullet must not get
    again  whether the changes bring back earlier texts, which are not checked again

    Raises: BulletRefused for the first change that cannot be made, LedgerError.
    """
    rows: Rows = ledger.rows_by_name()
    taken_names = Names([*rows, *names], first)
    steps: list[Step] = []
    for incomplete_change in changes:
        change = _completed(incomplete_change, steps)
        if again and _is_counted_so(rows, change):
            continue
        if refusal := _fault(rows, change, again=again):
            is_alone = len(changes) == 1
            refusal = f"{refusal}; nothing was changed" if is_alone else f"{change.line}: {refusal}"
            raise BulletRefused(refusal)
        if KINDS[change.kind].makes_bullet:
            change = change._replace(name=taken_names.next(change.section or ""))
        rows_after = _rows_after(ledger, rows, change)
        touched = [row.name for row in rows_after.values() if rows.get(row.name) != row]
        steps.append(Step(change, _live(rows, touched), _live(rows_after, touched)))
        rows = rows_after
    return steps


def _completed(change: Change, steps: Sequence[Step]) -> Change:
    """Return a change with a trimmed text. A change without a name gets the bullet of the step
    before.
    """
    if change.text:
        change = change._replace(text=change.text.strip())
    if steps and change.name is None and not KINDS[change.kind].makes_bullet:
        return change._replace(name=steps[-1].name)
    return change


def _is_counted_so(rows: Rows, change: Change) -> bool:
    row = rows.get(change.name or "")
    return row is not None and KINDS[change.kind].is_count and change.is_so(row)


def apply_changes(
    ledger: Ledger,
    changes: Sequence[Change],
    *,
    actor: str,
    first: int = 0,
    target: str | Mapping[str, Sequence[str]] | None = None,
    baselines: Mapping[str, Mapping[str, object]] | None = None,
    origin: str = "cli",
    reason: str | None = None,
    again: bool = False,
    preceding: Callable[[Sequence[Step]], Sequence[NewEvent]] = lambda _: (),
    tx: str | None = None,
    headings: Mapping[str, str] | None = None,
) -> list[Step]:
    """Make all changes or none, and return their steps. The playbook's lock must be held.

    target     the event that they follow from: a proposal, or by each bullet's name the changes
               that they undo
    baselines  by each bullet's name, the counts that count again if a count set by hand is undone
    origin     the origin of new bullets
    reason     the reason for removals
    again      as for `plan_changes`
    preceding  returns the events to append directly before those of the changes, in one append
    tx         the transaction id of a command that appends more than these
    headings   of new bullets that are moved out of a file: the heading there, by their text

    Raises: BulletRefused, LedgerError.
    """
    names_meanwhile: list[str] = []
    transaction = tx or ledger.draw()
    for _ in range(_TRIES):
        steps = plan_changes(ledger, changes, first=first, names=names_meanwhile, again=again)
        events: list[NewEvent] = []
        for index, step in enumerate(steps):
            is_count = KINDS[step.change.kind].is_count
            heading = (headings or {}).get(step.change.text or "")
            more = None if heading is None else {"heading": heading}
            undone = _targets(step.change, target)
            event = bullet_event(
                step.change,
                transaction,
                index,
                actor=actor,
                origin=origin,
                reason=reason,
                target=undone[-1] if undone else None,
                more=baselines.get(step.name) if baselines and is_count else more,
            )
            if len(undone) > 1:
                event.meta = {UNDOES: undone[:-1]}
            events.append(event)
        before = preceding(steps)
        try:
            places = ledger.append([*before, *events], tx=transaction)[len(before) :]
        except Conflict as conflict:
            names_meanwhile += [
                str(event.data["name"]) for event in events if event.event_id == conflict.event_id
            ]
            continue
        return [
            step._replace(position=place.position, event_id=place.event_id)
            for step, place in zip(steps, places, strict=True)
        ]
    raise BulletRefused("other processes are changing the same rules; try again")


def _targets(change: Change, target: str | Mapping[str, Sequence[str]] | None) -> Sequence[str]:
    """Return the events that a change follows from: those of its bullet, else those of the first
    one.
    """
    if not isinstance(target, Mapping):
        return [] if target is None else [target]
    for name in (change.name or "", *change.names):
        if name in target:
            return target[name]
    return next(iter(target.values()), [])


def _fault(rows: Rows, change: Change, *, again: bool = False) -> str | None:
    """Return the reason why a change cannot be made; None if it can be made. An undo (`again`) may
    restore a text that would be refused as a new text.
    """
    kind = KINDS[change.kind]
    row = rows.get(change.name or "")
    if again and kind in SETTING_KINDS and row and row.status == "watched":
        return None  # an undo also takes back a new text of a rule in a file
    if refusal := kind.refusal(rows, change):
        return refusal
    if "section" in kind.fields and change.section not in SECTIONS:
        return f"{change.section!r} is not a section; the sections are {', '.join(SECTIONS)}"
    return None if again else _text_fault(rows, change)


def _text_fault(rows: Rows, change: Change) -> str | None:
    """Return the reason why the playbook cannot have the text of a change; None if it can."""
    kind = KINDS[change.kind]
    if "text" in kind.fields:
        text = change.text or ""
        if refusal := advice_fault(text):
            return refusal
    elif kind.status == "live":
        text = rows[change.name or ""].text
    else:
        return None
    live = (row for row in rows.values() if row.status == "live")
    same_name = next((row.name for row in live if row.text == text), None)
    if same_name is None or same_name in change.names:
        return None
    return f"{same_name} already has exactly this text"


def _rows_after(ledger: Ledger, rows: Rows, change: Change) -> dict[str, BulletRow]:
    """Return the bullets after a change that can be made."""
    kind = KINDS[change.kind]
    name = change.name or ""
    rows_after = dict(rows)
    if kind.makes_bullet:
        helpful = change.helpful or 0
        harmful = change.harmful or 0
        if change.names:
            helpful, harmful = Past(ledger).together(change.names)
        section = change.section or ""
        rows_after[name] = BulletRow(name, section, change.text or "", helpful, harmful)
        for source in change.names:
            rows_after[source] = replace(rows[source], status="merged", removed_into=name)
        return rows_after
    rows_after[name] = replace(rows[name], **change.values, status=kind.status or rows[name].status)
    if kind.status == "live":
        live_again = [name]
    else:
        live_again = sources_of(rows, name) if change.kind == "unmerge" else []
    for live_name in live_again:
        row = rows[live_name]
        rows_after[live_name] = replace(row, status="live", reason=None, removed_into=None)
    return rows_after


def _live(rows: Rows, names: Sequence[str]) -> tuple[Bullet, ...]:
    present = [rows[name] for name in names if name in rows]
    return tuple(row.bullet for row in present if row.status == "live")


def advice_fault(text: str) -> str | None:
    """Return the reason why a text cannot become advice; None if it can. This check applies to
    every new text.
    """
    if refusal := text_fault(text) or hidden_fault(text):
        return refusal
    if secrets := secrets_in(text):
        return (
            f"the text seems to contain a secret ({', '.join(secrets)}); instead of the secret, "
            "write the place where you keep it"
        )
    return None


def bullet_event(
    change: Change,
    *place: str | int,
    actor: str,
    origin: str = "cli",
    reason: str | None = None,
    into: str | None = None,
    target: str | None = None,
    more: Mapping[str, object] | None = None,
) -> NewEvent:
    """Return the event of a change that has its name.

    place   the parts of the event's identity besides its type: a command's transaction id and the
            change's index in it, or the content of a file
    origin  the origin of a new bullet
    reason  the reason for a removal
    into    the bullet that replaces a removed one
    target  the event that it follows from: a proposal, or the change that it undoes
    more    further fields of its data
    """
    kind = KINDS[change.kind]
    data: dict[str, object] = {"name": change.name, **change.values, **kind.event_facts}
    data |= more or {}
    if change.kind == "add":
        data |= {"helpful": change.helpful or 0, "harmful": change.harmful or 0, "origin": origin}
    elif change.kind == "merge":
        data["sources"] = list(change.names)
    elif kind.event == BULLET_REMOVED:
        printable = "".join(filter(str.isprintable, reason or DELETED))
        data |= {"reason": printable[:_MAX_REMOVAL_REASON], "into": into}
    event_id = identity(kind.event, *place)
    return NewEvent(kind.event, event_id, data, actor=actor, target_id=target)


def of_file(digest: str, position: int, change: Change) -> tuple[str | int, ...]:
    """Return the identity of the event of a change in a file: the file's content, the position of
    the edited playbook, and the change. So each machine that gets the file through git appends the
    same event.
    """
    return digest, position, json.dumps(change.to_data(), sort_keys=True)


def of_new(bullet: Change) -> tuple[str | int, ...]:
    """Return the identity of the event of a bullet from a file: name, section, text."""
    return bullet.name or "", bullet.section or "", bullet.text or ""


def is_taken(row: BulletRow, bullet: Bullet | Change) -> bool:
    """Return whether a bullet's name means another bullet in the ledger."""
    return row.status != "live" or (row.section, row.text) != (bullet.section, bullet.text)
