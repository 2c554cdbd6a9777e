"""Bullets merged by reference: counters are those of a union, undoing gives everything back, and
all sides agree.
"""

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from reflector.audit.blame import blame_bullet
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.registry import fold
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.as_of import Past
from reflector.ledger.errors import AlreadyRetracted, Conflict
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import COUNTINGS
from reflector.proof.verify import verify
from tests.conftest import Fresh, OpenLedger, examples
from tests.ledger.events import added, adopted, changed, merged, reflected, retracted, window

PRUNED = {"reason": "pruned", "into": None}
#: What may happen, the more often the more often it is named.
KINDS = (
    "session session session session session session merge merge merge unmerge unmerge"
    " late add remove restore recount retract revise move policy redact"
).split()


class Life:
    """A machine's ledger and what was done to it; `who` keeps what machines do by themselves
    apart.
    """

    def __init__(self, ledger: Ledger, who: str) -> None:
        self.ledger = ledger
        self.who = who
        self.number = 0

    def step(self, kind: str, chance: random.Random) -> None:
        """Do one thing, if it can be done."""
        self.number += 1
        key = f"{self.who}{self.number}"
        # Machines give names of their own, so that a merge of their ledgers asks nobody.
        new = f"{1 + 'ab'.index(self.who)}{self.number:04d}"
        rows = self.ledger.rows()
        names = [row.name for row in rows]
        live = [row.name for row in rows if row.status == "live"]
        # Outer merges, inner ones, and those whose bullet was removed meanwhile.
        made = [
            event.data["name"]
            for event in self.ledger.events(types=[ev.BULLET_MERGED])
            if event.data
        ]
        changes: dict[str, tuple[str, list[str], dict[str, Any]]] = {
            "unmerge": (ev.BULLET_UNMERGED, made, {}),
            "remove": (ev.BULLET_REMOVED, names, PRUNED),
            "restore": (ev.BULLET_RESTORED, [row.name for row in rows if row.status != "live"], {}),
            "recount": (
                ev.BULLET_RECOUNTED,
                names,
                {"helpful": chance.randrange(5), "harmful": chance.randrange(3)},
            ),
            "revise": (ev.BULLET_REVISED, names, {"text": f"Worded {key}"}),
            "move": (ev.BULLET_MOVED, names, {"section": "oth"}),
        }
        if kind in changes:
            type_, among, data = changes[kind]
            self.ledger.append([changed(type_, chance.choice(among), key, **data)] if among else [])
        elif kind in ("session", "late"):
            # Late evidence is about what an older text told: bullets that were merged, removed or
            # never there.
            gone = [row.name for row in rows if row.status == "merged"] or live
            self.ledger.append(_session(key, gone if kind == "late" else live, chance))
        elif kind == "add":
            self.ledger.append(
                [added(f"pat-{new}", f"Advice {key}", chance.randrange(3), chance.randrange(2))]
            )
        elif kind == "merge" and len(live) > 1:
            sources = chance.sample(live, min(len(live), chance.randint(2, 3)))
            self.ledger.append([merged(f"mis-{new}", *sources, text=f"Merged {key}")])
        elif kind == "policy":
            self.ledger.append([adopted(chance.choice(COUNTINGS), key)])  # type: ignore[arg-type]
        elif kind == "retract":
            types = [
                ev.BULLET_TAGGED,
                ev.REFLECTION_COMPLETED,
                ev.SESSION_RECORDED,
                ev.EVIDENCE_RETRACTED,
            ]
            target = chance.choice(list(self.ledger.events(types=types))[-40:] or [None])  # type: ignore[list-item]
            with suppress(AlreadyRetracted, Conflict):
                self.ledger.append([retracted(target, f"by {key}")] if target else [])
        elif kind == "redact":
            prose = [
                event.event_id
                for event in self.ledger.events(types=[ev.BULLET_MERGED, ev.BULLET_REVISED])
            ]
            self.ledger.redact(
                chance.sample(prose, min(1, len(prose))), reason="a secret", actor="human"
            )


def _session(key: str, names: list[str], chance: random.Random) -> list[NewEvent]:
    seen = window(key, chance.choice(["s1", "s2", key]), [int(identity("key", key)[:8], 16)])  # type: ignore[arg-type]
    verdicts = [
        chance.choice(["helpful", "helpful", "harmful"])
        for _ in range(chance.randint(1, 4) if names else 0)
    ]
    return [
        seen,
        *reflected(f"r-{key}", seen, *((chance.choice(names), verdict) for verdict in verdicts)),
    ]


def holds(ledger: Ledger) -> dict[str, tuple[object, ...]]:
    """What the tables say of each bullet."""
    return {
        row.name: (
            row.section,
            row.text,
            row.status,
            row.reason,
            row.removed_into,
            row.helpful,
            row.harmful,
        )
        for row in ledger.rows()
    }


