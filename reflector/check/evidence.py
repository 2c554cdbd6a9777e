"""The sessions behind the counts of one line, each with a line of a call or a sentence of yours.

Invariant: the counts are those of the page: the same sessions, the same words. Each session that
the counts are about is listed, also if nothing of the line came up in it. Quotes are read from the
transcripts each time, masked, and not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain

from reflector.check.adapter import counted_rule, judged_of, page_facts, rules_to_count
from reflector.check.counting import RuleCount
from reflector.check.facts import RuleFacts
from reflector.check.plan import MOST_SESSIONS, Look, Plan
from reflector.check.rows import Speech, category_words, known_words, repeated_row, signals_of
from reflector.check.source import advice_to_check
from reflector.counts.calls import Act, Settled, readable
from reflector.counts.rules import Counting, Marks, PartCounts, RuleSet, rule_set
from reflector.counts.sentences import sentences_of
from reflector.counts.shown import RAN, WROTE, ShownLine, lines_shown
from reflector.counts.sought import Sought
from reflector.events.event import time_of
from reflector.playbook_files.births import Births, LineState, births_of
from reflector.playbook_files.watching import Advice, Line
from reflector.project import Project
from reflector.sessions import checks
from reflector.sessions.counted import counts_beside
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.text.phrases import counted
from reflector.text.secrets import quote
from reflector.text.width import around, broken, cut
from reflector.transcripts.building import plain_text
from reflector.transcripts.heads import is_whole
from reflector.transcripts.message import Message
from reflector.transcripts.readers import kept_files
from reflector.transcripts.reading import open_session

_WIDTH = 80
_MOST_ROWS = 12
_MOST_QUOTED = 2_000
_INDENT = " " * 9
#: The number of first characters of a session's id that are shown.
_ID = 8
_SAID = "you said"
_NOT_DONE = "not done"
_AGAINST = "used"
_TO_LOOK_AT = (_SAID, _NOT_DONE, _AGAINST)


@dataclass(frozen=True, slots=True)
class SessionDeed:
    """A session, and one thing that was counted in it.

    began  its first time as the transcript has it
    deed   such as "ran"; "" if nothing of the line was counted
    words  a line of the call, or your sentence, with the counted `token`
    """

    session: str
    began: str
    deed: str
    words: str
    token: str


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """The counts of a line in the words of `check`, and the sessions of these counts.

    sessions  first those to look at, then those that did it, then those without a sign of it;
              in each group the newest first
    gone      the number of counted sessions whose transcript is gone
    """

    counted: list[str]
    sessions: list[SessionDeed]
    gone: int


@dataclass(slots=True)
class _Session:
    """A session during reading: its counts, and the first words of each mark."""

    counts: PartCounts = field(default_factory=PartCounts)
    words: dict[str, ShownLine] = field(default_factory=dict)
    said: str = ""


def evidence_of(
    project: Project,
    place: str,
    today: date,
    added_at: datetime | None = None,
    *,
    only_seen: bool = False,
) -> LineEvidence | None:
    """Return the counts of a line; None if no rule, fact or command begins there.

    place      FILE:LINE, or the name of a rule of the playbook
    added_at   the time at which the line was added, if it is recorded. The session that wrote the
               line is not evidence
    only_seen  return None also if the line came up in no session that agents still keep

    Raises:
        LedgerError: the ledger cannot be read.
    """
    file = place.rpartition(":")[0]
    advice = _advice_with(project, file)
    lines = advice.lines
    here = [each for each in lines if each.place == place]
    line = next((each for each in here if each.is_rule), here[0] if here else None)
    if line is None:
        return _import_words(file, advice)
    with checks.open_or_empty(project) as ledger:
        known = checks.recorded_files(project, ledger, set(map(str, kept_files())))
    found = checks.project_sessions(project, known, most=MOST_SESSIONS, since=0.0, each=iter)
    births = births_of(project.root, lines, project.own_dir).added_at(line, added_at)
    rules = rule_set(rules_to_count(lines))
    counted = counted_rule(line)
    sessions = _sessions(rules, counted.key, found)
    alone = rules.rules[counted.key]
    deeds = sorted(
        _all_deeds(line, alone, sessions, births.as_written([line])),
        key=lambda each: (not each.deed, each.deed not in _TO_LOOK_AT),
    )
    if only_seen and not any(each.deed for each in deeds):
        return None
    look = Look(found, Plan(""), births)
    in_files = {name: session.counts for name, session in sessions.items()}
    kept = counts_beside(project, in_files, MOST_SESSIONS)
    gone = sum(counted.key in kept[name].rules for name in kept.keys() - sessions)
    if not line.is_rule:
        return LineEvidence([_fact_words(alone, deeds)], deeds, gone)
    facts = page_facts(project, advice, look, judged_of(project, lines, look))
    rule = next(each for each in facts.rules if each.place == line.place)
    words = _summary(rule, Speech(facts.agent, today))
    for repeated in facts.repeated:
        if line.place in repeated.rules:
            row = repeated_row(repeated)
            words += [row.evidence[0].partition(";")[0], *row.quotes]
    return LineEvidence(words, deeds, gone)


def _advice_with(project: Project, file: str) -> Advice:
    """Return the lines that `check` reads, or those of a file that it does not read without its
    name.
    """
    advice = advice_to_check(project, [])
    is_read = not file or any(line.file == file for line in advice.lines)
    return advice if is_read else advice_to_check(project, [project.root / file])


def _import_words(file: str, advice: Advice) -> LineEvidence | None:
    """Return the reason why nothing is counted of a file that only imports others."""
    names = advice.imports.get(file, ())
    if not names or any(line.file == file for line in advice.lines):
        return None
    return LineEvidence([f"nothing, because {file} only imports {', '.join(names)}"], [], 0)


def evidence_lines(evidence: LineEvidence) -> Iterator[str]:
    """Yield evidence in lines of at most 80 columns."""
    lines = (broken(text, _WIDTH - len(_INDENT)) for text in evidence.counted)
    for index, line in enumerate(chain.from_iterable(lines)):
        title = "" if index else "counted"
        yield f"{title:<8} {line}"
    shown = [each for each in evidence.sessions if each.deed]
    yield from map(_row, shown[:_MOST_ROWS])
    if len(shown) > _MOST_ROWS:
        yield f"{_INDENT}and {counted(len(shown) - _MOST_ROWS, 'more session')}"
    silent = [each.session[:_ID] for each in evidence.sessions if not each.deed]
    if shown and silent:
        number = counted(len(silent), "session")
        yield cut(f"{_INDENT}no count in {number}: {', '.join(silent)}", _WIDTH)
    if gone := evidence.gone:
        yield f"{_INDENT}and {counted(gone, 'session')} whose transcript no longer exists"


def _sessions(rules: RuleSet, key: int, found: Sequence[FoundTranscript]) -> dict[str, _Session]:
    """Return the sessions of transcripts with the counts of one rule, oldest first."""
    parts: list[tuple[str, _Session]] = []
    alone = RuleSet([rules.rules[key]])
    for transcript in found:
        with suppress(OSError, ValueError), open_session(transcript.path) as reading:
            part = _Session(PartCounts(is_whole=is_whole(transcript.path)))
            _read(reading, alone, rules, part)
            parts.append((reading.conversation.session_id or transcript.path.stem, part))
    sessions: dict[str, _Session] = {}
    for session_id, part in sorted(parts, key=lambda row: row[1].counts.began):
        session = sessions.setdefault(session_id, _Session())
        session.counts.join(part.counts)
        session.words = part.words | session.words
        session.said = part.said or session.said
    return sessions


def _read(messages: Iterable[Message], alone: RuleSet, rules: RuleSet, session: _Session) -> None:
    """Count a part of a session, and keep the words of each mark.

    alone  only the one rule
    rules  all rules, because they decide together which rule a sentence repeats
    """
    [(key, counting)] = alone.rules.items()

    def show(call: Settled, act: Act, deeds: Sequence[tuple[Sought, int]]) -> None:
        is_command = act.command or act.change
        command = readable(plain_text(call.call.whole.get("command"))) if is_command else ""
        session.words = dict(lines_shown(counting, act, deeds, command)) | session.words

    for message in alone.passing(messages, session.counts, show):
        if not message.chain and message.origin in ("human", "refusal"):
            for sentence in sentences_of(message):
                if key in rules.said_in(sentence):
                    session.said = sentence


def _all_deeds(
    line: Line, counting: Counting, sessions: dict[str, _Session], births: Births
) -> Iterator[SessionDeed]:
    """Yield the deeds of each session that could know a rule or use a fact, newest first. A rule
    without such a session has the deeds of earlier ones.
    """
    key = counting.rule.key
    worked = [
        (session_id, session, began)
        for session_id, session in sessions.items()
        if session.counts.steps
        and (began := time_of(session.counts.began))
        and counting.rule.is_loaded(session.counts.marks.get(key, Marks()))
    ]
    is_fact = not line.is_rule
    knew = [
        each for each in worked if is_fact or births.state_of(line, each[2]) is not LineState.BEFORE
    ]
    for session_id, session, _ in reversed(knew or worked):
        alone = RuleCount(counting)
        alone.add("since", session.counts.marks.get(key, Marks()))
        for deed, words in [*_deeds(alone, session)] or [("", ShownLine())]:
            text = quote(words.line, _MOST_QUOTED)
            yield SessionDeed(session_id, session.counts.began, deed, text, words.word)


def _fact_words(counting: Counting, deeds: Iterable[SessionDeed]) -> str:
    """Return a clause with the number of sessions in which the agent named a fact or a command."""
    words = "mentions cannot be counted"
    if counting.named:
        sessions = {each.session: bool(each.deed) for each in deeds}
        total = counted(len(sessions), "session")
        words = f"the agent named the fact in {sum(sessions.values())} of {total}"
    return f"a fact, so no session can break it; {words}"


def _deeds(alone: RuleCount, session: _Session) -> Iterator[tuple[str, ShownLine]]:
    """Yield the deeds that were counted in a session, each with its words."""
    tally = alone.since
    if session.said:
        yield _SAID, ShownLine(f'"{session.said}"')
    if tally.against:
        ran = session.words.get(f"{RAN} against")
        yield _AGAINST, ran or session.words.get(f"{WROTE} against", ShownLine())
    yield from _deed_asked_for(alone, session)


def _deed_asked_for(alone: RuleCount, session: _Session) -> Iterator[tuple[str, ShownLine]]:
    """Yield what the agent did with the rule's words, or that it did not run a due command."""
    tally = alone.since
    is_due = alone.occasion and alone.names_command
    if is_due and tally.came_up and not (tally.run or tally.against):
        yield _NOT_DONE, session.words.get("occasion", ShownLine())
    elif tally.run or tally.ran or (tally.written and not is_due):
        did = RAN if tally.run or tally.ran else WROTE
        side = "against" if alone.forbids else "named"
        yield did, session.words.get(f"{did} {side}", ShownLine())


def _summary(rule: RuleFacts, speech: Speech) -> list[str]:
    """Return the category and the counts of a rule, in the words of the page."""
    words = [signal.words(rule, speech) for signal in signals_of(rule)]
    words = words or [*filter(None, [category_words(rule)]), *known_words(rule, speech)]
    if rule.unknown.sessions:
        total = counted(rule.counts.sessions, "session")
        words.append(f"{rule.since.sessions} of {total} certainly had the rule at the start")
    return words


def _row(each: SessionDeed) -> str:
    day = datetime.fromisoformat(each.began).astimezone()
    head = f"{day:%d %b %Y}  {each.session[:_ID]}  {each.deed:<8}  "
    return head + around(each.words, each.token, _WIDTH - len(head))
