"""Two machines' ledgers become one: the events of a file appended behind the ones that are here.

Invariant: a merge is one transaction, adds what is not here and nothing twice, and loses nothing: each event says in
its `meta` where it comes from, and a `ledger.merged` behind each page of them proves that the page is what the other
ledger holds (`reflector.proof.merge_proof`). Both histories stay provable; merging the same file again adds nothing.

An event that is here, with the same id and data, is not appended again. Where the data differs, this ledger's version
stays if both state one fact in different words (a reason, a path, a model's answer); of two creations or changes of a
bullet both are kept; two verdicts of one reflection are a conflict that only a person can decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile, islice
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.event import RESTATED, NewEvent, identity
from reflector.events.fields import unpack_keys
from reflector.events.kinds import Merge
from reflector.events.registry import EVENT_TYPES
from reflector.events.renames import renamed_ids
from reflector.exchange.incoming import Item, beside_id, brings_back, came_as, incoming, meta_here
from reflector.exchange.reconcile import ACTOR, agreed, judged_twice, restated_bullets, restated_counters
from reflector.exchange.survey import Collision, Survey, bullets_of, free_names, match, survey
from reflector.exchange.transfer import ERASE, MOVE, Checked, Progress, WrongLine, checked, grow, locked, stored_of
from reflector.ledger.admission import prepare
from reflector.ledger.canonical import genesis, leaf, next_chain, sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.projection import Projector
from reflector.ledger.rebuilding import rebuild
from reflector.ledger.rows import Head, Projected, Stored
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.ledger.times import later_than
from reflector.proof.merge_proof import first_moment

Lines = Callable[[], Iterable[str | bytes]]

#: Lines after which a `ledger.merged` is appended; it holds a leaf of each that was not appended.
_PAGE: Final = 1000
_SHOWN: Final = 20


class NamesCollide(LedgerError):
    """Names that mean one bullet here and another one in the file."""

    def __init__(self, colliding: list[Collision]) -> None:
        count = "1 name means another bullet" if len(colliding) == 1 else f"{len(colliding)} names mean other bullets"
        lines = [f"  {c.name}: here {c.here[:60]!r}, in the file {c.there[:60]!r}" for c in colliding[:_SHOWN]]
        more = [f"  … and {len(colliding) - _SHOWN} more"] if len(colliding) > _SHOWN else []
        super().__init__(
            "\n".join(
                [
                    f"{count} here than in the file, and a name means one bullet forever; nothing was merged. "
                    "With --rename the file's bullets get the next free names:",
                    *lines,
                    *more,
                ]
            )
        )
        self.collisions = tuple(colliding)


class VerdictsDiffer(LedgerError):
    """Tags of one reflection that say one thing here and another in the file."""

    def __init__(self, differing: list[str]) -> None:
        lines = [f"  {what}" for what in differing[:_SHOWN]]
        super().__init__(
            "\n".join(
                [
                    "the same reflections gave other verdicts here than in the file; nothing was merged. "
                    "With --ours this ledger keeps its verdicts:",
                    *lines,
                ]
            )
        )


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did.

    added        events of the file that were appended; 0 where all of them were here, and nothing was appended then
    known        events of the file that were here already
    otherwise    those of them that this ledger words differently; its wording stays
    renamed      names that were given to bullets of the file: old -> new
    restated     bullets that both ledgers changed, about which an event says what came of it
    overlapping  windows of the file that share records with windows that were here
    set_aside    reflections that do not count any more, because another judge's on the same window counts
    forward      this ledger was an earlier state of the file's, and is the same ledger now
    """

    head: Head
    added: int = 0
    known: int = 0
    otherwise: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)
    restated: tuple[str, ...] = ()
    overlapping: int = 0
    set_aside: int = 0
    forward: bool = False


class _Again(Exception):
    """Something was appended between the survey and the lock."""


class _NothingNew(Exception):
    """Every event of the file is here; `args` is what a merge of it would have done."""


def merge(
    ledger: Ledger,
    lines: Lines,
    *,
    rename: bool = False,
    ours: bool = False,
    first: int = 0,
    progress: Progress | None = None,
) -> Merged:
    """Append the events of an exported ledger that are not here. `lines` is called for the file's lines, twice.

    rename  bullets of the file whose names mean another bullet here get the next free ones, with numbers from `first`
    ours    where verdicts of one reflection differ, those of this ledger count

    Raises WrongLine, NamesCollide, VerdictsDiffer, LedgerError; nothing is appended then.
    """
    while True:
        before = ledger.head()
        found = survey(ledger, lines(), progress)
        here = bullets_of(ledger)
        colliding = [] if found.forward else match(here, found)
        if colliding and not rename:
            raise NamesCollide(colliding)
        given = free_names([collision.name for collision in colliding], here, found, first)
        found.names |= given
        try:
            return _merged(ledger, lines, found, before, given, ours=ours)
        except _Again:
            continue
        except _NothingNew as nothing:
            done: Merged = nothing.args[0]
            return done


