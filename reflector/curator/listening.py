"""Wishes of people ("always run …", "remember that …", "don't … again", "no, use …"), recorded when
their session is taken in; what models found missing; and the proposals made from both.

Invariant: only a person's own words are heard, in the main conversation, outside quotations, code
and pasted text. A wish stands at the beginning of its sentence and says what it means by itself;
what asks, tells or points ("never do that") is passed over. Better a wish missed than a chore made.
A wish is known by the record that holds it, so a window that is read again, a fork or a second
machine adds nothing. What stands for later sessions is proposed at once; a correction when another
session said the same. What a removed bullet says is proposed as its return. A wish and its proposal
are one transaction: whoever is killed before it hears the wish again.

What any judge found to be missing since a month is proposed once for each reading, what is alike as
one proposal with the quotes of all its sessions: what a person said comes first, then what most
sessions show. One sentence of a person among its quotes makes it theirs, else it comes from a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from reflector.changes.apply import BulletRefused
from reflector.changes.propose import Quote, propose
from reflector.events import event as ev
from reflector.events.bullets import PROMOTED
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import alike
from reflector.reflection.window import keys_of, own_messages
from reflector.text.secrets import found as secrets_in
from reflector.text.words import count
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript
from reflector.transcripts.speakers import outside_tags

if TYPE_CHECKING:
    from reflector.config import Config

ACTOR = "rules"
_AGE: Final = timedelta(days=30)
#: The most proposals of one time: those that wait already are to keep their place.
_MOST: Final = 10

#: `standing` is meant for later sessions too; a `correction` is known to be only when a second
#: session says the same.
Kind = Literal["standing", "correction"]

#: A longer message is a task, a plan or something pasted.
_MOST_CHARACTERS: Final = 1_200
_MOST_LINES: Final = 12
_MOST_SENTENCE: Final = 300
_FEWEST_WORDS: Final = 3

_LEAD: Final = (
    r"(?:(?:and|also|but|so|ok(?:ay)?|please|pls|btw|oh|hey|again|no|nope|wrong|actually|as "
    r"always|as i said|then)\b"
    r"[ ,:!.-]*)*"
)
_VERB: Final = (
    r"(?:use|run|write|add|keep|put|make|ask|check|read|call|name|format|commit|test|start|prefer"
    r"|do|be|look)"
)


@dataclass(frozen=True, slots=True)
class Form:
    """One way to word a wish. `wish` of the expression is what is asked for, written with
    `before` in front.
    """

    id: str
    kind: Kind
    section: str
    before: str
    expression: re.Pattern[str]


def _form(id: str, section: str, before: str, expression: str, kind: Kind = "standing") -> Form:
    return Form(
        id, kind, section, before, re.compile(_LEAD + expression, re.IGNORECASE | re.DOTALL)
    )


_FUTURE: Final = (
    r"(?:from now on|going forward|for (?:the )?future(?: reference)?|for next "
    r"time)[,:]? ?(?:please )?"
)
_TO_COME: Final = r"(?:in (?:the )?future|next time)[,:]? (?:please )?"
#: The first that fits.
FORMS: Final = (
    _form("never", "mis", "Never", r"(?:you (?:should|must) |we )?never (?P<wish>\w.+)"),
    _form(
        "not-again",
        "mis",
        "Don't",
        (
            r"(?:do not|don['’]?t|stop) (?:ever )?(?P<wish>\w.+?)[ ,]+(?:again|any "
            r"?more|ever|every "
            r"time)\W*"
        ),
    ),
    _form("dont-ever", "mis", "Don't", r"(?:do not|don['’]?t) ever (?P<wish>\w.+)"),
    _form("always", "pat", "Always", r"(?:you (?:should|must) |we )?always (?P<wish>\w.+)"),
    _form("remember-to", "pat", "", r"remember (?:also )?to (?P<wish>(?!be sure)\w.+)"),
    _form("remember", "ctx", "", r"remember(?:(?: also)?,? that|:| also| you| we) ?(?P<wish>\w.+)"),
    _form("keep-in-mind", "ctx", "", r"keep in mind(?: that|:|,)? ?(?P<wish>\w.+)"),
    _form("from-now-on", "pref", "", _FUTURE + r"(?P<wish>\w.+)"),
    _form(
        "in-future",
        "pref",
        "",
        rf"{_TO_COME}(?P<wish>(?:always|never|don['’]?t|do not|{_VERB})\b.+)",
    ),
    _form(
        "prefer",
        "pref",
        "Prefer",
        r"(?:i|we) (?:(?:strongly|generally|usually|always) )?prefer (?P<wish>\w.+)",
    ),
    _form(
        "instead",
        "pref",
        "",
        (
            rf"(?P<wish>{_VERB} [^.]+?(?:, not | instead of | rather than "
            r")\w.+)"
        ),
        "correction",
    ),
    _form("no-use", "pref", "", r"(?P<wish>(?:use|run|we use|call) \w.+)", "correction"),
)
_CORRECTS: Final = re.compile(r"(?:no|nope|wrong|actually)\b[ ,.!:-]+", re.IGNORECASE)
#: A wish about what only the conversation says.
_POINTS: Final = re.compile(
    r"\b(?:this|that|it|these|those|them|here|there|above|below)\b"
    r"(?! (?:the|a|you|we|all|every|is|are|repo(?:sitory)?|project|code ?base|team|machine)\b)",
    re.IGNORECASE,
)
_MOMENTARY: Final = re.compile(
    r"\b(?:now|today|tomorrow|right away|for the moment|this (?:time|once)|just)\b", re.IGNORECASE
)
_QUOTED: Final = re.compile(r"\s*(?:>|\+|[-*•|#/]|\d+[.)]\s|```|~~~|\$ |[{}<\[])")
_FENCE: Final = re.compile(
    r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$|^[ \t]*(?:```|~~~).*\Z",
    re.MULTILINE | re.DOTALL,
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])[ \t]+(?=[\"'(\w])|(?<=[。！？])|\n+")


def hear(
    config: Config,
    ledger: Ledger,
    window_ids: Iterable[str],
    said: Mapping[str, Sequence[Message] | None],
) -> str:
    """Record what people ask for in recorded windows, and propose it; return what to print, "" for
    nothing.

    The playbook's lock must be held. `said` is what people said in windows that were read before;
    of the others, a transcript that cannot be read says nothing. Raises LedgerError.
    """
    proposed = 0
    for window_id in window_ids if config.wishes else ():
        window = ledger.event(window_id)
        if (
            window is None
            or window.type != ev.SESSION_RECORDED
            or window.data is None
            or window.data.get("agent_id")
        ):
            continue
        try:
            own, people = frozenset(keys_of(window)), said.get(window_id)
            messages = (
                own_messages(window)
                if people is None
                else (one for one in people if one.key in own)
            )
            heard = list(wishes(messages))
        except (OSError, UnknownTranscript):
            continue
        for wish in heard:
            event = _heard(window, wish)
            if ledger.event(event.event_id) is None:
                proposed += _propose(ledger, event)
                ledger.append([event])  # where nothing was proposed
    return _waiting(proposed)


def _heard(window: Event, wish: Wish) -> NewEvent:
    form = wish.form
    data = {
        "kind": form.kind,
        "form": form.id,
        "section": form.section,
        "text": wish.text,
        "quote": wish.quote,
    }
    event_id = identity(ev.WISH_HEARD, wish.key, wish.number)
    return NewEvent(
        ev.WISH_HEARD,
        event_id,
        data,
        ACTOR,
        session_id=window.session_id,
        target_id=window.event_id,
    )


def _propose(ledger: Ledger, event: NewEvent) -> bool:
    data, rows = event.data, ledger.rows()
    if any(row.status == "live" and alike(data["text"], row.bullet) for row in rows):
        return False
    before = [] if data["kind"] == "standing" else _said_before(ledger, event)
    if data["kind"] == "correction" and not before:
        return False
    reason = "a person asked for it" if not before else "people said the same in two sessions"
    change = Change("add", section=data["section"], text=data["text"])
    gone = [row for row in rows if row.status == "removed" and row.reason != PROMOTED]
    if again := next((row for row in gone if alike(data["text"], row.bullet)), None):
        change, reason = (
            Change("restore", again.name),
            f"{reason} again; it was removed ({again.reason})",
        )
    said: list[Event | NewEvent] = [*before, event]
    evidence = [
        Quote((one.data or {})["quote"], "person", one.session_id, one.target_id) for one in said
    ]
    with suppress(BulletRefused):  # rejected twice, or merged into a bullet that says more
        made = propose(
            ledger,
            change,
            origin="rules",
            trust="person",
            reason=reason,
            evidence=evidence,
            actor=ACTOR,
            first=[event],
        )
        return made.state == "waiting"
    return False


def _said_before(ledger: Ledger, event: NewEvent) -> list[Event]:
    """Return the newest wish of another session that says the same, if there is one."""
    text = event.data["text"]
    for one in reversed(list(ledger.events(types=[ev.WISH_HEARD]))):
        if one.data is None or one.session_id in (None, event.session_id):
            continue
        said = Bullet("", one.data["section"], one.data["text"])
        if alike(text, said) and not ledger.retracted(one.target_id or ""):
            return [one]
    return []


def propose_learned(ledger: Ledger) -> str:
    """Propose what models said to be missing and was not proposed yet; return what to print, "" for
    nothing.

    The playbook's lock must be held. Raises LedgerError.
    """
    since = (datetime.now(UTC) - _AGE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    read = ledger.events(types=[ev.REFLECTION_COMPLETED], after=ledger.position_at(since))
    learned = [one for one in read if (one.data or {}).get("proposals")]
    if not learned:
        return ""
    known = ledger.events(types=[ev.CHANGE_PROPOSED])
    done = {
        said.get("window") for event in known for said in (event.data or {}).get("evidence", ())
    }
    groups: list[tuple[Mapping[str, Any], list[Quote], str]] = []
    for event in learned:
        if event.event_id in done or ledger.retracted(event.event_id, event.target_id or ""):
            continue
        for one in (event.data or {})["proposals"]:
            by = "person" if one["words"] == "person" else "tool"
            found = Quote(one["quote"], by, event.session_id, event.event_id)
            for first, quotes, _ in groups:
                is_same = (first["kind"], first["name"]) == (one["kind"], one["name"])
                if is_same and alike(one["text"], Bullet("", first["section"], first["text"])):
                    quotes.append(found)
                    break
            else:
                groups.append((one, [found], event.actor))
    waiting, rows = 0, {row.name: row for row in ledger.rows() if row.status in ("live", "watched")}
    for one, quotes, actor in sorted(groups, key=lambda group: _support(group[1]), reverse=True)[
        :_MOST
    ]:
        of, why = rows.get(one["name"] or ""), one["why"]
        if any(row is not of and alike(one["text"], row.bullet) for row in rows.values()):
            continue  # a line says it
        names = (one["name"],) if one["kind"] == "supersede" else ()
        if of is not None and of.status == "watched":  # its file is for a person to change
            names, why = (), f"instead of {of.name}: {why}"
        change = Change(
            "merge" if names else "add", names=names, section=one["section"], text=one["text"]
        )
        said = sorted(quotes, key=lambda quote: quote.by)
        with suppress(BulletRefused):
            facts: Any = {"origin": "model", "trust": said[0].by, "actor": f"curator/{actor}"}
            made = propose(ledger, change, reason=why, evidence=said, **facts)
            waiting += made.state == "waiting"
    return _waiting(waiting)


def learned_words(proposed: str, answered: int, why: str = "") -> str:
    """Return what to print where models were asked what is missing: what was proposed, or that
    nothing was by so many answers, or, where nobody answered, that nothing is known, and why.
    """
    if proposed or answered:
        return proposed or "Nothing is missing that a session shows."
    return f"No model answered what is missing{f': {why}' if why else ''}."


def _support(quotes: list[Quote]) -> tuple[bool, int]:
    return any(one.by == "person" for one in quotes), len({one.session for one in quotes})


def _waiting(count: int) -> str:
    return (
        f"{count} proposal{'s wait' if count > 1 else ' waits'} for you: `reflector proposals`"
        if count
        else ""
    )


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for.

    text     as a bullet would say it
    quote    the sentence, as it was written
    key      of the record that holds it, `number` tells it from others of the same record
    """

    form: Form
    text: str
    quote: str
    key: int
    number: int


