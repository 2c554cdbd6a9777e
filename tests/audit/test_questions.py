"""What questions say: use and figures of bullets, double counts, the log, a session, and the
steps of a count.
"""

from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from random import Random
from statistics import mean
from typing import Any

import pytest

from reflector.audit import difference as difference_of
from reflector.audit.blame import IN_A_MERGE, Evidence, Step, UnknownBullet, blame_bullet
from reflector.audit.citations import due, observed, recent, use
from reflector.audit.difference import difference
from reflector.audit.doubles import find_double_counts
from reflector.audit.log import select
from reflector.audit.moments import UnknownReference
from reflector.audit.session import session_story
from reflector.audit.stats import ledger_stats
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.ledger.usage import Used
from reflector.playbook.evidence import Votes
from tests.ledger.events import (
    about,
    added,
    adopted,
    changed,
    imported,
    merged,
    reflected,
    retracted,
    window,
)


def session(number: int, id: str, **data: Any) -> NewEvent:
    plain = window(number, id)
    return replace(plain, data={**plain.data, **data}, actor="hook:SessionEnd")


def test_merged_bullet_has_each_source_session_once(ledger: Ledger) -> None:
    first, second = (
        session(1, "s1", cited=["pat-001", "pat-002"]),
        session(2, "s2", cited=["pat-002"]),
    )
    ledger.append([added("pat-001"), added("pat-002"), first, second])
    ledger.append(reflected("r1", first, ("pat-001", "helpful"), ("pat-002", "neutral")))
    ledger.append(reflected("r2", second, ("pat-002", "harmful")))
    ledger.append([merged("pat-003", "pat-001", "pat-002")])
    used = use(ledger, Past(ledger)).bullets
    assert (used["pat-003"].judged, used["pat-003"].cited) == (2, 2)
    assert used["pat-001"].judged == 1
    assert marks(ledger, "pat-003") == "+-"


def marks(ledger: Ledger, name: str = "pat-001") -> str:
    return recent(blame_bullet(ledger, name), Past(ledger))


def test_last_cited_is_the_latest_session(ledger: Ledger) -> None:
    times = ("2026-06-01T11:00:00.5+02:00", "2026-06-01T09:00:00Z", "2026-02-01T09:00:00.000Z")
    seen = [
        replace(session(number, f"s{number}", cited=["pat-001"]), occurred_at=time)
        for number, time in enumerate(times)
    ]
    ledger.append([added("pat-001"), *seen])
    assert used(ledger).last_cited == "2026-06-01T09:00:00.500000Z"
    ledger.append([retracted(seen[0])])
    assert used(ledger).last_cited == "2026-06-01T09:00:00.000000Z"


def used(ledger: Ledger, name: str = "pat-001", position: int | None = None) -> Used:
    return use(ledger, Past(ledger, position)).bullets[name]


def test_citation_without_a_verdict_is_undecided(ledger: Ledger) -> None:
    cites = [session(number, f"s{number}", cited=["pat-001"]) for number in range(4)]
    ledger.append([added("pat-001"), *cites, session(9, "s9", carried=["pat-001"])])
    ledger.append(reflected("r0", cites[0], ("pat-001", "helpful")))
    ledger.append(reflected("r1", cites[1], ("pat-001", "neutral", "neutral")))
    ledger.append(reflected("r2", cites[2], ("pat-001", "helpful", "no_quote")))
    counts = used(ledger)
    assert (counts.cited, counts.judged, counts.neither, counts.undecided) == (5, 2, 1, 3)


def test_verdict_that_nobody_asked_for_does_not_judge(ledger: Ledger) -> None:
    seen = session(1, "s1", cited=["pat-001"])
    ledger.append([added("pat-001"), added("mis-001"), seen])
    ledger.append(reflected("r1", seen, ("mis-001", "helpful", "not_asked")))
    assert used(ledger, "mis-001") == Used()


def test_retracted_session_neither_cites_nor_judges(ledger: Ledger) -> None:
    seen = session(1, "s1", cited=["pat-001"])
    ledger.append([added("pat-001"), seen, *reflected("r1", seen, ("pat-001", "harmful"))])
    before = ledger.head().position
    ledger.append([retracted(seen)])
    counts = used(ledger)
    assert (counts.cited, counts.judged, counts.undecided, counts.last_cited) == (0, 0, 0, "")
    assert used(ledger, position=before).cited == 1


