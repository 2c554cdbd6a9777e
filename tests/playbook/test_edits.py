from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import load
from reflector.playbook.names import SECTIONS
from reflector.playbook.versions import edits_between, merge_versions

BULLETS = st.builds(
    Bullet,
    st.sampled_from([f"pat-{n:03d}" for n in range(1, 7)]),
    st.sampled_from(list(SECTIONS)),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 3),
    st.integers(0, 3),
)
PLAYBOOKS = st.lists(BULLETS, max_size=6, unique_by=lambda b: b.name)


def applied(base: Sequence[Bullet], edits: Iterable[Change]) -> dict[str, Bullet]:
    state = {b.name: b for b in base}
    for edit in edits:
        name = edit.name or ""
        assert (edit.kind == "add") == (name not in state)
        if edit.kind == "remove":
            del state[name]
        elif edit.kind == "add":
            state[name] = Bullet(
                name, edit.section or "", edit.text or "", edit.helpful or 0, edit.harmful or 0
            )
        else:
            said = {
                key: value for key, value in edit.to_data().items() if key not in ("kind", "name")
            }
            state[name] = replace(state[name], **said)
    return state


@given(PLAYBOOKS, PLAYBOOKS)
def test_edits_lead_from_base_to_edited_document(base: list[Bullet], edited: list[Bullet]) -> None:
    assert applied(base, edits_between(base, edited)) == {b.name: b for b in edited}
    assert edits_between(base, base[::-1]) == []


@given(
    PLAYBOOKS,
    PLAYBOOKS,
    st.dictionaries(st.sampled_from([f"pat-{n:03d}" for n in range(1, 7)]), st.integers(1, 9)),
)
def test_counts_of_meanwhile_survive_edits(
    base: list[Bullet], edited: list[Bullet], arrived: dict[str, int]
) -> None:
    edits = edits_between(base, edited)
    recounted = {edit.name for edit in edits if edit.kind in ("recount", "add")}
    current = [replace(b, helpful=b.helpful + arrived.get(b.name, 0)) for b in base]
    for name, bullet in applied(current, edits).items():
        if name not in recounted:
            assert bullet.helpful == next(b.helpful for b in current if b.name == name)


PAT = Bullet("pat-001", "pat", "a", 3, 1)


def test_each_change_is_one_edit() -> None:
    same = Bullet("mis-001", "mis", "c")
    edited = [Bullet("pat-001", "oth", "A", 0, 1), Bullet("ctx-001", "ctx", "d", 1, 0), same]
    assert edits_between([PAT, Bullet("pat-002", "pat", "b"), same], edited) == [
        Change("revise", "pat-001", text="A"),
        Change("move", "pat-001", section="oth"),
        Change("recount", "pat-001", helpful=0, harmful=1),
        Change("add", "ctx-001", (), "ctx", "d", 1, 0),
        Change("remove", "pat-002"),
    ]


def test_a_file_without_counters_says_nothing_about_counts() -> None:
    assert edits_between([PAT], [replace(PAT, helpful=0, harmful=0)], uncounted={"pat-001"}) == []


def test_made_up_name_is_not_the_removed_bullet() -> None:
    # The person deleted pat-001 and wrote another bullet without a name: the reader may call it
    # pat-001.
    loaded = load('{"sections": {"PATTERNS & APPROACHES": [{"text": "new"}]}}')
    assert loaded.named_here == {"pat-001"}
    assert edits_between(
        [Bullet("pat-001", "pat", "old", 7)], loaded.bullets, loaded.named_here
    ) == [
        Change("add", None, (), "pat", "new", 0, 0),
        Change("remove", "pat-001"),
    ]


# Two versions with a common ancestor, merged bullet by bullet

TEXTS = st.sampled_from(["a", "b", "c", "d"])


def side() -> st.SearchStrategy[list[Bullet]]:
    names = st.sampled_from(["pat-001", "pat-002", "pat-003", "pat-004"])
    advice = st.tuples(st.sampled_from(["pat", "ctx"]), TEXTS)
    bullets = st.dictionaries(names, advice, max_size=4)
    return bullets.map(lambda found: [Bullet(name, *advice) for name, advice in found.items()])


@given(side(), side())
def test_a_side_that_changed_nothing_takes_the_other(
    base: list[Bullet], other: list[Bullet]
) -> None:
    for merged in (
        merge_versions(base, base, other),
        merge_versions(base, other, base),
        merge_versions(base, other, other),
    ):
        assert merged == [(one, one) for one, _ in merged]
        assert {one for one, _ in merged} == set(other)


def new_texts(base: list[Bullet], side: list[Bullet]) -> set[str]:
    """The texts that a side changed or added; a new name or section alone is no change."""
    texts = {b.name: b.text for b in base}
    changed = {b.text for b in side if texts.get(b.name, b.text) != b.text}
    return changed | {b.text for b in side} - {*texts.values()}


@given(side(), side(), side())
def test_new_text_of_each_side_is_merged(
    base: list[Bullet], ours: list[Bullet], theirs: list[Bullet]
) -> None:
    merged = merge_versions(base, ours, theirs)
    assert new_texts(base, ours) <= {b.text for b, _ in merged}
    assert new_texts(base, theirs) <= {b.text for _, b in merged}
    names = [b.name for b, _ in merged]
    assert len(names) == len(set(names))


@given(side(), side(), side())
def test_only_a_text_both_changed_conflicts(
    base: list[Bullet], ours: list[Bullet], theirs: list[Bullet]
) -> None:
    texts = [{b.name: b.text for b in version} for version in (base, ours, theirs)]
    both = set(texts[0]) & set(texts[1]) & set(texts[2])
    changed = {name for name in both if len({version[name] for version in texts}) == 3}
    conflicts = {a.name for a, b in merge_versions(base, ours, theirs) if a != b}
    renamed = {b.name for b in base if has_new_name(b, base, ours) or has_new_name(b, base, theirs)}
    assert changed - renamed <= conflicts <= changed


