"""The six folds of one ledger: by their definition, and as the program answers.

A definition folds the whole history up to a position. The program reads by the index of types, from
tables, and from the row of cached counts. `learn` gives the folds something to answer about that no
command of a history records: lessons, outcomes and advice that a session was told.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reflector.audit.stats import ledger_stats
from reflector.changes.propose import ProposalFold, read_proposals
from reflector.embed.lessons.book import LessonFold, lesson_book
from reflector.embed.lessons.recording import observe_outcome, record_lesson, record_told
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.folds import fold_events, fold_ledger
from reflector.events.lessons import POLARITY
from reflector.events.registry import WINDOW_TYPES, PlaybookFold
from reflector.events.state import Playbook
from reflector.events.windows import WindowFold, WindowState
from reflector.ledger.as_of import Past
from reflector.ledger.store import BulletRow, Ledger
from reflector.ledger.usage import Usage, usage_at
from reflector.project import Project
from reflector.trials.trial import TrialFold, trials
from tests.ledger.usage_fold import UsageFold

_LESSON_KINDS = ("insight", "reflection", "mistake", "summary")


def differing(head: int, position: int) -> list[list[str]]:
    """Return each answer of the program that is not the defined one: at two positions and now."""
    with Project.at(Path.cwd()).open_ledger() as ledger:
        return [
            *_differing(f"at {head}", _defined(ledger, head), _answered(ledger, head)),
            *_differing(f"at {position}", _defined(ledger, position), _answered(ledger, position)),
            *_differing("now", _defined(ledger, head), _answered_now(ledger)),
        ]


def _differing(
    moment: str, defined: Mapping[str, str], answered: Mapping[str, str]
) -> list[list[str]]:
    return [
        [f"{name} {moment}", defined[name], answered[name]]
        for name in defined
        if answered[name] != defined[name]
    ]


def answers() -> dict[str, str]:
    """Return what the program answers now."""
    with Project.at(Path.cwd()).open_ledger() as ledger:
        return _answered_now(ledger)


def learn(seed: str) -> None:
    """Record a lesson, an outcome of one, and advice that a session and a task were told."""
    chance = random.Random(seed)
    with Project.at(Path.cwd()).open_ledger() as ledger:
        text = f"Lesson {chance.randint(1, 9)}."
        kind = chance.choice(_LESSON_KINDS)
        record_lesson(ledger, kind, text, actor="agent", key=(seed,), task="t")
        lessons = [lesson.id for lesson in lesson_book(ledger)]
        for _ in range(chance.randint(0, 3)):
            outcome = chance.choice(list(POLARITY))
            observe_outcome(ledger, chance.choice(lessons), outcome, source="tests")
        record_told(ledger, chance.sample(lessons, 1), via="retrieval", actor="agent", task="t")
        windows = list(ledger.events(types=WINDOW_TYPES))
        names = [bullet.name for bullet in ledger.bullets()]
        if windows and names:
            via = chance.choice(["injection", "file"])
            _tell(ledger, chance.choice(windows).event_id, chance.choice(names), seed, via)


def _tell(ledger: Ledger, window_id: str, name: str, seed: str, via: str) -> None:
    window = ledger.event(window_id)
    assert window is not None
    data: dict[str, Any] = {"via": via, "lessons": [], "bullets": [name]}
    event_id = identity(ev.ADVICE_TOLD, seed)
    about = {"session_id": window.session_id, "target_id": window_id}
    ledger.append([NewEvent(ev.ADVICE_TOLD, event_id, data, "agent", **about)])  # type: ignore[arg-type]


def _defined(ledger: Ledger, upto: int) -> dict[str, str]:
    """Return the six answers by their definition, as texts."""
    history = list(ledger.history(upto=upto))
    return {
        "playbook": _playbook_text(fold_events(PlaybookFold(), history)),
        "windows": _window_text(fold_events(WindowFold(), history)),
        "states": str(_states(fold_events(WindowFold(), history))),
        "usage": _usage_text(fold_events(UsageFold(), history)),
        "lessons": str(fold_events(LessonFold(), history)),
        "proposals": str(fold_events(ProposalFold(), history)),
        "trials": str(fold_events(TrialFold(), history)),
    }


def _answered(ledger: Ledger, upto: int) -> dict[str, str]:
    """Return what the program answers as of a position, as texts."""
    past = Past(ledger, upto)
    return {
        "playbook": _bullets(past.rows()),
        "windows": _window_text(fold_ledger(WindowFold(), ledger, upto)),
        "states": str(ledger_stats(ledger, past).states),
        "usage": _usage_text(usage_at(ledger, upto)),
        "lessons": str(lesson_book(past)),
        "proposals": str(fold_ledger(ProposalFold(), ledger, upto)),
        "trials": str(trials(ledger, upto)),
    }


def _answered_now(ledger: Ledger) -> dict[str, str]:
    """Return what the program answers from its tables and the row of cached counts, as texts."""
    windows = {
        row.event_id: WindowState(row.changed_at, row.state, row.attempts)
        for row in ledger.windows()
    }
    return {
        "playbook": _bullets(ledger.rows()),
        "windows": _window_text(windows),
        "states": str(ledger_stats(ledger).states),
        "usage": _usage_text(usage_at(ledger)),
        "lessons": str(lesson_book(ledger)),
        "proposals": str(read_proposals(ledger, only_waiting=False)),
        "trials": str(trials(ledger)),
    }


def _bullets(rows: Sequence[BulletRow]) -> str:
    return str([[row.name, row.text, row.status, row.helpful, row.harmful] for row in rows])


def _playbook_text(book: Playbook) -> str:
    return str([[e.name, e.text, e.status, *book.counters(e.name)] for e in book.entries.values()])


def _window_text(windows: Mapping[str, WindowState]) -> str:
    return str(sorted(windows.items()))


def _states(windows: Mapping[str, WindowState]) -> dict[str, int]:
    return dict(sorted(Counter(window.state for window in windows.values()).items()))


def _usage_text(usage: Usage) -> str:
    return str(usage.dump())
