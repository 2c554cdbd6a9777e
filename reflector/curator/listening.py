"""Records the wishes of users ("always run …", "remember that …", "don't … again", "no, use …") and
the gaps that models find, and makes proposals from both.

Invariant: only the user's own words in the main conversation are read, without quotations, code and
pasted text. A wish is at the beginning of its sentence and is complete in itself. Questions
and references ("never do that") are skipped, because a missed wish is better than a useless
proposal. The record that contains a wish identifies it, so a window that is read again, a fork or a
second machine adds nothing. A wish and its proposal are one transaction, so a killed process finds
the wish again.

A wish for later sessions is proposed at once. A correction is proposed when a second session
contains the same one, or one with the same aim in other words. A rule that is like the wish, in the
playbook or in a file, answers it, so nothing is proposed. If a wish repeats the text of a
removed bullet, the bullet's return is proposed.

Gaps that judges found in the last month are proposed once for each reading. Gaps that are alike
become one proposal with the quotes of all their sessions. A user's words come first, then the gaps
of the most sessions. If one quote is a user's, the proposal is the user's, and otherwise a tool's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from reflector.changes.apply import BulletRefused
from reflector.changes.propose import Proposal, Quote, propose, read_proposals
from reflector.counts.likeness import Likeness, all_aims_of, features_of
from reflector.counts.sentences import requests
from reflector.events.bullets import PROMOTED
from reflector.events.event import (
    CHANGE_PROPOSED,
    REFLECTION_COMPLETED,
    SESSION_RECORDED,
    WISH_HEARD,
    Event,
    NewEvent,
    identity,
)
from reflector.judges.reading.aims import aims_of
from reflector.judges.reading.wordings import Wording, expression, wordings
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import alike
from reflector.reflection.window import keys_of, own_messages
from reflector.text.secrets import secret_kinds
from reflector.text.words import count, words_of
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript
from reflector.transcripts.speakers import own_sentences

if TYPE_CHECKING:
    from reflector.config import Config

ACTOR = "rules"
_MAX_AGE = timedelta(days=30)
#: The most proposals at one time, so that those that already wait keep their places.
_MAX_PROPOSALS = 10

#: A `standing` wish also applies to later sessions. A `correction` is known to do so only when a
#: second session contains the same.
Kind = Literal["standing", "correction"]

#: A longer message is a task, a plan or a pasted text.
_MAX_CHARACTERS = 1_200
_MAX_LINES = 12
_MAX_SENTENCE = 300
_LEAST_WORDS = 3
#: The form of a wish that is not a rule in itself. It can only repeat a wish of another form.
_NOT_A_RULE = "has-aim"
#: Forms that are wishes only with an aim, because other sentences have them too.
_NEED_AIM = frozenset(("wants-none", "wants-short", "each-should", "lasting-aim", _NOT_A_RULE))
#: Forms that a report or an order for the task at hand may have, too.
_OF_ANY_SENTENCE = frozenset(
    ("instead", "wants-none", "whenever", "lasting-aim", "for-good-wish", _NOT_A_RULE)
)


class Form(NamedTuple):
    """One way to word a wish. `before` is put before the text of the wish."""

    id: str
    kind: Kind
    section: str
    before: str


def hear(
    config: Config,
    ledger: Ledger,
    window_ids: Iterable[str],
    said: Mapping[str, Sequence[Message] | None],
    in_files: Callable[[], Iterable[str]] = tuple,
) -> str:
    """Record and propose the wishes of users in recorded windows. Return the text to print; "" for
    nothing.

    The playbook's lock must be held. `said` contains the users' messages of windows that were read
    before. The other windows are read from their transcripts. A transcript that cannot be read has
    no wishes. `in_files` returns the rules of the files that agents load.

    Raises: LedgerError.
    """
    proposed = 0
    for window_id in window_ids if config.wishes else ():
        window = ledger.event(window_id)
        if window is None or not _is_conversation(window):
            continue
        try:
            heard = list(wishes(_messages_of(window, said.get(window_id))))
        except (OSError, UnknownTranscript):
            continue
        for wish in heard:
            event = _heard(window, wish)
            if ledger.event(event.event_id) is None:
                proposed += _propose(ledger, event, in_files)
                ledger.append([event])  # if nothing was proposed
    return _waiting(proposed)


def _is_conversation(window: Event) -> bool:
    """Return whether a window is of a user's own conversation, not of a sub-agent's."""
    is_of_session = window.type == SESSION_RECORDED and window.data is not None
    return is_of_session and not window.fact("agent_id")


def _messages_of(window: Event, people: Sequence[Message] | None) -> Iterable[Message]:
    """Return the messages of a window. They are selected from `people`, the users' messages of its
    session, if these were read.
    """
    if people is None:
        return own_messages(window)
    keys = frozenset(keys_of(window))
    return [message for message in people if message.key in keys]


def _heard(window: Event, wish: Wish) -> NewEvent:
    """Return the event that records a wish in a window."""
    form = wish.form
    data = {
        "kind": form.kind,
        "form": form.id,
        "section": form.section,
        "text": wish.text,
        "quote": wish.quote,
    }
    event_id = identity(WISH_HEARD, wish.key, wish.number)
    return NewEvent(
        WISH_HEARD,
        event_id,
        data,
        ACTOR,
        session_id=window.session_id,
        target_id=window.event_id,
    )


def _propose(ledger: Ledger, event: NewEvent, in_files: Callable[[], Iterable[str]]) -> bool:
    """Propose a wish unless a rule or a waiting proposal contains it. Return whether it waits."""
    rows = ledger.rows()
    is_standing = event.data["kind"] == "standing"
    before = [] if is_standing else _said_before(ledger, event)
    if not (is_standing or before) or _is_covered(event.data, ledger, rows, in_files):
        return False
    said = [*(earlier.facts for earlier in before), event.data]
    wish = next((each for each in said if each["form"] != _NOT_A_RULE), None)
    if wish is None:
        return False
    how_often = "in more than one session"
    reason = f"the user asked for this {'rule' if is_standing else how_often}"
    change = Change("add", section=wish["section"], text=wish["text"])
    row = _removed_before(rows, wish["text"])
    if row:
        change = Change("restore", row.name)
        reason = f"{reason} again, after the rule was removed ({row.reason})"
    with suppress(BulletRefused):  # rejected twice, or merged into a broader bullet
        proposal = propose(
            ledger,
            change,
            origin="rules",
            trust="person",
            reason=reason,
            evidence=[*map(_quote_of, before), _quote_of(event)],
            actor=ACTOR,
            first=[event],
        )
        return proposal.state == "waiting"
    return False


def _bullet_of(proposal: Proposal) -> Bullet:
    return Bullet("", proposal.change.section or "", proposal.change.text or "")


def _removed_before(rows: Iterable[BulletRow], text: str) -> BulletRow | None:
    """Return the removed rule that a wish repeats; None if there is none."""
    removed = (row for row in rows if row.status == "removed" and row.reason != PROMOTED)
    return next((row for row in removed if alike(text, row.bullet)), None)


def _is_covered(
    wish: Mapping[str, Any],
    ledger: Ledger,
    rows: Iterable[BulletRow],
    in_files: Callable[[], Iterable[str]],
) -> bool:
    """Return whether a rule of the playbook, a waiting proposal or a rule of a file contains a
    wish.
    """
    waiting = read_proposals(ledger)
    rules = [row.bullet for row in rows if row.status == "live"]
    rules += [_bullet_of(proposal) for proposal in waiting if proposal.undone_at is not None]
    if any(alike(wish["text"], rule) for rule in rules):
        return True
    proposed = (proposal.change.text or "" for proposal in waiting)
    texts = chain((rule.text for rule in rules), proposed, in_files())
    known = Likeness([features_of(text) for text in texts])
    return bool(known.places_like(wish["quote"]) or known.places_like(wish["text"]))


def _has_same_aim(text: str, other: str) -> bool:
    return not all_aims_of(text).isdisjoint(all_aims_of(other))


def _quote_of(event: Event | NewEvent) -> Quote:
    return Quote((event.data or {})["quote"], "person", event.session_id, event.target_id)


def _said_before(ledger: Ledger, event: NewEvent) -> list[Event]:
    """Return the wishes of other sessions that mean the same, the oldest first."""
    return [
        earlier
        for earlier in ledger.events(types=[WISH_HEARD])
        if earlier.session_id not in (None, event.session_id)
        and _means_same(earlier, event)
        and not ledger.retracted(earlier.target_id or "")
    ]


def _means_same(earlier: Event, event: NewEvent) -> bool:
    wish = earlier.data
    if wish is None:
        return False
    bullet = Bullet("", wish["section"], wish["text"])
    return alike(event.data["text"], bullet) or _has_same_aim(wish["quote"], event.data["quote"])


@dataclass(slots=True)
class _Group:
    """Alike answers of judges about missing rules, of one kind and about one bullet.

    answer  the first of them; `actor` is the judge that gave it
    quotes  of all of them
    """

    answer: Mapping[str, Any]
    actor: str
    quotes: list[Quote]

    @property
    def is_of_person(self) -> bool:
        return any(quote.by == "person" for quote in self.quotes)

    @property
    def support(self) -> tuple[bool, int]:
        """Sort key: first whether a user said it, then the number of sessions."""
        return self.is_of_person, len({quote.session for quote in self.quotes})

    def takes(self, answer: Mapping[str, Any]) -> bool:
        """Return whether an answer belongs to the group, because it means the same."""
        own = self.answer
        if (own["kind"], own["name"]) != (answer["kind"], answer["name"]):
            return False
        return alike(answer["text"], Bullet("", own["section"], own["text"]))


def propose_learned(ledger: Ledger) -> str:
    """Propose the missing rules that models found and that were not proposed yet. Return the text
    to print; "" for nothing.

    The playbook's lock must be held.

    Raises: LedgerError.
    """
    groups = _groups(_unproposed(ledger))
    if not groups:
        return ""
    known = read_proposals(ledger, only_waiting=False)
    groups = [group for group in groups if not _is_proposed(known, group)]
    groups.sort(key=lambda group: group.support, reverse=True)
    rows = {row.name: row for row in ledger.rows() if row.status in ("live", "watched")}
    return _waiting(sum(_propose_group(ledger, group, rows) for group in groups[:_MAX_PROPOSALS]))


def _unproposed(ledger: Ledger) -> list[Event]:
    """Return the readings of the last month that found missing rules, without those that were
    proposed or retracted.
    """
    since = (datetime.now(UTC) - _MAX_AGE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    readings = ledger.events(types=[REFLECTION_COMPLETED], after=ledger.position_at(since))
    learned = [event for event in readings if event.fact("proposals")]
    if not learned:
        return []
    proposed: set[str] = set()
    for event in ledger.events(types=[CHANGE_PROPOSED]):
        evidence = event.fact("evidence", ())
        proposed |= {quote.get("window") for quote in evidence}
    new = [event for event in learned if event.event_id not in proposed]
    return [event for event in new if not _is_taken_back(ledger, event)]


def _is_taken_back(ledger: Ledger, event: Event) -> bool:
    return bool(ledger.retracted(event.event_id, event.target_id or ""))


def _groups(readings: Iterable[Event]) -> list[_Group]:
    """Return the missing rules that readings found, with alike ones in one group."""
    groups: list[_Group] = []
    for event in readings:
        for answer in event.facts["proposals"]:
            speaker = "person" if answer["words"] == "person" else "tool"
            quote = Quote(answer["quote"], speaker, event.session_id, event.event_id)
            group = next((group for group in groups if group.takes(answer)), None)
            if group is None:
                groups.append(_Group(answer, event.actor, [quote]))
            else:
                group.quotes.append(quote)
    return groups


def _is_proposed(known: Iterable[Proposal], group: _Group) -> bool:
    """Return whether a new rule of a group rests on a sentence of the user that was heard as a wish
    and proposed.
    """
    heard = [
        quote
        for proposal in known
        if proposal.origin == "rules" and proposal.change.kind in ("add", "restore")
        for quote in proposal.evidence
    ]
    return group.answer["kind"] == "add" and any(
        quote.session == other.session and _words(quote) in _words(other)
        for quote in group.quotes
        if quote.by == "person"
        for other in heard
    )


def _words(quote: Quote) -> str:
    return f" {' '.join(words_of(quote.text))} "


def _propose_group(ledger: Ledger, group: _Group, rows: Mapping[str, BulletRow]) -> bool:
    """Propose a group's answer unless another bullet means the same. Return whether a proposal
    waits.
    """
    answer = group.answer
    text = answer["text"]
    reason = answer["why"]
    replaced = rows.get(answer["name"] or "")
    beside_it = [row.bullet for row in rows.values() if row is not replaced]
    if any(alike(text, bullet) for bullet in beside_it):
        return False
    names = (answer["name"],) if answer["kind"] == "supersede" else ()
    if replaced and replaced.status == "watched":
        # Only the user changes its file.
        names = ()
        reason = f"instead of {replaced.name}: {reason}"
    kind: Literal["merge", "add"] = "merge" if names else "add"
    change = Change(kind, names=names, section=answer["section"], text=text)
    with suppress(BulletRefused):
        proposal = propose(
            ledger,
            change,
            origin="model",
            trust="person" if group.is_of_person else "tool",
            reason=reason,
            evidence=sorted(group.quotes, key=lambda quote: quote.by),
            actor=f"curator/{group.actor}",
        )
        return proposal.state == "waiting"
    return False


def learned_words(proposed: str, answered: int, why: str = "") -> str:
    """Return the text to print after models looked for missing rules.

    proposed  the text about the proposals
    answered  the number of answers
    why       the reason, if no judge answered
    """
    if proposed or answered:
        return proposed or "The sessions do not show that a rule is missing."
    return f"No judge looked for missing rules{f': {why}' if why else ''}."


def _waiting(count: int) -> str:
    if not count:
        return ""
    return (
        f"{count} proposal{'s wait' if count > 1 else ' waits'} for your decision: "
        "`reflector review`"
    )


class Wish(NamedTuple):
    """A wish of a user.

    text     in the form of a bullet's text
    quote    the sentence as it was written
    key      of the record that contains it; `number` distinguishes the wishes of one record
    """

    form: Form
    text: str
    quote: str
    key: int
    number: int


def wishes(messages: Iterable[Message]) -> Iterator[Wish]:
    """Yield the wishes of users in some messages, in order. Messages that contain a secret are
    omitted.
    """
    for message in messages:
        if message.role != "user" or message.origin not in ("human", "refusal") or message.chain:
            continue
        text = message.text.strip()
        if not _may_hold_wish(text) or secret_kinds(text):
            continue
        number = 0
        for sentence in own_sentences(text):
            if wish := _wish_in(sentence):
                form, advice = wish
                yield Wish(form, advice, sentence, message.key, number)
                number += 1


def _may_hold_wish(text: str) -> bool:
    """Return whether a text is short enough for a wish. Tasks and pasted texts are longer."""
    return 0 < len(text) <= _MAX_CHARACTERS and text.count("\n") < _MAX_LINES


def _wish_in(sentence: str) -> tuple[Form, str] | None:
    """Return the form and the text of a wish; None if the sentence is not one."""
    if len(sentence) > _MAX_SENTENCE:  # the first clause of a long sentence may be a wish
        sentence = sentence.partition(", ")[0]
    if len(sentence) > _MAX_SENTENCE or sentence.endswith(("?", ":", "？", "：")):
        return None
    asked = sentence.rstrip()
    for tail in ("praise-tail", "place-tail"):
        asked = expression(tail).sub("", asked)
    for row in wordings("wish"):
        match = row.expression.fullmatch(asked)
        if match and _is_meant(row.id, sentence):
            return _read_wish(row, match["wish"].strip(" .!,;\"'。！、，"), sentence)
    return None


def _is_meant(form: str, sentence: str) -> bool:
    """Return whether a sentence of a form is a wish, as far as the form does not show it."""
    if form == "no-use":
        return expression("corrects").match(sentence) is not None
    if form == "plain-order" and not requests(sentence):
        return False
    if form in _OF_ANY_SENTENCE and not expression("wished").match(sentence.replace("’", "'")):
        return False
    return form not in _NEED_AIM or bool(aims_of(sentence))


def _read_wish(row: Wording, wish: str, sentence: str) -> tuple[Form, str] | None:
    """Return the form and the text of a wish; None if it is not complete or cannot be a rule."""
    kind, section, *before = row.says.split()
    form = Form(row.id, cast(Kind, kind), section, "".join(before))
    names_its_thing = kind == "correction" and bool(aims_of(sentence))
    if not (names_its_thing or _means_something(wish)):
        return None
    text = f"{form.before} {wish}" if form.before else wish[0].upper() + wish[1:]
    if text[-1].isalnum() or text[-1] in "`\"')":
        text += "."
    return None if text_fault(text) else (form, text)


def _means_something(wish: str) -> bool:
    """Return whether a wish is complete and lasting. It must not refer to the conversation or apply
    only for now.
    """
    if count(wish) < _LEAST_WORDS or expression("momentary").search(wish):
        return False
    return not expression("points").search(" ".join(wish.split()[:6]))
