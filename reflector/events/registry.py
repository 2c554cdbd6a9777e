"""All event types, the lists derived from them, and the playbook as a fold over events.

Invariant: `fold(events)` depends only on its argument. It is the definition of every counter. The
tables beside the events are a faster way to the same value, and `verify` compares the two.

A process that only appends also builds these lists, so each field of a type is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from reflector.events import bullets, counts, ledger, lessons, memory, proposals, sessions
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
from reflector.events.folds import fold_events
from reflector.events.kinds import EventType, Field, all_fields
from reflector.events.state import Data, Playbook

EVENT_TYPES: Final[Mapping[str, EventType]] = {
    kind.name: kind
    for kind in (
        *bullets.TYPES,
        *sessions.TYPES,
        *counts.TYPES,
        *ledger.TYPES,
        *lessons.TYPES,
        *proposals.TYPES,
        *memory.TYPES,
    )
}
_EFFECTS = {name: kind.effect for name, kind in EVENT_TYPES.items()}


def _with_effect(*effects: type[Effect]) -> tuple[str, ...]:
    """Return the types whose effect is one of these."""
    return tuple([name for name, effect in _EFFECTS.items() if isinstance(effect, effects)])


#: Types besides tags and completions on which the playbook depends: few events of a history.
RARE_TYPES = tuple([name for name, effect in _EFFECTS.items() if effect.changes])
#: Types of which at most one event has the same target: the partial UNIQUE index of the event
#: table.
ONCE_PER_TARGET = tuple(
    [name for name, kind in EVENT_TYPES.items() if kind.target and kind.target.once]
)
_names = attrgetter("names")
#: Types that may name bullets; for tags, the table of tags has the names.
NAMING_TYPES = tuple(
    [name for name, kind in EVENT_TYPES.items() if any(map(_names, all_fields(kind.fields)))]
)

#: Types that set a bullet's text.
WORDING_TYPES = (*_with_effect(AddsBullets), BULLET_REVISED)
#: Types that set baselines.
BASELINE_TYPES = _with_effect(AddsBullets, Recounts)
#: Types after which a playbook without counters may be different.
ADVICE = frozenset(_with_effect(AddsBullets, ChangesBullet, Recounts, UndoesMerge))

#: Types that open a window, to which a reflection and its tags belong.
WINDOW_TYPES = _with_effect(RecordsWindow)
#: These types, and the types that bring a window to a state.
STEP_TYPES = _with_effect(RecordsWindow, MovesWindow)
#: Types that record a backend's answer, and types that record that it was read.
ANSWER_TYPES = _with_effect(GivesAnswer)
COMPLETION_TYPES = _with_effect(CompletesReflection)
#: Types that record the bullets that a session was shown.
TELLING_TYPES = _with_effect(Tells)


def effect_of(type_: str) -> Effect | None:
    """Return the effect of a type; None for a type that this program does not know."""
    return _EFFECTS.get(type_)


def bullets_brought(type_: str, facts: Data) -> Sequence[Data]:
    """Return the bullets that an event adds, each with name, section and text."""
    effect = effect_of(type_)
    return effect.bullets(facts) if isinstance(effect, AddsBullets) else ()


def bullets_worded(type_: str, facts: Data) -> Sequence[Data]:
    """Return the bullets whose text an event sets, each with name and text."""
    if type_ == BULLET_REVISED:
        return [facts] if facts.keys() >= {"name", "text"} else ()
    return bullets_brought(type_, facts)


def fields_of(type_: str) -> Mapping[str, Field]:
    """Return the fields of a type's data; none for a type that this program does not know."""
    return EVENT_TYPES[type_].fields if type_ in EVENT_TYPES else {}


def mapped(
    fields: Mapping[str, Field], facts: Data, change: Callable[[Field, Data, Any], Any]
) -> dict[str, Any]:
    """Return an object with the values that `change` returns for its fields, including fields of
    inner objects.

    `change` gets the field, the object that has it and the value.
    """
    changed = dict(facts)
    for name, field in fields.items():
        if name not in facts:
            continue
        value = facts[name]
        if not field.within:
            changed[name] = change(field, facts, value)
        elif isinstance(value, Mapping):
            changed[name] = mapped(field.within, value, change)
        elif isinstance(value, list):
            changed[name] = [
                mapped(field.within, inner, change) if isinstance(inner, Mapping) else inner
                for inner in value
            ]
    return changed


def names_in(type_: str, facts: Data) -> set[str]:
    """Return all names of bullets in an event's data, whether the bullets exist or not."""
    names: set[str] = set()

    def collect(field: Field, _: Data, value: Any) -> None:
        if field.names:
            listed = value if isinstance(value, list) else [value]
            names.update(name for name in listed if isinstance(name, str))

    mapped(fields_of(type_), facts, collect)
    return names


#: The effects that make a playbook, by type.
_APPLIED = {
    name: effect for name, effect in _EFFECTS.items() if type(effect).apply is not Effect.apply
}


class PlaybookFold:
    """The playbook after some events."""

    types: Final = tuple(_APPLIED)

    def __init__(self) -> None:
        self._playbook = Playbook()

    def apply(self, event: Event) -> None:
        fold_in(self._playbook, event)

    def answer(self) -> Playbook:
        return self._playbook


def fold(events: Iterable[Event]) -> Playbook:
    """Return the playbook after `events`, in order."""
    return fold_events(PlaybookFold(), events)


def fold_in(playbook: Playbook, event: Event) -> None:
    """Apply the next event to a playbook.

    An event of another type, or one that cannot be read, only moves the position. A completion
    still counts, because the tags that it binds are not in its data.
    """
    playbook.position = event.position
    effect = _APPLIED.get(event.type)
    if effect is None:
        return
    if event.fault and not isinstance(effect, CompletesReflection):
        return
    effect.apply(playbook, event)
    if effect.changes:
        playbook.updated_at = event.recorded_at