def has_new_name(bullet: Bullet, base: list[Bullet], side: list[Bullet]) -> bool:
    new = {b.name for b in side} - {b.name for b in base}
    return any(b.name in new and (b.section, b.text) == (bullet.section, bullet.text) for b in side)


def test_name_given_by_both_stays_with_theirs() -> None:
    merged = merge_versions(
        [], [Bullet("pat-001", "pat", "ours")], [Bullet("pat-001", "pat", "theirs")]
    )
    assert {b.name: b.text for b, _ in merged} == {"pat-001": "theirs", "pat-002": "ours"}


RENAMED = {
    "removed elsewhere": ([], {}),
    "left elsewhere": ([("pat-001", "One.")], {"pat-002": "One."}),
    "reworded elsewhere": ([("pat-001", "Two.")], {"pat-002": "Two."}),
    "its new name given elsewhere": (
        [("pat-001", "One."), ("pat-002", "Two.")],
        {"pat-002": "One.", "pat-003": "Two."},
    ),
    "given two new names": ([("pat-003", "One.")], {"pat-002": "One."}),
}


@pytest.mark.parametrize("case", RENAMED)
def test_rule_under_a_new_name_stays_one(case: str) -> None:
    others, wanted = RENAMED[case]
    base = [Bullet("pat-001", "pat", "One.")]
    theirs = [Bullet("pat-002", "pat", "One.")]
    ours = [Bullet(name, "pat", text) for name, text in others]
    merged = merge_versions(base, ours, theirs)
    assert {b.name: b.text for b, _ in merged} == wanted
    assert [(one, one) for one, _ in merged] == merged


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_name_given_to_other_advice_is_no_conflict(side: str) -> None:
    base = [Bullet("pat-001", "pat", "One.")]
    renamed = [Bullet("pat-001", "pat", "Other."), Bullet("pat-002", "pat", "One.")]
    reworded = [Bullet("pat-001", "pat", "First.")]
    sides = (renamed, reworded) if side == "ours" else (reworded, renamed)
    merged = merge_versions(base, *sides)
    wanted = {"pat-001": "Other.", "pat-002": "First."}
    assert [{b.name: b.text for b in version} for version in zip(*merged, strict=True)] == [
        wanted,
        wanted,
    ]


@pytest.mark.parametrize("removed_by", ["ours", "theirs"])
def test_removal_wins_over_a_move(removed_by: str) -> None:
    base = [Bullet("pat-001", "pat", "One.")]
    moved = [Bullet("pat-001", "ctx", "One.")]
    sides: tuple[list[Bullet], list[Bullet]] = ([], moved) if removed_by == "ours" else (moved, [])
    assert merge_versions(base, *sides) == []


@pytest.mark.parametrize("removed_by", ["ours", "theirs"])
def test_removal_reaches_a_rule_whose_name_changed(removed_by: str) -> None:
    base = [Bullet("pat-001", "pat", "One.")]
    renamed = [Bullet("pat-001", "pat", "Another."), Bullet("pat-002", "pat", "One.")]
    sides: tuple[list[Bullet], list[Bullet]] = (renamed, [])
    merged = merge_versions(base, *(sides[::-1] if removed_by == "ours" else sides))
    assert [one for one, _ in merged] == renamed[:1]


@pytest.mark.parametrize("section", ["pat", "ctx"])
def test_rule_stays_if_each_side_drops_one_name(section: str) -> None:
    twins = [Bullet("pat-001", "pat", "One."), Bullet("pat-002", section, "One.")]
    assert merge_versions(twins, twins[:1], twins[1:]) == [(twins[1], twins[1])]


@given(side(), side(), side())
def test_text_that_both_sides_have_stays(
    base: list[Bullet], ours: list[Bullet], theirs: list[Bullet]
) -> None:
    merged = merge_versions(base, ours, theirs)
    both = {b.text for b in ours} & {b.text for b in theirs}
    assert both <= {b.text for pair in merged for b in pair}


def test_kept_rule_gets_no_taken_name() -> None:
    one, two = (Bullet(name, "pat", "One.") for name in ("pat-001", "pat-002"))
    ours = [Bullet("pat-001", "pat", "Two."), Bullet("pat-003", "pat", "One.")]
    merged = merge_versions([one, two], ours, [one])
    assert {b.name: b.text for b, _ in merged} == {"pat-001": "Two.", "pat-004": "One."}


def test_new_name_given_by_them_is_theirs() -> None:
    base = [Bullet("pat-001", "pat", "One.")]
    theirs = [*base, Bullet("pat-002", "pat", "Two.")]
    merged = merge_versions(base, [Bullet("pat-002", "pat", "One.")], theirs)
    assert {b.name: b.text for b, _ in merged} == {"pat-002": "Two.", "pat-003": "One."}


def test_name_that_both_gave_again_means_theirs() -> None:
    base = [Bullet("pat-001", "pat", "One.")]
    ours = [Bullet("pat-002", "pat", "One."), Bullet("pat-001", "pat", "Ours.")]
    theirs = [Bullet("pat-003", "pat", "One."), Bullet("pat-001", "pat", "Theirs.")]
    merged = merge_versions(base, ours, theirs)
    assert [bullet.name for bullet, _ in merged if bullet.text == "Theirs."] == ["pat-001"]
    assert sorted(bullet.text for bullet, _ in merged) == ["One.", "Ours.", "Theirs."]
    assert len({bullet.name for bullet, _ in merged}) == 3
