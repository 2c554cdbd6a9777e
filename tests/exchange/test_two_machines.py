"""Two machines change the same playbook with commands, and each takes the other in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reflector.audit.worked import WorkedModels
from reflector.changes.apply import apply_changes
from reflector.changes.retractions import retract
from reflector.changes.takeback import take_back_act
from reflector.changes.undo import Act, last_change, undoing, undone
from reflector.events import event as ev
from reflector.events.event import MODEL, Event, NewEvent, tx_of
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import WrongLine, exported, load_ledger
from reflector.ledger.models import window_models, worked_sessions
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.change import KINDS, Change
from reflector.proof.verify import verify
from reflector.reflection.standing import citations, record_verdict
from tests.conftest import first_fast
from tests.exchange.pairs import both_take, bullets, counts, sound, taken, told
from tests.ledger.events import add_bullet, added, reflected, window

_FIRST, _SECOND = (
    {"text": "One says", "section": "mis", "helpful": 3, "harmful": 1},
    {
        "text": "Two says",
        "section": "ctx",
        "helpful": 1,
        "harmful": 4,
    },
)
#: What each kind of change does on the two machines at once.
_CONFLICTS: dict[str, tuple[Change, Change]] = {
    "add": (
        Change("add", section="pat", text="Both say"),
        Change("add", section="pat", text="Both say"),
    ),
    "remove": (Change("remove", "pat-001"), Change("revise", "pat-001", text="Reworded")),
    "merge": (
        Change("merge", names=("pat-001", "pat-002"), section="pat", text="Both"),
        Change("remove", "pat-002"),
    ),
    "unmerge": (Change("unmerge", "pat-005"), Change("revise", "pat-005", text="Reworded")),
    "restore": (Change("restore", "pat-006"), Change("recount", "pat-001", helpful=2, harmful=2)),
    "watch": (Change("watch", "pat-001"), Change("revise", "pat-001", text="Reworded")),
    "forget": (Change("forget", "pat-001"), Change("restore", "pat-001")),
    **{
        kind.name: tuple(  # type: ignore[misc]
            Change(kind.name, "pat-001", **{field: values[field] for field in kind.fields})
            for values in (_FIRST, _SECOND)
        )
        for kind in KINDS.values()
        if kind.set_fields
    },
}


def change(ledger: Ledger, *changes: Change) -> None:
    apply_changes(ledger, changes, actor="human")


def opposite(kind: str) -> list[Change]:
    """Return the changes after which a bullet can be given the values of a kind that it has from
    the beginning.
    """
    if kind == "forget":
        return [Change("watch", "pat-001")]
    of_kind = KINDS[kind]
    others = [other for other in KINDS.values() if other.constants != of_kind.constants]
    named = [other.name for other in others if other.constants.keys() == of_kind.constants.keys()]
    is_so = of_kind.constants and of_kind.fits(BulletRow("pat-001", "pat", ""))
    return [Change(name, "pat-001") for name in named] if is_so else []


def clone(one: Ledger, two: Ledger, *changes: Change) -> None:
    """Give both machines one ledger, with live, merged and removed bullets."""
    change(one, *(Change("add", section="pat", text=f"Advice {number}.") for number in range(1, 5)))
    change(one, Change("merge", names=("pat-003", "pat-004"), section="pat", text="Both of them."))
    change(one, Change("add", section="pat", text="Gone."))
    change(one, Change("remove", "pat-006"), *changes)
    load_ledger(two, exported(one))


def undo(ledger: Ledger, name: str) -> None:
    found = undoing(ledger, last_change(ledger, name))
    apply_changes(
        ledger,
        found.changes,
        actor="human",
        target=found.targets,
        baselines=found.baselines,
        again=True,
    )


@pytest.mark.parametrize("kind", first_fast(4, reversed([*KINDS])))
@pytest.mark.parametrize("swapped", [False, True])
def test_each_kind_of_change_converges(one: Ledger, two: Ledger, kind: str, swapped: bool) -> None:
    clone(one, two, *opposite(kind))
    first, second = _CONFLICTS[kind]
    change(one, second if swapped else first)
    change(two, first if swapped else second)
    both_take(one, two)
    taken(one, two)


def test_text_added_on_both_machines_is_one_bullet(one: Ledger, two: Ledger) -> None:
    add_bullet(two, "pat", "Only here.")
    add_bullet(one, "pat", "Run the linter.")
    add_bullet(two, "pat", "Run the linter.")
    taken(one, two, rename=True)
    taken(two, one, rename=True)
    assert told(one) == told(two)
    assert sorted(bullet.text for bullet in one.bullets()) == ["Only here.", "Run the linter."]


def test_evidence_of_both_births_counts(one: Ledger, two: Ledger) -> None:
    for number, ledger in enumerate((one, two), start=1):
        seen = window(number, f"s{number}", keys=[number])
        ledger.append([seen])
        add_bullet(ledger, "pat", "Run the linter.")
        ledger.append(reflected(f"r{number}", seen, ("pat-001", "helpful")))
    both_take(one, two)
    assert counts(one) == counts(two) == (2, 0)


def test_removed_bullets_stay_removed_through_every_exchange(one: Ledger, two: Ledger) -> None:
    clone(one, two)
    for ledger in (one, two):
        name = add_bullet(ledger, "mis", f"Advice of {id(ledger)}.").name
        change(ledger, Change("remove", name))
    for number in range(3):
        taken(one, two, rename=True)
        taken(two, one, rename=True)
        add_bullet(one, "oth", f"Note {number} of one.")
        add_bullet(two, "oth", f"Note {number} of two.")
    taken(one, two, rename=True)
    taken(two, one, rename=True)
    assert told(one) == told(two)
    assert not [bullet for bullet in one.bullets() if bullet.section == "mis"]


def test_text_erased_on_both_machines_merges(one: Ledger, two: Ledger) -> None:
    add_bullet(one, "pat", "The password is in Jane's notebook.")
    add_bullet(two, "pat", "Run the tests first.")
    before = list(exported(one))
    taken(one, two, rename=True)
    merge_ledger(two, lambda: before, rename=True)
    for ledger in (one, two):
        (event,) = [
            event
            for event in ledger.events(types=[ev.BULLET_ADDED])
            if "Jane" in event.facts["text"]
        ]
        ledger.redact([event.event_id], reason="a person is named", actor="human")
    taken(one, two)
    sound(one, two)
    assert list(verify(one)) == []


def test_undone_import_of_a_rewording_can_be_imported(one: Ledger, two: Ledger) -> None:
    clone(one, two)
    change(one, Change("revise", "pat-001", text="One says."))
    change(two, Change("revise", "pat-001", text="Two says."))
    taken(one, two)
    undo(one, "pat-001")
    taken(two, one)
    assert bullets(one)["pat-001"][1] == bullets(two)["pat-001"][1] == "One says."


def test_imported_undo_names_the_renamed_events(one: Ledger, two: Ledger) -> None:
    one.append([added("pat-001", "Ours.")])
    two.append([added("pat-001", "Theirs.")])
    change(two, Change("revise", "pat-001", text="Theirs again."))
    take_back_act(two, Act([*two.events()]))
    taken(one, two, rename=True)
    positions = {event.event_id: event.position for event in one.events()}
    assert {positions[event_id] for event_id in undone(one)} == {2, 3}


def _judged_here(ledger: Ledger, verdict: Any) -> None:
    (citation,) = citations(ledger, decided=True, judged=True)
    record_verdict(ledger, citation, verdict, "seen by hand")


def _cited(ledger: Ledger, verdict: str | None) -> None:
    """Record a session that cites pat-001, and what the rules say of it."""
    seen = window(1, "s1", keys=[1])
    seen = replace(seen, data={**seen.data, "cited": ["pat-001"]})
    tags = [("pat-001", verdict)] if verdict is not None else []
    ledger.append([added("pat-001"), seen, *reflected("r1", seen, *tags)])


@pytest.mark.parametrize("machine", ["rules", "person"])
def test_judge_never_replaces_a_persons_verdict(one: Ledger, two: Ledger, machine: str) -> None:
    _cited(one, "helpful")
    if machine == "person":
        _cited(two, "helpful")
        _judged_here(two, "neutral")
    else:
        load_ledger(two, exported(one))
        seen = window(1, "s1")
        two.append(reflected("other", seen, ("pat-001", "helpful"), actor="anthropic"))
    _judged_here(one, "harmful")
    taken(one, two)
    taken(two, one)
    assert counts(one) == counts(two) == (0, 1)
    sound(one, two)


def test_verdicts_by_hand_on_several_bullets_stand(one: Ledger, two: Ledger) -> None:
    names = ["pat-001", "pat-002"]
    seen = window(1, "s1", keys=[1])
    seen = replace(seen, data={**seen.data, "cited": names})
    one.append([*(added(name, f"About {name}.") for name in names), seen])
    load_ledger(two, exported(one))
    two.append(reflected("other", seen, *((name, "helpful") for name in names), actor="anthropic"))
    one.append(reflected("none", seen))
    for citation in citations(one, decided=True):
        record_verdict(one, citation, "harmful", "seen by hand")
    taken(one, two)
    assert [counts(one, name) for name in names] == [(0, 1), (0, 1)]


def test_later_of_two_persons_verdicts_counts(one: Ledger, two: Ledger) -> None:
    _cited(one, None)
    load_ledger(two, exported(one))
    _judged_here(one, "helpful")
    _judged_here(two, "harmful")
    both_take(one, two)
    assert counts(one) == (0, 1)


def test_judges_verdict_counts_again_after_undo(one: Ledger, two: Ledger) -> None:
    _cited(one, None)
    load_ledger(two, exported(one))
    two.append(reflected("other", window(1, "s1"), ("pat-001", "helpful"), actor="anthropic"))
    _judged_here(one, "harmful")
    taken(one, two)
    (verdict,) = [
        event for event in one.events(types=[ev.BULLET_TAGGED]) if event.actor == ev.HUMAN
    ]
    retract(one, [verdict], "it was not")
    assert counts(one) == (1, 0)


def _of_later_clock(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the export of a ledger whose clock was an hour ahead for its last event."""
    ahead = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with monkeypatch.context() as patched:
        patched.setattr("reflector.ledger.append.utc_now", lambda: ahead)
        add_bullet(ledger, "pat", "From the future.")
    return list(exported(ledger))


