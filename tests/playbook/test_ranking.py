"""What is told of a playbook that does not fit."""

from collections import Counter
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.bullet import Bullet, best_first
from reflector.playbook.entry import BulletRow
from reflector.playbook.ranking import DEMOTED_AFTER, RankingFacts, choose, pinned_names


def cost(bullet: Bullet, sections: Collection[str]) -> int:
    return len(bullet.line) + (0 if bullet.section in sections else 20)


def named(count: int, *, helpful: int = 0, harmful: int = 0, after: int = 0) -> list[Bullet]:
    return [Bullet(f"oth-{after + n:03d}", "oth", "x" * 60, helpful, harmful) for n in range(count)]


def told(bullets: Sequence[Bullet], facts: RankingFacts, room: int = 1000) -> list[str]:
    return [bullet.name for bullet in choose(bullets, facts, room, cost).bullets]


def test_playbook_that_fits_is_told_best_first() -> None:
    bullets = [*named(3), *named(2, helpful=1, after=3), *named(1, harmful=1, after=5)]
    choice = choose(bullets, RankingFacts(), 10_000, cost)
    assert (list(choice.bullets), choice.seed) == (sorted(bullets, key=best_first), "")


def test_every_bullet_has_its_turn() -> None:
    bullets = named(60)
    seen: Counter[str] = Counter()
    for turn in range(20):
        seen.update(told(bullets, RankingFacts(told=dict(seen), turn=turn)))
    assert len(seen) == 60
    assert max(seen.values()) - min(seen.values()) <= 1


OLD, NEW = named(100, helpful=5), named(1, after=100)
SEEN = RankingFacts(told={bullet.name: 3 for bullet in OLD})
HELPED = [*named(1, helpful=2), *named(30, helpful=1, after=1)]
OFTEN = {bullet.name: 9 for bullet in HELPED}
IDLE = RankingFacts(told={**OFTEN, "oth-000": 99}, idle={"oth-000": 3 * DEMOTED_AFTER})


@pytest.mark.parametrize(
    ("bullets", "facts", "name", "is_told"),
    [
        ([*OLD, *NEW], SEEN, "oth-100", True),  # new advice, however good the old one is
        # what helped keeps its room
        ([*named(100), *named(8, helpful=3, after=100)], RankingFacts(), "oth-106", True),
        (HELPED, RankingFacts(told=OFTEN), "oth-000", True),
        (HELPED, IDLE, "oth-000", False),  # told often since it helped
        (HELPED, IDLE._replace(idle={}), "oth-000", True),
    ],
)
def test_what_helped_or_is_new_has_room(
    bullets: list[Bullet], facts: RankingFacts, name: str, is_told: bool
) -> None:
    assert (name in told(bullets, facts)) == is_told


def test_pinned_bullets_come_first() -> None:
    bullets = [*named(50, helpful=4), *named(2, harmful=9, after=50)]
    facts = RankingFacts(pinned=("oth-051", "oth-050", "pat-404"), idle={"oth-051": 99})
    assert told(bullets, facts)[:2] == ["oth-051", "oth-050"]
    assert facts.demotions("oth-051") == 0


def test_pin_follows_merges() -> None:
    merged = [
        BulletRow(name, "oth", "x", status="merged", removed_into=heir)
        for name, heir in (("oth-001", "oth-003"), ("oth-002", "oth-003"), ("oth-003", "oth-004"))
    ]
    pinned = pinned_names(("oth-002", "oth-001"), [*merged, BulletRow("oth-004", "oth", "x")])
    assert pinned == ("oth-002", "oth-001", "oth-003", "oth-004")


_bullets = st.lists(
    st.builds(
        lambda number, section, text, up, down: Bullet(
            f"{section}-{number}", section, text, up, down
        ),
        st.integers(0, 999),
        st.sampled_from(["pat", "mis"]),
        st.text(max_size=80),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=30,
    unique_by=lambda bullet: bullet.name,
)


@given(_bullets, st.integers(0, 2000), st.randoms())
def test_choice_fits_and_ignores_the_order(
    bullets: list[Bullet], room: int, random: object
) -> None:
    choice = choose(bullets, RankingFacts(), room, cost)
    shuffled = sorted(bullets, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert choose(shuffled, RankingFacts(), room, cost) == choice
    used = 0
    sections: set[str] = set()
    for bullet in choice.bullets:
        used += cost(bullet, sections)
        sections.add(bullet.section)
    assert used <= room
    assert (choice.seed == "") == (len(choice.bullets) == len(bullets))