def test_citation_of_a_retracted_verdict_is_undecided(ledger: Ledger) -> None:
    seen = session(1, "s1", cited=["pat-001"])
    verdict = reflected("r1", seen, ("pat-001", "harmful"))
    ledger.append([added("pat-001"), seen, *verdict, retracted(verdict[0])])
    counts = used(ledger)
    assert (counts.cited, counts.judged, counts.undecided) == (1, 0, 1)


@pytest.mark.parametrize(("followed", "counts"), [("yes", (1, 0)), ("no", (0, 1))])
def test_session_follows_or_breaks_a_rule_once(
    ledger: Ledger, followed: str, counts: tuple[int, int]
) -> None:
    ledger.append([added("pat-001")])
    for number, answer in enumerate(("yes", followed)):
        seen = session(number, "s1")
        verdict = reflected(f"r{number}", seen, ("pat-001", "helpful"))[1]
        said = replace(verdict, data={**verdict.data, "followed": answer})
        ledger.append([seen, said])
    assert (used(ledger).followed, used(ledger).broken) == counts


def test_refused_verdict_breaks_and_decides_nothing(ledger: Ledger) -> None:
    seen = session(1, "s1", cited=["pat-001"])
    ledger.append([added("pat-001"), seen])
    ledger.append(reflected("r1", seen, ("pat-001", "helpful", "not_followed")))
    counts = used(ledger)
    assert (counts.broken, counts.judged, counts.undecided) == (1, 0, 1)


