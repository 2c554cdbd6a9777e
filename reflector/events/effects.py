"""What an event of a type changes: a handful of effects, of which each type has one.

Invariant: the fold, the tables, a moment of the past and `verify` all ask the effect, so they cannot disagree about a
type. A new type takes an effect that exists; a new effect is a change to the projection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reflector.events.state import Data, Entry, FoldedEvent, Playbook, verdict
from reflector.playbook.counting import is_counting


class Effect:
    """The base of all effects; `changes` says whether a bullet or a count may differ afterwards: `last_updated` is the
    time of the last such event."""

    changes: ClassVar[bool] = True

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        """Fold the event into the playbook."""


@dataclass(frozen=True)
class AddsBullets(Effect):
    """Adds the bullets that `bullets` finds in the data."""

    bullets: Callable[[Data], Sequence[Data]]

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.baselines_at[event.event_id] = event.position
        book.add(event, self.bullets(data))


class MergesBullets(AddsBullets):
    """Adds a bullet that has the evidence of its `sources`."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.baselines_at[event.event_id] = event.position
        for bullet in self.bullets(data):
            book.merge(event, bullet, data.get("sources", ()))


class UndoesMerge(Effect):
    """Gives the sources of the merged bullet that the data names their evidence back."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.unmerge(data.get("name", ""))


@dataclass(frozen=True)
class ChangesBullet(Effect):
    """Changes fields of the bullet that the data names; `values` returns them. A name without a bullet changes
    nothing."""

    values: Callable[[FoldedEvent, Entry, Data], dict[str, object]]

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        entry = book.entries.get(data.get("name", ""))
        if entry is not None:
            book.put(replace(entry, **self.values(event, entry, data)))  # type: ignore[arg-type]


class Recounts(Effect):
    """Sets the counters of the bullet that the data names, or undoes that."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.recount(event, data)
        book.baselines_at[event.event_id] = event.position


class TagsBullet(Effect):
    """Gives a bullet a tag, which counts if it is a verdict: only then does it change anything."""

    changes: ClassVar[bool] = False

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        if judged := verdict(data):
            tag = (event.position, event.event_id, data["tag"], event.session_id, event.reflection_id)
            book.take_tag(judged[0], tag, event.recorded_at)


class RecordsWindow(Effect):
    """Records a window of a session, which waits for its reflection."""

    changes: ClassVar[bool] = False


@dataclass(frozen=True)
class MovesWindow(Effect):
    """Brings the target window to a state: `final` where the data says that it is final. A completed one stays so."""

    state: str
    final: str = ""
    attempts: int = 0

    changes: ClassVar[bool] = False

    def state_by(self, data: Data) -> str:
        """Return the state that an event with this data brings its window to."""
        return self.final if self.final and data.get("final") else self.state


class GivesAnswer(MovesWindow):
    """Holds what a backend answered about the target window, and what that took."""


class CompletesReflection(MovesWindow):
    """Completes the target window, and binds the tags behind it to the reflection."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.complete(event)


class Retracts(Effect):
    """Takes the target out of the count, or puts back what a retraction took out."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        book.retract(event)


class AdoptsPolicy(Effect):
    """Puts a counting policy in force."""

    def apply(self, book: Playbook, event: FoldedEvent, data: Data) -> None:
        if is_counting(data.get("counting")):
            book.adopted = data["counting"]


@dataclass(frozen=True)
class ChangesNothing(Effect):
    """Changes neither the playbook nor a window, and says why it is recorded anyway."""

    because: str

    changes: ClassVar[bool] = False


class Tells(ChangesNothing):
    """Records which bullets a session was told: the tallies count them."""