def agree(ledger: Ledger, *moments: int) -> None:
    """Tables, fold, the past, a rebuild and a recount all say the same."""
    events = list(ledger.events())
    book = fold(events)
    assert {name: row[5:] for name, row in holds(ledger).items()} == {
        n: book.counters(n) for n in book.entries
    }
    assert list(verify(ledger)) == []
    for position in (*moments, len(events)):
        past, book = Past(ledger, position), fold(events[:position])
        assert (past.bullets(), past.counting, past.updated_at) == (
            book.bullets(),
            book.adopted,
            book.updated_at,
        )
        for policy in COUNTINGS:
            counters = {name: book.counters(name, policy) for name in book.entries}
            assert past.counters(list(counters), policy) == counters, (position, policy)
        assert {row.name: (row.status, row.removed_into) for row in past.rows()} == {
            name: (of.status, of.removed_into) for name, of in book.entries.items()
        }
    before = ledger.rows()
    ledger.rebuild()
    assert ledger.rows() == before


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    """Three bullets, of which two were counted in one session."""
    ledger = open_ledger()
    first, second = window(1, "s1", [1]), window(2, "s2", [2])
    ledger.append([added("pat-001", helpful=2), added("pat-002", harmful=1), added("pat-003")])
    ledger.append([first, *reflected("r1", first, ("pat-001", "helpful"), ("pat-002", "helpful"))])
    ledger.append([second, *reflected("r2", second, ("pat-001", "harmful"))])
    return ledger


def counters(ledger: Ledger, *names: str) -> list[tuple[int, int]]:
    rows = holds(ledger)
    return [rows[name][5:] for name in names]  # type: ignore[misc]


def seen(number: int, *tags: tuple[str, str], session: str = "late") -> list[NewEvent]:
    window_ = window(number, session, [number])
    return [window_, *reflected(f"r{number}", window_, *tags)]


INNER, OUTER = merged("pat-004", "pat-001", "pat-002"), merged("pat-005", "pat-004", "pat-003")
UNMERGED = changed(ev.BULLET_UNMERGED, "pat-004", 1)
LATE = seen(7, ("pat-001", "helpful"), ("pat-004", "harmful"))
REMOVED_INTO = changed(ev.BULLET_REMOVED, "pat-001", 1, reason="merged", into="pat-002")

