"""The first verdicts: after a user allowed a judge, a background drain asks about their rules in
the last sessions that started with these rules.

Invariant: only a user's answer in a terminal creates this order. The order is in the user's own
folder, so no repository can bring one. It keeps to the limits of automatic questions. One process
at a time works on it. A killed process leaves the order, and the next drain continues with the
sessions that have no answer. An order ends with its last session, when the user withdraws the
answer, or after `_MOST_TRIES` runs that left sessions unanswered though the budgets allowed more.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from reflector.events import event as ev
from reflector.events.event import Event, identity
from reflector.events.sessions import quoted_in
from reflector.judges import consent
from reflector.judges.agent_clients import most_at_once
from reflector.judges.registry import backend_of, judge_of
from reflector.ledger.store import Ledger
from reflector.locate import environment
from reflector.playbook_files.births import births_of
from reflector.playbook_files.watching import (
    PLAYBOOK,
    Line,
    loaded_advice,
    playbook_lines,
    watching,
)
from reflector.project import Project
from reflector.reflection.checking import MODE, ROOM, WORST_FIRST, verdicts_in
from reflector.reflection.gate import Gate, waiting_for_budget, waiting_words
from reflector.sessions import checks, locks
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.sessions.last_session import leave_first
from reflector.sessions.order import Order, keep_order, live_order, remove_order
from reflector.text.bounds import clean
from reflector.text.phrases import counted
from reflector.transcripts.readers import option_of

_MOST_SESSIONS = 10
_MOST_FILES = 1000
_MOST_TRIES = 5
#: Seconds that a question takes, for an estimate.
_SECONDS = 30
_MOST_QUOTE = 60
_MOST_RULES = 3


class DueReading(NamedTuple):
    """The sessions of a first reading, the number of its rules, the files that contain them, and an
    estimate in minutes.
    """

    sessions: Sequence[FoundTranscript]
    rules: int
    files: Sequence[str]
    minutes: int


def due_reading(project: Project) -> DueReading | None:
    """Return the first reading that a project would get. None if nothing is left to read or no
    judge may read it. Nothing is written or sent.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    config = project.config
    if not config.asks_model or not Gate(config, project.root).lets_start():
        return None
    with checks.open_or_empty(project) as ledger:
        rules = _rules(project, ledger)
        if not rules:
            return None
        births = births_of(project.root, rules, project.own_dir)
        known = checks.recorded_files(project, ledger)
        files = checks.project_sessions(project, known, most=_MOST_FILES, since=0.0, each=iter)
        files = [file for file in checks.readable(project, files) if _may_be_read(project, file)]
        lines = watching(ledger, rules, first=project.first_number).lines
        asked = checks.asked_sessions(ledger, files, known, lines, births, most_before=0)
        due = checks.questions(ledger, asked[:_MOST_SESSIONS], known, judge_of(config))
    sessions = [file for file, _ in due]
    if not sessions:
        return None
    at_once = most_at_once(_judge_of(project, file) for file in sessions)
    # The judge reads a few sessions at the same time.
    minutes = math.ceil(len(sessions) * _SECONDS / (60 * at_once))
    sources = ("the playbook" if rule.file == PLAYBOOK else rule.file for rule in rules)
    return DueReading(sessions, len(rules), tuple(dict.fromkeys(sources)), minutes)


def _rules(project: Project, ledger: Ledger) -> list[Line]:
    """Return the rules of the files that agents load, then those of the playbook."""
    advice = loaded_advice(project.root)
    in_playbook = playbook_lines(ledger, advice.lines, first=project.first_number)
    return [*advice.rules, *in_playbook]


def _judge_of(project: Project, file: FoundTranscript) -> str:
    """Return the name of a session's judge."""
    config = project.config
    if config.backend != "agent":
        return config.backend
    return config.judge_client or option_of(checks.reader_of(file))


def _may_be_read(project: Project, file: FoundTranscript) -> bool:
    """Return whether the user allowed the judge of a session."""
    is_agent = project.config.backend == "agent"
    return not is_agent or _judge_of(project, file) in consent.agreed_clients()