def test_session_before_a_recount_casts_no_later_vote(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    judge_windows(ledger, "before", "helpful")
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-001", helpful=0, harmful=0)])
    judge_windows(ledger, "later", "helpful", "helpful")
    assert votes(ledger) == (1, 0)


def test_twelve_windows_of_a_session_are_one_mark(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    for number in range(6):
        judge_windows(ledger, f"good-{number}", "helpful")
    judge_windows(ledger, "bad", *["harmful"] * 12)
    judge_windows(ledger, "even", "harmful", "helpful")
    assert marks(ledger) == "++++++-."


def test_recent_marks_eight_sessions(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    judge_windows(ledger, "first", "harmful")
    for number in range(8):
        judge_windows(ledger, f"good-{number}", "helpful")
    assert marks(ledger) == "+" * 8


def test_votes_exclude_baselines_repeats_and_undecided_sessions(
    ledger: Ledger,
) -> None:
    seen = [session(number, of) for number, of in enumerate(("s1", "s1", "s2"))]
    ledger.append(
        [
            imported(("pat-001", 5, 0), ("pat-002", 0, 0)),
            merged("pat-003", "pat-001", "pat-002"),
            *seen,
        ]
    )
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-003", 1, helpful=1, harmful=0)])
    for number, (one, tag) in enumerate(zip(seen, ("helpful", "helpful", "neutral"), strict=True)):
        ledger.append(reflected(f"r{number}", one, ("pat-003", tag)))
    assert votes(ledger, "pat-003") == (1, 0)


def votes(ledger: Ledger, name: str = "pat-001") -> tuple[float, float]:
    past = Past(ledger)
    return observed(ledger.rows(), past, use(ledger, past).bullets)[name][:2]


def test_the_verdicts_of_a_session_share_one_vote(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    judge_windows(ledger, "s1", "helpful")
    judge_windows(ledger, "s2", "helpful")
    judge_windows(ledger, "s3", *["harmful"] * 9)
    judge_windows(ledger, "s4", "helpful", "harmful", "helpful", "neutral")
    assert votes(ledger) == (2.666667, 1.333333)


def judge_windows(ledger: Ledger, of: str, *tags: str) -> list[NewEvent]:
    """Let each window of a session give a bullet a verdict; the completions."""
    completions = []
    for number, tag in enumerate(tags):
        key = f"{of}-{number}"
        seen = session(int(sha256(key.encode()).hexdigest()[:6], 16), of)
        events = reflected(f"r-{key}", seen, ("pat-001", tag))
        ledger.append([seen, *events])
        completions.append(events[0])
    return completions


#: Of the sessions on each simulated rule, the share that it helped; harmful ones have four times as
#: many windows.
TRUTH = 0.7
LONGER = 4


@pytest.mark.slow
def test_long_harmful_sessions_do_not_bias_the_share(ledger: Ledger) -> None:
    """300 rules of ten sessions each, by the votes of a ledger. Counted by verdict, the mean share
    is 42 %.
    """
    chance = Random(46)
    names = [f"pat-{number:03}" for number in range(1, 301)]
    ledger.append([added(name) for name in names])
    for number in range(10):
        helped = {name: chance.random() < TRUTH for name in names}
        for part in range(LONGER):
            seen = session(1 + number * LONGER + part, f"s{number}")
            tags = [(name, "helpful") for name in names if helped[name] and not part]
            tags += [(name, "harmful") for name in names if not helped[name]]
            ledger.append([seen, *reflected(f"r{number}-{part}", seen, *tags)])
    past = Past(ledger)
    shown = observed(ledger.rows(), past, use(ledger, past).bullets)
    assert mean(shown[name].share or 0 for name in names) == pytest.approx(TRUTH, abs=0.02)
    by_verdict = [row.helpful / (row.helpful + row.harmful) for row in ledger.rows()]
    assert mean(by_verdict) < TRUTH - 0.15


@pytest.mark.slow
def test_ten_thousand_mixed_ledgers_show_the_true_share() -> None:
    """The rule of one vote a session alone, on sessions that say both."""
    chance = Random(46)
    shares = []
    for _ in range(10_000):
        helpful = harmful = 0.0
        for _ in range(10):
            is_helped = chance.random() < TRUTH
            windows = chance.randint(1, 3) * (1 if is_helped else LONGER)
            yes = windows if is_helped else 0
            helpful += yes / windows
            harmful += (windows - yes) / windows
        shares.append(Votes(helpful, harmful).share or 0)
    assert mean(shares) == pytest.approx(TRUTH, abs=0.02)


@pytest.mark.parametrize("counting", ["as_applied", "once_per_reflection", "once_per_session"])
def test_every_policy_gives_the_same_votes(ledger: Ledger, counting: str) -> None:
    ledger.append([added("pat-001"), adopted(counting)])
    judge_windows(ledger, "s1", "helpful", "helpful")
    judge_windows(ledger, "s2", "harmful")
    assert votes(ledger) == (1, 1)


def test_evidence_that_was_taken_back_does_not_vote(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    judge_windows(ledger, "s1", "harmful")
    for number in range(8):
        (completion,) = judge_windows(ledger, f"gone-{number}", "harmful")
        ledger.append([retracted(completion)])
    assert votes(ledger) == (0, 1)
    assert due(ledger, after=0) == []


def test_doubled_session_does_not_hide_a_retracted_one(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    (completion,) = judge_windows(ledger, "gone", "harmful")
    judge_windows(ledger, "both", "helpful", "harmful")
    ledger.append([retracted(completion)])
    assert votes(ledger) == (0.5, 0.5)


def test_recount_by_hand_drops_earlier_votes(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    for number in range(5):
        judge_windows(ledger, f"s{number}", "harmful")
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-001", helpful=0, harmful=0)])
    judge_windows(ledger, "later", *["harmful"] * 4)
    assert votes(ledger) == (0, 1)


def test_verdict_taken_back_is_in_no_figure(ledger: Ledger) -> None:
    first = session(1, "s1")
    second = session(2, "s2")
    ledger.append([added("pat-001"), added("pat-002"), first, second])
    wrong = reflected("r1", first, ("pat-001", "harmful"), ("pat-002", "neutral", "neutral"))
    ledger.append([*wrong, *reflected("r2", second, ("pat-001", "helpful"))])
    assert marks(ledger) == "-+"
    ledger.append([retracted(wrong[0])])
    for past, figures in (
        (None, (1, 0, 0)),
        (Past(ledger, ledger.head().position - 1), (1, 1, 1)),
    ):
        for group in (
            ledger_stats(ledger, past).whole,
            *ledger_stats(ledger, past).groups["model"],
        ):
            assert (group.helpful, group.harmful, group.neither) == figures
    assert (marks(ledger), marks(ledger, "pat-002")) == ("+", "")
    ledger.append([merged("pat-003", "pat-001", "pat-002")])
    assert marks(ledger, "pat-003") == "+"


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_difference_by_tags_between_equals_difference_by_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    ledger.append([added("pat-001"), added("pat-002"), added("pat-003")])
    verdicts = [("pat-001", "helpful"), ("pat-002", "harmful"), ("pat-003", "helpful")]

    def judged(number: int, session: str = "") -> list[NewEvent]:
        seen = window(number, session or f"s{number}")
        return [seen, *reflected(f"r{number}", seen, *verdicts)]

    ledger.append([*judged(1), *judged(2), retracted(window(1, "s1")), *judged(3)])
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-002", helpful=4, harmful=0), *judged(4)])
    ledger.append([merged("pat-004", "pat-001", "pat-003"), *judged(5), *judged(6)])
    ledger.append([adopted("once_per_session"), *judged(7, "s6"), *judged(8)])
    pairs = [*combinations(range(ledger.head().position + 1), 2)][::step]
    found = [difference(ledger, *pair) for pair in pairs]
    monkeypatch.setattr(difference_of, "_stand_alike", lambda *_: False)
    assert [difference(ledger, *pair) for pair in pairs] == found


def test_shared_records_are_d5_or_d6_by_session(ledger: Ledger) -> None:
    windows = [
        window(1, "s1", keys=[1, 2]),
        window(2, "s2", keys=[2, 3]),
        window(3, "s2", keys=[3]),
        window(4, "s4"),
    ]
    ledger.append([added("pat-001"), added("mis-001"), *windows])
    for number, one in enumerate(windows):
        more = [("mis-001", "helpful")] * (number == 0)
        ledger.append(reflected(f"r{number}", one, ("pat-001", "helpful"), *more))
    found = {one.code: one for one in find_double_counts(ledger).classes if one.tags}
    assert {code: one.tags for code, one in found.items()} == {"D3": 1, "D4": 1, "D5": 1, "D6": 1}
    assert (found["D5"].examples[0].sessions, found["D6"].bullets) == (("s1", "s2"), 1)
    assert [one.code for one in find_double_counts(ledger, "pat-001").classes if one.tags] == [
        "D3",
        "D4",
        "D5",
        "D6",
    ]
    assert not any(one.tags for one in find_double_counts(ledger, "mis-001").classes)


@pytest.fixture
def lived_in(ledger: Ledger) -> Ledger:
    """1 import, 2 session, 3 answer, 4 completion, 5-6 tags, 7 revision, 8 session, 9 failure,
    10 removal, 11 add.
    """
    first = session(1, "s1", cited=["pat-001"], unknown=["pat-009"])
    second = session(2, "s2", carried=["mis-001"])
    answered = replace(
        about(ev.REFLECTION_ANSWERED, first, backend="anthropic", answer="x"), actor="anthropic"
    )
    ledger.append([imported(("pat-001", 0, 0), ("mis-001", 0, 0)), first, answered])
    ledger.append(
        reflected("r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"), actor="anthropic")
    )
    ledger.append([changed(ev.BULLET_REVISED, "pat-001", 1, text="New"), second])
    ledger.append(
        [
            about(
                ev.REFLECTION_FAILED, second, 1, backend="anthropic", stage="api", message="pat-001"
            )
        ]
    )
    ledger.append(
        [
            changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"),
            added("pat-010"),
        ]
    )
    return ledger


@pytest.mark.parametrize(
    ("chosen", "positions"),
    [
        ({}, list(range(1, 12))),
        ({"session_id": "s1"}, [2, 3, 4, 5, 6]),
        ({"bullet": "pat-001"}, [1, 2, 5, 7, 10]),
        ({"bullet": "mis-001"}, [1, 6, 8, 10]),
        ({"bullet": "pat-01"}, []),
        ({"bullet": '"'}, []),
        ({"after": 3, "upto": 6}, [4, 5, 6]),
        ({"bullet": "pat-001", "session_id": "s2"}, []),
    ],
)
def test_an_event_is_chosen_by_all_conditions(
    lived_in: Ledger, chosen: dict[str, Any], positions: list[int]
) -> None:
    assert [event.position for event in select(lived_in, **chosen)] == positions
    assert [event.position for event in select(lived_in, **chosen, newest=2)] == positions[-2:]


def test_what_undid_a_merge_is_about_its_sources(ledger: Ledger) -> None:
    ledger.append(
        [
            added("pat-001"),
            added("pat-002"),
            merged("pat-003", "pat-001", "pat-002"),
            added("pat-004"),
        ]
    )
    ledger.append([changed(ev.BULLET_UNMERGED, "pat-003", 1)])
    assert [event.position for event in select(ledger, bullet="pat-001")] == [1, 3, 5]


@pytest.mark.parametrize(
    ("begin", "end", "positions"),
    [
        ("2026-11-02T09:02:00.123000Z", "", [1, 3, 4]),
        ("2026-11-02T09:02:00.123001Z", "", [4]),
        ("", "2026-11-02T09:02:00.123000Z", [1, 2, 3, 5]),
        ("2026-11-02T09:02:00.000000Z", "2026-11-02T09:02:00.999999Z", [1, 2, 3]),
    ],
)
def test_times_are_compared_in_any_form(
    ledger: Ledger, begin: str, end: str, positions: list[int]
) -> None:
    times = (
        "02T09:02:00.123Z",
        "02T09:02:00Z",
        "02T11:02:00.123+02:00",
        "02T09:02:59.999Z",
        "01T23:32:00-08:00",
    )
    ledger.append(
        [replace(window(n), occurred_at=f"2026-11-{time}") for n, time in enumerate(times)]
    )
    assert [event.position for event in select(ledger, begin=begin, end=end)] == positions
    assert [
        event.position for event in select(ledger, begin=begin, end=end, newest=2)
    ] == positions[-2:]


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    """One session with a window in every state."""
    windows = [window(number, "s-1") for number in range(6)]
    said = {"cited": ["pat-001"], "said": [{"name": "pat-001", "why": "moved"}]}
    windows[2] = replace(windows[2], data={**windows[2].data, **said})
    ledger.append([added(), *windows])
    ledger.append([about(ev.REFLECTION_ANSWERED, windows[1], 1, backend="rules")])
    ledger.append(
        reflected("r2", windows[2], ("pat-001", "helpful"), ("pat-001", "neutral", "neutral"))
    )
    ledger.append(
        [about(ev.REFLECTION_SKIPPED, windows[3], reason=("the session part does not cite a rule"))]
    )
    ledger.append([about(ev.REFLECTION_FAILED, windows[4], 1, stage="api", message="busy")])
    ledger.append(
        [about(ev.REFLECTION_FAILED, windows[5], 1, stage="given up", message="why", final=True)]
    )
    return ledger


def test_session_story_has_the_states_of_the_table(lived: Ledger) -> None:
    story = session_story(lived, "s-")
    told = [(w.position, w.state, w.attempts, w.changed_at) for w in story.windows]
    assert told == [(w.position, w.state, w.attempts, w.changed_at) for w in lived.windows("s-1")]
    assert {state for _, state, _, _ in told} == {
        "pending",
        "answered",
        "completed",
        "skipped",
        "failed",
        "given_up",
    }
    for position, states in ((7, {"pending": 6}), (lived.head().position, lived.window_states())):
        assert ledger_stats(lived, Past(lived, position)).states == states
    assert story.windows[3].gate == "the session part does not cite a rule"
    assert story.windows[4].failures == ["api: busy"]
    assert [w.said_wrong for w in story.windows[1:3]] == [{}, {"pat-001": "moved"}]


def test_tokens_and_cost_are_those_of_the_answers(lived: Ledger) -> None:
    plain = about(ev.REFLECTION_ANSWERED, window(0, "s-1"))
    for model, price in (
        ("claude-sonnet-5-5", {"cost_usd": "2.000000"}),
        ("unheard-of", {}),
        ("forged", {"cost_usd": "9e999999"}),
    ):
        meta = {"input_tokens": 1_000_000, "output_tokens": 0, **price}
        data = {"backend": "anthropic", "model": model, "answer": "x"}
        lived.append(
            [replace(plain, event_id=identity(model), data=data, meta=meta, reflection_id="r9")]
        )
    spent = session_story(lived, "s-1")
    assert (spent.tokens, str(spent.cost_usd), spent.unpriced) == (3_000_000, "2.000000", 2)


def test_unknown_session_is_named_with_the_candidates(lived: Ledger) -> None:
    lived.append([window(9, "s-2")])
    with pytest.raises(UnknownReference, match="matches several sessions: s-1, s-2"):
        session_story(lived, "s")
    assert session_story(lived, "s-2").windows[0].state == "pending"


# Blame: the steps of a bullet end at its counters, whatever happened to it


def told(steps: list[Step]) -> list[tuple[str | None, str, int, int]]:
    return [(step.tag, step.disposition, step.helpful, step.harmful) for step in steps]


def test_removed_name_is_answered_unknown_is_an_error(ledger: Ledger) -> None:
    ledger.append(
        [added(helpful=2), changed(ev.BULLET_REMOVED, "pat-001", reason="deleted", into=None)]
    )
    assert told(blame_bullet(ledger, "pat-001")) == [(None, "baseline", 2, 0)]
    for name, past in (("pat-002", None), ("pat-001", Past(ledger, 0))):
        with pytest.raises(UnknownBullet):
            blame_bullet(ledger, name, past)


def test_step_has_reason_request_and_place_of_evidence(
    ledger: Ledger,
) -> None:
    first = window()
    first = replace(first, data={**first.data, "said": [{"name": "pat-001", "why": "moved"}]})
    asked = {
        "backend": "anthropic",
        "answer": "x",
        "prompt_sha256": "p" * 64,
        "template_sha256": "t" * 64,
    }
    answer = replace(
        about(ev.REFLECTION_ANSWERED, first, **asked), actor="rules", reflection_id="r1"
    )
    completed, *tags = reflected("r1", first, ("pat-002", "helpful"), ("pat-001", "harmful"))
    rationales = [{"index": 0, "rationale": "not this"}, {"index": 1, "rationale": "It broke."}]
    data = {
        "analysis": "",
        "rationales": rationales,
        "backend": "anthropic",
        "model": "claude-sonnet-4-6",
    }
    ledger.append(
        [added("pat-001"), added("pat-002"), first, answer, replace(completed, data=data), *tags]
    )
    (step,) = blame_bullet(ledger, "pat-001")
    assert (step.rationale, step.backend, step.model) == (
        "It broke.",
        "anthropic",
        "claude-sonnet-4-6",
    )
    assert (step.prompt_sha256, step.template_sha256) == ("p" * 64, "t" * 64)
    assert (step.evidence, step.said_wrong) == (
        Evidence(window=3, answer=4, transcript="/t.jsonl"),
        "moved",
    )
    ledger.redact([first.event_id], reason="x", actor="human")
    assert [
        step.said_wrong for name in ("pat-001", "pat-002") for step in blame_bullet(ledger, name)
    ] == [
        "[redacted]",
        None,
    ]


def test_blame_names_the_merge_that_set_a_count() -> None:
    with Ledger.open("sqlite://") as one, Ledger.open("sqlite://") as two:
        second, third = window(2, "s2"), window(3, "s3")
        two.append([added("pat-001")])
        two.append([second, *reflected("r2", second, ("pat-001", "helpful"))])
        one.append(
            [added("pat-001"), changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=3, harmful=0)]
        )
        two.append([third, *reflected("r3", third, ("pat-001", "helpful"))])
        merge_ledger(one, lambda: exported(two))
        *_, by_hand, of_s2, of_s3, by_merge = blame_bullet(one, "pat-001")
        assert (by_hand.rationale, by_hand.helpful) == ("set by hand with 3 helpful, 0 harmful", 3)
        assert by_merge.helpful == 4
        assert by_merge.rationale == (
            "counted again after a merge of two ledgers, with 4 helpful, 0 harmful"
        )
        for step in (of_s2, of_s3):
            assert (step.counted, step.disposition) == (False, "recounted")
            assert (step.uncounted_by.position, step.uncounted_by.actor) == (
                by_merge.position,
                "merge",
            )
            assert step.uncounted_by.reason == IN_A_MERGE
