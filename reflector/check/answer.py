"""The answer of `check`: the page's facts, and all values for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from reflector.audit.checked import Checked, CheckedLine
from reflector.check.adapter import judged_of, page_facts
from reflector.check.elsewhere import sessions_elsewhere
from reflector.check.facts import Counts, HeadingFacts, PageFacts, Reminder, Repeated, RuleFacts
from reflector.check.plan import Look
from reflector.check.rows import Speech, part_of, signals_of
from reflector.playbook.bullet import Bullet
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook_files.watching import Advice
from reflector.project import Project
from reflector.sessions import checks
from reflector.sessions.found_transcripts import compressed_by_agent


@dataclass(frozen=True, slots=True)
class LineJson:
    """A rule and its evidence. `name` and `judged` are null until a judge is asked about it.

    place     its file and line, or the name of a rule of the playbook
    part      of the page: look, followed, never came up, newer than all sessions, needs a judge
    evidence  the words of the page
    since     its counts in sessions that started with it
    before    its counts in sessions from before it existed
    unknown   its counts in the other sessions
    result    of judges, tested together with all other rules; "" without a result
    """

    place: str
    heading: str
    name: str | None
    text: str
    tokens: int
    part: str
    evidence: list[str]
    since: Counts
    before: Counts
    unknown: Counts
    last_said: Reminder | None
    missing: str
    result: str
    judged: CheckedLine | None


@dataclass(frozen=True, slots=True)
class LinesJson:
    """The answer of `check`.

    files      the files with their tokens at each start
    scopes     the patterns of files at which a file is loaded, if it is not loaded at each start
    left_out   text that is not a line, and files and imports that were not read
    sessions   the number of transcripts of the project that were read, by agent
    since_edit  the number of them that began after the last edit of the files; null if unknown
    compressed  the number of transcripts of any project that cannot be read, by agent
    questions  the number of questions left to ask, with at most `tokens` and at `price` in USD;
               `price` is null if it is unknown
    lacks      the command that sets up a judge; null if there is one
    facts      the facts of the files, by heading
    repeated   your sentences that are not in any rule
    unanswered  the number of sessions without an answer that are not asked about again
    found      the findings of judges so far; null if no judge was asked
    """

    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    left_out: list[str]
    sessions: Mapping[str, int]
    since_edit: int | None
    compressed: Mapping[str, int]
    questions: int
    tokens: int
    price: str | None
    lacks: str | None
    lines: list[LineJson]
    facts: list[HeadingFacts]
    repeated: list[Repeated]
    alike: list[Pair]
    failed: list[str]
    unanswered: int
    found: Checked | None


def answer_of(
    project: Project,
    advice: Advice,
    look: Look,
    ran: checks.Ran,
) -> tuple[PageFacts, LinesJson]:
    """Return the facts of the page, and the JSON document."""
    judged = judged_of(project, advice.lines, look)
    facts = page_facts(project, advice, look, judged)
    if not facts.sessions:
        facts = replace(facts, elsewhere=sessions_elsewhere(project.root))
    left = look.plan.total
    document = LinesJson(
        files=advice.files,
        scopes=advice.scopes,
        left_out=[*advice.omitted],
        sessions=Counter(checks.reader_of(file).name for file in look.sessions),
        since_edit=facts.since_edit,
        compressed={title: len(paths) for title, paths in compressed_by_agent().items()},
        questions=left.questions - ran.asked,
        tokens=left.tokens,
        price=None if left.price is None else f"{left.price:.2f}",
        lacks=look.plan.lacks or None,
        lines=[_line(rule, facts) for rule in facts.rules],
        facts=[*facts.facts],
        repeated=[*facts.repeated],
        alike=duplicates(Bullet(line.place, line.section, line.text) for line in advice.rules),
        failed=ran.failed,
        unanswered=judged.unanswered,
        found=judged.checked if judged.checked.requests else None,
    )
    return facts, document


def _line(rule: RuleFacts, facts: PageFacts) -> LineJson:
    speech = Speech(facts.agent, date.today())
    return LineJson(
        place=rule.place,
        heading=rule.heading,
        name=rule.name,
        text=rule.text,
        tokens=rule.tokens,
        part=part_of(rule).value,
        evidence=[signal.words(rule, speech) for signal in signals_of(rule)],
        since=rule.since,
        before=rule.before,
        unknown=rule.unknown,
        last_said=rule.last_said,
        missing=rule.missing,
        result=rule.result,
        judged=rule.judged,
    )
