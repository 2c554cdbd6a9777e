"""The sections of a report, from the answers of `audit` and its neighbours.

Invariant: each number is one that a command prints with `--json` for the same moment. So this
module computes only sums and sizes, and a template computes nothing. Texts are exactly those of the
ledger, and `html` prepares them for the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reflector.audit.blame import Step
from reflector.audit.difference import CAME_AND_WENT, Changed, difference
from reflector.audit.moments import span_of
from reflector.audit.overruled import by_judge, overruled
from reflector.audit.stats import Stats, ledger_stats, weeks
from reflector.audit.worked import WorkedModels
from reflector.embed.lessons.book import lesson_book
from reflector.ledger.answers import Group
from reflector.ledger.as_of import Past
from reflector.playbook.evidence import HARMS
from reflector.playbook.ranking import pinned_names
from reflector.report.memory import memory_of
from reflector.report.rules import Rule, rules_of, steps_of, texts_of
from reflector.report.summary import summary_of
from reflector.report.waits import Command, waiting
from reflector.trials.trial import TrialStatus, current_status, trial_place, trials

if TYPE_CHECKING:
    from reflector.audit.checked import Checked, CheckedLine
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: The most rows of a table, rules on the page, and links in each list of rules.
MOST_ROWS: Final = 30
MOST_RULES: Final = 1_000
MOST_LINKS: Final = 8
_DAYS: Final = 7


class Context(NamedTuple):
    """The rules that sessions were shown.

    shown    those that took the most context come first
    uncited  rules of `shown` that no session cited
    wasted   rules that `after` sessions were shown and that none cited or followed. Bans and
             pinned rules are not included; none if `after` is 0
    """

    shown: Sequence[Rule]
    uncited: Sequence[Rule]
    wasted: Sequence[Rule]
    after: int


class Trial(NamedTuple):
    """The trial, and the time at which it was stopped; None if it was not stopped."""

    status: TrialStatus
    stopped: str | None


class Page:
    """The report of the present or of a past moment.

    position   of the last event; `chain` is its hash, and "" for a past moment
    at         the time at which the last event was recorded
    since      the moment from which changes are counted, as the user gave it
    changes    the rules that changed; those with a change other than their counts come first
    known      the number of sessions with a recorded outcome in `weeks`
    overruled  the verdicts of judges that the user replaced, newest first
    lost       the number of these verdicts by judge
    checks     the findings of `check`
    asked      the lines that a judge was asked about; those with the most evidence come first
    rules      every live rule, the best first
    shown      the rules that the page contains: the first ones, and those that its lists link to
    harming    the most harmful first
    waiting    None for a past moment, because nothing waits in the past
    months     the cost of judging by month, the oldest first
    memory     changes of the files in which agents find their memory and rules
    summary    the text that the command prints
    broken     the rules that `check` shows first, with their evidence; none for a past moment
    kept       the number of the project's sessions that the agents keep, if the ledger has none
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
        broken: Sequence[Any],
        kept: int,
    ) -> None:
        """Read the report of a ledger.

        listed  the live rules as `list --json` has them, in the order of the page
        since   the moment from which changes are counted; None for seven days before

        Raises:
            UnknownReference: `since` does not name a moment.
            LedgerError: the ledger cannot be read.
        """
        then = past or Past(ledger)
        config = project.config
        self.project = project.root.name
        self.command = command
        self.broken = broken
        self.kept = kept
        self.is_past = past is not None
        self.position = then.position
        self.counting = then.counting
        self.chain = "" if self.is_past else ledger.head().chain
        self.at = _last_time(ledger, then)
        week_ago = datetime.fromisoformat(self.at) - timedelta(days=_DAYS)
        self.since = since or f"{week_ago:%Y-%m-%dT%H:%MZ}"
        after, _ = span_of(ledger, f"{self.since}..{then.position}")
        self.rules = rules_of(listed, checked, config.finding_rates)
        self.checks = checked
        self.asked = _asked(checked)
        pinned = pinned_names(config.pinned, then.rows())
        self.context = _context(self.rules, {*pinned, *_useful(self.asked)}, config.prune_after)
        self.contested = [rule for rule in self.rules if rule.is_contested]
        self.harming = [rule for rule in reversed(self.rules) if rule.is_harming]
        lists = (self.contested, self.harming, self.context.wasted)
        linked = (rule for rules in lists for rule in rules[:MOST_LINKS])
        names = {rule.row.name for rule in chain(self.rules[:MOST_RULES], linked)}
        shown = [rule for rule in self.rules if rule.row.name in names]
        # For `overruled`, these are also the steps of other rules.
        steps = steps_of(ledger, then, names)
        self.shown = _with_history(ledger, then, shown, steps)
        self.changes = sorted(_changes(ledger, after, then), key=_most_changed)
        self.weeks = weeks(ledger, then)
        self.known = sum(week.sum("known") for week in self.weeks)
        self.waiting = None if self.is_past else waiting(ledger, command)
        self.overruled = overruled(steps)
        self.lost = by_judge(self.overruled)
        self.stats = ledger_stats(ledger, past)
        self.months = _months(self.stats)
        self.worked = WorkedModels(ledger, past).models(self.stats.sessions)
        lessons = lesson_book(past or ledger)
        self.lessons = sorted(lessons, key=lambda lesson: -lesson.effectiveness)
        self.trial = _trial(ledger, project, past)
        self.memory = memory_of(project, ledger, after, then.position, is_past=self.is_past)
        self.summary = summary_of(ledger, then, self.since, after)

    @property
    def anchors(self) -> set[str]:
        """The names of the rules that the page contains."""
        return {rule.row.name for rule in self.shown}


