"""What an event of a type changes: a handful of effects, of which each type has one.

Invariant: the fold, the tables, a moment of the past and `verify` all ask the effect, so they
cannot disagree about a type. A new type takes an effect that exists; a new effect is a change to
the projection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reflector.events.event import Event
from reflector.events.state import Data, Entry, Playbook, verdict
from reflector.playbook.bullet import is_counting


class Effect:
    """The base of all effects; `changes` says whether a bullet or a count may differ afterwards:
    `last_updated` is the time of the last such event.
    """

    changes: ClassVar[bool] = True

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        """Fold the event into the playbook."""


@dataclass(frozen=True)
class AddsBullets(Effect):
    """Adds the bullets that `bullets` finds in the data."""

    bullets: Callable[[Data], Sequence[Data]]

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        book.baselines_at[event.event_id] = event.position
        book.add(event, self.bullets(data))


class MergesBullets(AddsBullets):
    """Adds a bullet that has the evidence of those of its `sources` that are live. A name that is
    taken changes nothing.
    """

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        book.baselines_at[event.event_id] = event.position
        entries = book.entries
        for bullet in self.bullets(data):
            if bullet["name"] in entries:
                continue
            live = [
                entries[n]
                for n in data.get("sources", ())
                if n in entries and entries[n].status == "live"
            ]
            book.add(event, [bullet])
            for entry in live:
                book.put(replace(entry, status="merged", removed_into=bullet["name"], reason=None))


class UndoesMerge(Effect):
    """Makes the sources of a merge what they would be without it, and removes the merged bullet
    if it is live.
    """

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        name = data.get("name", "")
        for source in book.sources(name):
            one = book.entries[source]
            # A reason is that of a removal since.
            book.put(replace(one, status="removed" if one.reason else "live", removed_into=None))
        entry = book.entries.get(name)
        if entry is not None and entry.status == "live":
            book.put(replace(entry, status="removed", removed_into=None, reason="unmerged"))


@dataclass(frozen=True)
class ChangesBullet(Effect):
    """Changes fields of the bullet that the data names; `values` returns them. A name without a
    bullet changes nothing.
    """

    values: Callable[[Event, Entry, Data], dict[str, object]]

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        entry = book.entries.get(data.get("name", ""))
        if entry is not None:
            book.put(replace(entry, **self.values(event, entry, data)))  # type: ignore[arg-type]


class Recounts(Effect):
    """Sets the counters of the bullet that the data names, or counts it again from the baseline of
    the event that an undoing names with `since`.
    """

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        at = book.baselines_at.get(data.get("since", ""), event.position)
        book.baselines_at[event.event_id] = event.position
        entry = book.entries.get(data.get("name", ""))
        if entry is not None:
            of = "baseline_" if at < event.position else ""
            counters = {
                f"baseline_{key}": data.get(f"{of}{key}", 0) for key in ("helpful", "harmful")
            }
            book.put(replace(entry, **counters, recounted_at=min(at, event.position)))


class TagsBullet(Effect):
    """Gives a bullet a tag, which counts if it is a verdict: only then does it change anything."""

    changes: ClassVar[bool] = False

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        if judged := verdict(data):
            tag = (
                event.position,
                event.event_id,
                data["tag"],
                event.session_id,
                event.reflection_id,
            )
            book.tags.setdefault(judged[0], []).append(tag)
            book.updated_at = event.recorded_at


class RecordsWindow(Effect):
    """Records a window of a session, which waits for its reflection."""

    changes: ClassVar[bool] = False


@dataclass(frozen=True)
class MovesWindow(Effect):
    """Brings the target window to a state: `final` where the data says that it is final. A
    completed one stays so.
    """

    state: str
    final: str = ""
    attempts: int = 0

    changes: ClassVar[bool] = False

    def state_by(self, data: Data) -> str:
        """Return the state that an event with this data brings its window to, "" where it leaves
        the window alone.
        """
        return self.final if self.final and data.get("final") else self.state


class GivesAnswer(MovesWindow):
    """Holds what a backend answered about the target window, and what that took. One that is
    `beside` the window's own reflection leaves its state alone: it may turn out to be no answer.
    """

    def state_by(self, data: Data) -> str:
        """Return the state that an event with this data brings its window to."""
        return "" if data.get("beside") is True else self.state


class CompletesReflection(MovesWindow):
    """Completes the target window, and binds the tags behind it to the reflection."""

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        if event.reflection_id:
            book.completed[event.reflection_id] = (event.position, event.event_id, event.target_id)


class Retracts(Effect):
    """Takes the target out of the count, or puts back what a retraction took out."""

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        if event.target_id:
            book.retracted_by.setdefault(event.target_id, event.event_id)


class AdoptsPolicy(Effect):
    """Puts a counting policy in force."""

    def apply(self, book: Playbook, event: Event, data: Data) -> None:
        if is_counting(data.get("counting")):
            book.adopted = data["counting"]


@dataclass(frozen=True)
class ChangesNothing(Effect):
    """Changes neither the playbook nor a window, and says why it is recorded anyway."""

    because: str

    changes: ClassVar[bool] = False


class Tells(ChangesNothing):
    """Records which bullets a session was told: the tallies count them."""
