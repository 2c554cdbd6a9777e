"""Which bullets of two histories are the same.

Which bullets of the two are the same is decided from how they came into being: the event that first
brought a bullet is its birth, through however many ledgers and under however many names it came.
Names are given out on each machine, so two bullets of one name with other births are one bullet
where they ever said the same, and two where they never did. A line of a file, which `check`
watches, is the bullet that ever said the same, whatever its name; and two bullets of the playbook
that say the same are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.registry import WORDING_TYPES, bullets_brought
from reflector.events.state import REDACTED
from reflector.exchange.matching import Birth, birth_of
from reflector.ledger.reader import between
from reflector.ledger.statements import Statements
from reflector.playbook.admissible import same_words

_LIVE: Final = (
    "SELECT name, text FROM bullet WHERE playbook_id = ? AND status = 'live' ORDER BY ordinal"
)
#: What identifies a bullet everywhere: the id and the data hash of the event that first brought it,
#: as these were when that event was first appended, and which of its bullets it is.
BulletBirth = tuple[str, str, int]
#: The names here that a bullet of another history may have, the surest first.
NamesFor = Callable[[str], list[str]]


@dataclass(slots=True)
class Bullets:
    """Every bullet of a history by name: the texts it ever had, and its births, one for each
    machine that made it.
    """

    texts: dict[str, set[str]] = field(default_factory=dict)
    births: dict[str, list[BulletBirth]] = field(default_factory=dict)
    #: What those that are in the playbook now say.
    live: dict[str, str] = field(default_factory=dict)
    #: Those that came as lines of files.
    watched: set[str] = field(default_factory=set)

    def take(self, type_: str, birth: Birth, data: Mapping[str, Any]) -> None:
        """Add the next event of the history that words a bullet."""
        for index, bullet in enumerate(bullets_brought(type_, data)):
            self.texts.setdefault(bullet["name"], set()).add(bullet["text"])
            self.births.setdefault(bullet["name"], []).append(
                (birth.event_id, birth.data_hash, index)
            )
            if bullet.get("watched"):
                self.watched.add(bullet["name"])
        if type_ == ev.BULLET_REVISED and data.get("name") in self.texts:
            self.texts[data["name"]].add(data.get("text", REDACTED))

    def names_of(self, other: Bullets) -> dict[str, str]:
        """Return the bullets of another history that are here: the name there, and the name here.
        One to one.

        The surest sign is asked first: one birth, then one name that ever said the same, then the
        words of a line that `check` watches, then two live bullets that say the same.
        """
        pairs: dict[str, str] = {}
        taken: set[str] = set()
        for names_for in (
            self._with_its_birth(other),
            self._with_its_name(other),
            self._with_its_words(other),
            self._with_its_text(other),
        ):
            for there in other.texts:
                if there in pairs:
                    continue
                here = next((name for name in names_for(there) if name not in taken), None)
                if here is not None:
                    pairs[there] = here
                    taken.add(here)
        return pairs

    def _with_its_birth(self, other: Bullets) -> NamesFor:
        named = {birth: name for name, births in self.births.items() for birth in births}

        def names_for(there: str) -> list[str]:
            known = [named[birth] for birth in other.births[there] if birth in named]
            return [there] if there in known else known

        return names_for

    def _with_its_name(self, other: Bullets) -> NamesFor:
        def names_for(there: str) -> list[str]:
            both_said = self.texts.get(there, set()) & other.texts[there]
            return [there] if both_said - {REDACTED} else []

        return names_for

    def _with_its_words(self, other: Bullets) -> NamesFor:
        said = {
            same_words(text): name
            for name, texts in self.texts.items()
            for text in sorted(texts - {REDACTED})
        }

        def names_for(there: str) -> list[str]:
            alike = [said.get(same_words(text), "") for text in sorted(other.texts[there])]
            return [
                name for name in alike if name and (name in self.watched or there in other.watched)
            ]

        return names_for

    def _with_its_text(self, other: Bullets) -> NamesFor:
        named = {text: name for name, text in reversed(self.live.items()) if text != REDACTED}

        def names_for(there: str) -> list[str]:
            here = named.get(other.live.get(there, REDACTED))
            return [] if here is None else [here]

        return names_for


def bullets_of(sql: Statements, origin: str, position: int) -> Bullets:
    """Return the bullets of a ledger up to a position, which is its head."""
    found = Bullets()
    for event in between(sql, WORDING_TYPES, 0, position):
        here = Birth(origin, event.position, event.event_id, event.data_hash)
        found.take(event.type, birth_of(here, event.meta), event.facts)
    found.live = dict(sql.run(_LIVE).fetchall())
    return found
