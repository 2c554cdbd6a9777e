"""How bullets were used, as a fold: the definition of the counts of `reflector.ledger.usage`."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from reflector.events import event as ev
from reflector.events.event import Event, as_written
from reflector.events.registry import PlaybookFold
from reflector.events.state import counted_verdict
from reflector.ledger.projection import storable
from reflector.ledger.usage import Usage

_WINDOWS: Final = (ev.SESSION_RECORDED, ev.TRAJECTORY_RECORDED)


class UsageFold:
    """The usage of every bullet; which merges count is known at the end. The events at some
    positions are `without` effect, but for what depends on a helpful verdict.
    """

    types: Final = tuple({*PlaybookFold.types, *_WINDOWS, ev.ADVICE_TOLD})

    def __init__(self, without: Collection[int] = ()) -> None:
        self._without = without
        self._playbook = PlaybookFold()
        self._events: list[Event] = []

    def apply(self, event: Event) -> None:
        if not event.fault:
            self._playbook.apply(event)
            self._events.append(event)

    def answer(self) -> Usage:
        usage = Usage()
        #: By what was done and the bullet.
        sessions: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in self._events:
            facts = event.facts
            if event.type in _WINDOWS and event.position not in self._without:
                is_session = event.type == ev.SESSION_RECORDED
                carried = facts.get("carried", ()) if is_session else ()
                cited = [*facts.get("cited", ()), *carried]
                for name in self._counted_for(cited):
                    used = usage.bullets[name]
                    used.last_cited = max(used.last_cited, as_written(event.occurred_at))
                    sessions["cited", name].add(event.session_id or event.event_id)
            elif event.type == ev.ADVICE_TOLD and event.data is not None:
                is_of_file = facts.get("via") == "file"
                usage.texts += not is_of_file
                session = event.session_id or event.target_id
                if session is not None:
                    for name in self._counted_for(facts.get("bullets", ())):
                        sessions["shown", name].add(session)
                        if not is_of_file:
                            sessions["told", name].add(session)
            elif event.type == ev.BULLET_TAGGED:
                self._judge(event, usage, sessions)
        for name in {name for _, name in sessions}:
            sessions["undecided", name] = sessions["cited", name] - sessions["judged", name]
            sessions["followed", name] -= sessions["broken", name]
        for (verb, name), members in sessions.items():
            setattr(usage.bullets[name], verb, len(members))
        return usage

    def _judge(self, event: Event, usage: Usage, sessions: dict[tuple[str, str], set[str]]) -> None:
        given, sign = counted_verdict(event.facts) or (storable(event.facts.get("name")), 0)
        disposition = event.facts.get("disposition")
        followed = {"yes": "followed", "no": "broken"}.get(str(event.facts.get("followed")))
        for name in self._counted_for([given]):
            used = usage.bullets[name]
            if sign > 0:
                used.helped = event.position
                used.told_then = len(sessions["told", name])
            if event.session_id is None or event.position in self._without:
                continue
            if not (sign or disposition in ("neutral", "not_followed")):
                continue
            if followed:
                sessions[followed, name].add(event.session_id)
            if disposition == "not_followed":
                continue
            sessions["judged", name].add(event.session_id)
            if sign:
                sessions["decided", name].add(event.session_id)

    def _counted_for(self, names: Iterable[str]) -> list[str]:
        """Return these bullets and those that have their evidence besides."""
        book = self._playbook.answer()
        return [bullet for name in names for bullet in (name, *book.heirs(name))]
