"""Compares an exported ledger with this ledger before they are merged.

Invariant: a survey reads only proved lines and writes nothing. It decides which bullets of the file
are which bullets of this ledger, and which names mean another bullet here.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import MERGED, RESTATED, Event, first_moment, latest_time
from reflector.events.kinds import Merge
from reflector.events.registry import ADVICE, EVENT_TYPES, fold_in, names_in
from reflector.events.renamings import RENAMING_TYPES, Renamings, is_of_name, is_renaming
from reflector.events.state import Playbook
from reflector.exchange.agreement import NEVER, Clock
from reflector.exchange.bullets import Bullets, identifies
from reflector.exchange.matching import Birth, TheirEvent, birth_of, ids_of
from reflector.exchange.transfer import (
    CheckedLine,
    Header,
    checked_lines,
    until_now,
)
from reflector.ledger.append import Writing
from reflector.ledger.reader import rare_events_between
from reflector.playbook.names import Names, is_name

#: Returns the lines of a file.
Lines = Callable[[], Iterable[str | bytes]]


class Verdict(NamedTuple):
    """A tag of the other ledger: its id, its bullet's name, and the verdict."""

    event_id: str
    name: str
    tag: str


@dataclass(slots=True)
class Survey:
    """The content of a file.

    last_time        the time of its last event
    chains           the chain at each of its positions
    common           the last position at which this ledger has the same chain, by a common history
                     or by a merge
    forward          whether this ledger is an earlier state of the file's, whose clock is right
    remnants         the remaining data of erased events, by their ids
    erased           the erased events of which a redaction keeps data, by the id that the redaction
                     points to
    renamings        git's renamings there
    mentioned_names  every name that an event mentions
    our_names        bullets with another name here: the name there, and the name here
    second_names     names there of bullets that have another name there, too
    joined           the names here of bullets that have another name here, with that name
    counted_times    the times at which events count as recorded if they differ from the recorded
                     ones, by position (`Clock`)
    not_appended     events that are not appended here (`is_local`), so nothing here points to them
    events           every event by its id
    verdicts         the tags of each reflection
    """

    header: Header
    renamings: Renamings
    last_time: str = ""
    chains: list[str] = field(default_factory=list)
    common: int = 0
    forward: bool = False
    bullets: Bullets = field(default_factory=Bullets)
    remnants: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    erased: dict[str, CheckedLine] = field(default_factory=dict)
    mentioned_names: set[str] = field(default_factory=set)
    our_names: dict[str, str] = field(default_factory=dict)
    second_names: set[str] = field(default_factory=set)
    joined: dict[str, str] = field(default_factory=dict)
    counted_times: dict[int, str] = field(default_factory=dict)
    not_appended: set[str | None] = field(default_factory=set)
    events: dict[str, TheirEvent] = field(default_factory=dict)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)

    def later_names(self, line: CheckedLine, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the names in an event's data whose bullets have other names at the end of the
        file, with these names.
        """
        stored = line.stored
        meta = line.prepared.event.meta
        return self.renamings.later_names(stored.type, facts, stored.position, meta)

    def names_here(self, line: CheckedLine, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the names in an event's data that its bullets do not have here, with their names
        here.
        """
        later_names = self.later_names(line, facts)
        ours = {name: self.our_names.get(later, later) for name, later in later_names.items()}
        return {**self.our_names, **ours}

    def is_local(self, line: CheckedLine) -> bool:
        """Return whether an event is not appended here, because it

        - is only about the other ledger, whose own history proves it
        - only restates the result of a merge there
        - removes a name that git or an import replaced by another one
        - only concerns a second name of a bullet there.
        """
        stored = line.stored
        meta = line.prepared.event.meta
        if EVENT_TYPES[stored.type].merge is Merge.LOCAL or RESTATED in meta:
            return True
        facts = line.prepared.facts or {}
        if stored.type == ev.BULLET_REMOVED and is_renaming(stored.type, stored.actor, facts):
            return True
        if not is_of_name(stored.type, stored.actor, facts):
            return False
        name = facts.get("name", "")
        later_name = self.renamings.later_name(name, stored.position, meta)
        is_joined = self.renamings.is_joined(name, stored.position, meta)
        return later_name in self.second_names or is_joined


class Collision(NamedTuple):
    """One name of two different bullets, with one text of each."""

    name: str
    our_text: str
    their_text: str


def read_survey(lines: Lines, *, own: bool = False) -> Survey:
    """Prove a file and return its content.

    lines  returns the file's lines; it is called again if git renamed bullets there
    own    as for `load_ledger`

    Raises: WrongLine.
    """
    survey = _survey_of(lines(), own, None)
    return _survey_of(lines(), own, survey.renamings) if survey.renamings else survey


def _survey_of(
    lines: Iterable[str | bytes], own: bool, known_renamings: Renamings | None
) -> Survey:
    """Return the content of a file.

    known_renamings  all renamings of the file; None if they are not known yet
    """
    header, checked = checked_lines(lines)
    survey = Survey(header, known_renamings or Renamings(header.origin))
    clock = Clock()
    book = Playbook()
    for line in checked if own else until_now(checked):
        stored = line.stored
        meta = line.prepared.event.meta
        survey.last_time = stored.recorded_at
        survey.chains.append(stored.chain)
        place = Birth(header.origin, stored.position, stored.event_id, stored.data_hash)
        ids = tuple(ids_of(stored.event_id, meta))
        survey.events[stored.event_id] = TheirEvent(stored.type, birth_of(place, meta), ids)
        if known_renamings is None and stored.type in RENAMING_TYPES:
            facts = line.prepared.facts or {}
            survey.renamings.take(stored.type, stored.actor, facts, stored.position, meta)
        _take_line(survey, line)
        if stored.type in ADVICE:
            fold_in(book, _event_of(line))
        if survey.is_local(line):
            survey.not_appended.add(stored.event_id)
        if MERGED in meta:
            clock.add_merged(first_moment(meta, NEVER))
        else:
            counted_time = clock.time_of_own(stored.recorded_at)
            if counted_time != stored.recorded_at:
                survey.counted_times[stored.position] = counted_time
    live = (entry for entry in book.entries.values() if entry.status == "live")
    survey.bullets.live = {entry.name: entry.text for entry in live}
    return survey


def _event_of(line: CheckedLine) -> Event:
    """Return the event of a line as it is in the other ledger."""
    header = line.stored[:10]  # the fields before `data`, which both types have
    prepared = line.prepared
    hashes = (line.stored.data_hash, prepared.event.meta, line.stored.chain)
    return Event(*header, prepared.facts, *hashes)


def _take_line(survey: Survey, line: CheckedLine) -> None:
    """Add the facts of a line to the survey. For a redaction, they are those that it kept of the
    erased event.
    """
    stored = line.stored
    facts = line.prepared.facts
    if line.erased is not None and facts is not None:
        remnant = facts.get("kept") or None
        erased = line.erased.stored
        survey.remnants[erased.event_id] = remnant
        survey.erased[stored.target_id or ""] = line.erased
        _take_facts(survey, line.erased, remnant or {})
    elif facts is not None and stored.type != ev.EVENT_REDACTED:
        _take_facts(survey, line, facts)


def _take_facts(survey: Survey, line: CheckedLine, facts: Mapping[str, Any]) -> None:
    """Add the names, the wording and the verdict in an event's facts to the survey."""
    stored = line.stored
    survey.mentioned_names |= {name for name in names_in(stored.type, facts) if is_name(name)}
    later_names = survey.later_names(line, facts)
    if identifies(stored.type, stored.actor, facts):
        birth = survey.events[stored.event_id].birth
        survey.bullets.take(stored.type, birth, facts, later_names)
    if stored.type == ev.BULLET_TAGGED and stored.reflection_id is not None:
        name = str(facts.get("name"))
        tag = str(facts.get("tag"))
        verdict = Verdict(stored.event_id, later_names.get(name, name), tag)
        survey.verdicts.setdefault(stored.reflection_id, []).append(verdict)


def compare_heads(writing: Writing, origin: str, survey: Survey) -> None:
    """Determine how much of a file's history is in this ledger."""
    sql = writing.sql
    chains = ["", *survey.chains]
    if origin == survey.header.origin:
        query = "SELECT chain FROM event WHERE playbook_id = ? AND position = ?"

        def differs(position: int) -> bool:
            return bool(sql.run(query, position).fetchone() != (chains[position],))

        last = min(writing.position, len(survey.chains))
        # Once the chains differ, no later position can match.
        survey.common = bisect(range(1, last + 1), False, key=differs)
        is_whole = survey.common == writing.position
        # A clock that was ahead must not decide the times of later events again.
        is_grown = 0 < survey.common < len(survey.chains) and survey.last_time <= latest_time()
        survey.forward = is_grown and is_whole
    for event in rare_events_between(sql, (ev.LEDGER_MERGED,), 0, writing.position):
        # A record that came from another ledger shows that ledger's head.
        if event.data is None or MERGED in event.meta:
            continue
        position = event.data["position"]
        is_of_file = event.data["origin"] == survey.header.origin
        if is_of_file and chains[position : position + 1] == [event.data["chain"]]:
            survey.common = max(survey.common, position)


def match_bullets(ours: Bullets, survey: Survey) -> list[Collision]:
    """Determine which bullets of the file have other names here. Return the names that mean another
    bullet here.
    """
    theirs = survey.bullets
    matched = ours.match(theirs)
    survey.our_names = {
        their_name: our_name
        for their_name, our_name in matched.names.items()
        if their_name != our_name
    }
    survey.second_names = matched.second_names
    survey.joined = matched.joined
    our_texts = {name: {text} for name, text in ours.left.items()} | ours.texts
    colliding = [name for name in theirs.texts if name in our_texts and name not in matched.names]
    return [
        Collision(name, min(our_texts[name], default=""), min(theirs.texts[name], default=""))
        for name in colliding
    ]


def free_names(
    collisions: Iterable[Collision], ours: Bullets, survey: Survey, first: int
) -> dict[str, str]:
    """Return the next free name of each colliding bullet. Neither ledger ever mentioned these
    names.

    first  the lowest number of a new name
    """
    known = [name for side in (ours, survey.bullets) for name in (*side.texts, *side.left)]
    names = Names([*known, *survey.our_names.values()], first)
    new_names: dict[str, str] = {}
    for collision in collisions:
        slug = collision.name.partition("-")[0].partition("_")[0]
        new_name = names.next(slug)
        # A session may have cited this name although no bullet had it. The citation could be
        # mistaken for one of this bullet.
        while new_name in survey.mentioned_names:
            new_name = names.next(slug)
        new_names[collision.name] = new_name
    return new_names
