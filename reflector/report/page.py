"""What a report says: the answers of `audit` and its neighbours, side by side.

Invariant: each number is one that a command prints with `--json` for the same moment, so none is computed here but sums
and sizes, and none in a template. Texts are as the ledger has them; `html` makes them fit to be seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reflector.audit.blame import Step, blames
from reflector.audit.checked import Checked, CheckedLine, checked
from reflector.audit.difference import Changed, difference
from reflector.audit.moments import span_of
from reflector.audit.stats import Stats, stats
from reflector.audit.weeks import Week, weeks
from reflector.events import event as ev
from reflector.events.state import REDACTED
from reflector.ledger.answers import Group
from reflector.ledger.as_of import Past
from reflector.ledger.usage import usage_at
from reflector.lessons.book import Lesson, lesson_book
from reflector.playbook.bullet import context_tokens
from reflector.playbook.evidence import HARMS, against
from reflector.trials.status import TrialStatus, standing

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Counts of a bullet, and rows of a table, that the page has; what is more is one line with a command.
MOST_COUNTS: Final = 20
MOST_ROWS: Final = 30
_DAYS: Final = 7

#: A command as a person types it, of its words.
Command = Callable[..., str]


class Text(NamedTuple):
    """A text that a bullet had from a time on, and who gave it."""

    when: str
    by: str
    text: str


class Waiting(NamedTuple):
    """What waits for a decision: what it is, its session or origin, what is known, and the command that decides."""

    what: str
    who: str
    text: str
    command: str


class Wait(NamedTuple):
    """All of a kind that waits: how much, the command for all of it, and the newest."""

    many: int
    command: str
    newest: list[Waiting]


@dataclass(frozen=True, slots=True)
class Told:
    """A live bullet: `row` as `list --json` has it, in how many sessions it was cited, every step of its counters as
    `blame` has it, and its texts, oldest first."""

    row: Any
    cited: int
    steps: list[Step]
    texts: list[Text]

    @property
    def newest(self) -> list[Step]:
        """Its newest steps, the newest first."""
        return self.steps[-MOST_COUNTS:][::-1]

    @property
    def earlier(self) -> int:
        """How many steps are older."""
        return max(0, len(self.steps) - MOST_COUNTS)

    @property
    def is_contested(self) -> bool:
        """Whether sessions say both, and half and half lies within its interval."""
        return bool(min(self.row.helpful, self.row.harmful) > 0 and self.row.low < 0.5 < self.row.high)

    @property
    def is_harming(self) -> bool:
        """Whether it harms too often for chance, as `proposals find` has it."""
        good = self.row.judged * (self.row.share or 0)
        return against(good, self.row.judged - good) >= HARMS

    @property
    def marks(self) -> list[tuple[str, str]]:
        """What stands beside its text, with the kind of each."""
        followed = f"not followed {self.row.not_followed}×" if self.row.not_followed else None
        harms = "harmful too often for chance" if self.is_harming else None
        found = ((harms, "bad"), ("contested" if self.is_contested else None, "warn"), (self.row.demoted, "plain"))
        return [(mark, kind) for mark, kind in (*found, (followed, "plain")) if mark]

    @property
    def tokens(self) -> int:
        """About how many tokens its line takes."""
        return context_tokens(self.row.bullet.line)

    @property
    def context(self) -> int:
        """The tokens of its line in all sessions that were told it."""
        return self.tokens * (self.row.told_sessions or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A report.

    since      what the changes are counted from, as it was asked for; those that are more than counts come first
    overruled  verdicts of judges on which a person gave another, the newest first; `lost` how many, by judge
    waiting    by its kind; None for a moment: nothing waits in the past
    checked    what `check` found of each line; None where nobody checked
    """

    project: str
    is_past: bool
    position: int
    chain: str
    at: str
    since: str
    counting: str
    stats: Stats
    bullets: list[Told]
    changes: list[Changed]
    weeks: list[Week]
    overruled: list[Step]
    lost: Mapping[str | None, int]
    waiting: dict[str, Wait] | None
    lessons: list[Lesson]
    checked: Checked | None
    trial: TrialStatus | None
    command: Command

    @property
    def known(self) -> int:
        """The sessions whose outcome is recorded."""
        return sum(week.sum("known") for week in self.weeks)

    @property
    def checked_first(self) -> list[CheckedLine]:
        """The lines that a judge was asked about, those first of which most is known."""
        lines = self.checked.lines if self.checked is not None else ()
        return sorted(
            (one for one in lines if one.sessions),
            key=lambda one: -max(one.followed.evidence, one.helped.evidence, one.sessions / 1e6),
        )

    @property
    def contested(self) -> list[Told]:
        """The bullets on which sessions disagree."""
        return [one for one in self.bullets if one.is_contested]

    @property
    def harming(self) -> list[Told]:
        """The bullets that harm, the most harmful last in the playbook's order and first here."""
        return [one for one in reversed(self.bullets) if one.is_harming]

    @property
    def told(self) -> list[Told]:
        """The bullets that sessions were told, what filled most of the context first."""
        told = [one for one in self.bullets if one.row.told_sessions]
        return sorted(told, key=lambda one: (-one.context, one.row.name))

    @property
    def idle(self) -> list[Told]:
        """Those of them that no session cited."""
        return [one for one in self.told if not one.cited]

    @property
    def useful(self) -> dict[str, str]:
        """What a check found of each line that it found followed or helping, cited or not."""
        return {one.name: one.result for one in self.checked_first
                if any(of.yes > of.no and of.evidence >= HARMS for of in (one.followed, one.helped))}  # fmt: skip

    @property
    def wasted(self) -> list[Told]:
        """Those that no session cited, and no check found useful."""
        useful = self.useful
        return [one for one in self.idle if one.row.name not in useful]

    @property
    def months(self) -> list[Group]:
        """What judging took by month, the days of `stats` added up, the oldest first."""
        found: dict[str, Group] = {}
        for day in self.stats.groups["day"]:
            found.setdefault(day.key[:7], Group(day.key[:7])).add(day)
        return [*found.values()]