def _merged(
    ledger: Ledger, lines: Lines, found: Survey, before: Head, given: Mapping[str, str], *, ours: bool
) -> Merged:
    with locked(ledger) as (sql, head):
        if head != before:
            raise _Again
        rest = dropwhile(lambda one: one.stored.position <= found.common, checked(lines())[1])
        if found.forward:
            last = _grown(sql, rest)
            return Merged(Head(head.playbook, head.origin, last.position, last.chain, last.recorded_at), forward=True)
        merging = _Merging(sql, head, found, ours=ours)
        while page := list(islice(rest, _PAGE)):
            merging.take(page)
        if not merging.added:
            raise _NothingNew(Merged(head, 0, merging.known, merging.otherwise))
        restated = merging.finish()
        end = merging.end()
    counts = (merging.added, merging.known, merging.otherwise)
    return Merged(end, *counts, given, restated, merging.overlapping, merging.set_aside)


def _grown(sql: Statements, rest: Iterator[Checked]) -> Stored:
    """Append the rest of the same history unchanged; the last event."""
    last = grow(sql, rest)
    assert last is not None  # the file is longer
    sql.execute(MOVE, last.position, last.chain, last.recorded_at, sql.id)
    rebuild(sql)
    return last


class _Merging:
    """The transaction of a merge: where the history has come to, and what was done."""

    def __init__(self, sql: Statements, head: Head, found: Survey, *, ours: bool) -> None:
        self.sql = sql
        self.head = head
        self.found = found
        self.ours = ours
        self.position, self.chain = head.position, head.chain
        self.recorded_at = later_than(head.recorded_at)
        self.ids = renamed_ids(found.names)
        self.projector = Projector(sql)
        self.erases = False
        self.at = (found.common, found.common_chain or genesis(found.header.playbook, found.header.origin))
        #: Events of which another version is here, by id: the id under which theirs is kept.
        self.beside: dict[str, str] = {}
        self.there: dict[str, tuple[int, str]] = {}
        self.rows: list[Stored] = []
        self.projected: list[Projected] = []
        self.added = self.otherwise = self.overlapping = self.set_aside = 0
        self.known = found.common

    def take(self, page: list[Checked]) -> None:
        """Append what is new of a page, and the record of it. Raises VerdictsDiffer, WrongLine."""
        items = [incoming(one, self.found, self.ids) for one in page]
        self._look_up(items)
        here: list[tuple[int, str, str, str]] = []
        differing: list[str] = []
        for item in items:
            event_id = self._new_id(item, differing)
            if event_id is None:
                self.known += 1
                here.append(self._here(item))
            else:
                self._append(item, event_id)
        if differing:
            raise VerdictsDiffer(differing)
        last = page[-1].stored
        header = self.found.header
        record = {
            "playbook": header.playbook,
            "origin": header.origin,
            "after": {"position": self.at[0], "chain": self.at[1]},
            "position": last.position,
            "chain": last.chain,
            "here": here,
            "renamed": dict(self.found.names),
        }
        self.at = (last.position, last.chain)
        self._own(NewEvent(ev.LEDGER_MERGED, identity(ev.LEDGER_MERGED, self.chain, last.chain), record, ACTOR))
        self._write()

    def finish(self) -> tuple[str, ...]:
        """Append what came of windows and bullets that both judged or changed, and move the head; the names of these
        bullets."""
        if self.erases:
            rebuild(self.sql)
        for event in judged_twice(self.sql):
            self.set_aside += 1
            self._own(event)
        self._write()
        book = agreed(self.sql, self.head.origin)
        names: dict[str, None] = {}
        for restated in (restated_bullets, restated_counters):
            for event in restated(self.sql, book, self.chain):
                names.update(dict.fromkeys([event.data["name"]] if "name" in event.data else []))
                self._own(event)
            self._write()
        end = self.end()
        self.sql.execute(MOVE, end.position, end.chain, end.recorded_at, self.sql.id)
        return tuple(names)

    def end(self) -> Head:
        """Return the head as it is now."""
        return Head(self.head.playbook, self.head.origin, self.position, self.chain, self.recorded_at)

    def _look_up(self, items: list[Item]) -> None:
        """Which of the ids that a page mentions are here: (position, data hash) by id."""
        ids = {item.event_id for item in items} | {item.target_id for item in items if item.target_id}
        ids |= {self.beside[item.target_id] for item in items if item.target_id in self.beside}
        ids |= {came for item in items for came in came_as(item.one.event.meta)}
        ids |= {beside_id(item) for item in items}
        among, values = self.sql.among("event_id", ids)
        query = f"SELECT event_id, position, data_hash FROM event WHERE playbook_id = ? AND {among}"  # noqa: S608
        self.there = {row[0]: (row[1], row[2]) for row in self.sql.run(query, values).fetchall()}

    def _new_id(self, item: Item, differing: list[str]) -> str | None:
        """Return the id under which an event is appended; None for one that is not."""
        stored, meta = item.one.stored, item.one.event.meta
        rule = EVENT_TYPES[stored.type].merge
        if rule is Merge.LOCAL or RESTATED in meta:
            return None  # about the other ledger as it was there, which its own history proves
        for known in (item.event_id, *came_as(meta)):
            if known in self.there and self.there[known][1] == item.data_hash:
                return None
        if stored.type == ev.EVENT_REDACTED and (
            item.target_id not in self.there or brings_back(self.sql, item.target_id, self.found)
        ):
            self.otherwise += 1
            return None
        if item.event_id not in self.there:
            return item.event_id
        if rule is Merge.FIRST:
            self.otherwise += 1
            return None
        if rule is Merge.VERDICT:
            self.otherwise += 1
            if not self.ours:
                differing.append(
                    f"line {item.one.number}: {stored.data}, here at position {self.there[item.event_id][0]}"
                )
            return None
        beside = self.beside[stored.event_id] = beside_id(item)
        return None if beside in self.there else beside

    def _here(self, item: Item) -> tuple[int, str, str, str]:
        """Return what the record of a merge says of an event that was not appended."""
        stored = item.one.stored
        meta, late = item.one.event.meta, self.found.late.get(stored.position, stored.recorded_at)
        moment = first_moment(meta, (late, self.found.header.origin, stored.position))
        found = leaf(stored[:10], stored.data_hash, item.one.meta_hash)
        return (stored.position, item.event_id, moment[0], found.hex())

    def _append(self, item: Item, event_id: str) -> None:
        stored = item.one.stored
        target_id = self.beside.get(stored.target_id or "", item.target_id)
        if target_id is not None and target_id not in self.there:
            raise WrongLine(item.one.number, f"its target {target_id} is neither here nor before it")
        text, meta_hash = sealed(meta_here(item, self.found, event_id, target_id))
        self._add(
            stored._replace(
                event_id=event_id, target_id=target_id, data=item.data, data_hash=item.data_hash, meta=text
            ),
            meta_hash,
            item.facts,
        )
        if stored.type != ev.LEDGER_MERGED:
            self.added += 1

    def _own(self, event: NewEvent) -> None:
        """Append an event that says what the merge did."""
        made = prepare(event)
        stored = stored_of(event, 0, self.recorded_at, (made.data, made.data_hash, made.meta, ""))
        self._add(stored, made.meta_hash, made.facts)

    def _add(self, stored: Stored, meta_hash: str, facts: Mapping[str, Any] | None) -> None:
        self.position += 1
        stored = stored._replace(position=self.position, recorded_at=self.recorded_at)
        self.chain = next_chain(self.chain, stored[:10], stored.data_hash, meta_hash)
        self.rows.append(stored._replace(chain=self.chain))
        self.there[stored.event_id] = (self.position, stored.data_hash)
        self.projected.append(
            Projected(
                self.position,
                stored.event_id,
                stored.type,
                self.recorded_at,
                stored.session_id,
                stored.reflection_id,
                stored.target_id,
                facts,
                stored.actor,
                stored.meta,
            )
        )

    def _write(self) -> None:
        rows, self.rows = self.rows, []
        projected, self.projected = self.projected, []
        self._count_overlaps(projected)
        self.sql.insert("event", Stored._fields, rows)
        for row in rows:
            if row.type == ev.EVENT_REDACTED:
                self.sql.run(ERASE, row.target_id)
                self.erases = True
        self.projector.project(projected)

    def _count_overlaps(self, projected: list[Projected]) -> None:
        """Count the windows whose records other windows here hold: their citations may be counted on both sides."""
        for event in projected:
            keys = (event.data or {}).get("window", {}).get("keys") if event.type == ev.SESSION_RECORDED else None
            if isinstance(keys, str):
                among, values = self.sql.among('"key"', unpack_keys(keys))
                query = f"SELECT 1 FROM record WHERE playbook_id = ? AND {among} LIMIT 1"  # noqa: S608
                self.overlapping += self.sql.run(query, values).fetchone() is not None