def start(project: Project, due: DueReading) -> None:
    """Leave an order, and start a drain in the background that carries it out.

    Raises: OSError.
    """
    paths = tuple(str(file.path) for file in due.sessions)
    keep_order(project.root, Order(paths, paths, consent.chosen().id, time.time()))
    if environment("REFLECTOR_NO_SPAWN") == "1" or not sys.executable:
        return
    words = ["-I", "-m", "reflector", "--project", str(project.root), "drain", "--background"]
    null = subprocess.DEVNULL
    subprocess.Popen(
        [sys.executable, *words],
        stdin=null,
        stdout=null,
        stderr=null,
        cwd="/",
        start_new_session=True,
    )


def carry_out(project: Project) -> checks.Ran | None:
    """Carry out the order of a project. None if it has no order, its settings ask no model, another
    process is at it, or the budgets allow no question now.

    Raises: as `drain_project` does.
    """
    if live_order(project.root) is None or not project.config.asks_model:
        remove_order(project.root)
        return None
    with locks.held(project.make_state_dir(), "first.lock", wait=False) as is_held:
        order = live_order(project.root) if is_held else None
        if order is None or not _is_wanted(project.root):
            return None
        with checks.open_or_empty(project) as ledger:
            if closed := Gate(project.config, project.root).closed(ledger):
                _leave_words(project, ledger, order, closed, answered=False)
                return None
        return _read(project, order)


def carry_out_for_hook(project: str) -> None:
    """Carry out the order of a project in the background; an error leaves the order as it is."""
    with suppress(Exception):
        carry_out(Project.at(Path(project).absolute()))


def _read(project: Project, order: Order) -> checks.Ran:
    """Ask about the sessions of an order. Then keep the order for the sessions without an answer,
    or remove it. A run that a budget stopped does not count as a try.
    """
    config = replace(project.config, request_tokens=min(ROOM, project.config.request_tokens))
    with checks.open_or_empty(project) as ledger:
        rules = _rules(project, ledger)
        known = checks.recorded_files(project, ledger)
    found = checks.project_sessions(project, known, most=_MOST_FILES, since=0.0, each=iter)
    files = [file for file in found if str(file.path) in order.left and _may_be_read(project, file)]
    subject = checks.Subject(rules, births_of(project.root, rules, project.own_dir))
    gate = Gate(config, project.root)
    asking = checks.Asking(
        most=len(files) * 10 or 1,
        at_once=most_at_once(_judge_of(project, file) for file in files),
        keeps_limits=True,
        most_before=0,
    )
    ran = checks.check_sessions(
        project,
        backend_of(config, project.root),
        files,
        subject,
        asking,
        lambda _: None,
        # A session that is recorded but not asked about would wait for the next day.
        lambda: _is_wanted(project.root) and not gate.left_of_day(),
    )
    with project.open_ledger() as ledger:
        closed = gate.closed(ledger) or next(filter(waiting_words, ran.notes), "")
        left = tuple(map(str, _unanswered(project, ledger, files, subject)))
        _leave_words(project, ledger, order, closed if left else "", answered=ran.answered > 0)
    tries = order.tries + (0 if closed else 1)
    if not _is_wanted(project.root) or not left or tries == _MOST_TRIES:
        remove_order(project.root)
    else:
        keep_order(project.root, order._replace(left=left, tries=tries))
    return ran


def _unanswered(
    project: Project, ledger: Ledger, files: Sequence[FoundTranscript], subject: checks.Subject
) -> list[Path]:
    """Return the transcripts without an answer, including sessions that wait for the verdicts on
    their citations.
    """
    known = checks.recorded_files(project, ledger)
    lines = watching(ledger, subject.lines, first=project.first_number).lines
    asked = checks.asked_sessions(ledger, files, known, lines, subject.births, most_before=0)
    questions = checks.questions(ledger, asked, known, judge_of(project.config))
    due = {file.path for file, _ in questions}
    for_budget = {window.session_id for window in waiting_for_budget(ledger)}
    for file, _ in asked:
        session_id = known.get((str(file.path), file.bytes), "")
        if session_id in for_budget or checks.waits_for_verdicts(ledger, session_id):
            due.add(file.path)
    return sorted(due)


