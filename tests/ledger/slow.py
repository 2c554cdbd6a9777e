"""`usage`, `answers` and the doubles by their definition, from all events at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.fold import Playbook, apply, fold, verdict
from reflector.ledger.answers import answers as ask_answers
from reflector.ledger.cached import EMPTY, counted
from reflector.ledger.projection import storable
from reflector.ledger.store import Ledger
from reflector.ledger.usage import Used, usage
from reflector.ledger.windows import record_keys

_WINDOWS = (ev.SESSION_RECORDED, ev.TRAJECTORY_RECORDED)
_STATES = {ev.REFLECTION_ANSWERED: "answered", ev.REFLECTION_COMPLETED: "completed", ev.REFLECTION_SKIPPED: "skipped"}
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def bullets(events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """What `usage` says of each name that it knows, by name."""
    book = Playbook()
    sets: dict[str, dict[str, set[str]]] = {kind: defaultdict(set) for kind in ("told", "cited", "judged", "live")}
    told, cited, judged, live = sets.values()
    known: set[str] = set()
    last: dict[str, int] = {}
    helped: dict[str, tuple[int, int]] = {}
    trends: dict[str, str] = defaultdict(str)
    for event in events:
        apply(book, event)
        data = event.data or {}
        if event.type in _WINDOWS:
            session = event.session_id or event.event_id
            for name in data.get("cited", ()):
                cited[name].add(session)
                live[name].add(session)
            for entry in book.entries.values():
                if entry.status == "live":
                    live[entry.name].add(session)
        elif event.type == ev.ADVICE_TOLD and event.data is not None:
            by = event.session_id or event.target_id
            if by is not None:
                known |= {by} if "digest" in data else set()
                for name in data.get("bullets", ()):
                    told[name].add(by)
        elif event.type == ev.BULLET_TAGGED:
            name, tag = verdict(data) or (storable(data.get("name")), 0)
            last[name] = event.position
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
            "told_cited": len(told[name] & cited[name]),
            "judged": len(judged[name]),
            "cited_judged": len(cited[name] & judged[name]),
            "live": len(live[name]),
            "unknown": len(live[name] - known),
            "last": last.get(name, 0),
            "helped": helped.get(name, (0, 0))[0],
            "told_then": helped.get(name, (0, 0))[1],
            "trend": trends[name],
        }
        for name in names
    }


def answers(events: Iterable[Event]) -> dict[str, Any]:
    """What `answers` says."""
    windows: dict[str, str] = {}
    sessions: set[str] = set()
    given: dict[tuple[str, str], list[Event]] = defaultdict(list)
    completed: dict[str, list[Event]] = {}
    stray: Counter[str] = Counter()
    tags: list[tuple[str, str]] = []
    for event in events:
        data = event.data or {}
        if event.type in _WINDOWS:
            windows[event.event_id] = "pending"
            sessions.add(event.session_id or event.event_id)
        elif event.type == ev.REFLECTION_FAILED or event.type in _STATES:
            final = "given_up" if data.get("final") else "failed"
            if windows.get(event.target_id or "", "completed") != "completed":
                windows[event.target_id or ""] = _STATES.get(event.type, final)
        if event.type in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED):
            one = (event.reflection_id, event.target_id)
            reflection = (one[0], one[1]) if one[0] and one[1] else ("", event.event_id)
            given[reflection].append(event)
            if event.event_id == ev.identity(ev.REFLECTION_COMPLETED, event.reflection_id or ""):
                completed[event.reflection_id or ""] = list(given[reflection])
        elif event.type == ev.BULLET_TAGGED:
            tag = {1: "helpful", -1: "harmful", 0: "undecided"}[(verdict(data) or ("", 0))[1]]
            if event.reflection_id in completed:
                tags.append((event.reflection_id or "", tag))
            else:
                stray[tag] += 1
    groups: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for of in given.values():
        for event, key in zip(of, _keys(of), strict=True):
            is_answer = event.type == ev.REFLECTION_ANSWERED
            groups[key]["answers" if is_answer else "reflections"] += 1
            groups[key]["tokens"] += sum(event.meta.get(name, 0) for name in _TOKENS) * is_answer
    for reflection, tag in tags:
        groups[_keys(completed[reflection])[-1]][tag] += 1
    return {
        "windows": len(windows),
        "sessions": len(sessions),
        "states": dict(Counter(windows.values())),
        "stray": dict(stray),
        "groups": {key: {n: c for n, c in counts.items() if c} for key, counts in groups.items()},
    }


def _keys(given: list[Event]) -> list[tuple[str, str, str]]:
    """The model, template and day of each; a completion is where the answer before it is."""
    models = [event.data["model"] for event in given if event.data and event.data.get("model")]
    templates = [event.data["template_sha256"] for event in given if event.data and event.data.get("template_sha256")]
    found: list[tuple[str, str, str]] = []
    for event in given:
        said = event.data or {}
        model = said.get("model") or (models or [event.actor])[-1]
        template = said.get("template_sha256") or (templates or ["none"])[-1]
        key = (model, template[:12], event.recorded_at[:10])
        found.append(found[-1] if found and event.type == ev.REFLECTION_COMPLETED else key)
    return found


def told_by(ledger: Ledger, upto: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the questions say at a position, as the slow way says it."""
    with ledger.asking() as asked:
        bullets, answers = usage(asked, upto), ask_answers(asked, upto)
        for since in {upto // 3, upto - 1} - {-1}:
            state = counted(asked, since, (0, EMPTY))
            assert counted(asked, upto, (since, state)) == [bullets.dump(), answers.dump()]

    def shown(one):
        named = {n: getattr(one, n) for n in ("answers", "reflections", "helpful", "harmful", "undecided")}
        return {n: c for n, c in {**named, "tokens": one.spent.tokens}.items() if c}

    groups = {key: shown(one) for key, one in answers.groups.items() if shown(one)}
    return {name: asdict(one) for name, one in bullets.bullets.items() if one != Used()}, {
        "windows": answers.windows,
        "sessions": answers.sessions,
        "states": answers.states,
        "stray": shown(answers.stray),
        "groups": groups,
    }


#: class, bullet, tag, position, position of the first of them, reflection.
Double = tuple[str, str, str, int, int, str]


def doubles(ledger: Ledger) -> set[Double]:
    """What `double_counts` calls surplus, by comparing each reflection with each other one."""
    book, events = fold(ledger.history()), list(ledger.events())
    counting = {tag[0] for name in book.entries for tag in book.counted(name)}
    done = {e.reflection_id: e for e in events if e.type == ev.REFLECTION_COMPLETED and e.reflection_id and e.target_id}
    sessions = Counter(e.session_id for e in done.values() if e.session_id is not None)
    lists: dict[str | None, list[tuple[str, int]]] = defaultdict(list)
    given: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    firsts: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for event in events:
        of = event.reflection_id
        if event.type != ev.BULLET_TAGGED or of is None:
            continue
        name, tag = verdict(event.data or {}) or (storable((event.data or {}).get("name")), 0)
        if of in done and event.session_id == done[of].session_id:
            lists[of].append((name, tag))
        if event.position in counting:
            given[of, name, tag].append(event.position)
            if event.session_id is not None and sessions[event.session_id] > 1:
                firsts[name, tag, event.session_id].setdefault(of, event.position)
    with ledger.asking() as sql:
        windows = {id_: (session, set(keys)) for id_, session, keys in record_keys(sql, ledger.head().position)}

    def twins(one: str, other: str) -> set[str]:
        a, b = done[one], done[other]
        same = a.session_id is not None and a.session_id == b.session_id and lists[one] == lists[other] != []
        found = {"D3"} if same else set()
        if a.target_id != b.target_id and a.target_id in windows and b.target_id in windows:
            (of_a, keys_a), (of_b, keys_b) = windows[a.target_id], windows[b.target_id]
            found |= ({"D6"} if of_a == of_b else {"D5"}) if keys_a & keys_b else set()
        return found

    word, found = {1: "helpful", -1: "harmful"}, set[Double]()
    for (of, name, tag), (first, *more) in given.items():
        found |= {("D1", name, word[tag], at, first, of) for at in more}
        if tag > 0:
            pairs = zip((first, *more), given.get((of, name, -1), ()), strict=False)
            found |= {("D2", name, "both", max(pair), min(pair), of) for pair in pairs}
        before: dict[str, int] = {}
        for (one, *same), (at, *_) in given.items():
            if one != of and same == [name, tag] and one in done and of in done:
                before |= {code: min(at, before.get(code, at)) for code in twins(one, of)}
        found |= {
            (code, name, word[tag], at, b, of) for code, b in before.items() if b < first for at in (first, *more)
        }
    for (name, tag, _), by in firsts.items():
        start = min(by.values())
        found |= {("D4", name, word[tag], at, start, of) for of, at in by.items() if at > start}
    return found
