"""The rules of a report, each with its counts, its texts and the results of checks.

Invariant: each number is one of `list --json` or `blame --json` for the same moment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reflector.audit.blame import Step, blame_bullets
from reflector.audit.checked import TOO_FEW
from reflector.audit.overruled import judged_by_person
from reflector.events import event as ev
from reflector.events.state import REDACTED
from reflector.playbook.evidence import FEWEST, HARMS, FindingRates, Votes
from reflector.text.phrases import counted
from reflector.text.words import context_tokens

if TYPE_CHECKING:
    from reflector.audit.checked import Checked, CheckedLine
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger

#: The most steps of a rule's counts on the page.
MOST_STEPS: Final = 20
_BAN: Final = re.compile(r"\b(?:never|do not|don['’]t|must not|mustn['’]t|avoid)\b", re.I)


class Text(NamedTuple):
    """A text of a rule, the time since when the rule had it, and its author."""

    since: str
    by: str
    text: str


class Mark(NamedTuple):
    """The words beside a rule's text, with their kind: bad, warn or plain."""

    words: str
    kind: str


class Rule(NamedTuple):
    """A live rule.

    row     the rule as `list --json` has it
    rates   the rates of the judge, if they were measured
    check   the findings of a check in words; "" if the rule was never checked
    steps   the steps of its counters as in `blame`, oldest first; none if the page omits the rule
    texts   oldest first
    """

    row: Any
    check: str
    rates: FindingRates | None = None
    steps: Sequence[Step] = ()
    texts: Sequence[Text] = ()

    @property
    def newest(self) -> Sequence[Step]:
        """The last steps, newest first."""
        return self.steps[-MOST_STEPS:][::-1]

    @property
    def earlier(self) -> int:
        """The number of steps before the newest ones."""
        return max(0, len(self.steps) - MOST_STEPS)

    @property
    def votes(self) -> Votes:
        return Votes(self.row.helped, self.row.harmed, self.row.undecided, self.rates)

    @property
    def has_few_votes(self) -> bool:
        return self.votes.total < FEWEST

    @property
    def is_contested(self) -> bool:
        """Whether sessions gave both verdicts and one half is within the interval."""
        row = self.row
        return bool(min(row.helped, row.harmed) > 0 and row.low < 0.5 < row.high)

    @property
    def is_harming(self) -> bool:
        """Whether it harmed more often than chance explains, by the measure of `prune`."""
        return self.votes.harm >= HARMS

    @property
    def is_ban(self) -> bool:
        """Whether it forbids something. No session has a reason to cite a ban that works."""
        return _BAN.search(self.row.text) is not None

    @property
    def marks(self) -> list[Mark]:
        row = self.row
        answers = 0 if self.check else row.followed + row.broken
        marks = (
            Mark("harmed more often than chance explains" if self.is_harming else "", "bad"),
            Mark("contested" if self.is_contested else "", "warn"),
            Mark(f"check: {self.check}" if self.check else "", "plain"),
            Mark(row.demoted or "", "plain"),
            Mark(
                f"followed in {row.followed} of {counted(answers, 'session')}" if answers else "",
                "plain",
            ),
        )
        return [mark for mark in marks if mark.words]

    @property
    def tokens(self) -> int:
        """The approximate number of tokens of its line."""
        return context_tokens(self.row.bullet.line)

    @property
    def context(self) -> int:
        """The tokens of its line in all sessions that were shown it."""
        return self.tokens * (self.row.told_sessions or 0)


def rules_of(
    listed: Sequence[Any], checked: Checked | None, rates: FindingRates | None
) -> list[Rule]:
    """Return the rules of these rows in the same order, without their steps and texts."""
    lines = checked.lines if checked is not None else ()
    found = {line.name: check_words(line) for line in lines if line.sessions}
    return [Rule(row=row, check=found.get(row.name, ""), rates=rates) for row in listed]


def check_words(line: CheckedLine) -> str:
    """Return the answers about a line in words, such as `followed 3 of 4, too few to tell`."""
    counts = (("followed", line.followed), ("helped", line.helped))
    parts = [
        f"{word} in {of.yes} of {counted(of.yes + of.no, 'session')}"
        for word, of in counts
        if of.yes + of.no
    ]
    if not parts:
        return line.result
    return ", ".join(parts + ([TOO_FEW] if line.result == TOO_FEW else []))


def steps_of(ledger: Ledger, then: Past, names: Collection[str]) -> Mapping[str, list[Step]]:
    """Return the steps of these rules, and of all rules on which the user gave a verdict.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    return blame_bullets(ledger, {*names, *judged_by_person(ledger, then)}, then)


def texts_of(ledger: Ledger, then: Past) -> Mapping[str, list[Text]]:
    """Return the texts that each rule had.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    texts: dict[str, list[Text]] = defaultdict(list)
    types = (ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED, ev.BULLET_MERGED)
    for event in ledger.events(types=types, upto=then.position):
        values = event.data or {}
        is_import = event.type == ev.PLAYBOOK_IMPORTED
        for bullet in values.get("bullets", ()) if is_import else (values,):
            earlier = texts[str(bullet.get("name"))]
            text = str(bullet.get("text", REDACTED))
            if not earlier or earlier[-1].text != text:
                earlier.append(Text(event.recorded_at, event.actor, text))
    return texts
