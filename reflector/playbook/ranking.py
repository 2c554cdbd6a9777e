"""The choice of bullets for a session if the playbook does not fit, as pure functions.

Invariant: the choice depends only on the bullets and their recorded history, not on a clock, a
process or the order of files. So all starts between two changes get the same bytes, and anyone can
repeat the choice from the ledger. If the whole playbook fits, all of it is shown.

Pinned bullets come first. Of the remaining room, at most three quarters go to bullets that helped
more than they harmed, the largest gain per token first. The rest goes to the other bullets in
turns: those that the fewest sessions were shown come first, and a draw decides among equals. So a
new bullet is shown at the next start, and an omitted one gets its turn.

The gain of a bullet is its rate by Laplace's rule, (helpful+1)/(all+2), minus one half. A bullet
that was shown in many sessions since it last helped is demoted: its gain is halved for each
`DEMOTED_AFTER` of them. Demotion changes the rank and removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from reflector.playbook.bullet import Bullet, best_first

if TYPE_CHECKING:
    from reflector.playbook.entry import BulletRow

#: Sessions that were shown a bullet since it last helped, for each halving of its gain.
DEMOTED_AFTER = 20
#: The share of the room for the bullets that were shown least.
EXPLORED = 0.25
#: Characters of a token, as exactly as a ranking needs them.
_CHARACTERS_PER_TOKEN = 4


def pinned_names(setting: Sequence[str], bullets: Iterable[BulletRow]) -> tuple[str, ...]:
    """Return the names of the pinned bullets in order: those of the setting, then the bullets that
    they were merged into.
    """
    heirs = {bullet.name: bullet.removed_into for bullet in bullets if bullet.status == "merged"}
    names = list(setting)
    for name in names:  # the loop also visits the names that it appends
        heir = heirs.get(name)
        if heir is not None and heir not in names:
            names.append(heir)
    return tuple(names)


class RankingFacts(NamedTuple):
    """The facts that a ranking uses besides the counters.

    pinned  names that are shown first, in this order, and are never demoted
    told    the number of sessions that were shown a bullet, by name
    idle    the number of these sessions since the bullet last helped, or all if it never helped
    turn    changes with the shown bullets, so that they take turns even if no counter changes
    """

    pinned: Sequence[str] = ()
    told: Mapping[str, int] = MappingProxyType({})
    idle: Mapping[str, int] = MappingProxyType({})
    turn: int = 0

    def demotions(self, name: str) -> int:
        """Return how many times a bullet's gain is halved."""
        return 0 if name in self.pinned else self.idle.get(name, 0) // DEMOTED_AFTER

    def why_demoted(self, bullet: Bullet) -> str | None:
        """Return the reason why a bullet is demoted, in words; None if it is not."""
        if not self.demotions(bullet.name):
            return None
        how = "since the rule last helped" if bullet.helpful else "and never helped"
        return f"shown {self.idle[bullet.name]} times {how}"


class Choice(NamedTuple):
    """The bullets that are shown, best first, and the seed of the draw; the seed is "" if all are
    shown.
    """

    bullets: tuple[Bullet, ...]
    seed: str = ""


def choose(
    bullets: Iterable[Bullet],
    facts: RankingFacts,
    room: int,
    cost: Callable[[Bullet, Collection[str]], int],
) -> Choice:
    """Return the bullets to show in `room` characters.

    cost  the characters that a bullet takes beside others, whose sections are given
    """
    places = {name: place for place, name in enumerate(facts.pinned)}

    def order(bullet: Bullet) -> tuple[int, tuple[float, int, str]]:
        return places.get(bullet.name, len(places)), best_first(bullet)

    ranked = sorted(bullets, key=order)
    fill = _Fill(room, cost)
    if all(map(fill.take, ranked)):
        return Choice(tuple(ranked))
    seed = _seed(ranked, facts)
    fill = _Fill(room, cost)
    pinned = {bullet.name for bullet in ranked if bullet.name in places and fill.take(bullet)}
    rest = [bullet for bullet in ranked if bullet.name not in pinned]
    rest.sort(key=lambda bullet: (-_gain(bullet, facts), best_first(bullet)))
    kept_for_turns = int(fill.room * EXPLORED)
    passed_over = [b for b in rest if _gain(b, facts) <= 0 or not fill.take(b, kept_for_turns)]
    # The fewest sessions first, then by the draw.
    passed_over.sort(key=lambda bullet: (_turns(bullet, facts), _hash(f"{seed} {bullet.name}")))
    for bullet in passed_over:
        fill.take(bullet)
    return Choice(tuple(sorted(fill.taken, key=order)), seed)


class _Fill:
    """Takes the bullets that fit into a room, and passes over the others."""

    def __init__(self, room: int, cost: Callable[[Bullet, Collection[str]], int]) -> None:
        self.room = room
        self._cost = cost
        self.taken: list[Bullet] = []
        self._sections: set[str] = set()

    def take(self, bullet: Bullet, keep: int = 0) -> bool:
        cost = self._cost(bullet, self._sections)
        if cost > self.room - keep:
            return False
        self.room -= cost
        self._sections.add(bullet.section)
        self.taken.append(bullet)
        return True


def _gain(bullet: Bullet, facts: RankingFacts) -> float:
    """Return the worth of a bullet per token: above 0 if it helped more than it harmed."""
    above = (bullet.helpful + 1) / (bullet.helpful + bullet.harmful + 2) - 0.5
    if above <= 0:
        return above
    demotion = float(2 ** min(facts.demotions(bullet.name), 50))
    return above / demotion / (len(bullet.line) / _CHARACTERS_PER_TOKEN)


def _turns(bullet: Bullet, facts: RankingFacts) -> int:
    """Return the number of sessions that were shown a bullet. The number is higher for a bullet
    that harmed more than it helped, so it waits longer for its next turn.
    """
    return facts.told.get(bullet.name, 0) + DEMOTED_AFTER * max(0, bullet.harmful - bullet.helpful)


def _seed(bullets: Sequence[Bullet], facts: RankingFacts) -> str:
    """Return 8 hex digits that change with the playbook and with the turn."""
    parts = ["balanced", str(facts.turn), *facts.pinned]
    by_name = sorted(bullets, key=lambda bullet: bullet.name)
    parts += [f"{bullet.section} {bullet.line}" for bullet in by_name]
    return _hash("\n".join(parts))[:8]


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
