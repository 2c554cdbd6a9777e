"""Free counts of a project's rules, in the transcripts that agents still keep and in the events of
sessions whose transcripts are gone.

Invariant: your words are read from the transcripts each time and are not stored. If a transcript is
gone, only the wishes that the ledger has are read. The numbers of a transcript are stored in the
state folder by its path, size and time, so that it is read once. A project without a ledger stores
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from reflector.check.facts import Counts
from reflector.check.plan import Typed
from reflector.counts.repeated import Repeated, Sentence, repeated
from reflector.counts.rules import (
    AGAIN,
    CAME_UP,
    IN_TIME,
    LATE,
    MENTIONED,
    UNKNOWN,
    VERSION,
    Counting,
    Marks,
    PartCounts,
    Remark,
    Rule,
    RuleSet,
    rule_set,
)
from reflector.counts.sentences import requests, sentences_of
from reflector.counts.token import Token
from reflector.events.event import time_of
from reflector.project import Project
from reflector.sessions.counted import counts_beside, wishes_heard
from reflector.sessions.found_transcripts import FoundTranscript
from reflector.transcripts.heads import is_whole
from reflector.transcripts.reading import messages_at, open_session

_CACHE = "counts.json"
#: Returns the state of a rule at the start of a session: "since", "before" or "unknown".
StateOf = Callable[[Rule, datetime], str]


@dataclass(slots=True)
class RuleCount:
    """The counts of one rule.

    forbids    whether the rule forbids every token that it names
    has_words  whether a call can contain a token of it, and the token decides
    names_command  whether it names a command to run
    occasion   such as "sessions that committed"; "" if it is unknown
    last_said  your newest sentence that repeats the rule; None without one
    breaches   the bits of the tokens that the rule forbids and that the agent ran or wrote
    acts       the bits of the tokens that the rule names and that the agent ran
    lacks_start, may_apply  as in `RuleFacts`
    """

    counting: Counting
    since: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)
    unknown: Counts = field(default_factory=Counts)
    last_said: Sentence | None = None
    breaches: int = 0
    acts: int = 0
    lacks_start: bool = False
    may_apply: bool = False

    def in_words(self, bits: int) -> str:
        """Return tokens in words, such as `breaches` or `acts`."""
        tokens = enumerate(self.counting.tokens)
        return " or ".join(token.shown for place, token in tokens if bits >> place & 1)

    @property
    def has_words(self) -> bool:
        is_part = any(token.scope == "part" for token in self.counting.tokens)
        return (self.counting.named | self.counting.negated) > 0 and not is_part

    @property
    def names_command(self) -> bool:
        return self._bits(lambda token: token.is_command) & self.counting.named > 0

    @property
    def forbids(self) -> bool:
        return self.has_words and not self.counting.named

    @property
    def occasion(self) -> str:
        return self.counting.occasion.label if self.counting.occasion else ""

    @property
    def is_choice(self) -> bool:
        """Whether it names tokens to use and tokens to avoid, as in "use `pnpm`, not `npm`"."""
        return self.counting.named > 0 and self.counting.negated > 0

    def add(self, state: str, marks: Marks) -> None:
        """Add the marks of a session to the period that the state names."""
        period = {"since": self.since, "before": self.before}.get(state, self.unknown)
        counting = self.counting
        against = counting.negated
        named = counting.named or against
        acts = marks.acts
        came_up = self._came_up(marks)
        is_late = counting.is_before and not marks.came_up & IN_TIME
        asked_for = self._bits(lambda token: counting.rule.is_fact or token.is_run) & named
        is_run = marks.run & named == named if counting.needs_all else marks.run & asked_for > 0
        is_run_in_time = is_run and not is_late
        is_asked_for = came_up or self.forbids
        has_occasion = self.is_choice or self.occasion != ""
        could_break = came_up and has_occasion
        self.may_apply |= counting.is_open or (acts | marks.came_up & MENTIONED) > 0
        period.sessions += 1
        period.came_up += could_break
        period.ran += is_run and counting.named > 0
        period.run += is_asked_for and is_run_in_time
        is_chosen = self.is_choice and not counting.is_before and acts & named > 0
        is_kept = could_break and not acts & against
        period.done += is_kept if self.forbids else came_up and (is_run_in_time or is_chosen)
        period.written += is_asked_for and marks.written & named > 0
        period.said += marks.said & AGAIN
        self.breaches |= acts & against
        self.acts |= marks.run & counting.named
        period.against += not self.forbids and acts & against > 0

    def _bits(self, is_meant: Callable[[Token], bool]) -> int:
        """Return the bits of the tokens that are meant."""
        tokens = enumerate(self.counting.tokens)
        return sum(1 << place for place, token in tokens if is_meant(token))

    def _came_up(self, marks: Marks) -> bool:
        """Return whether the marks show that the agent could follow or break the rule."""
        counting = self.counting
        named = counting.named
        if counting.occasion is None:
            return not self.is_choice or marks.acts & (named | counting.negated) > 0
        if counting.is_before and marks.came_up & UNKNOWN:
            self.lacks_start = True
            return False
        if counting.is_before and marks.run & named and not marks.came_up & (IN_TIME | LATE):
            # Events of counts/1 do not contain the order.
            return False
        return marks.came_up & CAME_UP > 0


class Counted(NamedTuple):
    """The counts of rules by their keys, and your sentences that are not in any rule.

    used     the sessions in which the agent ran or wrote a token of a fact, by the fact's key
    starts   the start of each session in which the agent worked; None for an unknown time
    """

    by_rule: Mapping[int, RuleCount]
    repeated: list[Repeated]
    used: Mapping[int, set[str]]
    starts: list[datetime | None]


class _FileCounts(NamedTuple):
    """The counts of one transcript."""

    path: Path
    session_id: str
    counts: PartCounts


def counts_of(
    project: Project,
    rules: Iterable[Rule],
    sessions: Sequence[FoundTranscript],
    state_of: StateOf,
    typed: Typed,
) -> Counted:
    """Return the counts of rules and facts in a project's sessions.

    sessions  the transcripts that the typed command is about; it is also about sessions that only
              the ledger has

    Raises:
        LedgerError: the ledger cannot be read.
    """
    counted_rules = rule_set(rules)
    countings = counted_rules.rules
    by_rule = {
        key: RuleCount(counting) for key, counting in countings.items() if not counting.rule.is_fact
    }
    used: dict[int, set[str]] = {
        key: set() for key, counting in countings.items() if key not in by_rule and counting.named
    }
    files = _count_files(project, counted_rules, sessions)
    by_session = dict[str, PartCounts]()
    for file in sorted(files, key=lambda file: file.counts.began):
        by_session.setdefault(file.session_id, PartCounts()).join(file.counts)
    gone = counts_beside(project, by_session, typed.most, typed.since)
    every_session = by_session | gone
    for session_id, session in every_session.items():
        for key in used.keys() & session.marks:
            used[key].add(session_id)
        began = time_of(session.began)
        for key in by_rule.keys() & session.rules if session.steps else ():
            rule = by_rule[key].counting.rule
            marks = session.marks.get(key, Marks())
            if rule.is_loaded(marks):
                by_rule[key].add("unknown" if began is None else state_of(rule, began), marks)
    sentences = list(_add_quotes(files, by_rule))
    for wish in wishes_heard(project, gone.keys()):
        if requests(wish.words) and not counted_rules.said_in(wish.words):
            sentences.append(wish)
    starts = [time_of(session.began) for session in every_session.values() if session.steps]
    return Counted(by_rule, repeated(sentences), used, starts)


def _add_quotes(
    files: Sequence[_FileCounts], by_rule: Mapping[int, RuleCount]
) -> Iterator[Sentence]:
    """Add your newest sentences to the rules that they repeat. Yield those that repeat no rule."""
    for file in sorted(files, key=lambda file: file.counts.began, reverse=True):
        unquoted = {key for key, count in by_rule.items() if count.last_said is None}
        wanted = [
            remark
            for remark in file.counts.remarks
            if not remark.rules or not unquoted.isdisjoint(remark.rules)
        ]
        with suppress(OSError, ValueError):
            for remark, sentence in _sentences(file, wanted).items():
                if not remark.rules:
                    yield sentence
                for key in unquoted.intersection(remark.rules):
                    by_rule[key].last_said = sentence


def _sentences(file: _FileCounts, remarks: Sequence[Remark]) -> dict[Remark, Sentence]:
    """Return the sentences of remarks, in the order of the remarks.

    Raises: OSError if the transcript cannot be read; ValueError if it is broken.
    """
    sentences: dict[Remark, Sentence] = {}
    places = {remark.record: remark.offset for remark in remarks}
    messages = messages_at(file.path, places) if places else {}
    for remark in remarks:
        message = messages[remark.record]
        words = sentences_of(message)[remark.number]
        sentences[remark] = Sentence(words, message.timestamp, file.session_id)
    return sentences


def _count_files(
    project: Project, rules: RuleSet, sessions: Sequence[FoundTranscript]
) -> list[_FileCounts]:
    """Return the counts of the readable transcripts. Unchanged ones are not counted again."""
    values: dict[str, Any] = {}
    state_of_rules = _state(rules)
    kept = _kept_files(project, state_of_rules)
    for file in sessions:
        with suppress(OSError, ValueError):
            stat = file.path.stat()
            state = [stat.st_size, stat.st_mtime_ns]
            known = kept.get(str(file.path))
            if known is None or known["state"] != state:
                known = {"state": state, **_count_file(rules, file.path)}
            values[str(file.path)] = known
    others = {path: known for path, known in kept.items() if Path(path).exists()}
    if project.has_ledger() and kept != others | values:
        project.keep(_CACHE, {"state": state_of_rules, "files": others | values})
    return [_file_counts(path, known, rules) for path, known in values.items()]


def _count_file(rules: RuleSet, path: Path) -> dict[str, Any]:
    """Return the counts of a transcript in the form in which they are kept: only numbers."""
    with open_session(path) as reading:
        counts = rules.count(reading, is_whole=is_whole(path))
        session_id = reading.conversation.session_id or path.stem
    return {
        "session": session_id,
        "began": counts.began,
        "steps": counts.steps,
        "marks": [[key, *marks] for key, marks in counts.marks.items()],
        "remarks": counts.remarks,
    }


def _file_counts(path: str, known: Mapping[str, Any], rules: RuleSet) -> _FileCounts:
    marks = {key: Marks(*bits) for key, *bits in known["marks"]}
    remarks = [
        Remark(record, offset, number, tuple(keys))
        for record, offset, number, keys in known["remarks"]
    ]
    counts = PartCounts(known["began"], known["steps"], set(rules.rules), marks, remarks)
    return _FileCounts(Path(path), known["session"], counts)


def _kept_files(project: Project, state: Sequence[Any]) -> dict[str, Any]:
    """Return the kept counts of transcripts by path; none if they are about other rules."""
    with suppress(ValueError, LookupError, TypeError):
        kept = project.read_kept(_CACHE)
        if kept["state"] == state:
            return dict(kept["files"])
    return {}


def _state(rules: RuleSet) -> list[Any]:
    kinds = {key: [*counting.rule[2:]] for key, counting in rules.rules.items()}
    return [VERSION, *map(list, sorted(kinds.items()))]
