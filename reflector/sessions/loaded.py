"""The rules of files that a session was shown, because its client loaded their file.

Invariant: `births_of` alone decides whether a rule was in force when a session started. A session
is shown a rule once, however it was cut into windows, and only if its agent answered. The event's
id is derived from the window and the words of the rules, so two machines that saw the same append
the same event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from reflector.embed.lessons.recording import told_at_start
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, time_of
from reflector.events.folds import fold_ledger
from reflector.ledger.store import Ledger
from reflector.playbook_files.births import Births, LineState, births_of
from reflector.playbook_files.watching import Line, loaded_advice, watched_lines, watching
from reflector.project import Project
from reflector.sessions.counted import CountsFold
from reflector.transcripts.readers import readers

FROM_FILE = "file"


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """The rules in files of a project.

    lines   by their names
    agents  the agents that load a file at each start, by the file
    births  the times at which rules came into their files
    """

    lines: Mapping[str, Line] = field(default_factory=dict)
    agents: Mapping[str, frozenset[str]] = field(default_factory=dict)
    births: Births = field(default_factory=Births)

    def telling(
        self,
        window: NewEvent | Event,
        agent: str,
        started: datetime | None,
        tellings: Iterable[Event] = (),
    ) -> NewEvent | None:
        """Return the event of the rules that a session was shown; None if no rule is new.

        started   the start of the session; None if that is unknown
        tellings  the recorded ones of the session
        """
        known = {name for each in tellings if is_from_file(each) for name in each.facts["bullets"]}
        names = [
            name
            for name, line in self.lines.items()
            if name not in known
            and agent in self.agents.get(line.file, ())
            and self.births.state_of(line, started) is LineState.SINCE
        ]
        if not names:
            return None
        words = "\n".join(f"{name} {self.lines[name].text}" for name in names)
        digest = sha256(words.encode()).hexdigest()
        return told_at_start(window, digest, bullets=names, lessons=(), source=None, via=FROM_FILE)


def is_from_file(telling: Event) -> bool:
    """Return whether an event is about rules that an agent loaded from a file."""
    return bool(telling.fact("via") == FROM_FILE)


def loaded_rules(project: Project, ledger: Ledger) -> LoadedRules:
    """Return the rules in files of a project.

    Raises:
        OSError: a file cannot be read.
        LedgerError: the ledger cannot be read.
    """
    lines = {str(line.name): line for line in watched_lines(ledger)}
    if not lines:
        return LoadedRules()
    advice = loaded_advice(project.root)
    in_files = watching(ledger, advice.rules, first=project.first_number).lines
    lines |= {name: line for name, line in in_files.items() if name in lines}
    births = births_of(project.root, [*lines.values(), *advice.lines], project.own_dir)
    agent_of = {reader.name: reader.agent for reader in readers()}
    agents = {
        file: frozenset(agent_of[client] for client in clients)
        for file, clients in advice.clients.items()
        if file not in advice.scopes
    }
    return LoadedRules(dict(sorted(lines.items())), agents, births)


def tell_recorded(project: Project, ledger: Ledger) -> None:
    """Record the rules in files that earlier sessions were shown. The playbook's lock must be held.

    Raises: OSError, LedgerError.
    """
    loaded = loaded_rules(project, ledger)
    if not loaded.lines:
        return
    tellings: dict[str | None, list[Event]] = defaultdict(list)
    for telling in ledger.events(types=[ev.ADVICE_TOLD]):
        tellings[telling.session_id].append(telling)
    windows: dict[str, Event] = {}
    for window in ledger.events(types=[ev.SESSION_RECORDED]):
        if not window.fault and window.fact("agent_id") is None and window.session_id:
            windows.setdefault(window.session_id, window)
    events = [
        loaded.telling(
            windows[session_id],
            str(windows[session_id].fact("agent")),
            time_of(counts.began),
            tellings[session_id],
        )
        for session_id, counts in fold_ledger(CountsFold(), ledger).items()
        if counts.steps and session_id in windows
    ]
    ledger.append([event for event in events if event is not None])