@pytest.mark.parametrize("forward", [True, False])
def test_event_from_the_future_is_refused(monkeypatch: pytest.MonkeyPatch, forward: bool) -> None:
    """Its ledger may be an earlier state of the file, or one that went on apart."""
    here, there = Ledger.open("sqlite://"), Ledger.open("sqlite://")
    add_bullet(here, "pat", "Shared.")
    load_ledger(there, exported(here))
    if not forward:
        add_bullet(here, "mis", "Only here.")
    lines = _of_later_clock(there, monkeypatch)
    before = here.head()
    with pytest.raises(
        WrongLine,
        match=(
            r"line 3: the event was recorded at .* in the future; check the "
            r"clocks"
        ),
    ):
        merge_ledger(here, lambda: lines)
    assert here.head() == before


def _brought(ledger: Ledger) -> list[Event]:
    return [event for event in ledger.history() if ev.MERGED in event.meta]


def test_import_has_one_transaction_for_all_pages(
    one: Ledger, two: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflector.exchange.merge._PAGE", 3)
    for number in range(10):
        add_bullet(two, "pat", f"Advice {number}.")
    taken(one, two)
    assert len({tx_of(event.meta) for event in one.history()}) == 1
    assert [event.meta[ev.TX] for event in _brought(one)] == [
        event.meta[ev.TX] for event in two.history()
    ]


def test_clones_draw_different_ids_for_one_change(one: Ledger, two: Ledger) -> None:
    clone(one, two)
    ids = set()
    for ledger in (one, two):
        change(ledger, Change("revise", "pat-001", text="The same words."))
        ids.add(ledger.at([ledger.head().position])[0].event_id)
    assert len(ids) == 2


def models(ledger: Ledger) -> dict[str, str]:
    with ledger.asking() as sql:
        windows = window_models(sql, ledger.head().position)
    return {id: session.model for id, session in worked_sessions(windows.values()).items()}


@pytest.mark.parametrize("first", [0, 1], ids=["into the old one", "into the new one"])
def test_a_model_is_known_on_both_machines(machines: list[Ledger], first: int) -> None:
    recorded = window(1)
    old, new = machines
    old.append([added(), recorded])
    new.append([added(), replace(recorded, meta={MODEL: "claude-x"})])
    taken(machines[first], machines[1 - first])
    taken(machines[1 - first], machines[first])
    assert [models(ledger) for ledger in machines] == [{"s1": "claude-x"}] * 2


def _voted(number: int, model: str | None, tag: str) -> list[NewEvent]:
    """Return a session with a model and its verdict."""
    seen = window(number, f"s{number}", keys=[number])
    seen = replace(seen, meta={MODEL: model}) if model else seen
    return [seen, *reflected(f"r{number}", seen, ("pat-001", tag))]


@pytest.mark.parametrize(
    "first", first_fast(1, [0, 1]), ids=["into the old one", "into the new one"]
)
@pytest.mark.parametrize("old_model", [None, "claude-a", "claude-x", "claude-z"])
def test_votes_by_model_agree_after_merges(
    machines: list[Ledger], first: int, old_model: str | None
) -> None:
    old, new = machines
    clone(old, new)
    old.append([*_voted(1, old_model, "helpful"), *_voted(2, "claude-x", "harmful")])
    new.append([*_voted(1, "claude-x", "helpful"), *_voted(3, "claude-y", "helpful")])
    taken(machines[first], machines[1 - first])
    taken(machines[1 - first], machines[first])
    here, there = (WorkedModels(ledger) for ledger in machines)
    assert here.rules == there.rules
    assert here.models(3) == there.models(3)
    assert sum(rule.helped for rule in here.rules) == 2


def test_a_session_has_the_model_of_most_windows(one: Ledger) -> None:
    names = {1: "claude-x", 2: "claude-y", 3: "claude-y"}
    one.append([replace(window(number), meta={MODEL: name}) for number, name in names.items()])
    assert models(one) == {"s1": "claude-y"}
