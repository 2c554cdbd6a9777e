"""The page's facts, collected from other packages: lines of files, births of lines, free counts,
and answers of judges.

Invariant: only this module of `check` uses those packages. A page never shows a count that was not
made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from reflector.audit.checked import Checked, CheckedLine, checked_lines
from reflector.check.counting import Counted, RuleCount, counts_of
from reflector.check.facts import (
    Answers,
    FileFacts,
    HeadingFacts,
    PageFacts,
    Reminder,
    Repeated,
    RuleFacts,
)
from reflector.check.plan import Look
from reflector.check.project_files import last_edit, missing_paths
from reflector.check.results import Began, results
from reflector.counts.occasions import names_case
from reflector.counts.repeated import Repeated as CountedSentences
from reflector.counts.rules import Rule, rule_of
from reflector.counts.sentences import topics_of
from reflector.events import event as ev
from reflector.events.event import time_of
from reflector.instructions.kind import Kind
from reflector.ledger.store import Ledger
from reflector.playbook_files.watching import PLAYBOOK, Advice, Line, watching
from reflector.project import Project
from reflector.reflection.checking import unanswered
from reflector.sessions import checks
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.text.secrets import quote
from reflector.text.words import context_tokens
from reflector.transcripts.heads import branch_in

#: The most characters of a sentence that are shown.
_MOST_QUOTED = 300


def _count_lines(project: Project, lines: Sequence[Line], look: Look) -> Counted:
    """Return the free counts of the lines of a project."""
    lines_by_key = {counted_rule(line).key: line for line in lines if line.is_rule}
    births = look.births.as_written(lines)

    def state_of(rule: Rule, began: datetime) -> str:
        return births.state_of(lines_by_key[rule.key], began).value

    return counts_of(project, rules_to_count(lines), look.sessions, state_of, look.typed)


def rules_to_count(lines: Sequence[Line]) -> list[Rule]:
    """Return lines in the form for counting.

    Facts come first, so that a rule with the same words wins.
    """
    return [counted_rule(line) for line in sorted(lines, key=lambda line: line.is_rule)]


def counted_rule(line: Line) -> Rule:
    """Return a line in the form for counting.

    A command of a code block gets backquotes, because it has none of its own.
    """
    text = f"`{line.text}`" if line.kind == Kind.COMMAND else line.text
    return rule_of(text, is_fact=not line.is_rule, titles=line.titles, scope=line.scope)


class Judged(NamedTuple):
    """The findings of judges.

    by_line     the finding about each line that a judge was asked about
    sessions    the branch and the start of each session
    unanswered  the number of sessions without an answer that are not asked about again
    """

    checked: Checked
    by_line: Mapping[Line, CheckedLine]
    sessions: Mapping[str, Began]
    unanswered: int


def judged_of(project: Project, lines: Sequence[Line], look: Look) -> Judged:
    """Return the findings of judges about lines.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with checks.open_or_empty(project) as ledger:
        rules = [line for line in lines if line.is_rule]
        watched = watching(ledger, rules, first=project.first_number).lines
        checked = checked_lines(ledger, lines=watched, births=look.births)
        troubles = [trouble for _, trouble in unanswered(ledger)]
        sessions = _began(project, ledger, look.sessions) if checked.sessions else {}
    by_line = {watched[line.name]: line for line in checked.lines}
    attempts = project.config.max_attempts
    return Judged(
        checked, by_line, sessions, sum(trouble.is_over(attempts) for trouble in troubles)
    )


def _began(
    project: Project, ledger: Ledger, files: Sequence[FoundTranscript]
) -> Mapping[str, Began]:
    """Return the branch and the start of each session of a ledger."""
    known = checks.recorded_files(project, ledger)
    branches = {
        session_id: branch_in(file.path)
        for file in files
        if (session_id := known.get((str(file.path), file.bytes)))
    }
    starts: dict[str, datetime] = {}
    for outcome in ledger.events(types=[ev.SESSION_OUTCOME]):
        began = time_of(outcome.facts.get("began")) or time_of(outcome.recorded_at)
        session_id = outcome.session_id or ""
        if began:
            starts[session_id] = min(began, starts.get(session_id, began))
    return {session: Began(branches.get(session, ""), at) for session, at in starts.items()}