def _is_wanted(root: Path) -> bool:
    """Return whether the order exists and a judge may read, by the present settings."""
    project = Project.at(root)
    config = project.config
    is_agent = config.backend == "agent"
    may_judge = config.asks_model and (not is_agent or bool(consent.agreed_clients()))
    return may_judge and Gate(config, root).lets_start() and live_order(root) is not None


class _Finding(NamedTuple):
    """A verdict on a rule in a session of the order, with its quote."""

    session_id: str
    quote: str


class _Found(defaultdict[str, list[_Finding]]):
    """The findings about one rule, by verdict."""

    @property
    def rank(self) -> tuple[int, int]:
        return -self.count("harmed"), -self.count("not followed")

    def count(self, verdict: str) -> int:
        """Return the number of sessions with a verdict."""
        return len({finding.session_id for finding in self.get(verdict, ())})

    def worst_in_words(self, name: str) -> str:
        """Return the worst verdict on the rule with this name as text, with its newest quote."""
        verdict = next(verdict for verdict in WORST_FIRST if self.get(verdict))
        newest_first = reversed(self[verdict])
        quote = next((finding.quote for finding in newest_first if finding.quote), "")
        words = f"{name} {verdict} in {counted(self.count(verdict), 'session')}"
        return f"{words} (“{quote}”)" if quote else words


def _leave_words(
    project: Project, ledger: Ledger, order: Order, closed: str, *, answered: bool
) -> None:
    """Leave the line of the next start: the rules with verdicts, harmful ones first, and the time
    at which a closed budget lets the reading continue.
    """
    known = checks.recorded_files(project, ledger)
    session_ids = {id for (path, _), id in known.items() if path in order.sessions}
    readings = {
        event.reflection_id: event
        for event in ledger.events(types=[ev.REFLECTION_COMPLETED])
        if event.session_id in session_ids
        and event.fact("mode") == MODE
        and not ledger.retracted(event.event_id, event.target_id or "")
    }
    parts = []
    if readings:
        read = {event.session_id for event in readings.values()}
        parts.append(f"{counted(len(read), 'session')} read: {_verdicts(ledger, readings)}")
    parts += filter(None, [waiting_words(closed)])
    if parts:
        words = ", ".join(parts)
        leave_first(project.root, words, order.since, session_ids, answered=answered)


def _verdicts(ledger: Ledger, readings: Mapping[str | None, Event]) -> str:
    """Return the text about the rules with verdicts."""
    found = _found(ledger, readings)
    ranked = sorted(found.items(), key=lambda row: (row[1].rank, row[0]))
    shown = [rule.worst_in_words(name) for name, rule in ranked[:_MOST_RULES]]
    if len(ranked) > _MOST_RULES:
        shown.append(f"{counted(len(ranked) - _MOST_RULES, 'more rule')}: reflector list")
    return ", ".join(shown) or "no verdict about a rule"


def _found(ledger: Ledger, readings: Mapping[str | None, Event]) -> dict[str, _Found]:
    """Return the findings of these readings that count, by rule."""
    found: dict[str, _Found] = defaultdict(lambda: _Found(list))
    for event in ledger.events(types=[ev.BULLET_CHECKED]):
        tag_id = identity(ev.BULLET_TAGGED, event.reflection_id or "", event.facts["index"])
        if event.reflection_id not in readings or ledger.retracted(event.event_id, tag_id):
            continue
        evidence = quoted_in(readings[event.reflection_id].facts, event.facts)
        finding = _Finding(event.session_id or "", clean(evidence.get("quote", ""), _MOST_QUOTE))
        for verdict in verdicts_in(event):
            found[event.facts["name"]][verdict].append(finding)
    return found
