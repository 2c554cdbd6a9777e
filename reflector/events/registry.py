"""Every event type, the lists that follow from what each says of itself, and the playbook as a fold
over events.

Invariant: `fold(events)` depends on nothing but its argument. It is the definition of every
counter; the tables that the ledger keeps beside the events are only a faster way to the same value,
and `verify` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from reflector.events import bullets, ledger, lessons, proposals, sessions
from reflector.events.effects import (
    AddsBullets,
    ChangesBullet,
    CompletesReflection,
    Effect,
    GivesAnswer,
    MovesWindow,
    RecordsWindow,
    Recounts,
    Tells,
    UndoesMerge,
)
from reflector.events.event import BULLET_REVISED, Event
from reflector.events.kinds import EventType, Field, all_fields
from reflector.events.state import Data, Playbook

EVENT_TYPES: Final[Mapping[str, EventType]] = {
    one.name: one
    for one in (*bullets.TYPES, *sessions.TYPES, *ledger.TYPES, *lessons.TYPES, *proposals.TYPES)
}


def _where(holds: Callable[[EventType], bool]) -> tuple[str, ...]:
    return tuple(name for name, one in EVENT_TYPES.items() if holds(one))


#: Types besides tags and completions that the playbook follows from: few events of a history.
RARE_TYPES: Final = _where(lambda one: one.effect.changes)
#: Types whose target is taken at most once: the partial UNIQUE index of the event table.
ONCE_PER_TARGET: Final = _where(lambda one: one.target is not None and one.target.once)
#: Types that may name bullets; of tags the table of tags knows.
NAMING_TYPES: Final = _where(lambda one: any(field.names for field in all_fields(one.fields)))

#: Types that say what a bullet's text is.
WORDING_TYPES: Final = (*_where(lambda one: isinstance(one.effect, AddsBullets)), BULLET_REVISED)
#: Types that set baselines.
BASELINE_TYPES: Final = _where(lambda one: isinstance(one.effect, AddsBullets | Recounts))
#: Types after which a playbook without counters may say something else.
ADVICE: Final = frozenset(
    _where(lambda one: isinstance(one.effect, AddsBullets | ChangesBullet | Recounts | UndoesMerge))
)

#: Types that open a window, on which a reflection and its tags hang.
WINDOW_TYPES: Final = _where(lambda one: isinstance(one.effect, RecordsWindow))
#: Those, and the types that bring a window to a state.
STEP_TYPES: Final = _where(lambda one: isinstance(one.effect, RecordsWindow | MovesWindow))
#: Types that say what a backend answered, and that its answer was read.
ANSWER_TYPES: Final = _where(lambda one: isinstance(one.effect, GivesAnswer))
COMPLETION_TYPES: Final = _where(lambda one: isinstance(one.effect, CompletesReflection))
#: Types that say which bullets a session was told.
TELLING_TYPES: Final = _where(lambda one: isinstance(one.effect, Tells))


def effect_of(type_: str) -> Effect | None:
    """Return the effect of a type, None for a type that this program does not know."""
    return EVENT_TYPES[type_].effect if type_ in EVENT_TYPES else None


def window_step(type_: str, data: Data) -> tuple[str, int] | None:
    """Return the state that an event brings its target window to, and how many attempts it adds;
    None for none.
    """
    effect = effect_of(type_)
    state = effect.state_by(data) if isinstance(effect, MovesWindow) else ""
    return (state, effect.attempts) if isinstance(effect, MovesWindow) and state else None


def new_bullets(type_: str, data: Data) -> Sequence[Data]:
    """Return the bullets that an event brings."""
    effect = effect_of(type_)
    return effect.bullets(data) if isinstance(effect, AddsBullets) else ()


def fields_of(type_: str) -> Mapping[str, Field]:
    """Return the fields of a type's data, none for a type that this program does not know."""
    return EVENT_TYPES[type_].fields if type_ in EVENT_TYPES else {}


def mapped(
    fields: Mapping[str, Field], value: Data, change: Callable[[Field, Data, Any], Any]
) -> dict[str, Any]:
    """Return an object with each value of its fields as `change` makes it, also in the objects
    within.

    `change` gets the field, the object that has it and the value.
    """
    changed = dict(value)
    for name, one in fields.items():
        found = value.get(name)
        if not one.within:
            changed |= {name: change(one, value, found)} if name in value else {}
        elif isinstance(found, Mapping):
            changed[name] = mapped(one.within, found, change)
        elif isinstance(found, list):
            changed[name] = [
                mapped(one.within, inner, change) if isinstance(inner, Mapping) else inner
                for inner in found
            ]
    return changed


def names_in(type_: str, data: Data) -> set[str]:
    """Return every name of a bullet that an event's data holds, whether the bullet exists or
    not.
    """
    found: set[str] = set()

    def note(one: Field, _: Data, here: Any) -> None:
        if one.names:
            found.update(
                name
                for name in (here if isinstance(here, list) else [here])
                if isinstance(name, str)
            )

    mapped(fields_of(type_), data, note)
    return found


_APPLIED: Final = {
    name: one.effect
    for name, one in EVENT_TYPES.items()
    if type(one.effect).apply is not Effect.apply
}


def fold(events: Iterable[Event]) -> Playbook:
    """Return the playbook after `events`, in order."""
    playbook = Playbook()
    for event in events:
        apply(playbook, event)
    return playbook


def apply(book: Playbook, event: Event) -> None:
    """Fold one event in. One that says nothing about bullets or counts, or cannot be read, only
    moves the position; but what a completion binds its tags to is no part of its data.
    """
    book.position = event.position
    effect = _APPLIED.get(event.type)
    if effect is not None and (not event.fault or isinstance(effect, CompletesReflection)):
        effect.apply(book, event, event.data if event.data is not None else {})
        if effect.changes:
            book.updated_at = event.recorded_at
