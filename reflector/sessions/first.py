"""The first verdicts: after a user let a judge in, a drain in the background asks about the rules
that they have, in the last sessions that started with these.

Invariant: only an answer of a user in a terminal orders this, and the order is in the user's own
folder, so no repository can bring one. It keeps to the limits of automatic questions. One process
at a time carries it out. One that is killed leaves the order, and the next drain goes on with
the sessions that have no answer. An order ends with its last session, when no judge is allowed any
more, or after `_MOST_TRIES` runs in which a judge failed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from reflector import handover
from reflector.events import event as ev
from reflector.files import write_durably
from reflector.judges import consent
from reflector.judges.agent_clients import most_at_once
from reflector.judges.registry import backend_of
from reflector.ledger.store import Ledger
from reflector.locate import environment, own_folder
from reflector.playbook_files.births import births_of
from reflector.playbook_files.watching import (
    PLAYBOOK,
    Line,
    advice_of,
    playbook_lines,
    watching,
)
from reflector.project import Project
from reflector.reflection.checking import ROOM
from reflector.reflection.gate import Gate
from reflector.sessions import checks, locks
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.text.bounds import clean
from reflector.transcripts.readers import option_of

_MOST_SESSIONS = 10
_MOST_TRIES = 5
#: Seconds that a question takes, for an estimate.
_SECONDS = 30
_MOST_QUOTE = 60
_MOST_RULES = 3


class Order(NamedTuple):
    """The sessions that are to be read, about so many rules, in about so many minutes; `files`
    names the sources of the rules.
    """

    sessions: Sequence[FoundTranscript]
    rules: int
    files: Sequence[str]
    minutes: int


def order_of(project: Project) -> Order | None:
    """Return the first reading that a project would get; None if there is nothing to read or no
    judge may read it. Nothing is written or sent.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    config = project.config
    gate = Gate(config, project.root)
    if not config.asks_model or not gate.lets_start():
        return None
    with checks.open_or_empty(project) as ledger:
        rules = _rules(project, ledger)
        if not rules:
            return None
        births = births_of(project.root, rules, project.own_dir)
        known = checks.recorded_files(project, ledger)
        files = checks.project_sessions(project, known, most=1000, since=0.0, each=iter)
        files = [file for file in checks.readable(project, files) if _may_be_read(project, file)]
        lines = watching(ledger, rules, first=project.first_number).lines
        asked = checks.asked_sessions(ledger, files, known, lines, births, most_before=0)
    sessions = [session.file for session in asked[:_MOST_SESSIONS]]
    if not sessions:
        return None
    at_once = most_at_once(_judge_of(project, file) for file in sessions)
    minutes = -(-len(sessions) * _SECONDS // (60 * at_once))
    sources = ("the playbook" if rule.file == PLAYBOOK else rule.file for rule in rules)
    return Order(sessions, len(rules), tuple(dict.fromkeys(sources)), minutes)


def _rules(project: Project, ledger: Ledger) -> list[Line]:
    """Return the rules of the files that agents load, then those of the playbook."""
    advice = advice_of(project.root)
    in_playbook = playbook_lines(ledger, advice.lines, first=project.first_number)
    return [*advice.rules, *in_playbook]


def _judge_of(project: Project, file: FoundTranscript) -> str:
    """Return the name of the judge of a session."""
    config = project.config
    if config.backend != "agent":
        return config.backend
    return config.judge_client or option_of(checks.reader_of(file))


def _may_be_read(project: Project, file: FoundTranscript) -> bool:
    """Return whether the judge of a session's agent is one that the user let in."""
    is_agent = project.config.backend == "agent"
    return not is_agent or _judge_of(project, file) in consent.agreed_clients()


def start(project: Project, order: Order) -> None:
    """Leave an order, and start a drain in the background that carries it out. Raises OSError."""
    _keep(project, [str(file.path) for file in order.sessions], tries=0)
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


def _keep(project: Project, paths: Sequence[str], tries: int) -> None:
    project.keep(handover.ORDER, {"sessions": list(paths), "tries": tries})


def cancel(root: Path) -> None:
    """Remove the order of a project, if there is one."""
    with suppress(OSError, ValueError):
        Path(own_folder(str(root)), handover.ORDER).unlink(missing_ok=True)


def _ordered(project: Project) -> tuple[list[str], int] | None:
    """Return the paths of the order, and how often it failed; None if there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        order: Any = project.read_kept(handover.ORDER)
        if order is not None:
            return [str(path) for path in order["sessions"]], int(order["tries"])
    return None


def carry_out(project: Project) -> checks.Ran | None:
    """Carry out the order of a project; None if there is none, or another process is at it.

    Raises as `drain_project` does.
    """
    if _ordered(project) is None:
        return None
    if not project.config.asks_model:
        cancel(project.root)
        return None
    with locks.held(project.make_state_dir(), "first.lock", wait=False) as is_held:
        order = _ordered(project) if is_held else None
        return _read(project, *order) if order is not None else None


def carry_out_for_hook(project: str) -> None:
    """Carry out the order of a project in the background; after an error it is left as it is."""
    with suppress(Exception):
        carry_out(Project.at(Path(project).absolute()))


def _read(project: Project, paths: Sequence[str], tries: int) -> checks.Ran:
    config = replace(project.config, request_tokens=min(ROOM, project.config.request_tokens))
    with checks.open_or_empty(project) as ledger:
        rules = _rules(project, ledger)
        known = checks.recorded_files(project, ledger)
    wanted = set(paths)
    found = checks.project_sessions(project, known, most=1000, since=0.0, each=iter)
    files = [file for file in found if str(file.path) in wanted and _may_be_read(project, file)]
    births = births_of(project.root, rules, project.own_dir)
    # A session that is recorded and not asked about would be asked about by the next drain.
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
        checks.Subject(rules, births),
        asking,
        lambda _: None,
        lambda: _is_wanted(project.root) and not gate.left_of_day(),
    )
    if not _is_wanted(project.root):
        cancel(project.root)
    elif ran.waits or gate.left_of_day():
        _keep(project, paths, tries)
    elif ran.failed and tries + 1 < _MOST_TRIES:
        _keep(project, paths, tries + 1)
    else:
        cancel(project.root)
    with project.open_ledger() as ledger:
        _leave_words(project, ledger, wanted)
    return ran


def _is_wanted(root: Path) -> bool:
    """Return whether the order is there and a judge may read, by the settings of this moment."""
    project = Project.at(root)
    config = project.config
    is_agent = config.backend == "agent"
    may_judge = config.asks_model and (not is_agent or bool(consent.agreed_clients()))
    return may_judge and Gate(config, root).lets_start() and _ordered(project) is not None


class _Found(NamedTuple):
    """The findings about one rule in the sessions of the order: numbers of sessions, and a quote
    of the newest one.
    """

    helped: int = 0
    harmed: int = 0
    broken: int = 0
    quote: str = ""

    def words(self, name: str) -> str:
        if self.harmed:
            verdict = f"harmed in {self.harmed}"
        elif self.broken:
            verdict = f"not followed in {self.broken}"
        else:
            verdict = f"helped in {self.helped}"
        return f"{name} {verdict}" + (f" (“{self.quote}”)" if self.quote else "")


def _leave_words(project: Project, ledger: Ledger, paths: set[str]) -> None:
    """Leave the line of the next start: the rules with verdicts, those that did harm first."""
    known = checks.recorded_files(project, ledger)
    session_ids = {session_id for (path, _), session_id in known.items() if path in paths}
    judged = {
        event.session_id
        for event in ledger.events(types=[ev.REFLECTION_COMPLETED])
        if event.session_id in session_ids and event.facts.get("mode") == "checked"
    }
    if not judged:
        return
    number = f"{len(judged)} session{'s' if len(judged) > 1 else ''}"
    found = _found(ledger, session_ids)
    ranked = sorted(found.items(), key=lambda row: (-row[1].harmed, -row[1].broken, row[0]))
    shown = [rule.words(name) for name, rule in ranked[:_MOST_RULES]]
    if len(ranked) > _MOST_RULES:
        shown.append(f"{len(ranked) - _MOST_RULES} more: reflector list")
    words = f"{handover.FIRST}{number} read: {', '.join(shown) or 'no rule decided'}\n"
    with suppress(OSError):
        folder = handover.open_own(str(project.root))
        write_durably(folder, words.encode("utf-8", "replace"), handover.LAST_SESSION)


def _found(ledger: Ledger, session_ids: set[str]) -> dict[str, _Found]:
    quotes: dict[tuple[str | None, int], str] = {}
    for event in ledger.events(types=[ev.REFLECTION_COMPLETED]):
        for rationale in event.facts.get("rationales") or ():
            words = clean(str(rationale.get("quote") or ""), _MOST_QUOTE)
            quotes[event.reflection_id, rationale["index"]] = words
    found: dict[str, _Found] = {}
    for event in ledger.events(types=[ev.BULLET_CHECKED]):
        facts = event.facts
        if event.session_id not in session_ids:
            continue
        is_proved = facts["disposition"] in ("checked", "counted")
        helped = is_proved and facts["tag"] == "helpful"
        harmed = is_proved and facts["tag"] == "harmful"
        broken = facts.get("followed") == "no"
        if helped or harmed or broken:
            rule = found.get(facts["name"], _Found())
            quote = quotes.get((event.reflection_id, facts["index"]), "") or rule.quote
            found[facts["name"]] = _Found(
                rule.helped + helped, rule.harmed + harmed, rule.broken + broken, quote
            )
    return found
