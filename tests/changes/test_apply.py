"""Changes and their undoing: whatever is made can be taken back."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from reflector import authorship
from reflector.changes.acts import newest
from reflector.changes.apply import BulletRefused, Step, apply_changes, fault
from reflector.changes.undo import last_change, undoing
from reflector.events.event import Event
from reflector.events.registry import EVENT_TYPES, fold
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.change import CHANGE_EVENTS, KINDS, SET_FIELDS, Change
from reflector.playbook.names import SECTIONS
from reflector.proof.verify import verify
from tests.conftest import examples
from tests.ledger.events import added, reflected, window

_SLUGS = st.sampled_from(list(SECTIONS))
_NUMBERS = st.integers(0, 50)


def said(ledger: Ledger) -> Counter[tuple[object, ...]]:
    """The fields of the live bullets that a change can set, whatever their names."""
    fields = sorted({"section", "text", "helpful", "harmful", *SET_FIELDS})
    live = [row for row in ledger.rows() if row.status == "live"]
    return Counter(tuple(getattr(row, field) for field in fields) for row in live)


def life() -> Ledger:
    """A ledger with bullets that sessions judged, some of them the same session."""
    ledger = Ledger.open("sqlite://")
    first, second = window(1, "s1"), window(2, "s2")
    ledger.append([added(f"pat-00{n}", f"Advice {n}.", helpful=n) for n in range(1, 4)])
    ledger.append([first, *reflected("aa", first, ("pat-001", "helpful"), ("pat-002", "helpful"))])
    ledger.append(
        [second, *reflected("bb", second, ("pat-002", "harmful"), ("pat-003", "helpful"))]
    )
    return ledger


@pytest.fixture(autouse=True)
def _own_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ledger draws transaction ids of this user, as a project's does."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Ledger, "draw", staticmethod(authorship.draw))


def undo(ledger: Ledger, *events: Event) -> list[Event]:
    """Undo events, or the newest act, and return the events that did it."""
    found = undoing(ledger, events or newest(ledger).changes)
    steps = apply_changes(ledger, found.changes, actor="human", target=found.targets, again=True)
    return events_of(ledger, steps)


def events_of(ledger: Ledger, steps: Sequence[Step]) -> list[Event]:
    return ledger.at([step.position for step in steps if step.position is not None])


def chosen(
    rows: Sequence[BulletRow], kind: str, pick: Sequence[int], section: str, text: str
) -> Change | None:
    """A change of a kind that can be made of these bullets; None where there is none."""
    of = {
        "restore": [r.name for r in rows if r.status == "removed"],
        "unmerge": [r.removed_into or "" for r in rows if r.status == "merged"],
    }.get(kind, [r.name for r in rows if r.status == "live"])
    if kind != "add" and not of:
        return None
    name = of[pick[0] % len(of)] if of else None
    one = {
        "add": Change("add", section=section, text=text),
        "revise": Change("revise", name, text=text),
        "move": Change("move", name, section=section),
        "merge": Change(
            "merge", None, tuple({of[n % len(of)]: None for n in pick} if of else ()), section, text
        ),
        "recount": Change("recount", name, helpful=pick[0], harmful=pick[1]),
    }.get(kind, Change(kind, name))
    return one if fault(rows, one) is None else None


def wishes(*kinds: str) -> st.SearchStrategy[list[tuple[str, list[int], str]]]:
    """Changes that a person would make of whatever is there."""
    one = st.tuples(st.sampled_from(kinds), st.lists(_NUMBERS, min_size=3, max_size=3), _SLUGS)
    return st.lists(one, min_size=1, max_size=8)


@settings(max_examples=examples(60))
@given(wishes(*KINDS))
def test_each_change_is_undone_and_made_again(
    wished: list[tuple[str, list[int], str]],
) -> None:
    with life() as ledger:
        for number, (kind, pick, section) in enumerate(wished):
            change = chosen(ledger.rows(), kind, pick, section, f"Text {number}.")
            if change is None:
                continue
            before = said(ledger)
            made = apply_changes(ledger, [change], actor="human")
            after = said(ledger)
            undone = undo(ledger, *events_of(ledger, made))
            assert said(ledger) == before
            undo(ledger, *undone)
            assert said(ledger) == after
        assert fold(ledger.events()).bullets() == ledger.bullets()
        assert list(verify(ledger)) == []


# Of a merge that was undone and made again the bullet has another name, so what was changed under
# the old one stays.
@given(wishes(*(kind for kind in KINDS if kind != "unmerge")))
def test_undo_returns_step_by_step_to_the_beginning(
    wished: list[tuple[str, list[int], str]],
) -> None:
    with life() as ledger:
        states = [said(ledger)]
        for number, (kind, pick, section) in enumerate(wished):
            change = chosen(ledger.rows(), kind, pick, section, f"Text {number}.")
            if change is not None:
                apply_changes(ledger, [change], actor="human")
                states.append(said(ledger))
        while len(states) > 1:
            assert said(ledger) == states.pop()
            undo(ledger)
        assert said(ledger) == states[0]


def test_changes_made_together_all_apply_or_none(ledger: Ledger) -> None:
    ledger.append([added("pat-001", "One."), added("pat-002", "Two.")])
    head = ledger.head()
    wanted = [Change("remove", "pat-001"), Change("revise", "pat-001", text="Three.")]
    with pytest.raises(BulletRefused, match=r"revise pat-001: Three\.: pat-001 was removed"):
        apply_changes(ledger, wanted, actor="human")
    assert ledger.head() == head
    one, two = apply_changes(
        ledger,
        [Change("move", "pat-001", section="oth"), Change("remove", "pat-002")],
        actor="human",
    )
    assert ledger.at([one.position])[0].recorded_at == ledger.at([two.position])[0].recorded_at


def test_counts_since_a_recount_survive_its_undo(ledger: Ledger) -> None:
    first = window(1, "s1")
    ledger.append([added("pat-001", "One.", helpful=5, harmful=2)])
    (made,) = apply_changes(
        ledger, [Change("recount", "pat-001", helpful=0, harmful=0)], actor="human"
    )
    ledger.append([first, *reflected("aa", first, ("pat-001", "helpful"))])
    undo(ledger, *ledger.at([made.position]))
    assert [(b.helpful, b.harmful) for b in ledger.bullets()] == [(6, 2)]


def test_changed_or_erased_text_is_not_undone(ledger: Ledger) -> None:
    def revised(text: str) -> Event:
        (made,) = apply_changes(ledger, [Change("revise", "pat-001", text=text)], actor="human")
        return ledger.at([made.position])[0]

    ledger.append([added("pat-001", "The password is on the wall.")])
    first, later = revised("Two."), revised("Three.")
    with pytest.raises(
        BulletRefused,
        match=(
            rf"has a newer change, at position {later.position} "
            r"\(bullet.revised: .*undo "
        ),
    ):
        undo(ledger, first)
    undo(ledger)
    again = rf"at position {later.position} was .*again: `reflector undo {later.position + 1}`"
    with pytest.raises(BulletRefused, match=again):
        undo(ledger, later)
    ledger.redact([added("pat-001").event_id], reason="x", actor="human")
    with pytest.raises(BulletRefused, match="was erased"):
        undo(ledger, first)


def test_redone_merge_is_undone_whole(ledger: Ledger) -> None:
    three = [added("pat-001", "One."), added("pat-002", "Two."), added("pat-003", "Three.")]
    ledger.append(three, tx=ledger.draw())
    before = said(ledger)
    apply_changes(
        ledger, [Change("merge", None, ("pat-001", "pat-002"), "pat", "Both.")], actor="human"
    )
    after = said(ledger)
    undo(ledger)
    for _ in range(3):
        assert said(ledger) == before
        undo(ledger, *ledger.at([ledger.head().position]))  # makes it again
        assert said(ledger) == after
        undo(ledger)
    assert newest(ledger).changes == ledger.at([1, 2, 3])


def test_merges_made_again_together_keep_their_counts(ledger: Ledger) -> None:
    ledger.append([added(f"pat-00{n}", f"Advice {n}.", helpful=n) for n in range(1, 5)])
    merges = [
        Change("merge", None, pair, "pat", f"{pair[0]} says it all.")
        for pair in (("pat-001", "pat-002"), ("pat-003", "pat-004"))
    ]
    recount = Change("recount", "pat-005", helpful=20, harmful=0)
    apply_changes(ledger, [*merges, recount], actor="human")
    before = said(ledger)
    unmerged = [Change("unmerge", "pat-005"), Change("unmerge", "pat-006")]
    apply_changes(ledger, unmerged, actor="human")
    undo(ledger)
    assert said(ledger) == before
    assert list(verify(ledger)) == []


def test_nothing_is_left_to_undo_after_all_undos(ledger: Ledger) -> None:
    ledger.append([added("pat-001", "One.")], tx=ledger.draw())
    undo(ledger)
    with pytest.raises(BulletRefused, match="you do not have a change left to undo"):
        newest(ledger)


def test_each_kind_of_change_has_an_event_type() -> None:
    assert EVENT_TYPES.keys() >= CHANGE_EVENTS


def test_second_undo_of_a_name_goes_further_back(ledger: Ledger) -> None:
    ledger.append([added("pat-001", "One.")])
    apply_changes(ledger, [Change("revise", "pat-001", text="Two.")], actor="human")
    undo(ledger, *last_change(ledger, "pat-001"))
    undo(ledger, *last_change(ledger, "pat-001"))
    assert ledger.bullets() == ()
