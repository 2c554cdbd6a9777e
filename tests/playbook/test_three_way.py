"""Two versions of a playbook, merged bullet by bullet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.bullet import Bullet
from reflector.playbook.three_way import merge

TEXTS = st.sampled_from(["a", "b", "c", "d"])


def side() -> st.SearchStrategy[list[Bullet]]:
    names = st.sampled_from(["pat-001", "pat-002", "pat-003", "pat-004"])
    bullets = st.dictionaries(names, TEXTS, max_size=4)
    return bullets.map(lambda found: [Bullet(name, "pat", text) for name, text in found.items()])


@given(side(), side())
def test_a_side_that_changed_nothing_takes_the_other(base: list[Bullet], other: list[Bullet]) -> None:
    for merged in (merge(base, base, other), merge(base, other, base), merge(base, other, other)):
        assert merged.conflicts == ()
        assert set(merged.ours) == set(other)


@given(side(), side(), side())
def test_what_a_side_says_newly_is_in_the_result(base: list[Bullet], ours: list[Bullet], theirs: list[Bullet]) -> None:
    merged = merge(base, ours, theirs)
    known = set(base)
    assert {b.text for b in ours if b not in known} <= {b.text for b in merged.ours}
    assert {b.text for b in theirs if b not in known} <= {b.text for b in merged.theirs}
    names = [b.name for b in merged.ours]
    assert len(names) == len(set(names))


@given(side(), side(), side())
def test_only_a_text_that_both_changed_is_a_conflict(
    base: list[Bullet], ours: list[Bullet], theirs: list[Bullet]
) -> None:
    texts = [{b.name: b.text for b in version} for version in (base, ours, theirs)]
    both = set(texts[0]) & set(texts[1]) & set(texts[2])
    expected = {name for name in both if len({version[name] for version in texts}) == 3}
    assert set(merge(base, ours, theirs).conflicts) == expected


def test_a_name_that_both_gave_out_stays_with_theirs() -> None:
    merged = merge([], [Bullet("pat-001", "pat", "ours")], [Bullet("pat-001", "pat", "theirs")])
    assert {b.name: b.text for b in merged.ours} == {"pat-001": "theirs", "pat-002": "ours"}
