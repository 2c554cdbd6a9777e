"""What a report says: the answers of `audit` and its neighbours, side by side.

Invariant: each number is one that a command prints with `--json` for the same moment, so none is
computed here but sums and sizes, and none in a template. Texts are as the ledger has them; `html`
makes them fit to be seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reflector.audit.blame import Step, blame_bullets
from reflector.audit.difference import difference
from reflector.audit.moments import span_of
from reflector.audit.stats import ledger_stats, weeks
from reflector.embed.lessons.book import lesson_book
from reflector.events import event as ev
from reflector.events.state import REDACTED
from reflector.ledger.answers import Group
from reflector.ledger.as_of import Past
from reflector.ledger.usage import usage_at
from reflector.playbook.evidence import HARMS, against
from reflector.text.words import context_tokens
from reflector.trials.trial import standing, trial_place

if TYPE_CHECKING:
    from reflector.audit.checked import Checked
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: Counts of a bullet, and rows of a table, that the page has. What is more is one line with a
#: command.
MOST_COUNTS: Final = 20
MOST_ROWS: Final = 30
#: Bullets that a reader may open, and those of each list that leads to them.
MOST_BULLETS: Final = 1_000
MOST_LINKS: Final = 8
_DAYS: Final = 7

#: A command as a person types it, of its words.
Command = Callable[..., str]
#: All of a kind that waits for a decision: how much, the command for all of it, and of the newest
#: what each is, its session or origin, what is known, and the command that decides it.
Wait = tuple[int, str, list[tuple[str, str, str, str]]]


class Told:
    """A live bullet.

    row     as `list --json` has it
    cited   in how many sessions it was cited
    steps   every step of its counters as `blame` has it; `newest` the last one first, and how many
            are `earlier`
    texts   since when it had each text, by whom, and the text, oldest first
    is_contested  sessions say both, and half and half lies within its interval
    is_harming    too often for chance, as `review find` has it
    marks   what stands beside its text, with the kind of each
    tokens  about how many its line takes, `context` in all sessions that were told it
    """

    def __init__(
        self, row: Any, cited: int, steps: list[Step], texts: list[tuple[str, str, str]]
    ) -> None:
        self.row, self.cited, self.steps, self.texts = row, cited, steps, texts
        self.newest = steps[-MOST_COUNTS:][::-1]
        self.earlier = max(0, len(steps) - MOST_COUNTS)
        good = row.judged * (row.share or 0)
        self.is_contested = min(row.helpful, row.harmful) > 0 and row.low < 0.5 < row.high
        self.is_harming = against(good, row.judged - good) >= HARMS
        marks = (
            ("harmful too often for chance" if self.is_harming else "", "bad"),
            ("contested" if self.is_contested else "", "warn"),
            (row.demoted, "plain"),
            (f"not followed {row.not_followed}×" if row.not_followed else "", "plain"),
        )
        self.marks = [(mark, kind) for mark, kind in marks if mark]
        self.tokens = context_tokens(row.bullet.line)
        self.context = self.tokens * (row.told_sessions or 0)


class Page:
    """The report of now or of a moment.

    since      what the changes are counted from, as it was asked for; those that are more than
               counts come first
    known      the sessions whose outcome is recorded
    overruled  verdicts of judges on which a person gave another, the newest first; `lost` how many,
               by judge
    waiting    by its kind; None for a moment: nothing waits in the past
    checked    what `check` found of each line; None where nobody checked; `asked` the lines that a
               judge was asked about, those first of which most is known
    harming    the bullets that harm, the most harmful first
    told       the bullets that sessions were told, what filled most of the context first; `idle`
               those that no session cited; `useful` what a check found of each that was followed or
               helped; `wasted` the other idle ones
    shown      the bullets that the page has: the first ones, and those that its lists lead to;
               `anchors` their names
    months     what judging took by month, the days of `stats` added up, the oldest first
    """

    def __init__(
        self,
        ledger: Ledger,
        past: Past | None,
        listed: Sequence[Any],
        checked: Checked | None,
        *,
        project: Project,
        command: Command,
        since: str | None,
    ) -> None:
        """Ask the ledger everything.

        listed  the live bullets as `list --json` has them, in the order of the page
        since   the moment that changes are counted from; None for seven days before
        Raises UnknownReference, LedgerError.
        """
        then = past or Past(ledger)
        self.project, self.command, self.checked = project.root.name, command, checked
        self.is_past, self.position, self.counting = past is not None, then.position, then.counting
        self.chain = "" if past is not None else ledger.head().chain
        self.at = next(
            (one.recorded_at for one in ledger.at([then.position])), ledger.head().recorded_at
        )
        self.since = (
            since or f"{datetime.fromisoformat(self.at) - timedelta(days=_DAYS):%Y-%m-%dT%H:%MZ}"
        )
        self.stats = ledger_stats(ledger, past)
        used = usage_at(ledger, past.position if past is not None else None).bullets
        steps, texts = blame_bullets(ledger, [*then.entries], then), _texts(ledger, then)
        self.bullets = [
            Told(row, used[row.name].cited, steps[row.name], texts[row.name]) for row in listed
        ]
        self.changes = sorted(
            difference(ledger, *span_of(ledger, f"{self.since}..{then.position}")).bullets,
            key=lambda one: (
                one.change == "counted",
                -sum(abs(of.helpful) + abs(of.harmful) for of in one.sessions),
            ),
        )
        self.weeks = weeks(ledger, then)
        self.known = sum(week.sum("known") for week in self.weeks)
        overruled = {step.position: step for of in steps.values() for step in _overruled(of)}
        self.overruled = [step for _, step in sorted(overruled.items(), reverse=True)]
        self.lost = Counter(step.model or step.backend for step in self.overruled)
        self.waiting = None if past is not None else _waiting(ledger, command)
        self.trial = standing(ledger, trial_place(project) if past is None else None, then.position)
        self.lessons = sorted(lesson_book(past or ledger), key=lambda one: -one.effectiveness)
        self.asked = sorted(
            (one for one in (checked.lines if checked is not None else ()) if one.sessions),
            key=lambda one: -max(one.followed.evidence, one.helped.evidence, one.sessions / 1e6),
        )
        self.useful = {
            one.name: one.result
            for one in self.asked
            if any(of.yes > of.no and of.evidence >= HARMS for of in (one.followed, one.helped))
        }
        self.contested = [one for one in self.bullets if one.is_contested]
        self.harming = [one for one in reversed(self.bullets) if one.is_harming]
        told = (one for one in self.bullets if one.row.told_sessions)
        self.told = sorted(told, key=lambda one: (-one.context, one.row.name))
        self.idle = [one for one in self.told if not one.cited]
        self.wasted = [one for one in self.idle if one.row.name not in self.useful]
        linked = [
            *self.contested[:MOST_LINKS],
            *self.harming[:MOST_LINKS],
            *self.wasted[:MOST_LINKS],
        ]
        linked += [one for one in self.idle if one.row.name in self.useful]
        self.anchors = {one.row.name for one in [*self.bullets[:MOST_BULLETS], *linked]}
        self.shown = [one for one in self.bullets if one.row.name in self.anchors]
        months: dict[str, Group] = {}
        for day in self.stats.groups["day"]:
            months.setdefault(day.key[:7], Group(day.key[:7])).add(day)
        self.months = [*months.values()]


def _overruled(steps: Sequence[Step]) -> list[Step]:
    said = {
        (one.name, one.session_id): one.tag
        for one in steps
        if one.backend == ev.HUMAN and one.disposition != "retracted"
    }
    gone = (one for one in steps if one.backend != ev.HUMAN and one.disposition == "retracted")
    return [
        one
        for one in gone
        if one.uncounted_by
        and one.uncounted_by.actor == ev.HUMAN
        and said.get((one.name, one.session_id), one.tag) != one.tag
    ]


def _texts(ledger: Ledger, then: Past) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    types = (ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED, ev.BULLET_MERGED)
    for event in ledger.events(types=types, upto=then.position):
        data = event.data or {}
        for one in data.get("bullets", ()) if event.type == ev.PLAYBOOK_IMPORTED else (data,):
            text, of = str(one.get("text", REDACTED)), found[str(one.get("name"))]
            if not of or of[-1][2] != text:
                of.append((event.recorded_at, event.actor, text))
    return found


def _waiting(ledger: Ledger, command: Command) -> dict[str, Wait]:
    from reflector.changes.propose import read_proposals
    from reflector.reflection.standing import citations
    from reflector.reflection.trouble import trouble_of

    open_ = [
        (
            one.name,
            short,
            one.reason if one.verdict else "nobody judged it",
            command(f"review --session {short}"),
        )
        for one in citations(ledger)
        for short in [(one.session_id or "")[:8]]
    ]
    proposed = [
        (
            one.id[:8],
            one.origin,
            f"{one.change.line} ({one.reason})",
            command("review approve", one.id[:8]),
        )
        for one in read_proposals(ledger)
    ]
    failed = [
        (
            trouble.stage,
            short,
            str((trouble.last.data or {}).get("message")),
            command("reflect", short),
        )
        for one in reversed(ledger.windows_in("failed", "given_up"))
        if (trouble := trouble_of(ledger.targeting(one.event_id))) is not None
        for short in [(one.session_id or "")[:8]]
    ]
    of = {
        "undecided citations": (open_, "review"),
        "proposals": (proposed, "review"),
        "failures": (failed, "reflect"),
    }
    return {kind: (len(found), command(by), found[:MOST_ROWS]) for kind, (found, by) in of.items()}
