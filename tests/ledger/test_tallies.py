"""Tallies: the same whether events are read or taken as they pass, at once or in pieces, and doubles by definition."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fold import projects
from reflector.ledger.double_tally import DoubleTally
from reflector.ledger.projection import KEPT
from reflector.ledger.reader import history_page
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.ledger.tail import Tail
from reflector.ledger.tallies import Kept

from . import sql
from .events import about, added, changed, reflected, tagged, window
from .slow import close_checkpoints

_NAMES = ["pat-001", "pat-002", "mis-001"]
_KINDS = ["window", "window", "tell", "answer", "reflect", "reflect", "stray", "fail", "remove"]
#: (kind, which window, how much): any list of them is a history.
_STEPS = st.lists(st.tuples(st.sampled_from(_KINDS), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20)
_SESSIONS = ["s1", "s2", "s3", None]


def _events(steps: list[tuple[str, int, int]]) -> list[NewEvent]:
    """A history with sessions that go on, windows without one, tags of none, and answers before and after."""
    events = [added(name) for name in _NAMES]
    windows: list[NewEvent] = []
    for number, (kind, which, much) in enumerate(steps):
        name = _NAMES[much % len(_NAMES)]
        if kind == "window" or not windows:
            seen = window(number, _SESSIONS[which % len(_SESSIONS)], range(much))
            windows.append(replace(seen, data={**seen.data, "cited": _NAMES[: much % 3]}))
            events.append(windows[-1])
            continue
        of = windows[which % len(windows)]
        if kind == "tell":
            data = {"via": "injection", "lessons": [], "bullets": [name], "digest" if much % 2 else "task": "x"}
            told = NewEvent(ev.ADVICE_TOLD, identity(ev.ADVICE_TOLD, number), data, "hook")
            events.append(replace(told, session_id=of.session_id, target_id=of.event_id))
        elif kind == "answer":
            answer = about(ev.REFLECTION_ANSWERED, of, number, answer="x", model=[None, "m-1"][much % 2])
            events.append(replace(answer, reflection_id=f"r{much}", meta={"input_tokens": much} if much else {}))
        elif kind == "reflect":
            events += reflected(
                f"r{number}", of, *[(name, "helpful"), (_NAMES[0], "harmful"), (name, "neutral")][:much]
            )
        elif kind == "stray":
            tag = tagged(f"r{much}", 0, name, "helpful", session=_SESSIONS[which % len(_SESSIONS)])
            events.append(replace(tag, event_id=identity("stray", number)))
        elif kind == "fail":
            events.append(about(ev.REFLECTION_FAILED, of, number, stage="x", message="x", final=much % 2 == 0))
        else:
            events.append(changed([ev.BULLET_REMOVED, ev.BULLET_RESTORED][much % 2], name, number, reason="x"))
    return events


@contextmanager
def _asked(steps: list[tuple[str, int, int]]) -> Iterator[tuple[Ledger, Statements, int]]:
    with tempfile.TemporaryDirectory() as folder, Ledger.open_file(Path(folder) / "ledger.db") as ledger:
        ledger.append(_events(steps))
        with ledger.asking() as asked:
            yield ledger, asked, ledger.head().position


def _fed(asked: Statements, after: int, upto: int) -> Tail:
    tail = Tail.fed(asked, after)
    for event in history_page(asked, after, upto, projects):
        if event.type == ev.BULLET_TAGGED:
            tail.tags += asked.run(
                "SELECT position, name, tag, session_id, reflection_id, active FROM tag"
                " WHERE playbook_id = ? AND position = ?",
                event.position,
            ).fetchall()
        else:
            tail.take(event)
    tail.upto = upto
    return tail


def _parts(tail: Tail) -> list[Any]:
    windows = [one._replace(cited=list(one.cited)) for one in tail.windows]
    return [tail.tags, windows, tail.told, tail.steps, tail.going_on, tail.judged_before, tail.completions, tail.before]


@given(steps=_STEPS, cut=st.integers(0, 60))
def test_a_tail_says_the_same_whether_its_events_are_read_or_pass_by(
    steps: list[tuple[str, int, int]], cut: int
) -> None:
    with _asked(steps) as (_, asked, head):
        after = min(cut, head)
        assert _parts(_fed(asked, after, head)) == _parts(Tail(asked, after, head))


@given(steps=_STEPS, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_a_tally_is_the_same_however_its_events_are_divided(steps: list[tuple[str, int, int]], cuts: list[int]) -> None:
    with _asked(steps) as (_, asked, head):
        for kind in KEPT:
            at_once, in_pieces = kind(), kind()
            at_once.advance(asked, head)
            for cut in sorted({min(cut, head) for cut in cuts} | {head}):
                in_pieces.advance(asked, cut)
            assert in_pieces.text() == at_once.text()


@given(steps=_STEPS)
def test_doubles_are_looked_for_where_the_definition_says(steps: list[tuple[str, int, int]]) -> None:
    with _asked(steps) as (ledger, asked, head):
        events = list(ledger.events())
        done = {one.reflection_id: one for one in events if one.type == ev.REFLECTION_COMPLETED}
        tags = [one for one in events if one.type == ev.BULLET_TAGGED]
        named = Counter((tag.session_id, (tag.data or {})["name"]) for tag in tags if tag.session_id)
        strays = set()
        for tag in tags:
            of = done.get(tag.reflection_id)
            own = of is not None and of.session_id and of.session_id == tag.session_id and of.position < tag.position
            if not own and (tag.data or {})["tag"] != "neutral":
                strays.add(tag.position)
        tally = DoubleTally.at(asked, head)
        assert tally.sessions == {session for (session, _), count in named.items() if count > 1}
        assert tally.tags == strays
        # Without a window there is nothing to be about, so the first step always makes one.
        assert tally.keys == sum(much for number, (kind, _, much) in enumerate(steps) if kind == "window" or not number)


@given(steps=_STEPS, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_checkpoints_do_not_depend_on_what_is_appended_together_or_by_whom(
    steps: list[tuple[str, int, int]], sizes: list[int]
) -> None:
    events, made = _events(steps), []
    for whose in ("one", "another each time", "a rebuild"):
        with close_checkpoints(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            rest = list(events)
            for turn in range(len(events)):
                if not rest:
                    break
                size = len(rest) if whose == "one" else sizes[turn % len(sizes)]
                with Ledger.open_file(path) as ledger:
                    ledger.append(rest[:size])
                    if whose != "another each time":  # the tallies are kept from one append to the next
                        for event in rest[size:]:
                            ledger.append([event])
                        size = len(rest)
                rest = rest[size:]
            with Ledger.open_file(path) as ledger:
                if whose == "a rebuild":
                    ledger.rebuild()
                made.append(sql.rows(ledger, "SELECT name, position, state FROM tally ORDER BY name, position"))
    assert made[0] == made[1] == made[2]


def test_what_another_process_appended_between_is_in_the_next_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    events = _events([("window", number, 2) for number in range(6)])
    with close_checkpoints(), Ledger.open_file(path) as ledger, Ledger.open_file(path) as other:
        for number, event in enumerate(events):
            (ledger if number % 3 else other).append([event])
        made = sql.rows(ledger, "SELECT * FROM tally ORDER BY name, position")
        ledger.rebuild()
        assert made
        assert sql.rows(ledger, "SELECT * FROM tally ORDER BY name, position") == made


def test_a_checkpoint_is_left_where_an_append_that_was_rolled_back_had_crossed_it(tmp_path: Path) -> None:
    events = _events([("window", number, 2) for number in range(6)])
    with close_checkpoints(), Ledger.open_file(tmp_path / "ledger.db") as ledger:
        ledger.append(events[:4])
        sql.run(ledger, "CREATE TRIGGER broken BEFORE UPDATE ON playbook BEGIN SELECT RAISE(ABORT, 'broken'); END")
        with pytest.raises(Exception, match="broken"):
            ledger.append(events[4:])
        sql.run(ledger, "DROP TRIGGER broken")
        ledger.append(events[4:])
        made = sql.rows(ledger, "SELECT * FROM tally ORDER BY name, position")
        ledger.rebuild()
        assert made
        assert sql.rows(ledger, "SELECT * FROM tally ORDER BY name, position") == made


def test_a_gap_in_the_positions_ends_a_tail_once() -> None:
    with Ledger.open("sqlite://") as ledger, ledger.asking() as asked, close_checkpoints():
        kept = Kept(asked, KEPT, 0)
        for position in (1, 10**15, 10**15 + 5):
            kept.take_tag((position, "pat-001", 1, "s1", None, 1))
        assert len(kept.full) == 2
