"""Two machines' ledgers become one, whichever takes the other in; tests/oracle plays texts,
counts and policies.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reflector.changes.propose import (
    approve_proposal,
    find_proposal,
    propose,
    read_proposals,
    reject_proposal,
)
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.exchange.pairs import both_take, bullets, counts, sound, taken, told
from tests.ledger import sql
from tests.ledger.events import added, changed, checked, imported, reflected, retracted, window


def _judged(name: str, *numbers: int) -> list[NewEvent]:
    events: list[NewEvent] = []
    for number in numbers:
        seen = window(number, f"s{number}", keys=[number])
        events.append(replace(seen, data={**seen.data, "cited": [name], "unknown": ["pat-006"]}))
        events += reflected(f"r{number}", seen, (name, "helpful"))
    return events


def test_renamed_bullets_keep_what_counts_for_them(one: Ledger, two: Ledger) -> None:
    one.append([added("pat-004", "Run the linter"), *_judged("pat-004", 1)])
    two.append([added("pat-004", "Read the log"), *_judged("pat-004", 2, 3)])
    two.append([changed(ev.BULLET_REVISED, "pat-004", 1, text="Read the whole log")])
    two.append(
        [
            imported(("pat-005", 1, 0)),
            changed(ev.BULLET_REMOVED, "pat-005", 1, reason="x", into="pat-004"),
        ]
    )
    two.redact([identity(ev.BULLET_ADDED, "pat-004")], reason="a secret", actor="human")
    # pat-006 means nothing here, but sessions there have cited it.
    assert taken(one, two, rename=True).renamed == {"pat-004": "pat-007"}
    assert {name: row[1:2] + row[4:] for name, row in bullets(one).items()} == {
        "pat-004": ("Run the linter", None, 1, 0),
        "pat-007": ("Read the whole log", None, 2, 0),
        "pat-005": ("About pat-005", "pat-007", 1, 0),
    }
    cited = [
        name
        for event in one.events(types=[ev.SESSION_RECORDED])
        for name in (event.data or {})["cited"]
    ]
    assert cited == ["pat-004", "pat-007", "pat-007"]
    sound(one)
    # What was renamed once is so for ever, without being asked for again.
    two.append(_judged("pat-004", 4))
    taken(one, two)
    assert counts(one, "pat-007") == (3, 0)
    # Taken back, the bullet is known: it is theirs. Ours collides there, as it must.
    with pytest.raises(LedgerError, match=r"pat-004: in this ledger .*Read"):
        taken(two, one)
    assert taken(two, one, rename=True).renamed == {"pat-004": "pat-008"}
    assert told(one) == told(two)
    one.append(_judged("pat-007", 5))
    taken(two, one)
    assert counts(two, "pat-004") == (4, 0)
    sound(one, two)


_BASE = added("pat-001", "Same")


@pytest.mark.parametrize(
    ("here", "there", "wanted"),
    [
        pytest.param(
            [imported(("pat-001", 3, 1)), *_judged("pat-001", 1)],
            [
                imported(("pat-001", 9, 9), ("pat-002", 1, 0), digest="1" * 64),
                *_judged("pat-001", 2),
            ],
            {"pat-001": (5, 1), "pat-002": (1, 0)},
            id="of two baselines the one that was recorded first stands",
        ),
        pytest.param(
            [_BASE],
            [added("pat-001", "Same", helpful=2)],
            {"pat-001": (0, 0)},
            id="a bullet of both machines is one",
        ),
        pytest.param(
            [_BASE, changed(ev.BULLET_MOVED, "pat-001", 1, section="oth")],
            [_BASE, changed(ev.BULLET_MOVED, "pat-001", 2, section="ctx")],
            {"pat-001": ("ctx", "Same", "live", None, None, 0, 0)},
            id="the later section stands",
        ),
    ],
)
def test_two_ledgers_become_one_in_either_order(
    one: Ledger,
    two: Ledger,
    here: list[NewEvent],
    there: list[NewEvent],
    wanted: dict[str, tuple[object, ...]],
) -> None:
    one.append(here)
    two.append(there)  # recorded later
    both_take(one, two)
    assert {name: bullets(one)[name][-len(row) :] for name, row in wanted.items()} == wanted


def test_undone_merge_text_is_a_change_elsewhere(one: Ledger, two: Ledger) -> None:
    one.append([_BASE, changed(ev.BULLET_REVISED, "pat-001", 1, text="Here")])
    two.append([_BASE, changed(ev.BULLET_REVISED, "pat-001", 2, text="There")])
    taken(two, one)
    (restated,) = two.at([two.head().position])
    assert (restated.actor, restated.facts["text"]) == ("merge", "There")
    two.append(
        [
            replace(
                changed(ev.BULLET_REVISED, "pat-001", 3, text="Here"), target_id=restated.event_id
            )
        ]
    )
    both_take(one, two)
    assert bullets(one)["pat-001"][1] == "Here"


def test_undone_count_under_another_name_is_undone_here(one: Ledger, two: Ledger) -> None:
    one.append([imported(("pat-001", 0, 0))])
    born, (seen, *judged) = added("pat-001", "Read the log"), _judged("pat-001", 1)
    two.append(
        [born, seen, *judged, changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=5, harmful=0)]
    )
    former = {"since": born.event_id, "baseline_helpful": 0, "baseline_harmful": 0}
    two.append(
        [
            changed(ev.BULLET_RECOUNTED, "pat-001", 2, helpful=1, harmful=0, **former),
            retracted(seen, "no"),
        ]
    )
    taken(one, two, rename=True)
    assert counts(one, "pat-002") == counts(two) == (0, 0)
    sound(one, two)


def _line(name: str, text: str = "Run the tests", **more: Any) -> NewEvent:
    """A bullet that `check` watches."""
    return replace(one := added(name, text), data={**one.data, "watched": True, **more})


def _check(
    number: int, name: str, actor: str = "agent", part: int = 0, *, counts: bool = True
) -> list[NewEvent]:
    """A window that was checked about a line which helped in it."""
    seen, of = window(number, f"s{number}"), f"{actor}-{number}-{part}"
    done, tag = reflected(of, seen, (name, "helpful"), actor=actor)
    told = replace(
        checked(seen, name, "helpful"), event_id=identity(ev.BULLET_CHECKED, of), reflection_id=of
    )
    events = [seen] if part == 0 else []
    return [
        *events,
        replace(done, data={**done.data, "mode": "checked"}),
        told,
        *([tag] if counts else []),
    ]


@pytest.mark.parametrize("has_more", [False, True], ids=["earlier state", "merge"])
def test_imported_erasure_leaves_no_text_in_the_file(
    one: Ledger, two: Ledger, has_more: bool
) -> None:
    erased = [added(f"pat-{number:03d}", f"Call JANE DOE, {number}") for number in range(1, 9)]
    one.append(erased)
    load_ledger(two, exported(one))
    if has_more:
        two.append([added("mis-001", "Only here")])
    one.redact([event.event_id for event in erased], reason="gdpr", actor="human")
    taken(two, one)
    if two.engine.url.is_file:
        file = Path(two.engine.url.database)
        assert not [
            path.name
            for path in file.parent.glob(f"{file.name}*")
            if b"JANE DOE" in path.read_bytes()
        ]


def test_watched_line_matches_by_text_not_name(one: Ledger, two: Ledger) -> None:
    one.append([_line("oth-001"), _line("oth-002", "Use cents")])
    one.append([*_check(1, "oth-001"), *_check(1, "oth-001", part=1, counts=False)])
    two.append([_line("oth-002"), _line("oth-001", "Use cents"), *_check(2, "oth-002", "rules")])
    first = list(exported(one))
    taken(one, two)
    taken(two, first)
    assert [counts(one, "oth-001"), counts(two, "oth-002")] == [(2, 0)] * 2
    assert not list(one.events(types=[ev.EVIDENCE_RETRACTED]))
    # The name there is known from then on, whatever becomes of the words.
    two.redact([identity(ev.BULLET_ADDED, "oth-002")], reason="a secret", actor="human")
    two.append(_check(3, "oth-002"))
    taken(one, two)
    assert counts(one, "oth-001") == (3, 0)
    sound(one, two)


def test_rule_watched_only_elsewhere_stays_in_the_playbook(one: Ledger, two: Ledger) -> None:
    one.append([_line("pat-001", "About pat-001")])
    two.append([imported(("pat-001", 3, 1))])
    both_take(one, two)
    assert bullets(one)["pat-001"] == ("pat", "About pat-001", "live", None, None, 3, 1)


def test_session_checked_here_and_judged_there_counts_once(one: Ledger, two: Ledger) -> None:
    one.append([_BASE, *_check(1, "pat-001", "agent")])
    two.append([_BASE, window(1, "s1"), *reflected("r1", window(1, "s1"), ("pat-001", "helpful"))])
    assert (both_take(one, two).set_aside, counts(one), counts(two)) == (0, (1, 0), (1, 0))
    two.append(_check(1, "pat-001", "codex", part=1))
    taken(one, two)
    taken(two, one)
    assert counts(one) == counts(two) == (1, 0)
    sound(one, two)


def test_window_of_two_judges_counts_once_everywhere(one: Ledger, two: Ledger) -> None:
    seen = window(1)
    rules = [
        _BASE,
        seen,
        *reflected("r-rules", seen, ("pat-001", "helpful"), ("pat-001", "helpful")),
    ]
    model = [*rules[:2], *reflected("r-model", seen, ("pat-001", "harmful"), actor="anthropic")]
    one.append(rules)
    two.append(model)
    assert both_take(one, two).set_aside == 1
    # The retraction is an event like any other: who takes both in has it, whoever appended it.
    assert taken(one, two).added == taken(two, one).added == 0
    for ledger in (one, two):
        assert counts(ledger) == (0, 1)
        (retraction,) = ledger.events(types=[ev.EVIDENCE_RETRACTED])
        assert retraction.target_id == rules[2].event_id
        reason = {
            "reason": "the verdict of anthropic on the same part of the session counts instead"
        }
        assert (retraction.actor, retraction.data) == ("merge", reason)
    # A person may decide otherwise, and no merge decides again.
    one.append([retracted(retraction, "both are right")])
    taken(two, one)
    assert counts(one) == counts(two) == (2, 1)


@pytest.mark.parametrize("ahead", [30, -300])
def test_counter_set_by_hand_holds_despite_the_clocks(
    one: Ledger, two: Ledger, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    # a server takes no event that is more than a minute ahead of its clock
    def skewed(seconds: int) -> None:
        now = datetime.now(UTC) + timedelta(seconds=seconds)
        monkeypatch.setattr(
            "reflector.ledger.append.utc_now", lambda: now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        )

    def append(ledger: Ledger, *events: NewEvent) -> None:
        skewed(ahead if ledger is two else 0)
        ledger.append(events)
        skewed(0)

    append(one, added("pat-001"))
    load_ledger(two, list(exported(one)))
    append(two, *_judged("pat-001", 1, 2))
    taken(one, two)
    # A person sees 2 and sets 7; then a session counts, on either machine.
    append(
        one,
        changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=7, harmful=0),
        *_judged("pat-001", 3),
    )
    append(two, added("ctx-001"))
    taken(one, two)
    taken(two, one)
    assert counts(one) == counts(two) == (8, 0)
    # The other way round: who set the counters had the slower clock, and knew of it all.
    append(two, changed(ev.BULLET_RECOUNTED, "pat-001", 2, helpful=1, harmful=1))
    taken(one, two)
    append(one, *_judged("pat-001", 4))
    skewed(ahead)
    taken(two, one)
    append(two, *_judged("pat-001", 5))
    taken(one, two)
    assert counts(one) == counts(two) == (3, 1)
    sound(one, two)


def test_one_fact_in_other_words_is_one_fact(one: Ledger, two: Ledger) -> None:
    seen = window(1)
    base = [added("pat-001"), seen, *reflected("r1", seen, ("pat-001", "helpful"))]
    elsewhere = [base[0], replace(seen, data={**seen.data, "trigger": "ingest"}), *base[2:]]
    one.append([*base, retracted(seen, "a mistake")])
    two.append([*elsewhere, retracted(seen, "an error")])
    merged = taken(one, two)
    assert (merged.added, merged.known, merged.otherwise) == (0, 5, 2)
    assert merged.first_different == [
        "session.recorded at position 2 in the file",
        "evidence.retracted at position 5 in the file",
    ]
    two.append([added("ctx-001")])
    assert taken(one, two).otherwise == 2
    sound(one)
    assert counts(one) == (0, 0)


_SEEN = window(1)
_VERDICTS = {
    tag: [_BASE, _SEEN, *reflected("r1", _SEEN, ("pat-001", tag))] for tag in ("helpful", "harmful")
}


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (
            [_BASE, added("pat-004", "Run the linter")],
            [_BASE, added("pat-004", "Read the log"), added("pat-005", "New")],
            r"1 name .*:\n  pat-004: in this ledger 'Run the linter', in the file 'Read the log'\Z",
        ),
        (
            [added("oth-009")],
            [*_VERDICTS["harmful"], added("oth-008", "Forged")],
            "line 6: the event's data",
        ),
    ],
)
def test_merge_that_needs_a_decision_appends_nothing(
    one: Ledger, two: Ledger, here: list[NewEvent], there: list[NewEvent], said: str
) -> None:
    one.append(here)
    two.append(there)
    before = sql.content(one)
    with pytest.raises(LedgerError, match=said):
        taken(one, [line.replace("Forged", "forged") for line in exported(two)])
    assert sql.content(one) == before


def test_first_of_two_verdicts_of_one_reflection_counts(one: Ledger, two: Ledger) -> None:
    one.append(_VERDICTS["helpful"])
    two.append([*_VERDICTS["harmful"], added("ctx-001")])
    assert both_take(one, two).set_aside == 1
    assert counts(one) == counts(two) == (1, 0)


def test_windows_that_share_records_are_told(one: Ledger, two: Ledger) -> None:
    one.append([window(1, "s1", keys=[1, 2])])
    two.append([window(2, "s1", keys=[2, 3]), window(3, "s1", keys=[4])])
    assert taken(one, two).overlapping == 1


def test_proposal_approved_on_one_machine_is_approved_everywhere(one: Ledger, two: Ledger) -> None:
    given = {"origin": "agent", "trust": "agent", "reason": "twice", "actor": "agent"}
    wish = propose(one, Change("add", section="pat", text="Run the linter."), **given)  # type: ignore[arg-type]
    taken(two, one)
    approve_proposal(one, wish)
    reject_proposal(two, find_proposal(two, wish.id), "no")
    both_take(one, two)
    states = [
        [(row.state, row.name) for row in read_proposals(ledger, only_waiting=False)]
        for ledger in (one, two)
    ]
    assert states == [[("approved", "pat-001")]] * 2