def wishes(messages: Iterable[Message]) -> Iterator[Wish]:
    """Yield what a person asks for in some messages, in order. Texts that hold a secret are left
    out.
    """
    for message in messages:
        if message.role != "user" or message.origin not in ("human", "refusal") or message.chain:
            continue
        said = message.text.strip()
        if (
            not said
            or len(said) > _MOST_CHARACTERS
            or said.count("\n") >= _MOST_LINES
            or secrets_in(said)
        ):
            continue
        number = 0
        for sentence in _sentences(said):
            if heard := _wish_in(sentence):
                form, text = heard
                yield Wish(form, text, sentence, message.key, number)
                number += 1


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are a person's own: no code, no quotation, no tagged
    text, no list.
    """
    plain = outside_tags(_FENCE.sub("\n", text))
    for line in plain.split("\n"):
        if line.strip() and not _QUOTED.match(line):
            yield from (part.strip() for part in _SENTENCE.split(line) if part.strip())


def _wish_in(sentence: str) -> tuple[Form, str] | None:
    """Return the form and the text of a wish; None if the sentence is not one."""
    if len(sentence) > _MOST_SENTENCE:  # of a long one the first clause may be a wish
        sentence = sentence.partition(", ")[0]
    if len(sentence) > _MOST_SENTENCE or sentence.endswith(("?", ":", "？", "：")):
        return None
    for form in FORMS:
        match = form.expression.fullmatch(sentence.rstrip())
        if match is None:
            continue
        if form.id == "no-use" and not _CORRECTS.match(sentence):
            continue
        wish = match["wish"].strip(" .!,;\"'。！、，")
        if (
            count(wish) < _FEWEST_WORDS
            or _POINTS.search(" ".join(wish.split()[:6]))
            or _MOMENTARY.search(wish)
        ):
            return None
        text = f"{form.before} {wish}" if form.before else wish[0].upper() + wish[1:]
        text += "." if text[-1].isalnum() or text[-1] in "`\"')" else ""
        return None if text_fault(text) else (form, text)
    return None
