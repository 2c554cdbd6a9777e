"""Parts of a window that were judged separately: one verdict a bullet, and nothing that a part said is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.answers import MAX_ANALYSIS, Parsed, ParsedTag, merge_parts, parse_answer


def part(*tags: tuple[str, str], analysis: str = "", problems: tuple[str, ...] = ()) -> Parsed:
    """Tags as (name, verdict), each with a rationale of its own."""
    parsed = tuple(ParsedTag(index, name, tag, f"{name} {tag}") for index, (name, tag) in enumerate(tags))
    return Parsed(analysis, parsed, "whole", problems)


def verdicts(parsed: Parsed) -> list[tuple[str | None, str | None]]:
    assert [tag.index for tag in parsed.tags] == list(range(len(parsed.tags)))
    return [(tag.name, tag.tag) for tag in parsed.tags]


FAILED = parse_answer("I would rather not.")


def test_a_verdict_beats_neutral_in_whatever_order_they_come() -> None:
    merged = merge_parts([part(("pat-001", "neutral"), ("pat-002", "harmful")), part(("pat-001", "helpful"))])
    assert verdicts(merged) == [("pat-001", "helpful"), ("pat-002", "harmful")]
    assert merged.tags[0].rationale == "pat-001 helpful"


def test_parts_that_agree_count_once_with_the_first_rationale() -> None:
    second = Parsed("", (ParsedTag(0, "pat-001", "helpful", "again"),), "whole")
    merged = merge_parts([part(("pat-001", "helpful")), second])
    assert merged.tags == (ParsedTag(0, "pat-001", "helpful", "pat-001 helpful"),)


def test_parts_that_contradict_each_other_are_neutral_and_say_why() -> None:
    merged = merge_parts([part(("pat-001", "helpful")), part(("pat-001", "neutral")), part(("pat-001", "harmful"))])
    assert verdicts(merged) == [("pat-001", "neutral")]
    assert merged.tags[0].rationale == "helpful in part 1: pat-001 helpful; harmful in part 3: pat-001 harmful"


def test_entries_that_say_nothing_about_a_bullet_are_kept() -> None:
    odd = (ParsedTag(0, None, "helpful", "", "the name is missing"), ParsedTag(1, "pat-001", "unknown", "great"))
    merged = merge_parts([Parsed("", odd, "fence"), Parsed("", odd, "fence"), part(("pat-001", "helpful"))])
    assert verdicts(merged) == [*[(None, "helpful"), ("pat-001", "unknown")] * 2, ("pat-001", "helpful")]


def test_problems_name_their_part_and_a_part_that_failed_is_one() -> None:
    merged = merge_parts([part(("pat-001", "helpful"), problems=("tag 0: odd",)), FAILED])
    assert merged.problems[:2] == ("part 1: tag 0: odd", "part 2: nothing could be read")
    assert not merged.failed
    assert merged.strategy == "whole"


def test_parts_that_all_failed_are_a_failure() -> None:
    assert merge_parts([FAILED, FAILED]).failed


def test_analyses_are_joined_and_stay_within_their_bound() -> None:
    assert merge_parts([part(analysis="One."), part(), part(analysis="Two.")]).analysis == "One.\n\nTwo."
    long = merge_parts([part(analysis="a" * MAX_ANALYSIS), part(analysis="b" * MAX_ANALYSIS)]).analysis
    assert len(long) <= MAX_ANALYSIS
    assert {"a", "b"} <= set(long)


def test_there_is_nothing_to_merge_without_a_part() -> None:
    with pytest.raises(ValueError, match="no part"):
        merge_parts([])


NAMES = st.sampled_from(["pat-001", "pat-002", "mis-003"])
PARTS = st.lists(st.tuples(NAMES, st.sampled_from(["helpful", "harmful", "neutral"])), max_size=5).map(
    lambda tags: part(*tags)
)


@given(st.text())
def test_a_window_of_one_part_is_judged_by_it(text: str) -> None:
    parsed = parse_answer(text)
    assert merge_parts([parsed]) == parsed


@given(st.lists(PARTS, min_size=2, max_size=4))
def test_each_bullet_has_one_tag_and_none_is_made_up(parts: list[Parsed]) -> None:
    merged = merge_parts(parts)
    said = {
        tag.name: {other.tag for one in parts for other in one.tags if other.name == tag.name} for tag in merged.tags
    }
    assert len(said) == len(merged.tags)
    assert set(said) == {tag.name for one in parts for tag in one.tags}
    for tag in merged.tags:
        decided = said[tag.name] - {"neutral"}
        assert tag.tag == (next(iter(decided)) if len(decided) == 1 else "neutral")
