"""The effects of events on the playbook or on their window. Each event type has one of a few
effects.

Invariant: the fold, the tables, a past moment and `verify` all use the effect, so they cannot
disagree about a type. A new type uses an existing effect. A new effect is a change of the
projection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from reflector.events.event import Event
from reflector.events.state import Completion, Data, Playbook, counted_verdict
from reflector.playbook.bullet import is_counting
from reflector.playbook.entry import Entry


class Effect:
    """The base of all effects.

    changes  whether a bullet or a count may differ afterwards: `last_updated` is the time of the
             last such event
    """

    changes: ClassVar[bool] = True

    def apply(self, book: Playbook, event: Event) -> None:
        """Fold the event into the playbook."""


class AddsBullets(Effect):
    """Adds the bullets that `bullets` returns from the data."""

    def __init__(self, bullets: Callable[[Data], Sequence[Data]]) -> None:
        self.bullets = bullets

    def apply(self, book: Playbook, event: Event) -> None:
        book.baselines_at[event.event_id] = event.position
        book.add(event, self.bullets(event.facts))


class MergesBullets(AddsBullets):
    """Adds a bullet that has the evidence of its live `sources`. If the name is taken, nothing
    changes.
    """

    def apply(self, book: Playbook, event: Event) -> None:
        book.baselines_at[event.event_id] = event.position
        for bullet in self.bullets(event.facts):
            name = bullet["name"]
            if name in book.entries:
                continue
            sources = [book.entries.get(source) for source in event.fact("sources", ())]
            live = [source for source in sources if source and source.status == "live"]
            book.add(event, [bullet])
            for source in live:
                book.put(source._replace(status="merged", removed_into=name, reason=None))


class UndoesMerge(Effect):
    """Gives the sources of a merge the status that they would have without it, and removes the
    merged bullet if it is live.
    """

    def apply(self, book: Playbook, event: Event) -> None:
        name = event.fact("name", "")
        for source in map(book.entries.__getitem__, book.sources(name)):
            status = "removed" if source.reason else "live"  # a reason given since the merge
            book.put(source._replace(status=status, removed_into=None))
        entry = book.entries.get(name)
        if entry and entry.status == "live":
            book.put(entry._replace(status="removed", removed_into=None, reason="unmerged"))


class ChangesBullet(Effect):
    """Changes fields of the named bullet to the values that `values` returns.

    A name without a bullet changes nothing.
    """

    def __init__(self, values: Callable[[Entry, Data], dict[str, Any]]) -> None:
        self.values = values

    def apply(self, book: Playbook, event: Event) -> None:
        entry = book.entries.get(event.fact("name", ""))
        if entry:
            book.put(entry._replace(**self.values(entry, event.facts)))


class Recounts(Effect):
    """Sets the counters of the named bullet. After an undo, the bullet counts again from the
    baseline of the event in `since`.
    """

    def apply(self, book: Playbook, event: Event) -> None:
        since = book.baselines_at.get(event.fact("since", ""), event.position)
        book.baselines_at[event.event_id] = event.position
        entry = book.entries.get(event.fact("name", ""))
        if entry is None:
            return
        # An undo contains the baseline of that time besides the counters of that time.
        prefix = "baseline_" if since < event.position else ""
        helpful = event.fact(f"{prefix}helpful", 0)
        harmful = event.fact(f"{prefix}harmful", 0)
        book.put(
            entry._replace(
                baseline_helpful=helpful,
                baseline_harmful=harmful,
                recounted_at=min(since, event.position),
            )
        )


class TagsBullet(Effect):
    """Gives a bullet a tag. Only a tag that is a counted verdict changes the playbook."""

    changes: ClassVar[bool] = False

    def apply(self, book: Playbook, event: Event) -> None:
        verdict = counted_verdict(event.facts)
        if verdict is None:
            return
        name, _ = verdict
        ids = (event.session_id, event.reflection_id)
        tag = (event.position, event.event_id, event.facts["tag"], *ids)
        book.tags.setdefault(name, []).append(tag)
        book.updated_at = event.recorded_at


class RecordsWindow(Effect):
    """Records a window of a session, which waits for its reflection."""

    changes: ClassVar[bool] = False


class MovesWindow(Effect):
    """Brings the target window to a state; a completed window stays completed.

    final     the state after data with `final`; "" if it is `state`, too
    attempts  how many failed attempts the event adds
    """

    changes: ClassVar[bool] = False

    def __init__(self, state: str, final: str = "", attempts: int = 0) -> None:
        self.state = state
        self.final = final
        self.attempts = attempts

    def state_by(self, facts: Data) -> str:
        """Return the state to which an event with this data brings its window; "" if the window
        keeps its state.
        """
        return self.final if self.final and facts.get("final") else self.state


class GivesAnswer(MovesWindow):
    """Records a backend's answer about the target window, and its cost.

    An answer that is `beside` the window's own reflection does not change the window's state,
    because the answer may be unreadable.
    """

    def state_by(self, facts: Data) -> str:
        """Return the state to which an event with this data brings its window; "" if the window
        keeps its state.
        """
        return "" if facts.get("beside") is True else self.state


class CompletesReflection(MovesWindow):
    """Completes the target window, and assigns the tags after it to the reflection."""

    def apply(self, book: Playbook, event: Event) -> None:
        if event.reflection_id:
            book.completed[event.reflection_id] = Completion(
                event.position, event.event_id, event.target_id
            )


class Retracts(Effect):
    """Removes the target from the counts, or restores the target of a retraction."""

    def apply(self, book: Playbook, event: Event) -> None:
        if event.target_id:
            book.retracted_by.setdefault(event.target_id, event.event_id)


class AdoptsPolicy(Effect):
    """Puts a counting policy in force."""

    def apply(self, book: Playbook, event: Event) -> None:
        if is_counting(event.fact("counting")):
            book.adopted = event.facts["counting"]


class ChangesNothing(Effect):
    """Changes neither the playbook nor a window. `because` gives the reason."""

    changes: ClassVar[bool] = False

    def __init__(self, because: str) -> None:
        self.because = because


class Tells(ChangesNothing):
    """Records the bullets that a session was shown. The tallies count them."""
