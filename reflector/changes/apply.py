"""Changes of the playbook: what each would do, why it cannot be made, and all made at once.

Invariant: changes that are made together are one append, so all of them are made or none is. A
change has the same event whoever makes it: a person's command, an edit of playbook.json, git, or
the approval of a proposal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reflector.events.bullets import MOST_SOURCES, TYPE_OF
from reflector.events.event import NewEvent, identity
from reflector.ledger.as_of import Past
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import MAX_COUNT, hidden_fault, text_fault
from reflector.playbook.change import SETS, Change
from reflector.playbook.names import SECTIONS, Names
from reflector.text.secrets import found as secrets_in

if TYPE_CHECKING:
    from reflector.playbook.bullet import Bullet

#: Why a bullet is removed, where nobody gives a reason.
DELETED: Final = "deleted"
#: How often a name is chosen again that another process gave out meanwhile.
_TRIES = 100

Rows = Mapping[str, BulletRow]


class BulletRefused(ValueError):
    """A change that cannot be made; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change, with the name that a new bullet gets, and the live bullets that it is about before
    and after it.

    position, event_id  of its event; None where it was not made
    """

    change: Change
    before: tuple[Bullet, ...]
    after: tuple[Bullet, ...]
    position: int | None = None
    event_id: str | None = None

    @property
    def name(self) -> str:
        """The name of the bullet that it makes or changes."""
        return self.change.name or ""

    @property
    def lines(self) -> list[str]:
        """The bullets before (`-`) and after (`+`), one a line; what comes alone has no sign."""
        if not self.before:
            return [bullet.line for bullet in self.after]
        where = len({bullet.section for bullet in (*self.before, *self.after)}) > 1
        return [
            f"{sign} {bullet.line}{f' ({SECTIONS[bullet.section]})' if where else ''}"
            for sign, bullets in (("-", self.before), ("+", self.after))
            for bullet in bullets
        ]


def fault(rows: Sequence[BulletRow], change: Change) -> str | None:
    """Return why a change cannot be made of these bullets, with the way out; None where it can."""
    return _fault({row.name: row for row in rows}, change)


def planned(
    ledger: Ledger,
    changes: Sequence[Change],
    *,
    first: int = 0,
    names: Sequence[str] = (),
    again: bool = False,
) -> list[Step]:
    """Return what changes of a ledger's bullets would do, one after the other.

    first  the lowest number of a new name, which is none of `names`
    again  the changes bring back what was there, so their texts are not looked at
    Raises BulletRefused for the first one that cannot be made, LedgerError.
    """
    state = {row.name: row for row in ledger.rows()}
    known = Names([*state, *names], first)
    steps: list[Step] = []
    for change in changes:
        change = replace(change, text=change.text.strip()) if change.text else change
        if change.kind == "recount" and change.name is None and steps:
            change = replace(change, name=steps[-1].change.name)
        row = state.get(change.name or "")
        if again and change.kind == "recount" and row is not None and change.is_so(row.bullet):
            continue
        if what := _fault(state, change, again=again):
            raise BulletRefused(
                f"{change.line}: {what}" if len(changes) > 1 else f"{what}; nothing was changed"
            )
        if change.kind in ("add", "merge"):
            change = replace(change, name=known.next(change.section or ""))
        after = _after(state, change)
        if change.kind == "merge":
            helpful, harmful = Past(ledger).together(change.names)
            after[change.name or ""] = replace(
                after[change.name or ""], helpful=helpful, harmful=harmful
            )
        touched = [row.name for row in after.values() if state.get(row.name) != row]
        steps.append(Step(change, _live(state, touched), _live(after, touched)))
        state = after
    return steps


def apply(
    ledger: Ledger,
    changes: Sequence[Change],
    *,
    actor: str,
    first: int = 0,
    target: str | Mapping[str, str] | None = None,
    baselines: Mapping[str, Mapping[str, object]] | None = None,
    origin: str = "cli",
    reason: str | None = None,
    again: bool = False,
    lead: Callable[[Sequence[Step]], Sequence[NewEvent]] = lambda _: (),
    tx: str | None = None,
) -> list[Step]:
    """Make changes, all or none. The playbook's lock must be held. Raises BulletRefused,
    LedgerError.

    target  the event that they follow from: a proposal, or by the name of each bullet the change
            that they undo
    baselines  by the name of each bullet, what counts again where a count set by hand is undone
    origin  where new bullets come from; `reason` says why bullets are removed
    again   as for `planned`
    lead    returns the events that they follow, for the same append
    tx      the transaction id of a command that appends more than these
    """
    taken: list[str] = []
    tx = tx or ledger.draw()
    for _ in range(_TRIES):
        steps = planned(ledger, changes, first=first, names=taken, again=again)
        events = [
            bullet_event(
                step.change,
                tx,
                index,
                actor=actor,
                origin=origin,
                reason=reason,
                target=_target(step.change, target),
                more=(baselines or {}).get(step.name) if step.change.kind == "recount" else None,
            )
            for index, step in enumerate(steps)
        ]
        leading = lead(steps)
        try:
            appended = ledger.append([*leading, *events], tx=tx)[len(leading) :]
        except Conflict as conflict:
            # A name that was given out meanwhile.
            taken += [
                str(event.data["name"]) for event in events if event.event_id == conflict.event_id
            ]
            continue
        return [
            replace(step, position=at.position, event_id=at.event_id)
            for step, at in zip(steps, appended, strict=True)
        ]
    raise BulletRefused("other processes change the same bullets all the time; try again")


def _target(change: Change, target: str | Mapping[str, str] | None) -> str | None:
    if not isinstance(target, Mapping):
        return target
    named = (target[name] for name in (change.name or "", *change.names) if name in target)
    return next(named, next(iter(target.values()), None))


def _fault(rows: Rows, change: Change, *, again: bool = False) -> str | None:
    if (
        what := _sources_fault(rows, change.names)
        if change.kind == "merge"
        else _named_fault(rows, change)
    ):
        return what
    if change.kind in ("add", "merge", "move") and change.section not in SECTIONS:
        return f"{change.section!r} is not a section; the sections are {', '.join(SECTIONS)}"
    if again or change.kind not in ("add", "revise", "merge", "restore"):
        return None
    text = rows[change.name or ""].text if change.kind == "restore" else change.text or ""
    if change.kind != "restore" and (what := advice_fault(text)):
        return what
    same = next(
        (row.name for row in rows.values() if row.status == "live" and row.text == text), None
    )
    return (
        f"{same} says exactly this already"
        if same is not None and same not in change.names
        else None
    )


def _sources_fault(rows: Rows, names: Sequence[str]) -> str | None:
    if not names or len(set(names)) != len(names):
        return "a merge is of different bullets, or of one and a new text for it"
    if len(names) > MOST_SOURCES:
        return f"a merge is of at most {MOST_SOURCES} bullets, these are {len(names)}"
    return next((what for name in names if (what := gone(rows, name))), None)


def _named_fault(rows: Rows, change: Change) -> str | None:
    """Why a change of the bullet that it names cannot be made."""
    if change.kind == "add":
        return None
    name = change.name or ""
    row = rows.get(name)
    if change.kind == "restore" and row is not None and row.status != "merged":
        return f"{name} is in the playbook" if row.status == "live" else None
    if row is None or row.status != "live":
        return gone(rows, name)
    if change.kind == "move" and row.section == change.section:
        return f"{name} is in {SECTIONS[row.section]} already"
    if change.kind == "unmerge" and not _sources(rows, name):
        return f"{name} is not made of other bullets; see `reflector show {name}`"
    if change.kind == "recount":
        counters = (change.helpful, change.harmful)
        if not all(value is not None and 0 <= value <= MAX_COUNT for value in counters):
            return f"counters are whole numbers from 0 to {MAX_COUNT:,}"
        if counters == (row.helpful, row.harmful):
            return f"{name} is at {row.helpful}/{row.harmful} already"
    return None


def gone(rows: Rows, name: str) -> str | None:
    """Return why a bullet is not live, with the way out; None where it is."""
    row = rows.get(name)
    if row is None:
        return f"no bullet is or was called {name!r}; see `reflector list --all`"
    if row.status == "live":
        return None
    if row.status == "watched":
        return (
            f"{name} is only watched; `reflector import FILE` makes the lines of its file the "
            "playbook's"
        )
    if row.status == "merged":
        into = row.removed_into
        return (
            f"{name} was merged into {into}; change that one, or take the merge back with "
            f"`reflector undo {into}`"
        )
    into = f" into {row.removed_into}" if row.removed_into else ""
    return f"{name} was removed ({row.reason}{into}); bring it back with `reflector undo {name}`"


def _sources(rows: Rows, name: str) -> list[BulletRow]:
    return [row for row in rows.values() if row.status == "merged" and row.removed_into == name]


def _after(rows: Rows, change: Change) -> dict[str, BulletRow]:
    """Return the bullets after a change that can be made."""
    after, name = dict(rows), change.name or ""
    if change.kind in ("add", "merge"):
        counters = (change.helpful or 0, change.harmful or 0)
        after[name] = BulletRow(name, change.section or "", change.text or "", *counters)
        return after | {
            source: replace(rows[source], status="merged", removed_into=name)
            for source in change.names
        }
    if change.kind in SETS:
        return after | {name: replace(rows[name], **change.values)}
    if change.kind != "restore":
        after[name] = replace(rows[name], status="watched" if change.kind == "watch" else "removed")
    back = (
        [rows[name]]
        if change.kind == "restore"
        else _sources(rows, name)
        if change.kind == "unmerge"
        else []
    )
    return after | {
        row.name: replace(row, status="live", reason=None, removed_into=None) for row in back
    }


def _live(rows: Rows, names: Sequence[str]) -> tuple[Bullet, ...]:
    return tuple(
        rows[name].bullet for name in names if name in rows and rows[name].status == "live"
    )


def advice_fault(text: str) -> str | None:
    """Return why a text cannot become advice, None where it can: the rule for every new text."""
    if (what := text_fault(text) or hidden_fault(text)) or not (kinds := secrets_in(text)):
        return what
    return (
        f"the text holds what looks like a secret ({', '.join(kinds)}); say where it is kept "
        "instead of what it is"
    )


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

    place   what the event's identity is made of, besides its type: a command's transaction id and
            the change's index in it, or what a file says
    origin  where a new bullet comes from; `reason` and `into` say why one is removed, and for which
            one
    target  the event that it follows from: a proposal, or the change that it undoes
    more    what its data says besides
    """
    type_ = TYPE_OF[change.kind]
    data: dict[str, object] = {"name": change.name, **change.values, **(more or {})}
    if change.kind in ("add", "merge"):
        data |= {"section": change.section, "text": change.text}
    if change.kind == "add":
        data |= {"helpful": change.helpful or 0, "harmful": change.harmful or 0, "origin": origin}
    elif change.kind == "merge":
        data["sources"] = list(change.names)
    elif change.kind == "watch":
        data["watched"] = True
    elif change.kind == "remove":
        data |= {"reason": "".join(filter(str.isprintable, reason or DELETED))[:200], "into": into}
    return NewEvent(type_, identity(type_, *place), data, actor=actor, target_id=target)


def of_file(digest: str, position: int, change: Change) -> tuple[str | int, ...]:
    """Return what identifies the event of a change that a file asks for, so that each machine that
    git brings the file to appends the same one: its content, the position of the playbook that was
    edited, and the change.
    """
    return digest, position, json.dumps(change.to_data(), sort_keys=True)


def of_new(bullet: Change) -> tuple[str | int, ...]:
    """Return what identifies the event of a bullet that a file brings: its name, section and
    text.
    """
    return bullet.name or "", bullet.section or "", bullet.text or ""


def is_taken(row: BulletRow, bullet: Bullet | Change) -> bool:
    """Return whether the ledger's name means another bullet than this one."""
    return row.status != "live" or (row.section, row.text) != (bullet.section, bullet.text)
