"""`usage` by its definition, from all events at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.registry import fold
from reflector.events.state import verdict
from reflector.ledger.answers import answers as ask_answers
from reflector.ledger.projection import storable
from reflector.ledger.store import Ledger
from reflector.ledger.usage import EMPTY, Used, counted, heirs_at, usage

_WINDOWS = (ev.SESSION_RECORDED, ev.TRAJECTORY_RECORDED)


def bullets(events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """What `usage` says of each name that it knows, by name."""
    events = list(events)
    book = fold(events)

    def counted_for(name: str) -> list[str]:
        return [name, *book.heirs(name)]

    sets: dict[str, dict[str, set[str]]] = {kind: defaultdict(set) for kind in ("told", "cited", "judged")}
    told, cited, judged = sets.values()
    last: dict[str, int] = {}
    helped: dict[str, tuple[int, int]] = {}
    trends: dict[str, str] = defaultdict(str)
    broken: dict[str, int] = defaultdict(int)
    for event in events:
        data = event.data or {}
        if event.type in _WINDOWS:
            session = event.session_id or event.event_id
            for name in (one for given in data.get("cited", ()) for one in counted_for(given)):
                cited[name].add(session)
        elif event.type == ev.ADVICE_TOLD and event.data is not None:
            by = event.session_id or event.target_id
            if by is not None:
                for name in (one for given in data.get("bullets", ()) for one in counted_for(given)):
                    told[name].add(by)
        elif event.type == ev.BULLET_TAGGED:
            given, tag = verdict(data) or (storable(data.get("name")), 0)
            for name in counted_for(given):
                last[name] = event.position
                broken[name] += data.get("followed") == "no"
                trends[name] = (trends[name] + ".+-"[tag])[-8:]
                if tag > 0:
                    helped[name] = (event.position, len(told[name]))
                if event.session_id is not None:
                    judged[name].add(event.session_id)
    names = {name for of in sets.values() for name, sessions in of.items() if sessions} | last.keys()
    return {
        name: {
            "told": len(told[name]),
            "cited": len(cited[name]),
            "judged": len(judged[name]),
            "last": last.get(name, 0),
            "helped": helped.get(name, (0, 0))[0],
            "told_then": helped.get(name, (0, 0))[1],
            "trend": trends[name],
            "broken": broken[name],
        }
        for name in names
    }


def told_by(ledger: Ledger, upto: int) -> dict[str, Any]:
    """What `usage` says at a position; from any earlier one with the same merges it and `answers` come to the same."""
    with ledger.asking() as asked:
        bullets, answers = usage(asked, upto), ask_answers(asked, upto)
        for since in {upto // 3, upto - 1} - {-1}:
            if heirs_at(asked, since) != heirs_at(asked, upto):
                continue
            state = counted(asked, since, (0, EMPTY))
            assert counted(asked, upto, (since, state)) == [bullets.dump(), answers.dump()]
    return {name: asdict(one) for name, one in bullets.bullets.items() if one != Used()}
