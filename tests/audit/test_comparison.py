"""Agreement, kappa, precision and recall, against figures worked out by hand and laws that always hold."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.audit.comparison.agreement import (
    CATEGORIES,
    Agreement,
    BadLabel,
    Pair,
    Ruling,
    agreement_of,
    judged_by_both,
    pairs_of,
    read_label,
    said_by,
    scores,
    tally_of,
)
from reflector.events.spent import Spent
from reflector.playbook.counting import VERDICTS
from reflector.reflection.judging import Judgement, Verdict


def matrix(*rows: Sequence[int]) -> Agreement:
    """An agreement from the rows of a matrix over the first categories; the rest is zero."""
    return agreement_of(
        Pair("s", "w", "pat-001", of_a, of_b)
        for of_a, row in zip(CATEGORIES, rows, strict=False)
        for of_b, count in zip(CATEGORIES, row, strict=False)
        for _ in range(count)
    )


def verdicts(**tags: str) -> dict[str, Verdict]:
    """`pat_001="helpful"` as the verdicts of a window."""
    return {name.replace("_", "-"): Verdict(tag, f"{tag}, it seems") for name, tag in tags.items()}


def judged(given_: Mapping[str, Verdict] | None, failure: str = "") -> Judgement:
    return Judgement(given_, failure, Spent(asked=1, tokens=10), 1, ("m",))


@pytest.mark.parametrize(
    ("rows", "agreement", "kappa"),
    [
        # The grant proposals of many a textbook: 50 proposals, two readers, yes or no.
        ([(20, 5), (10, 15)], 0.70, 0.4),
        # The same share of agreement, other habits.
        ([(45, 15), (25, 15)], 0.60, 0.1304),
        ([(25, 35), (5, 35)], 0.60, 0.2593),
        # Cohen 1960; Fleiss, Cohen & Everitt 1969.
        ([(88, 14, 18), (10, 40, 10), (2, 6, 12)], 0.70, 0.4915),
        ([(106, 10, 4), (22, 28, 10), (2, 12, 6)], 0.70, 0.4286),
        # As far apart as two can be, and as near.
        ([(0, 5), (5, 0)], 0.0, -1.0),
        ([(3, 0, 0), (0, 2, 0), (0, 0, 7)], 1.0, 1.0),
        # One calls everything helpful: chance agrees as often as they do.
        ([(6, 0), (4, 0)], 0.6, 0.0),
    ],
)
def test_agreement_and_kappa_are_those_of_the_literature(
    rows: list[tuple[int, ...]], agreement: float, kappa: float
) -> None:
    found = matrix(*rows)
    assert found.agreement == pytest.approx(agreement)
    assert found.kappa == pytest.approx(kappa, abs=5e-5)


@pytest.mark.parametrize("rows", [[], [(4,)], [(0, 0), (0, 9)]])
def test_kappa_says_nothing_without_pairs_or_with_one_category_only(rows: list[tuple[int, ...]]) -> None:
    found = matrix(*rows)
    assert found.kappa is None
    assert found.agreement == (1.0 if found.pairs else None)


categories = st.sampled_from(CATEGORIES)
pairs = st.lists(st.tuples(categories, categories).filter(lambda two: two != ("none", "none")), min_size=1)


@given(pairs)
def test_kappa_is_symmetric_and_between_minus_one_and_one(told: list[tuple[str, str]]) -> None:
    one = agreement_of(Pair("s", "w", "pat-001", a, b) for a, b in told)
    other = agreement_of(Pair("s", "w", "pat-001", b, a) for a, b in told)
    assert one.kappa == other.kappa
    assert one.kappa is None or -1.0 <= one.kappa <= 1.0
    assert one.pairs == len(told)
    assert one.agreed == sum(a == b for a, b in told)
    assert (one.kappa is None) == (len({category for two in told for category in two}) == 1)


@given(st.lists(st.sampled_from(VERDICTS), min_size=2).filter(lambda tags: len(set(tags)) > 1))
def test_kappa_is_one_exactly_when_two_agree_in_everything(tags: list[str]) -> None:
    same = agreement_of(Pair("s", "w", "pat-001", tag, tag) for tag in tags)
    assert same.kappa == 1.0
    turned = [VERDICTS[(VERDICTS.index(tags[0]) + 1) % 3], *tags[1:]]
    kappa = agreement_of(Pair("s", "w", "pat-001", a, b) for a, b in zip(tags, turned, strict=True)).kappa
    assert kappa is None or kappa < 1.0


@given(st.permutations(CATEGORIES), pairs)
def test_kappa_does_not_depend_on_what_the_categories_are_called(names: list[str], told: list[tuple[str, str]]) -> None:
    called = dict(zip(CATEGORIES, names, strict=True))
    before = agreement_of(Pair("s", "w", "pat-001", a, b) for a, b in told)
    after = agreement_of(Pair("s", "w", "pat-001", called[a], called[b]) for a, b in told)
    assert before.kappa == after.kappa


def test_a_bullet_that_only_one_judged_is_paired_with_none() -> None:
    found = pairs_of("s-1", "w-1", verdicts(pat_002="helpful", pat_001="neutral"), verdicts(pat_001="harmful"))
    assert [(pair.name, pair.a, pair.b) for pair in found] == [
        ("pat-001", "neutral", "harmful"),
        ("pat-002", "helpful", "none"),
    ]
    assert (found[0].a_rationale, found[0].b_rationale, found[1].b_rationale) == (
        "neutral, it seems",
        "harmful, it seems",
        "",
    )
    assert [pair.name for pair in judged_by_both(found)] == ["pat-001"]
    assert agreement_of(found).matrix["helpful"]["none"] == 1


def test_a_window_that_one_side_could_not_judge_is_told_and_not_compared() -> None:
    rulings = [
        Ruling("s-1", "w-1", judged(verdicts(pat_001="helpful")), judged(verdicts(pat_001="helpful"))),
        Ruling("s-2", "w-2", judged(verdicts(pat_001="harmful")), judged(None, "transport: 529")),
        Ruling("s-3", "w-3", judged(None, "transcript: gone"), Judgement(None)),
    ]
    assert [ruling.is_compared for ruling in rulings] == [True, False, False]
    assert [len(ruling.pairs) for ruling in rulings] == [1, 0, 0]
    a, b = tally_of(rulings, "a"), tally_of(rulings, "b")
    assert (a.judged, a.failures) == (2, (("s-3", "w-3", "transcript: gone"),))
    # What was never asked did not fail.
    assert (b.judged, b.failures) == (1, (("s-2", "w-2", "transport: 529"),))
    assert (a.spent.tokens, b.spent.tokens, a.strays, a.models) == (30, 20, 3, ("m",))
    assert list(said_by(rulings, "a")) == [("s-1", "pat-001")]


def test_precision_and_recall_are_those_worked_out_by_hand() -> None:
    labels = {
        ("s-1", "pat-001"): "helpful",
        ("s-1", "pat-002"): "helpful",
        ("s-2", "pat-001"): "helpful",
        ("s-2", "pat-002"): "harmful",
        ("s-3", "pat-001"): "neutral",
    }
    said = {
        ("s-1", "pat-001"): [Verdict("helpful")],
        ("s-1", "pat-002"): [Verdict("harmful")],
        ("s-2", "pat-002"): [Verdict("harmful")],
        ("s-3", "pat-001"): [Verdict("helpful")],
        ("s-3", "pat-009"): [Verdict("helpful")],  # nobody labelled it
    }
    helpful, harmful, neutral = scores(labels, said)
    assert (helpful.tag, helpful.labelled, helpful.given, helpful.right) == ("helpful", 3, 2, 1)
    assert (helpful.precision, helpful.recall) == (pytest.approx(1 / 2), pytest.approx(1 / 3))
    assert (harmful.precision, harmful.recall) == (pytest.approx(1 / 2), 1.0)
    assert (neutral.precision, neutral.recall) == (None, 0.0)
    assert [score.recall for score in scores({key: tag for key, tag in labels.items() if key[0] == "s-2"}, said)] == [
        0.0,
        1.0,
        None,
    ]


@pytest.mark.parametrize(
    ("windows", "label"),
    [
        (["neutral", "helpful"], "helpful"),
        (["helpful", "neutral"], "helpful"),
        (["helpful", "harmful"], "neutral"),
        (["neutral", "neutral"], "neutral"),
    ],
)
def test_a_sessions_windows_are_merged_before_they_are_held_against_its_label(windows: list[str], label: str) -> None:
    said = {("s-1", "pat-001"): [Verdict(tag) for tag in windows]}
    found = {score.tag: score.right for score in scores({("s-1", "pat-001"): label}, said)}
    assert found == {tag: int(tag == label) for tag in VERDICTS}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("stu"), st.sampled_from(["pat-001", "mis-001"])), st.sampled_from(VERDICTS)
    ),
    st.dictionaries(
        st.tuples(st.sampled_from("stu"), st.sampled_from(["pat-001", "mis-001"])), st.sampled_from(VERDICTS)
    ),
)
def test_scores_stay_within_what_there_is(labels: dict[tuple[str, str], str], said: dict[tuple[str, str], str]) -> None:
    found = scores(labels, {key: [Verdict(tag)] for key, tag in said.items()})
    assert sum(score.labelled for score in found) == len(labels)
    assert sum(score.given for score in found) == len(labels.keys() & said.keys())
    assert sum(score.right for score in found) == sum(said.get(key) == tag for key, tag in labels.items())
    for score in found:
        assert score.right <= min(score.labelled, score.given)


def test_a_label_may_have_notes_and_is_refused_with_what_is_wrong() -> None:
    sound = {"session": "s-1", "name": "pat-001", "tag": "helpful"}
    assert read_label({**sound, "why": "I was there"}) == (("s-1", "pat-001"), "helpful")
    for wrong, wanted in itertools.chain(
        ((value, "not an object") for value in (None, [], "pat-001", 7)),
        (({**sound, "session": value}, "session is") for value in (None, "", 7)),
        (({**sound, "name": value}, "name is") for value in (None, "DROP TABLE", ["pat-001"])),
        (({**sound, "tag": value}, "tag is") for value in (None, "none", "Helpful", ["helpful"], {})),
    ):
        with pytest.raises(BadLabel, match=wanted):
            read_label(wrong)
