"""The plan of a check: the judge of each unanswered session, the maximum of tokens and the price.

Invariant: a plan asks no judge and writes nothing. A session goes only to a judge that the user
named or allowed. The price is None if the price of one judge is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.config import APIS, BACKENDS, CONSENT, DEFAULT_API, Config
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES, most_at_once
from reflector.judges.agent_process import client_fault
from reflector.judges.registry import backend_of, described, judge_kind, judge_of, priced
from reflector.playbook_files.births import Births, births_of
from reflector.playbook_files.watching import Line, watching
from reflector.prices import ANSWER_TOKENS
from reflector.project import Project
from reflector.reflection.checking import ROOM
from reflector.sessions import checks
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.text.phrases import counted
from reflector.text.words import context_tokens
from reflector.transcripts.readers import Reader, option_of

#: The command that names an API, if the user has no agent that can judge.
_API_COMMAND = f"export ANTHROPIC_API_KEY=… && reflector check --judge {DEFAULT_API}"
_BYTES_PER_TOKEN = 3


#: The number of sessions that are read without -n.
MOST_SESSIONS = 50


class Typed(NamedTuple):
    """The command as it was typed."""

    files: Sequence[Path] = ()
    most: int = MOST_SESSIONS
    since: datetime | None = None
    judge: str | None = None
    learns: bool = False
    again: bool = False

    def words(self) -> list[str]:
        """Return the words of a command about the same files and sessions."""
        words = ["check", *(quote(str(path)) for path in self.files)]
        if self.most != MOST_SESSIONS:
            words += ["-n", str(self.most)]
        if self.since:
            words += ["--since", f"{self.since:%Y-%m-%d}"]
        return words

    def asking(self, judge: str | None) -> list[str]:
        """Return the words of a command that asks a judge; with None, the judge of the settings."""
        words = self.words()
        if self.learns:
            words.append("--learn")
        if self.again:
            words.append("--retry-failed")
        return [*words, "--judge", quote(judge)] if judge else [*words, "--yes"]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one judge: the ids of its sessions, its questions, its tokens and its price.

    tokens  at most
    price   USD; None if unknown
    """

    sessions: frozenset[str] = frozenset()
    questions: int = 0
    tokens: int = 0
    price: Decimal | None = Decimal(0)

    def joined(self, other: Share) -> Share:
        """Return the sum of both parts."""
        prices = self.price, other.price
        return Share(
            self.sessions | other.sessions,
            self.questions + other.questions,
            self.tokens + other.tokens,
            None if None in prices else sum(filter(None, prices), Decimal(0)),
        )


@dataclass(slots=True)
class Plan:
    """The sessions left to ask about, and the judges of these sessions.

    lacks   the command that sets up a judge; "" if there is one
    files   the transcripts to ask about; none without a judge
    shares  the part of each judge, by its name
    barred  the sessions that their own agent may not judge, by the agent's name as a judge
    """

    lacks: str
    files: list[FoundTranscript] = field(default_factory=list)
    shares: dict[str, Share] = field(default_factory=dict)
    barred: dict[str, set[str]] = field(default_factory=dict)

    @property
    def total(self) -> Share:
        """The sum of all parts. The price is also unknown if nothing is left to ask."""
        return reduce(Share.joined, self.shares.values()) if self.shares else Share(price=None)


class Look(NamedTuple):
    """The transcripts of a project, the plan for asking about them, and the births of the lines.

    sessions  newest first
    plan      only for sessions left to ask about
    births    the time since when each line was in force
    typed     the command that chose the transcripts
    """

    sessions: list[FoundTranscript]
    plan: Plan
    births: Births
    typed: Typed = Typed()


def look_at(
    project: Project,
    lines: Sequence[Line],
    typed: Typed,
    each: Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]],
) -> Look:
    """Return the transcripts that a command is about, and the plan for them.

    `each` is as for `sessions_of`. The plan contains only questions about rules.
    """
    since = typed.since.timestamp() if typed.since else 0.0
    rules = [line for line in lines if line.is_rule]
    with checks.open_or_empty(project) as ledger:
        known = checks.recorded_files(project, ledger)
        sessions = checks.project_sessions(project, known, most=typed.most, since=since, each=each)
        watched = watching(ledger, rules, first=project.first_number).lines
        births = births_of(project.root, lines, project.own_dir)
        readable = checks.readable(project, sessions)
        asked = checks.asked_sessions(ledger, readable, known, watched, births)
        left = checks.questions(ledger, asked, known, judge_of(project.config), again=typed.again)
    return Look(sessions, _planned(project, rules, left), births, typed)


