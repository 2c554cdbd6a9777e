"""Merges the ledgers of two machines: appends the events of a file after the events of this ledger.

Invariant: a merge is one transaction, adds each missing event once, and loses nothing. Each event's
`meta` has its place in the other ledger. After each page of events, a `ledger.merged` has the head
up to which the other ledger is included. The file itself proves the other history, and merging it
again adds nothing.

An event that is in this ledger, by its birth or with the same id and data, is not appended again
(`matching`). If an id has other data in this ledger, this ledger's version stays if both state one
fact in different words, such as a reason, a path or a model's answer. Of two creations or changes
of a bullet both are kept, and so are two reflections with different verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import dropwhile, islice
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import MERGED, MODEL, TX, NewEvent, first_moment, identity
from reflector.events.fields import unpack_keys
from reflector.events.registry import EVENT_TYPES
from reflector.events.renamings import JOINED, Renamings, is_renaming, with_names
from reflector.events.state import REDACTED
from reflector.exchange import agreement, verdicts
from reflector.exchange.bullets import bullet_histories, renamings_of
from reflector.exchange.matching import (
    OF_REFLECTIONS,
    OurEvent,
    OurEvents,
    TheirEvent,
    candidate_ids,
    id_beside,
    is_kept_beside,
)
from reflector.exchange.survey import (
    Collision,
    Lines as Lines,
    Survey,
    compare_heads,
    free_names,
    match_bullets,
    read_survey,
)
from reflector.exchange.transfer import CheckedLine, WrongLine, checked_lines, insert_lines
from reflector.ledger.append import Prepared, Writing, append, prepare
from reflector.ledger.canonical import plain, sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.models import window_models
from reflector.ledger.projection import fill_tables
from reflector.ledger.reader import of_types, redaction_line
from reflector.ledger.redaction import texts_of
from reflector.ledger.rows import Head, Stored
from reflector.ledger.store import Ledger

#: The number of lines after which a `ledger.merged` is appended, which names each event that was
#: not appended.
_PAGE = 1000
_MAX_SHOWN = 20
_MAX_SHOWN_CHARACTERS = 60
_ERASE = "UPDATE event SET data = NULL WHERE playbook_id = ? AND data IS NOT NULL AND event_id"
_ANY_RECOUNT = (
    "SELECT 1 FROM event WHERE playbook_id = ? "  # noqa: S608
    f"AND {of_types((ev.BULLET_RECOUNTED,))} LIMIT 1"
)
_ERASE_REDACTED = (
    f"{_ERASE} IN (SELECT target_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
    f"{of_types((ev.EVENT_REDACTED,))})"
)


def _collision_error(collisions: list[Collision]) -> LedgerError:
    """Return the error about names that mean different bullets here and in the file."""
    count = len(collisions)
    means = "1 name means different rules" if count == 1 else f"{count} names mean different rules"
    lines = [
        f"{means} in this ledger and in the file, so nothing was merged. To merge anyway, add "
        "--rename, which gives new names to these rules from the file:"
    ]
    for collision in collisions[:_MAX_SHOWN]:
        our_text = collision.our_text[:_MAX_SHOWN_CHARACTERS]
        their_text = collision.their_text[:_MAX_SHOWN_CHARACTERS]
        lines.append(f"{collision.name}: in this ledger {our_text!r}, in the file {their_text!r}")
    if count > _MAX_SHOWN:
        lines.append(f"… and {count - _MAX_SHOWN} more")
    return LedgerError("\n  ".join(lines))


@dataclass(slots=True)
class Merged:
    """The result of a merge.

    added        the number of events of the file that were appended
    known        the number of events of the file that this ledger already contained
    otherwise    the number of these known events that have other data here; this data stays
    renamed      the new names of rules of the file, by their old names
    restated     rules that both ledgers changed, and whose state the merge recorded again
    set_aside    the number of reflections that no longer count, because another judge's reflection
                 on the same part of a session counts
    overlapping  the number of recorded parts of the file that share records with parts of this
                 ledger
    forward      true if this ledger was an earlier state of the file's ledger, and now equals it
    merged_at    the position that undoes the import; null if nothing was appended, or if `forward`
                 is true
    """

    head: Head
    added: int = 0
    known: int = 0
    otherwise: int = 0
    #: The first events of `otherwise`, in words.
    first_different: list[str] = field(default_factory=list, repr=False)
    renamed: Mapping[str, str] = field(default_factory=dict)
    restated: tuple[str, ...] = ()
    set_aside: int = 0
    overlapping: int = 0
    forward: bool = False
    merged_at: int | None = None


class _NothingNew(Exception):
    """All events of the file are already here. It is raised so that nothing is appended."""


def merge_ledger(
    ledger: Ledger, lines: Lines, *, rename: bool = False, first: int = 0, own: bool = False
) -> Merged:
    """Append the events of an exported ledger that are missing here, and return the result.

    lines   returns the file's lines; it is called twice: for the proof, and under the ledger's lock
    rename  give the next free names to bullets of the file whose names mean another bullet here
    first   the lowest number of such a name
    own     as for `load_ledger`

    Raises: WrongLine, and LedgerError such as for names that differ. Nothing is appended then.
    """
    survey = read_survey(lines, own=own)
    done = Merged(ledger.head())
    with suppress(_NothingNew), ledger.writing() as writing:
        done.head = _head_at(done.head, writing)
        renamings = renamings_of(writing.sql, done.head.origin, writing.position)
        ours = bullet_histories(writing.sql, renamings, done.head.origin, writing.position)
        compare_heads(writing, done.head.origin, survey)
        collisions = [] if survey.forward else match_bullets(ours, survey)
        if collisions and not rename:
            raise _collision_error(collisions)
        new_names = free_names(collisions, ours, survey, first)
        survey.our_names |= new_names
        _, checked = checked_lines(lines())
        new_lines = dropwhile(lambda line: line.stored.position <= survey.common, checked)
        if survey.forward:
            done.forward = True
            _grow(writing, new_lines)
        else:
            _Merging(writing, survey, done, renamings, ledger.draw()).take_all(new_lines)
            done.renamed = new_names
        done.head = _head_at(done.head, writing)
    # Even if all events are here, because a reader may have prevented this in an earlier import.
    if survey.erased:
        ledger.forget_erased()
    return done


def _head_at(head: Head, end: Writing) -> Head:
    return replace(head, position=end.position, chain=end.chain, recorded_at=end.recorded_at)


def _grow(writing: Writing, lines: Iterator[CheckedLine]) -> None:
    """Append the rest of the same history unchanged, and erase the texts that it erased."""
    sql = writing.sql
    last = insert_lines(sql, lines)
    assert last is not None  # the file is longer
    sql.run(_ERASE_REDACTED, sql.id)
    writing.move_head(last.position, last.chain, last.recorded_at)
    fill_tables(sql)


class _PresentEvent(NamedTuple):
    """A line of the file that is not appended, as `ledger.merged` records it: its position there,
    its id here, and the time of its first record.
    """

    position: int
    event_id: str
    moment: str


class _Merging:
    """A running merge, which appends the new events of a file page by page.

    renamings    git's renamings in this ledger
    our_ids      the id here of each examined event of the file, by its id there; None if it is not
                 here
    reflections  the id here of each examined reflection of the file, by its id there
    models       the models that the file names for windows here, by the windows' ids here
    """

    def __init__(
        self, writing: Writing, survey: Survey, done: Merged, renamings: Renamings, tx: str
    ) -> None:
        self.writing = writing
        self.sql = writing.sql
        self.survey = survey
        self.done = done
        self.renamings = renamings
        self.tx = tx
        self.renamed_ids = agreement.renamed_ids(survey.our_names)
        self.erases = False
        self.our_events = OurEvents(writing.sql, done.head.origin)
        self.our_ids: dict[str, str | None] = {}
        self.reflections: dict[str, str] = {}
        self.known_models = window_models(writing.sql, writing.position)
        self.models: dict[str, str] = {}
        done.known = survey.common

    def take_all(self, lines: Iterator[CheckedLine]) -> None:
        """Append the new events, then the results for windows and bullets that both ledgers judged
        or changed.

        Raises: _NothingNew, LedgerError.
        """
        self._append(self._joining(name, into) for name, into in self.survey.joined.items())
        while page := list(islice(lines, _PAGE)):
            self._take_page(page)
        is_changed = self.done.added or self.survey.joined
        if is_changed or self._has_restated():
            self._finish()
        is_new = is_changed or self.done.restated or self._brings_models()
        if not is_new:
            self.done.merged_at = None
            raise _NothingNew

    def _joining(self, name: str, into: str) -> NewEvent:
        """Return the event that joins a bullet of this ledger with the bullet that it is."""
        event_id = identity(ev.BULLET_REMOVED, JOINED, name, self.writing.chain)
        data = {"name": name, "reason": JOINED, "into": into}
        return NewEvent(ev.BULLET_REMOVED, event_id, data, verdicts.ACTOR)

    def _has_restated(self) -> bool:
        """Return whether counters here may be based on a count that a merge restated. Later
        changes, such as an undone merge of bullets, do not affect such a count.
        """
        return self.sql.run(_ANY_RECOUNT).fetchone() is not None

    def _brings_models(self) -> bool:
        """Return whether the file names a model for a window here that is not known here."""
        known = self.known_models
        return any(
            window_id not in known or model not in known[window_id].models
            for window_id, model in self.models.items()
        )

    def _take_page(self, page: list[CheckedLine]) -> None:
        """Append the new events of a page, and the record of the page."""
        prepared_lines = [(line, self._with_our_names(line)) for line in page]
        self._look_up(prepared_lines)
        present: list[_PresentEvent] = []
        models: dict[str, str] = {}
        new: list[Prepared] = []
        for line, prepared in prepared_lines:
            prepared = self._with_our_targets(line, prepared)
            own_id = prepared.event.event_id
            present_id = self._present_id(line, prepared)
            new_id = self._new_id(line, prepared) if present_id is None else None
            # An event that is not appended because its id is taken is the same fact in other words.
            is_same_fact = own_id in self.our_events and not self.survey.is_local(line)
            fact_id = own_id if is_same_fact else None
            self.our_ids[line.stored.event_id] = present_id or new_id or fact_id
            if new_id is not None:
                new.append(self._with_origin(line, prepared, new_id))
            else:
                moment = self._first_recorded_at(line)
                present.append(_PresentEvent(line.stored.position, present_id or own_id, moment))
                model = line.prepared.event.meta.get(MODEL)
                if line.stored.type == ev.SESSION_RECORDED and model:
                    models[present_id or own_id] = str(model)
        self.done.known += len(present)
        self._count_overlaps(new)
        append(self.writing, new, merged=True)
        for prepared in new:
            if prepared.event.type == ev.EVENT_REDACTED:
                self.sql.run(f"{_ERASE} = ?", prepared.event.target_id)
                self.erases = True
        self.models |= models
        self._append_record(page[-1].stored, present, models)

    def _append_record(
        self, last: Stored, present: list[_PresentEvent], models: Mapping[str, str]
    ) -> None:
        """Append the `ledger.merged` of a page, whose new events were just appended.

        last     the last event of the page; the file is merged up to it
        present  the events of the page that were not appended
        models   the models that the file names for windows here
        """
        upto = self.survey.header._replace(position=last.position, chain=last.chain)
        names = dict(self.survey.our_names)
        record = {**upto._asdict(), "here": [tuple(event) for event in present], "renamed": names}
        if models:
            record["models"] = dict(models)
        event_id = identity(ev.LEDGER_MERGED, self.writing.chain, last.chain)
        self._append([NewEvent(ev.LEDGER_MERGED, event_id, record, verdicts.ACTOR)])
        self.done.merged_at = self.writing.position
        self.our_events.forget()

    def _finish(self) -> None:
        """Append the results for windows and bullets that both ledgers judged or changed."""
        if self.erases:
            fill_tables(self.sql)
        origin = self.done.head.origin
        judged_twice = verdicts.judged_twice(self.sql, origin)
        self._append(judged_twice)
        self._append(verdicts.overruled_verdicts(self.sql, origin))
        self._append(verdicts.counted_twice(self.sql))
        book = agreement.agreed_playbook(self.sql, origin)
        chain = self.writing.chain
        names: dict[str, None] = {}
        for restated in (agreement.restated_bullets, agreement.restated_counters):
            events = restated(self.sql, book, chain)
            self._append(events)
            names |= {event.data["name"]: None for event in events if "name" in event.data}
        self.done.set_aside = len(judged_twice)
        self.done.restated = tuple(names)

    def _append(self, events: Iterable[NewEvent]) -> None:
        append(self.writing, [prepare(event, tx=self.tx) for event in events])

    def _with_our_names(self, line: CheckedLine) -> Prepared:
        """Return a line in which the bullets have their names here."""
        prepared = line.prepared
        facts = prepared.facts
        if facts is None:
            facts = self.survey.remnants.get(line.stored.event_id)
        survey = self.survey
        if facts is None or not (survey.our_names or survey.renamings):
            return prepared._replace(facts=facts)
        renamed = _renamed(line, facts, survey)
        event = prepared.event
        if is_renaming(event.type, event.actor, facts):
            # Here it is the birth of the bullet to which git gave the name.
            section = renamed["name"].partition("-")[0]
            birth = {"name": renamed["name"], "section": section, "text": REDACTED}
            prepared = prepared._replace(event=replace(event, type=ev.BULLET_ADDED))
            return _with(prepared, {**birth, "helpful": 0, "harmful": 0})
        if prepared.facts is None:
            return prepared._replace(facts=renamed)
        if event.type == ev.BULLET_ADDED and event.event_id == _id_by_words(facts):
            prepared = prepared._replace(event=replace(event, event_id=_id_by_words(renamed)))
        return _with(prepared, renamed)

    def _look_up(self, prepared_lines: list[tuple[CheckedLine, Prepared]]) -> None:
        """Look up at once all events here that may be the events of a page, or their targets."""
        ids: set[str] = set()
        for line, prepared in prepared_lines:
            stored = line.stored
            theirs = self.survey.events[stored.event_id]
            ids.update(self._candidate_ids(theirs, stored.event_id, prepared.data_hash))
            target = self.survey.events.get(stored.target_id or "")
            if target is not None and stored.target_id not in self.our_ids:
                ids.update(self._candidate_ids(target, target.ids[0], target.birth.data_hash))
        self.our_events.look_up(ids)

    def _candidate_ids(self, theirs: TheirEvent, event_id: str, data_hash: str) -> list[str]:
        return candidate_ids(theirs, event_id, self.renamed_ids, data_hash)

    def _with_our_targets(self, line: CheckedLine, prepared: Prepared) -> Prepared:
        """Return an event as it would be appended: its own id, its target and its reflection have
        their ids here.
        """
        target_id = self._our_id(line.stored.target_id)
        reflection_id = self._our_reflection(line.stored.reflection_id)
        event_id = self._our_event_id(line, prepared.event.event_id, target_id, reflection_id)
        if line.stored.type == ev.BULLET_RECOUNTED:
            prepared = self._with_our_baseline(prepared)
        event = replace(
            prepared.event, event_id=event_id, target_id=target_id, reflection_id=reflection_id
        )
        return prepared._replace(event=event)

    def _our_event_id(
        self, line: CheckedLine, event_id: str, target_id: str | None, reflection_id: str | None
    ) -> str:
        """Return the id under which an event of the file would be appended here.

        It is the id there, unless that id follows from a bullet's name, a reflection's id or a
        target's id that differs here. `target_id` and `reflection_id` are those here.
        """
        stored = line.stored
        event_id = self.renamed_ids.get(event_id, event_id)
        if stored.type in OF_REFLECTIONS and reflection_id != stored.reflection_id:
            # The reflection has another id here, because a reflection of this ledger has its id.
            # So an event of that reflection may have the id of this event.
            if stored.type == ev.REFLECTION_COMPLETED:
                return identity(stored.type, reflection_id or "")
            return id_beside(stored.type, self.survey.events[stored.event_id].birth)
        is_of_target = event_id == identity(stored.type, stored.target_id or "")
        if is_of_target and target_id != stored.target_id:
            return identity(stored.type, target_id or "")
        return event_id

    def _with_our_baseline(self, prepared: Prepared) -> Prepared:
        """Return a recount with the id here of `since`, the event whose baseline an undo restored.

        A recount stays as it is if it is redacted, or not an undo, or if that event is not here.
        """
        facts = prepared.facts or {}
        since = facts.get("since")
        is_redacted = prepared.data is None
        if is_redacted or not isinstance(since, str):
            return prepared
        our_since = self._our_id(since)
        if our_since is None or our_since == since:
            return prepared
        return _with(prepared, {**facts, "since": our_since})

    def _our_id(self, event_id: str | None) -> str | None:
        """Return the id here of the target of another event; None if the target is not here."""
        if event_id is None or event_id in self.survey.not_appended:
            return None
        if event_id not in self.our_ids:
            theirs = self.survey.events.get(event_id)
            self.our_ids[event_id] = None if theirs is None else self._earlier_id(event_id, theirs)
        return self.our_ids[event_id]

    def _earlier_id(self, event_id: str, theirs: TheirEvent) -> str | None:
        """Return the id here of an event from an earlier merge, or from the common beginning of
        both ledgers.
        """
        data_hash = theirs.birth.data_hash
        ids = self._candidate_ids(theirs, event_id, data_hash)
        born_id = self.our_events.born(theirs, ids) or self.our_events.search(theirs)
        if born_id is not None:
            return born_id
        own_id = self.renamed_ids.get(event_id, event_id)
        is_same_fact = self.our_events.is_same(own_id, data_hash) or not is_kept_beside(theirs.type)
        return own_id if own_id in self.our_events and is_same_fact else None

    def _our_reflection(self, reflection_id: str | None) -> str | None:
        """Return the id here of a reflection of the file.

        If its id here belongs to a reflection with other verdicts, it gets a new id. For example,
        two users judged one citation with an older version.
        """
        if reflection_id is None or reflection_id not in self.survey.verdicts:
            return reflection_id
        if reflection_id not in self.reflections:
            self.reflections[reflection_id] = self._new_reflection(reflection_id)
        return self.reflections[reflection_id]

    def _new_reflection(self, reflection_id: str) -> str:
        """Return the id that a reflection of the file gets here.

        This is the id that it has here already. If this ledger has another verdict under the id of
        one of its events, it is a new id, otherwise the reflection's own id.
        """
        their_verdicts = self.survey.verdicts[reflection_id]
        first_tag = self.survey.events[their_verdicts[0].event_id]
        birth = first_tag.birth
        ids = [*first_tag.ids, id_beside(first_tag.type, birth)]
        our_tag = self.our_events.get(self.our_events.born(first_tag, ids) or "")
        if our_tag is not None and our_tag.reflection_id is not None:
            return our_tag.reflection_id
        event_ids = [verdict.event_id for verdict in their_verdicts]
        our_verdicts = verdicts.verdicts_of(self.sql, self.renamings, event_ids)
        for event_id, name, tag in their_verdicts:
            expected = (self.survey.our_names.get(name, name), tag)
            our_name, our_verdict = our_verdicts.get(event_id, expected)
            if (self.survey.joined.get(our_name, our_name), our_verdict) != expected:
                return identity("reflection", "beside", *birth)
        return reflection_id

    def _present_id(self, line: CheckedLine, prepared: Prepared) -> str | None:
        """Return the id of the same event here, None if it is not here. The birth of a bullet with
        another name is another event and is kept, because it identifies the name there permanently.
        """
        if self.survey.is_local(line):
            return None
        event = prepared.event
        theirs = self.survey.events[line.stored.event_id]
        ids = self._candidate_ids(theirs, event.event_id, prepared.data_hash)
        born_id = self.our_events.born(theirs, ids, event.target_id)
        if born_id is not None:
            return born_id
        is_renamed = event.event_id != line.stored.event_id
        is_birth = is_renamed and EVENT_TYPES[event.type].id_is_name
        for same_id in (*([] if is_birth else [event.event_id]), *theirs.ids[1:]):
            if self.our_events.is_same(same_id, prepared.data_hash, event.target_id):
                return same_id
        return None

    def _new_id(self, line: CheckedLine, prepared: Prepared) -> str | None:
        """Return the id under which a missing event is appended; None if it is not appended."""
        if self.survey.is_local(line):
            return None
        event = prepared.event
        is_taken = event.event_id in self.our_events
        is_out = is_taken and not is_kept_beside(event.type)
        if event.type == ev.EVENT_REDACTED and not is_out:
            is_out = event.target_id is None or self._brings_back(event.target_id)
        if is_out:
            self.done.otherwise += 1
            if self.done.otherwise <= _MAX_SHOWN:
                place = f"{line.stored.type} at position {line.stored.position} in the file"
                self.done.first_different.append(place)
            return None
        if is_taken:
            return id_beside(event.type, self.survey.events[line.stored.event_id].birth)
        return event.event_id

    def _brings_back(self, target_id: str) -> bool:
        """Return whether the data that the file's redactions kept of an event contains a text that
        was erased here.

        Such a redaction is not appended. In a later merge, a redaction of that redaction is not
        appended either.
        """
        redactions = redaction_line(self.sql, target_id)
        if len(redactions) < 2 or redactions[-1].data is None:
            return False
        erased_event = redactions[0]
        their_remnant = self.survey.remnants.get(erased_event.event_id)
        if their_remnant is None:
            return False
        our_remnant = redactions[-1].data.get("kept", {})
        their_texts = set(texts_of(erased_event.type, their_remnant))
        return not their_texts <= set(texts_of(erased_event.type, our_remnant))

    def _first_recorded_at(self, line: CheckedLine) -> str:
        """Return the time of the first record of an event that was not appended."""
        stored = line.stored
        time = self.survey.counted_times.get(stored.position, stored.recorded_at)
        place = (time, self.survey.header.origin, stored.position)
        return first_moment(line.prepared.event.meta, place)[0]

    def _with_origin(self, line: CheckedLine, prepared: Prepared, event_id: str) -> Prepared:
        """Return an event to append, with its place in the other ledger.

        Raises: WrongLine if its type needs a target and the target is not here.
        """
        stored = line.stored
        target = EVENT_TYPES[stored.type].target
        is_lost = stored.target_id is not None and prepared.event.target_id is None
        if is_lost and target is not None and target.required:
            fault = (
                f"the target of this event, {stored.target_id}, is neither in this ledger nor on "
                "an earlier line"
            )
            raise WrongLine(line.number, fault)
        event = replace(prepared.event, event_id=event_id, occurred_at=stored.occurred_at)
        birth = self.survey.events[stored.event_id].birth
        our_event = OurEvent(prepared.data_hash, birth, event.reflection_id, event.target_id)
        self.our_events.add(event_id, our_event)
        self.done.added += stored.type != ev.LEDGER_MERGED
        meta, meta_hash = sealed(self._our_meta(line, prepared, event_id))
        return prepared._replace(event=event, meta=meta, meta_hash=meta_hash)

    def _our_meta(self, line: CheckedLine, prepared: Prepared, event_id: str) -> dict[str, Any]:
        """Return an event's meta with its place in the other ledger, its id and hash there if they
        differ, and the ids here of the other events that it undoes.
        """
        stored = line.stored
        meta = plain(line.prepared.event.meta)
        place: dict[str, Any] = {
            "origin": self.survey.header.origin,
            "position": stored.position,
            "recorded_at": stored.recorded_at,
            TX: self.tx,
        }
        if stored.position in self.survey.counted_times:
            place["moment"] = self.survey.counted_times[stored.position]
        if event_id != stored.event_id:
            place["event_id"] = stored.event_id
        if prepared.data_hash != stored.data_hash:
            place["data_hash"] = stored.data_hash
            place["renamed"] = self.survey.names_here(line, line.prepared.facts or {})
        if MERGED in meta:
            place[MERGED] = meta[MERGED]
        our_meta = {**meta, MERGED: place}
        if ev.UNDOES in meta:
            our_ids = map(self._our_id, ev.also_undone(meta))
            our_meta[ev.UNDOES] = [our_id for our_id in our_ids if our_id is not None]
        return our_meta

    def _count_overlaps(self, new: Iterable[Prepared]) -> None:
        """Count the windows that share records with other windows here. Their citations may be
        counted twice.
        """
        query = 'SELECT 1 FROM record WHERE playbook_id = ? AND "key" IN ? LIMIT 1'
        for prepared in new:
            if prepared.event.type != ev.SESSION_RECORDED:
                continue
            keys = (prepared.facts or {}).get("window", {}).get("keys")
            if isinstance(keys, str):
                record = self.sql.run(query, unpack_keys(keys)).fetchone()
                self.done.overlapping += record is not None


def _id_by_words(bullet: Mapping[str, Any]) -> str:
    """Return the id of the event with which a file adds a bullet. Under another name, it is another
    event, because a file here may also add a bullet with these words.
    """
    return identity(ev.BULLET_ADDED, bullet["name"], bullet["section"], bullet["text"])


def _with(prepared: Prepared, facts: Mapping[str, Any]) -> Prepared:
    """Return an event with other data."""
    data, data_hash = sealed(facts)
    return prepared._replace(facts=facts, data=data, data_hash=data_hash)


def _renamed(line: CheckedLine, facts: Mapping[str, Any], survey: Survey) -> Mapping[str, Any]:
    """Return an event's data with the names here. In a redaction, the names in the kept facts are
    changed.
    """
    stored = line.stored
    erased = survey.erased.get(stored.target_id or "")
    kept = facts.get("kept")
    if stored.type == ev.EVENT_REDACTED and isinstance(kept, Mapping):
        if erased is None:
            return facts
        names = survey.names_here(erased, kept)
        return {**facts, "kept": with_names(erased.stored.type, kept, names)}
    return with_names(stored.type, facts, survey.names_here(line, facts))