def page_facts(
    project: Project,
    advice: Advice,
    look: Look,
    judged: Judged,
) -> PageFacts:
    """Return the facts of a page. Sessions without a known start count only in `sessions`."""
    counts = _count_lines(project, advice.lines, look)
    missing = missing_paths(project.root, (line.text for line in advice.rules))
    rules = [
        _rule(line, counts.by_rule[counted_rule(line).key], judged, missing)
        for line in advice.rules
    ]
    result_by_place = results(rules, judged.sessions)
    starts = [*filter(None, counts.starts)]
    edited = last_edit(project.root, [name for name in advice.files if name != PLAYBOOK])
    since_edit = None
    if edited and starts:
        since_edit = sum(start >= edited for start in starts)
    return PageFacts(
        files=tuple(_file(name, advice) for name in advice.files),
        rules=tuple(replace(rule, result=result_by_place.get(rule.place, "")) for rule in rules),
        facts=tuple(_headings(advice.lines, counts.used)),
        repeated=tuple(_repeated(row, rules) for row in counts.repeated),
        sessions=len(counts.starts),
        first=min(starts).astimezone().date() if starts else None,
        since_edit=since_edit,
        agent=_agent_of(look.sessions),
    )


def _repeated(row: CountedSentences, rules: Sequence[RuleFacts]) -> Repeated:
    about = [rule for rule in rules if row.topic in topics_of(rule.text)]
    places = tuple(rule.place for rule in sorted(about, key=lambda rule: len(rule.text)))
    said = {session: quote(words, _MOST_QUOTED) for session, words in row.said.items()}
    words = [*said.values()]
    shown = min(words, key=len) if row.topic else words[0]
    return Repeated(shown, len(said), row.topic, places, said)


def _agent_of(sessions: Sequence[FoundTranscript]) -> str:
    names = {checks.reader_of(file).name for file in sessions}
    if len(names) != 1:
        return "an agent" if names else "your agent"
    return next(iter(names)).removesuffix(" Code").removesuffix(" CLI")


def _file(name: str, advice: Advice) -> FileFacts:
    kinds = Counter(line.is_rule for line in advice.lines if line.file == name)
    scope = advice.scopes.get(name, ())
    imports = tuple(advice.imports.get(name, ()))
    return FileFacts(name, kinds[True], kinds[False], advice.files[name], tuple(scope), imports)


def _rule(
    line: Line,
    count: RuleCount,
    judged: Judged,
    missing: Mapping[str, str],
) -> RuleFacts:
    """Return the facts about a rule: its counts, your last reminder, and a judge's answers."""
    checked = judged.by_line.get(line)
    said = count.last_said
    at = time_of(said.timestamp) if said else None
    # Below a heading that names a case, such as "When you release", counts cannot show whether a
    # call was in that case. Below "Before you commit", only the calls at this occasion are counted.
    is_in_unknown_case = names_case(line.heading) and not count.counting.rule.occasion_title
    return RuleFacts(
        place=line.place,
        text=line.text,
        heading=line.heading,
        tokens=context_tokens(line.text),
        name=checked.name if checked else None,
        since=count.since,
        before=count.before,
        unknown=count.unknown,
        forbids=count.forbids and not is_in_unknown_case,
        has_words=count.has_words and not is_in_unknown_case,
        names_command=count.names_command,
        is_choice=count.is_choice,
        occasion=count.occasion,
        is_before=count.counting.is_before,
        breached=count.in_words(count.breaches),
        ran=count.in_words(count.acts),
        lacks_start=count.lacks_start,
        may_apply=count.may_apply,
        last_said=Reminder(said.words, at.astimezone().date()) if said and at else None,
        missing=missing.get(line.text, ""),
        judged_since=_answers(checked),
        judged_before=Answers(followed=checked.followed_before) if checked else Answers(),
        judged=checked,
    )


def _answers(checked: CheckedLine | None) -> Answers:
    """Return the answers of the sessions that started with a line."""
    if checked is None:
        return Answers()
    return Answers(checked.sessions, checked.relevant, checked.follows, checked.helps)


def _headings(lines: Sequence[Line], used: Mapping[int, set[str]]) -> Iterator[HeadingFacts]:
    """Yield the facts below each heading, with the number of sessions that used one of them."""
    by_heading: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if not line.is_rule:
            key = line.file, line.heading
            by_heading.setdefault(key, []).append(line)
    for (_, heading), facts in by_heading.items():
        tokens = sum(context_tokens(line.text) for line in facts)
        by_fact = [used.get(counted_rule(line).key) for line in facts]
        sessions = len(set().union(*filter(None, by_fact)))
        is_known = sessions > 0 or None not in by_fact
        place = facts[0].place
        yield HeadingFacts(place, heading, len(facts), tokens, sessions if is_known else None)