def ask_planned(
    project: Project,
    lines: Sequence[Line],
    look: Look,
    advance: Callable[[Decimal], object],
) -> checks.Ran:
    """Ask the judges as planned. The arguments and errors are as for `checks.check_sessions`."""
    config = replace(project.config, request_tokens=min(ROOM, project.config.request_tokens))
    plan = look.plan
    asking = checks.Asking(
        plan.total.questions, most_at_once(plan.shares), look.typed.learns, look.typed.again
    )
    backend = backend_of(config, project.root)
    rules = [line for line in lines if line.is_rule]
    return checks.check_sessions(
        project, backend, plan.files, checks.Subject(rules, look.births), asking, advance
    )


def _planned(
    project: Project, lines: Sequence[Line], left: Sequence[tuple[FoundTranscript, int]]
) -> Plan:
    """Return the plan for transcripts, each with its number of questions about these lines."""
    config = project.config
    plan = Plan(_lacking(project))
    line_tokens = _BYTES_PER_TOKEN * sum(context_tokens(line.text) for line in lines)
    agreed = consent.askable_clients()
    for file, questions in left:
        reader = checks.reader_of(file)
        judge = _judge_for(config, plan.lacks, reader)
        is_agent = judge not in BACKENDS and judge not in config.judges
        if is_agent and judge not in agreed and not plan.lacks:
            plan.barred.setdefault(judge, set()).add(checks.session_of(file))
            continue
        if not plan.lacks:
            plan.files.append(file)
        most = min(file.bytes // _BYTES_PER_TOKEN + line_tokens, ROOM, config.request_tokens)
        tokens = questions * (most + ANSWER_TOKENS)
        price = priced(config, judge, [most] * questions)
        share = Share(frozenset([checks.session_of(file)]), questions, tokens, price)
        plan.shares[judge] = plan.shares.get(judge, Share()).joined(share)
    return plan


def _lacking(project: Project) -> str:
    """Return the command that sets up a judge; "" if there is one."""
    config = project.config
    lacks = described(config, project.root).way_out if config.asks_model else CONSENT
    return _API_COMMAND if lacks == CONSENT and not consent.installed_clients() else lacks


def _judge_for(config: Config, lacks: str, reader: Reader) -> str:
    """Return the name of the judge for a session that an agent wrote."""
    if config.backend in config.judges or config.backend in APIS:
        return config.backend
    if lacks == _API_COMMAND:
        return DEFAULT_API
    return config.judge_client or option_of(reader)


def judge_title(judge: str) -> str:
    """Return a judge's name for a sentence. A judge of an extension has only its own name."""
    if judge in JUDGES:
        return JUDGES[judge].title
    return judge_kind(judge).title if judge in BACKENDS else judge


def skipped_words(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each agent that cannot judge, with the way out."""
    faults = unfit_agents(plan)
    for fault in faults.values():
        yield f"{fault}. Or choose another judge with --judge NAME."
    for judge, barred in plan.barred.items():
        title = judge_title(judge)
        reason = f"this judge needs your permission. Run `{CONSENT}`, or choose another judge"
        if judge not in JUDGES:
            reason = "this agent cannot judge. Choose another judge"
        if judge not in faults:
            sessions = counted(len(barred), f"{title} session")
            yield f"{title} did not judge {sessions}, because {reason} with --judge NAME."


def unfit_agents(plan: Plan) -> Mapping[str, str]:
    """Return the reasons why the version of an installed agent cannot judge, by the agent's name.

    Agents that may judge are not examined, because an unfit one is refused when it is asked.
    """
    installed = consent.installed_clients()
    lacking = plan.shares if plan.lacks == CONSENT else plan.barred
    faults = {name: client_fault(name, installed[name]) for name in lacking if name in installed}
    return {name: fault for name, fault in faults.items() if fault}
