"""Whatever is appended in whatever order: tables, fold, a rebuild and an independent query say
the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.folds import fold_events
from reflector.events.registry import fold
from reflector.ledger.answers import count_answers
from reflector.ledger.as_of import Past
from reflector.ledger.errors import AlreadyRetracted, Conflict, LedgerError
from reflector.ledger.projection import REBUILDABLE
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.ledger.usage import count_state, count_usage, heirs_at, take_back
from reflector.playbook.bullet import COUNTINGS
from reflector.proof.verify import verify

from . import sql
from .events import (
    about,
    added,
    adopted,
    changed,
    imported,
    redacted,
    reflected,
    retracted,
    tagged,
    window,
)
from .usage_fold import UsageFold

#: Few names, so that bullets are judged before they exist, after they are gone, and twice.
_NAMES = ["pat-001", "pat-002", "mis-001", "mis-002", "ctx-001", "oth-001"]
_NAME = st.sampled_from(_NAMES)
_SMALL = st.integers(0, 3)
_TAG = st.one_of(
    st.tuples(_NAME, st.sampled_from(["helpful", "harmful"]), st.just("counted")),
    st.tuples(_NAME, st.just("neutral"), st.sampled_from(["neutral", "counted", "not_followed"])),
    st.tuples(
        _NAME,
        st.sampled_from(["helpful", "Helpful"]),
        st.sampled_from(["retired_bullet", "unknown_tag"]),
    ),
    st.tuples(
        st.none() | st.just(["pat-001"]),
        st.just("helpful"),
        st.sampled_from(["malformed", "counted"]),
    ),
)
_PLAYBOOKS = count()


class LedgerMachine(RuleBasedStateMachine):
    """A ledger beside a plain list of what was appended to it."""

    url = ""
    windows = Bundle("windows")
    targets = Bundle("targets")

    @initialize()
    def open(self) -> None:
        # A playbook of its own in one database: also, no playbook may disturb another.
        self.ledger = Ledger.open(self.url, f"playbook-{next(_PLAYBOOKS)}")
        self.appended: list[NewEvent] = []
        self.names: set[str] = set()
        self.retracted: set[str] = set()
        self.number = count()

    def _append(self, *events: NewEvent) -> None:
        answers = self.ledger.append(events)
        start = len(self.appended)
        assert [answer.position for answer in answers] == list(
            range(start + 1, start + len(events) + 1)
        )
        self.appended += events

    def _refused(self, error: type[LedgerError], *events: NewEvent) -> None:
        with pytest.raises(error):
            self.ledger.append(events)

    @rule(name=_NAME, helpful=_SMALL, harmful=_SMALL)
    def add(self, name: str, helpful: int, harmful: int) -> None:
        event = added(name, f"Text {next(self.number)}", helpful, harmful)
        if name in self.names:
            self._refused(Conflict, event)
        else:
            self.names.add(name)
            self._append(event)

    @rule(bullets=st.lists(st.tuples(_NAME, _SMALL, _SMALL), min_size=1, max_size=3))
    def import_(self, bullets: list[tuple[str, int, int]]) -> None:
        event = imported(*bullets, digest=f"{next(self.number):064d}")
        names = [name for name, _, _ in bullets]
        if len(set(names)) < len(names) or self.names & set(names):
            self._refused(Conflict, event)
        else:
            self.names.update(names)
            self._append(event)

    @rule(
        name=_NAME,
        what=st.sampled_from([ev.BULLET_REVISED, ev.BULLET_MOVED, ev.BULLET_REMOVED]),
        into=_NAME,
    )
    def change(self, name: str, what: str, into: str) -> None:
        data: dict[str, Any] = {
            ev.BULLET_REVISED: {"text": f"Text {next(self.number)}"},
            ev.BULLET_MOVED: {"section": into[:3]},
            ev.BULLET_REMOVED: {"reason": "merged", "into": into},
        }[what]
        self._append(changed(what, name, next(self.number), **data))

    @rule(name=_NAME, helpful=_SMALL, harmful=_SMALL)
    def set_baseline(self, name: str, helpful: int, harmful: int) -> None:
        self._append(
            changed(ev.BULLET_RECOUNTED, name, next(self.number), helpful=helpful, harmful=harmful)
        )

    @precondition(lambda self: self.appended)
    @rule(name=_NAME, data=st.data(), helpful=_SMALL)
    def undo_a_baseline(self, name: str, data: st.DataObject, helpful: int) -> None:
        since = data.draw(st.sampled_from(self.appended)).event_id
        former = {"since": since, "baseline_helpful": helpful, "baseline_harmful": 1}
        self._append(
            changed(ev.BULLET_RECOUNTED, name, next(self.number), helpful=9, harmful=9, **former)
        )

    @rule(
        target=windows,
        session=st.sampled_from(["s1", "s2", "s3", None]),
        keys=st.just([]) | st.lists(st.integers(-5, 5), max_size=4),
        cited=st.lists(_NAME, max_size=2, unique=True),
    )
    def record(self, session: str | None, keys: list[int], cited: list[str]) -> NewEvent:
        event = window(next(self.number), session, keys)
        event = replace(event, data={**event.data, "cited": cited})
        self._append(event)
        return event

    @rule(
        window=windows,
        names=st.lists(_NAME, max_size=3, unique=True),
        what=st.sampled_from(["digest", "task"]),
        via=st.sampled_from(["injection", "file"]),
    )
    def tell(self, window: NewEvent, names: list[str], what: str, via: str) -> None:
        """What a session was told at a start, by a file that its client loads, or besides."""
        said = {"via": via, "lessons": [], "bullets": names, what: "x"}
        self._append(about(ev.ADVICE_TOLD, window, next(self.number), **said))

    @rule(
        target=targets,
        window=windows,
        reflection=st.sampled_from(["r0", "r1", "r2", "r3", None]),
        model=st.sampled_from(["m-1", "claude-opus-5", None]),
        tokens=st.integers(0, 9),
    )
    def answer(
        self, window: NewEvent, reflection: str | None, model: str | None, tokens: int
    ) -> NewEvent:
        """An answer of a reflection that is complete, or not yet, or never."""
        event = about(ev.REFLECTION_ANSWERED, window, next(self.number), model=model, answer="x")
        event = replace(
            event, reflection_id=reflection, meta={"input_tokens": tokens} if tokens else {}
        )
        self._append(event)
        return event

    @rule(name=_NAME)
    def bring_back(self, name: str) -> None:
        self._append(changed(ev.BULLET_RESTORED, name, next(self.number)))

    @rule(target=targets, window=windows, tags=st.lists(_TAG, max_size=5), apart=st.booleans())
    def reflect(self, window: NewEvent, tags: list[Any], apart: bool) -> Any:
        events = reflected(f"r{next(self.number)}", window, *tags)
        if apart:
            for event in events:
                self._append(event)
        else:
            self._append(*events)
        return multiple(*events)

    @rule(target=targets, tag=_TAG, reflection=st.sampled_from(["r0", "r1", "r2", None]))
    def tag_alone(self, tag: Any, reflection: str | None) -> NewEvent:
        """A tag of no reflection, or of one that is long complete, or not yet."""
        event = replace(tagged(reflection, 0, *tag), event_id=identity("alone", next(self.number)))
        self._append(event)
        return event

    @rule(
        window=windows,
        what=st.sampled_from([ev.REFLECTION_ANSWERED, ev.REFLECTION_FAILED, ev.REFLECTION_SKIPPED]),
    )
    def step(self, window: NewEvent, what: str) -> None:
        self._append(about(what, window, next(self.number), final=next(self.number) % 3 == 0))

    @rule(target=targets, what=st.one_of(targets, windows), another=st.booleans())
    def retract(self, what: NewEvent, another: bool) -> Any:
        event = retracted(what)
        if another:
            event = replace(event, event_id=identity("another", next(self.number)))
        if what.event_id in self.retracted:
            if another:
                self._refused(AlreadyRetracted, event)
            return multiple()
        self.retracted.add(what.event_id)
        self._append(event)
        return event

    @rule(counting=st.sampled_from([*COUNTINGS, "unknown"]))
    def adopt(self, counting: str) -> None:
        self._append(adopted(counting, next(self.number)))

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        events = data.draw(st.lists(st.sampled_from(self.appended), min_size=1, max_size=4))
        head = self.ledger.head()
        answers = self.ledger.append(events)
        assert [self.appended[answer.position - 1].event_id for answer in answers] == [
            e.event_id for e in events
        ]
        assert not any(answer.added for answer in answers)
        assert self.ledger.head() == head

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def contradict(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.appended))
        position = self.ledger.head().position
        self._refused(Conflict, replace(event, data={**event.data, "other": 1}))
        assert self.ledger.head().position == position

    @rule(what=consumes(targets))
    def redact(self, what: NewEvent) -> None:
        if what.type == ev.BULLET_TAGGED:
            with pytest.raises(LedgerError, match="contains no text"):
                self.ledger.redact([what.event_id], reason="x", actor="human")
        else:
            (answer,) = self.ledger.redact([what.event_id], reason="x", actor="human")
            assert answer.position == len(self.appended) + 1
            self.appended.append(redacted(what.event_id, "x"))

    @rule()
    def rebuild(self) -> None:
        self.ledger.rebuild()

    @invariant()
    def tables_and_fold_and_query_agree(self) -> None:
        if not hasattr(self, "ledger"):
            return
        events = list(self.ledger.events())
        assert [event.event_id for event in events] == [event.event_id for event in self.appended]
        book = fold(events)
        rows = self.ledger.rows()
        assert [
            (
                r.name,
                r.section,
                r.text,
                r.status,
                r.reason,
                r.removed_into,
                r.position,
                (r.helpful, r.harmful),
            )
            for r in rows
        ] == [
            (
                e.name,
                e.section,
                e.text,
                e.status,
                e.reason,
                e.removed_into,
                e.position,
                book.counters(e.name),
            )
            for e in book.entries.values()
        ]
        assert self.ledger.updated_at() == book.updated_at
        assert self.ledger.counting() == book.adopted
        assert [
            (row.event_id, row.state, row.attempts) for row in self.ledger.windows()
        ] == _windows(self.appended)
        moment = next(self.number) % (len(events) + 1)
        for upto in (len(events), moment):
            assert_usage(self.ledger, upto, events[:upto])

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        with self.ledger:
            assert list(verify(self.ledger)) == []
            before = self._tables()
            self.ledger.rebuild()
            assert self._tables() == before
            assert list(verify(self.ledger)) == []

    def _tables(self) -> list[list[tuple[object, ...]]]:
        names = (*REBUILDABLE, "projection")
        where = f"WHERE playbook_id = {self.ledger.playbook_id}"
        return [
            sorted(sql.rows(self.ledger, (f"SELECT * FROM {name} {where}")), key=repr)
            for name in names
        ]


def _windows(events: list[NewEvent]) -> list[tuple[str, str, int]]:
    """(event id, state, attempts) of each window, from the words of design and tables."""
    found: dict[str, tuple[str, int]] = {}
    for event in events:
        if event.type == ev.SESSION_RECORDED:
            found[event.event_id] = ("pending", 0)
        state, attempts = found.get(event.target_id or "", ("closed", 0))
        if state in ("closed", "completed") or event.target_id is None:
            continue
        if event.type == ev.REFLECTION_FAILED:
            found[event.target_id] = (
                "given_up" if event.data.get("final") else "failed",
                attempts + 1,
            )
        elif event.type in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED, ev.REFLECTION_SKIPPED):
            found[event.target_id] = (event.type.removeprefix("reflection."), attempts)
    return [(event_id, state, attempts) for event_id, (state, attempts) in found.items()]


def _run(url: str, examples: int, steps: int) -> None:
    machine = type("LedgerMachine", (LedgerMachine,), {"url": url})
    # On a server a history takes a hundred times as long as in a file, too long to shrink within a
    # test's time.
    phases = [phase for phase in Phase if phase is not Phase.shrink or url.startswith("sqlite")]
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, phases=phases, report_multiple_bugs=False
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]


def test_tables_fold_rebuild_and_query_agree(ledger_url: str) -> None:
    _run(ledger_url, *((8, 20) if ledger_url.startswith("sqlite") else (2, 20)))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tables_fold_rebuild_query_agree_after_long_histories(ledger_url: str) -> None:
    _run(ledger_url, *((150, 50) if ledger_url.startswith("sqlite") else (40, 40)))


def _assert_taken_back(
    ledger: Ledger, asked: Statements, upto: int, events: Sequence[Event]
) -> None:
    """Usage without retracted evidence is that of the history without it."""
    past = Past(ledger, upto)
    retracted = {event.position for event in events if event.event_id in past.retracted}
    usage = count_usage(asked, upto)
    take_back(asked, usage, past)
    expected = fold_events(UsageFold({*retracted, *past.covered}), events)
    assert usage.dump() == expected.dump()


def assert_usage(ledger: Ledger, upto: int, events: Iterable[Event]) -> None:
    """`count_usage` equals its definition; from any earlier position with the same merges it and
    `count_answers` come to the same.
    """
    with ledger.asking() as asked:
        state = [count_usage(asked, upto).dump(), count_answers(asked, upto).dump()]
        events = [*events]
        assert state[0] == fold_events(UsageFold(), events).dump()
        _assert_taken_back(ledger, asked, upto, events)
        for since in {upto // 3, upto - 1} - {-1}:
            if heirs_at(asked, since) == heirs_at(asked, upto):
                assert count_state(asked, upto, since, count_state(asked, since)) == state
