"""The results of rules under each model of the agent, and the moments at which the agent's model
changed.

Invariant: each vote of a session on a rule belongs to one model or to an unknown one, so the votes
by model add up to those of `list`, except that each is rounded to a millionth. `list`, `stats`,
`status` and the report use this module.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from reflector.ledger.as_of import Past
from reflector.ledger.models import (
    WorkedSession,
    window_models,
    windows_of_readings,
    worked_sessions,
)

if TYPE_CHECKING:
    from reflector.ledger.counters import SessionVote
    from reflector.ledger.store import Ledger

#: The name on screens for the model of a session whose record does not name one.
UNKNOWN = "unknown"
#: The states of a bullet that is currently a rule.
_RULES = ("live", "watched")


# Not frozen, because these are printed once and a frozen class takes three times as long to define.
@dataclass
class RuleOfModel:
    """A rule with one model: the votes of the sessions in which this model worked.

    model  null for sessions whose record does not name a model
    """

    name: str
    model: str | None
    helped: float
    harmed: float
    text: str


@dataclass
class Worked:
    """A model that worked: the number of its sessions, and their votes on your rules.

    model  null for sessions whose record does not name a model
    """

    model: str | None
    sessions: int
    helped: float
    harmed: float


@dataclass
class ModelChange:
    """The last change of an agent's model.

    votes    the votes on your rules of the agent's sessions
    earlier  the votes of the sessions with the model before the change
    """

    agent: str
    before: str
    model: str
    since: str
    votes: float
    earlier: float


class WorkedModels:
    """The models that worked up to a moment.

    Raises:
        LedgerError: the ledger cannot be read.
    """

    def __init__(self, ledger: Ledger, past: Past | None = None) -> None:
        self._past = past or Past(ledger)
        position = self._past.position
        with ledger.asking() as sql:
            self._windows = window_models(sql, position)
            self._readings = windows_of_readings(sql, position)
        self.sessions: Mapping[str, WorkedSession] = worked_sessions(self._windows.values())

    @cached_property
    def rules(self) -> list[RuleOfModel]:
        """The votes on each rule by model, in order of names and models; an unknown one is last."""
        texts = {
            name: entry.text for name, entry in self._past.entries.items() if entry.status in _RULES
        }
        votes: dict[tuple[str, str | None], list[SessionVote]] = defaultdict(list)
        for vote in self._past.votes_by_session(texts):
            session_id = self._readings.get(vote.session, vote.session)
            session = self.sessions.get(session_id)
            votes[vote.name, session.model if session else None].append(vote)
        rules = [
            RuleOfModel(name, model, *_sums(votes[name, model]), texts[name])
            for name, model in votes
        ]
        return sorted(rules, key=lambda rule: (rule.name, rule.model is None, rule.model))

    def models(self, sessions: int) -> list[Worked]:
        """Return the models in order of their names; an unknown one is last.

        The result is empty if no session has a known model.

        sessions  the number of all sessions
        """
        if not self.sessions:
            return []
        votes: dict[str | None, list[RuleOfModel]] = defaultdict(list)
        for rule in self.rules:
            votes[rule.model].append(rule)
        worked: Counter[str | None] = Counter(each.model for each in self.sessions.values())
        if unknown := max(0, sessions - len(self.sessions)):
            worked[None] = unknown
        models = sorted({*worked, *votes}, key=lambda model: (model is None, model))
        return [Worked(model, worked[model], *_sums(votes[model])) for model in models]

    def change(self, since: str) -> ModelChange | None:
        """Return the last change of model of the agent that worked last.

        Return None if the agent began with this model, or if the change was before a time. A
        retracted window does not count.
        """
        windows = [window for id, window in self._windows.items() if self._past.is_active(id)]
        ordered = sorted(worked_sessions(windows).values(), key=lambda session: session.begun)
        if not ordered:
            return None
        last = ordered[-1]
        own = [session for session in ordered if session.agent == last.agent]
        earlier_sessions = own[: _start_of_last_run(own)]
        since_session = own[len(earlier_sessions)]
        if not earlier_sessions or since_session.begun < since:
            return None
        before = earlier_sessions[-1].model
        earlier = [rule for rule in self.rules if rule.model == before]
        votes, of_earlier = (sum(_sums(rules)) for rules in (self.rules, earlier))
        return ModelChange(last.agent, before, last.model, since_session.begun, votes, of_earlier)


def _start_of_last_run(sessions: Sequence[WorkedSession]) -> int:
    """Return the index of the first of the last sessions with the same model."""
    start = len(sessions) - 1
    while start and sessions[start - 1].model == sessions[-1].model:
        start -= 1
    return start


def _sums(votes: Iterable[SessionVote | RuleOfModel]) -> tuple[float, float]:
    """Return the sums of votes for and against."""
    every = list(votes)
    helped = round(sum(vote.helped for vote in every), 6)
    return helped, round(sum(vote.harmed for vote in every), 6)