#: Events, in the appends in which they come, and what becomes of the bullets that are named.
HISTORIES: dict[str, tuple[list[list[NewEvent]], dict[str, tuple[str, int, int]]]] = {
    "a merged bullet counts what its sources counted": (
        [[INNER]],
        {"pat-001": ("merged", 3, 1), "pat-002": ("merged", 1, 1), "pat-004": ("live", 4, 2)},
    ),
    "and a session once": (
        [[INNER], [adopted("once_per_session")]],
        {"pat-001": ("merged", 3, 1), "pat-004": ("live", 3, 2)},
    ),
    "late evidence on a source counts up the whole chain": (
        [[INNER], [OUTER], LATE],
        {"pat-001": ("merged", 4, 1), "pat-004": ("merged", 5, 3), "pat-005": ("live", 5, 3)},
    ),
    "an undone merge gives its sources back and keeps its own tags": (
        [[INNER], seen(7, ("pat-004", "helpful")), [UNMERGED]],
        {"pat-001": ("live", 3, 1), "pat-002": ("live", 1, 1), "pat-004": ("removed", 1, 0)},
    ),
    "an inner merge is undone while the outer one stands": (
        [[INNER], [OUTER], [UNMERGED]],
        {
            "pat-001": ("live", 3, 1),
            "pat-003": ("merged", 0, 0),
            "pat-004": ("merged", 0, 0),
            "pat-005": ("live", 0, 0),
        },
    ),
    "counters set by hand hold what the sources had": (
        [
            [INNER],
            [changed(ev.BULLET_RECOUNTED, "pat-004", 1, helpful=9, harmful=0)],
            seen(7, ("pat-001", "helpful")),
        ],
        {"pat-004": ("live", 10, 0), "pat-001": ("merged", 4, 1)},
    ),
    "a source that is not live or was never there stays what it is": (
        [
            [changed(ev.BULLET_REMOVED, "pat-002", 1, **PRUNED)],
            [merged("pat-004", "pat-001", "pat-002", "pat-099")],
        ],
        {"pat-002": ("removed", 1, 1), "pat-004": ("live", 3, 1)},
    ),
    "and comes back alone": (
        [
            [changed(ev.BULLET_REMOVED, "pat-002", 1, **PRUNED), INNER],
            [changed(ev.BULLET_RESTORED, "pat-001", 1), changed(ev.BULLET_RESTORED, "pat-002", 2)],
        ],
        {"pat-001": ("merged", 3, 1), "pat-002": ("live", 1, 1)},
    ),
    "a source that another machine removed stays gone when the merge is undone": (
        [[INNER], [changed(ev.BULLET_REMOVED, "pat-001", 1, **PRUNED)], [UNMERGED]],
        {"pat-001": ("removed", 3, 1), "pat-002": ("live", 1, 1)},
    ),
    "a bullet that was removed into another one is not followed": (
        [[REMOVED_INTO], seen(7, ("pat-001", "helpful"))],
        {"pat-001": ("removed", 4, 1), "pat-002": ("live", 1, 1)},
    ),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_merge_counts_by_reference_until_it_is_undone(ledger: Ledger, history: str) -> None:
    appends, wanted = HISTORIES[history]
    for events in appends:
        ledger.append(events)
    rows = holds(ledger)
    assert {name: (rows[name][2], *rows[name][5:]) for name in wanted} == wanted
    agree(ledger, 3, 6, 9)


def test_a_circle_of_pointers_that_somebody_forged_ends(ledger: Ledger) -> None:
    for name, into in (("pat-001", "pat-002"), ("pat-002", "pat-001")):
        ledger.append(
            [changed(ev.BULLET_REMOVED, name, 1, reason="merged", into=into, follows=True)]
        )
    ledger.append(seen(7, ("pat-001", "helpful")))
    assert counters(ledger, "pat-001") == [fold(ledger.events()).counters("pat-001")] == [(5, 2)]
    assert list(verify(ledger)) == []


@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(KINDS), max_size=25))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_fold_and_past_agree_after_any_history(
    fresh: Fresh, seed: int, steps: list[str]
) -> None:
    chance = random.Random(seed)
    with fresh() as url, Ledger.open(url) as ledger:
        life = Life(ledger, "a")
        for kind in ("add", "add", "add", *steps):
            life.step(kind, chance)
        head = ledger.head().position
        agree(ledger, *(chance.randint(1, head) for _ in range(3)))
        for position in (head, chance.randint(1, head)):
            past = Past(ledger, position)
            for name, wanted in past.counters([row.name for row in past.rows()]).items():
                steps = blame_bullet(ledger, name, past)  # ends at the counters
                assert ((steps[-1].helpful, steps[-1].harmful) if steps else (0, 0)) == wanted, (
                    name,
                    position,
                )


def meet(one: Ledger, other: Ledger) -> None:
    """Take the events of another ledger in."""
    lines = list(exported(other))
    merge_ledger(one, lambda: lines, rename=True)


@given(
    seed=st.integers(0, 2**32),
    meetings=st.lists(st.sampled_from(["ab", "ba", "-"]), min_size=1, max_size=4),
)
@example(seed=1112, meetings=["ab", "ba", "ab", "ab"])  # a policy of sessions, after a merge
@example(seed=95, meetings=["-", "ba", "-"])  # a merge of bullets undone, after a merge
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_machines_agree_after_any_meetings(
    fresh: Fresh, seed: int, meetings: list[str]
) -> None:
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS if kind != "redact"]
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        lives = {"a": Life(a, "a"), "b": Life(b, "b")}
        for _ in range(4):
            lives["a"].step("add", chance)
        load_ledger(b, list(exported(a)))
        for meeting in meetings:
            for _ in range(chance.randint(1, 12)):
                lives[chance.choice("ab")].step(chance.choice(kinds), chance)
            if meeting != "-":
                meet(lives[meeting[0]].ledger, lives[meeting[1]].ledger)
        order = chance.choice([(a, b), (b, a)])
        meet(*order)
        meet(*reversed(order))
        assert holds(a) == holds(b)
        agree(a)
        agree(b)


def test_recounted_source_does_not_change_its_heir(
    fresh: Fresh,
) -> None:
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        a.append([added("pat-001", "One"), added("pat-002", "Two"), adopted("once_per_session")])
        a.append([merged("pat-003", "pat-001", "pat-002")])
        a.append(seen(1, ("pat-002", "helpful"), session="s1"))
        load_ledger(b, list(exported(a)))
        a.append(seen(2, ("pat-001", "helpful"), session="s1"))
        b.append([changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=1, harmful=0)])
        b.append(seen(3, ("pat-001", "helpful"), ("pat-002", "helpful"), session="s2"))
        meet(a, b)
        meet(b, a)
        for ledger in (a, b):
            assert [
                helpful for helpful, _ in counters(ledger, "pat-001", "pat-002", "pat-003")
            ] == [2, 2, 3]