def _last_time(ledger: Ledger, then: Past) -> str:
    """Return the time at which the last event of a moment was recorded."""
    last = ledger.at([then.position])
    return last[0].recorded_at if last else ledger.head().recorded_at


def _with_history(
    ledger: Ledger, then: Past, rules: Sequence[Rule], steps: Mapping[str, Sequence[Step]]
) -> list[Rule]:
    """Return the rules with their steps and texts."""
    texts = texts_of(ledger, then)
    return [rule._replace(steps=steps[rule.row.name], texts=texts[rule.row.name]) for rule in rules]


def _changes(ledger: Ledger, after: int, then: Past) -> Iterator[Changed]:
    """Yield the changes since a position, without the rules that came, went and were not judged."""
    for changed in difference(ledger, after, then.position).bullets:
        if changed.change != CAME_AND_WENT or changed.sessions:
            yield changed


def _most_changed(changed: Changed) -> tuple[bool, int]:
    moved = sum(abs(session.helpful) + abs(session.harmful) for session in changed.sessions)
    return changed.change == "counted", -moved


def _asked(checked: Checked | None) -> list[CheckedLine]:
    """Return the lines that a judge was asked about; those with the most evidence come first."""

    def known(line: CheckedLine) -> float:
        return max(line.followed.evidence, line.helped.evidence, line.sessions / 1e6)

    lines = checked.lines if checked is not None else ()
    return sorted((line for line in lines if line.sessions), key=known, reverse=True)


def _context(rules: Sequence[Rule], excused: Collection[str], after: int) -> Context:
    """Return the rules that sessions were shown. An excused rule never counts as wasted."""
    shown = sorted(
        (rule for rule in rules if rule.row.told_sessions),
        key=lambda rule: (-rule.context, rule.row.name),
    )
    uncited = [rule for rule in shown if not rule.row.cited]
    wasted = [
        rule
        for rule in uncited
        if 0 < after <= rule.row.told_sessions and not rule.is_ban and rule.row.name not in excused
    ]
    return Context(shown, uncited, wasted, after)


def _useful(asked: Sequence[CheckedLine]) -> Iterator[str]:
    """Yield the names of the rules that sessions followed or found helpful, according to checks."""
    for line in asked:
        answers = (line.followed, line.helped)
        if any((of.share or 0) > 0.5 and of.evidence >= HARMS for of in answers):
            yield line.name


def _months(stats: Stats) -> list[Group]:
    months: dict[str, Group] = {}
    for day in stats.groups["day"]:
        months.setdefault(day.key[:7], Group(day.key[:7])).add(day)
    return list(months.values())


def _trial(ledger: Ledger, project: Project, past: Past | None) -> Trial | None:
    """Return the trial of now or of a past, with the time at which it was closed; None if there is
    none.
    """
    place = trial_place(project) if past is None else None
    upto = past.position if past is not None else None
    status = current_status(ledger, place, upto)
    if status is None:
        return None
    closed = (trial.closed for trial in trials(ledger, upto) if trial.opened.event_id == status.id)
    event = next(closed, None)
    return Trial(status, event.recorded_at if event is not None else None)