def gather(
    ledger: Ledger, past: Past | None, listed: Sequence[Any], *, project: str, command: Command, since: str | None
) -> Page:
    """Return the report of now or of a moment.

    listed  the live bullets as `list --json` has them, in the order of the page
    since   the moment that changes are counted from; None for seven days before
    Raises UnknownMoment, LedgerError.
    """
    then = past or Past(ledger)
    at = next((one.recorded_at for one in ledger.at([then.position])), ledger.head().recorded_at)
    since = since or f"{datetime.fromisoformat(at) - timedelta(days=_DAYS):%Y-%m-%dT%H:%MZ}"
    used = usage_at(ledger, past.position if past is not None else None).bullets
    steps, texts = blames(ledger, [*then.entries], then), _texts(ledger, then)
    overruled = {step.position: step for of in steps.values() for step in _overruled(of)}
    return Page(
        project=project,
        is_past=past is not None,
        position=then.position,
        chain="" if past is not None else ledger.head().chain,
        at=at,
        since=since,
        counting=then.counting,
        stats=stats(ledger, past),
        bullets=[Told(row, used[row.name].cited, steps[row.name], texts[row.name]) for row in listed],
        changes=sorted(
            difference(ledger, *span_of(ledger, f"{since}..{then.position}")).bullets,
            key=lambda one: (one.change == "counted", -sum(abs(of.helpful) + abs(of.harmful) for of in one.sessions)),
        ),
        weeks=weeks(ledger, then),
        overruled=[step for _, step in sorted(overruled.items(), reverse=True)],
        lost=Counter(step.model or step.backend for step in overruled.values()),
        waiting=None if past is not None else _waiting(ledger, command),
        checked=checked(ledger, past) if ledger.has(ev.BULLET_CHECKED) else None,
        trial=standing(ledger, then.position),
        lessons=sorted(lesson_book(past or ledger), key=lambda one: -one.effectiveness),
        command=command,
    )


def _overruled(steps: Sequence[Step]) -> list[Step]:
    said = {(one.name, one.session_id): one.tag for one in steps
            if one.backend == ev.HUMAN and one.disposition != "retracted"}  # fmt: skip
    gone = (one for one in steps if one.backend != ev.HUMAN and one.disposition == "retracted")
    return [one for one in gone if one.uncounted_by and one.uncounted_by.actor == ev.HUMAN
            and said.get((one.name, one.session_id), one.tag) != one.tag]  # fmt: skip


def _texts(ledger: Ledger, then: Past) -> dict[str, list[Text]]:
    found: dict[str, list[Text]] = defaultdict(list)
    types = (ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED, ev.BULLET_MERGED)
    for event in ledger.events(types=types, upto=then.position):
        data = event.data or {}
        for one in data.get("bullets", ()) if event.type == ev.PLAYBOOK_IMPORTED else (data,):
            text, of = str(one.get("text", REDACTED)), found[str(one.get("name"))]
            if not of or of[-1].text != text:
                of.append(Text(event.recorded_at, event.actor, text))
    return found


def _waiting(ledger: Ledger, command: Command) -> dict[str, Wait]:
    from reflector.curation.proposals import proposals
    from reflector.reflection.protocol import trouble_of
    from reflector.reflection.standing import citations

    open_ = [
        Waiting(one.name, short, one.reason if one.verdict else "nobody judged it", command("judge", short))
        for one in citations(ledger)
        for short in [(one.session_id or "")[:8]]
    ]
    proposed = [
        Waiting(one.id[:8], one.origin, f"{one.change.line} ({one.reason})", command("proposals approve", one.id[:8]))
        for one in proposals(ledger)
    ]
    failed = [
        Waiting(trouble.stage, short, str((trouble.last.data or {}).get("message")), command("reflect", short))
        for one in reversed(ledger.windows_in("failed", "given_up"))
        if (trouble := trouble_of(ledger.targeting(one.event_id))) is not None
        for short in [(one.session_id or "")[:8]]
    ]
    return {
        "undecided citations": Wait(len(open_), command("judge"), open_[:MOST_ROWS]),
        "proposals": Wait(len(proposed), command("proposals decide"), proposed[:MOST_ROWS]),
        "failures": Wait(len(failed), command("reflect"), failed[:MOST_ROWS]),
    }
