# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""Reads a window once, as a stream, and gives each citation the evidence that follows it.

Invariant: evidence flows forward and stays on its chain. What stands before a citation, or on another
sidechain, is never evidence for it; a person's message is read together with the agent's first words
after it, because these tell a polite correction from the next task.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from zlib import crc32

from reflector.playbook.bullet import Bullet
from reflector.reflection.episode import Bearing, Episode, Finding, bears, opened
from reflector.reflection.outcomes import Outcome, read_result
from reflector.reflection.rule_table import found
from reflector.reflection.stances import Stance, content_words, read_reaction, read_stance
from reflector.reflection.steps import CHECKS, Step, read_call
from reflector.reflection.words_of_agents import RULES as AGENT_RULES
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

#: Open citations kept per bullet and chain; the oldest is settled when another one opens.
_OPEN_PER_BULLET = 8
_CALLS_KEPT = 256
_T = TypeVar("_T")

_AGENT = {rule.id: rule for rule in AGENT_RULES}
_REVIEW_FINDS = re.compile(
    r"\b(?:critical|blocker|blocking|must[- ]fix|high[- ]severity|severity: ?high|is (?:wrong|incorrect|broken|buggy)|would (?:break|fail|crash)|regression|request(?:ed)? changes|not safe|do not merge|bugs? found|security (?:issue|hole)|P[01]\b|🔴|❌)",
    re.IGNORECASE,
)
_NOTICE = re.compile(r"<task-notification>|<bash-notification>|<background-task")
_TASK_ID = re.compile(r"<(?:task-id|shell-id|task_id)>([^<]+)<")
_BACKGROUND = re.compile(r"(?:running in (?:the )?background with ID: ?|task_id: ?|agentId: ?)([\w-]+)")
_TRIAL = re.compile(
    r"temporar\w+|confirm\w*|verify|prove|sanity|mutat\w+|to (?:see|check|show|make sure)", re.IGNORECASE
)


@dataclass(slots=True)
class _Chain:
    """State of one conversation: the main one, or one sidechain."""

    turn: int = 0
    at: int = 0
    steps: OrderedDict[str, Step | ToolCall] = field(default_factory=OrderedDict)
    tasks: OrderedDict[str, Step] = field(default_factory=OrderedDict)
    episodes: list[Episode] = field(default_factory=list)
    before: deque[tuple[ToolCall | None, ToolResult]] = field(default_factory=lambda: deque(maxlen=12))
    uncommented: list[Finding] = field(default_factory=list)
    quiet: list[tuple[Step, str]] = field(default_factory=list)
    pending: Stance | None = None
    pending_at: int = 0
    asked: bool = False
    answered: bool = False
    slips: dict[str, Finding] = field(default_factory=dict)
    errors_before: frozenset[str] = frozenset()


class EvidenceReader:
    """Feed it messages in order, then ask for what is left open.

    bullets   the live bullets whose citations are judged, by name
    settle    called once per citation, when no more evidence can come
    """

    def __init__(self, bullets: Mapping[str, Bullet], settle: Callable[[Episode], None]) -> None:
        self._bullets = bullets
        self._settle = settle
        self._chains: dict[str, _Chain] = {}

    def read(self, messages: Iterable[Message]) -> None:
        """Reads all messages, then settles every citation that is still open."""
        for message in messages:
            chain = self._chains.setdefault(message.chain, _Chain())
            chain.at += 1
            if message.origin == "model":
                self._model(chain, message)
            elif message.origin == "tool":
                for result in message.results:
                    self._result(chain, result)
            elif message.origin in ("human", "refusal"):
                self._person(chain, message)
            elif message.origin == "injected":
                self._injected(chain, message.text)
        for chain in self._chains.values():
            self._decide_pending(chain, "")
            for episode in chain.episodes:
                self._settle(episode)

    # -- the agent ---------------------------------------------------------------------------------

    def _model(self, chain: _Chain, message: Message) -> None:
        names = [name for name in citations_of(message) if name in self._bullets]
        spoken = message.text.strip()
        if chain.episodes:
            if chain.pending is not None:
                self._decide_pending(chain, spoken or message.thinking, certain=bool(spoken or message.calls))
            if spoken or message.thinking:
                self._comment(chain, spoken or message.thinking, thinking=not spoken)
        if spoken:
            chain.asked = spoken.rstrip("*_` )").endswith("?") or "?" in spoken[-160:]
            for episode in chain.episodes:
                if episode.turn == chain.turn and episode.at < chain.at:
                    episode.last_of_turn = False
        if spoken or message.thinking.strip():
            for episode in chain.episodes:
                episode.step_open = episode.step_open and not episode.own
        for name in names:
            self._open(chain, name, message)
        for call in message.calls:
            self._call(chain, call)

    def _open(self, chain: _Chain, name: str, message: Message) -> None:
        mine = [episode for episode in chain.episodes if episode.name == name]
        if mine and mine[-1].turn == chain.turn and not mine[-1].watching and mine[-1].step_open:
            return
        if len(mine) >= _OPEN_PER_BULLET:
            chain.episodes.remove(mine[0])
            self._settle(mine[0])
        if not chain.episodes:
            chain.errors_before = self._errors_before(chain)
        text = message.text if message.text.strip() else message.thinking
        episode = opened(name, self._bullets[name], turn=chain.turn, at=chain.at, text=text)
        episode.errors_before = chain.errors_before
        chain.episodes.append(episode)

    def _errors_before(self, chain: _Chain) -> frozenset[str]:
        """Signatures of the errors that the last results before the first citation showed."""
        signatures = set()
        for call, result in chain.before:
            if call is not None:
                outcome = read_result(read_call(call), result)
                if outcome.ending == "fails" and outcome.signature:
                    signatures.add(outcome.signature)
        return frozenset(signatures)

    def _call(self, chain: _Chain, call: ToolCall) -> None:
        if not chain.episodes:
            _remember(chain.steps, call.id, call)
            return
        if chain.answered:
            chain.uncommented, chain.quiet, chain.answered = [], [], False
        step = read_call(call)
        _remember(chain.steps, call.id, step)
        edit = _edit_of(call)
        undone = _edit_of(call, inverse=True)
        for episode in chain.episodes:
            if step.kind == "revert" and not episode.step_open and episode.changed_after:
                same = set(step.files) & episode.files
                if same or (not step.files and not episode.watching):
                    episode.add(Finding("agent", -1, 3, "reverted", step.command, "revert", step.family))
            if undone and undone in episode.own_edits:
                episode.add(Finding("agent", -1, 3, "edited-back", step.command, "change", step.family))
            if not episode.watching:
                episode.add_call(step, call.id, edit)

    def _comment(self, chain: _Chain, text: str, *, thinking: bool) -> None:
        """The agent's first words after results: they explain the results, and may tell a find."""
        head = " ".join(text[:500].split())
        if chain.uncommented or chain.quiet:
            expected = found(_AGENT["expected-failure"], head) or found(_AGENT["unrelated-failure"], head)
            if expected:
                for finding in chain.uncommented:
                    finding.excused = finding.sign < 0
            good = found(_AGENT["confirms"], head)
            bad = found(_AGENT["reads-result-as-bad"], head)
            if good and not bad:
                for step, call_id in chain.quiet:
                    verified = Finding(
                        "result",
                        +1,
                        2,
                        "agent-confirms",
                        head[good.start() :][:200],
                        step.kind,
                        step.family,
                        "",
                        step.command,
                    )
                    self._give(chain, verified, call_id)
            elif bad and not good:
                for finding in chain.uncommented:
                    if finding.sign < 0:
                        finding.strength = max(finding.strength, 2)
                    if finding.sign > 0 and finding.strength == 1:
                        finding.sign, finding.strength, finding.rule = -1, 2, "reads-result-as-bad"
                        finding.quote = head[bad.start() :][:200]
        find = found(_AGENT["finds"], head)
        if find:
            finding = Finding("agent", +1, 3, "finds", head[find.start() :][:200])
            for episode in chain.episodes:
                if not episode.watching and episode.own and not episode.changed_later and episode.calls_later <= 6:
                    episode.add(finding, own=True)
        back = found(_AGENT["reverts"], head)
        if back and not _TRIAL.search(head):
            finding = Finding("agent", -1, 2, "reverts", head[back.start() :][:200])
            for episode in chain.episodes:
                if episode.changed_after and not episode.watching and not episode.step_open:
                    episode.add(finding, bearing="yes" if episode.overlap(content_words(head)) >= 2 else "no")
        drop = found(_AGENT["abandons"], head)
        if drop:
            finding = Finding("agent", -1, 1, "abandons", head[drop.start() :][:200])
            for episode in chain.episodes:
                if not episode.watching:
                    episode.add(finding, own=episode.step_open)
        if not thinking:
            chain.uncommented = []
            chain.quiet = []

    # -- tools -------------------------------------------------------------------------------------

    def _result(self, chain: _Chain, result: ToolResult) -> None:
        known = chain.steps.get(result.call_id)
        chain.answered = True
        if not chain.episodes:
            call = known if isinstance(known, ToolCall) else None
            if call is not None:
                started = _BACKGROUND.search(result.text[:400])
                if started:
                    _remember(chain.tasks, started.group(1), read_call(call))
                chain.before.append((call, result))
            return
        step = read_call(known) if isinstance(known, ToolCall) else known
        if step is None:
            return
        started = _BACKGROUND.search(result.text[:400])
        if started:
            _remember(chain.tasks, started.group(1), step)
        if step.task and step.task in chain.tasks:
            origin = chain.tasks[step.task]
            step = Step(origin.kind, origin.family, origin.command, origin.files, "", origin.verifies)
        if step.kind == "plan":
            if not result.is_error and re.search(r"approved", result.text[:200]):
                approved = Finding("person", +1, 2, "plan-approved", "the plan was approved")
                for episode in chain.episodes:
                    if not episode.watching:
                        episode.add(approved, bearing="yes" if episode.nature in ("talk", "change", "act") else "no")
            return
        if step.kind in ("review", "delegate") and not result.is_error and len(result.text) > 200:
            self._review(chain, step, result)
            return
        self._outcome(chain, step, read_result(step, result), result.call_id)

    def _outcome(self, chain: _Chain, step: Step, outcome: Outcome, call_id: str) -> None:
        if outcome.ending != "mechanics" and step.family in chain.slips:
            chain.slips.pop(step.family).excused = True
        if outcome.ending in ("silent", "mechanics"):
            if outcome.ending == "silent" and (step.verifies or step.kind == "run"):
                chain.quiet.append((step, call_id))
            if outcome.ending == "mechanics":
                self._mechanics(chain, step, outcome, call_id)
            return
        sign = +1 if outcome.ending == "passes" else -1
        finding = Finding(
            "result",
            sign,
            outcome.strength,
            outcome.rule,
            outcome.quote,
            step.kind,
            step.family,
            outcome.signature,
            step.command,
        )
        if outcome.ending == "passes" and outcome.strength == 1:
            chain.quiet.append((step, call_id))
        chain.uncommented.append(finding)
        self._give(chain, finding, call_id)

    def _mechanics(self, chain: _Chain, step: Step, outcome: Outcome, call_id: str) -> None:
        """Mechanics speak only about the advice that names that very step, and not if the next try works."""
        said = content_words(f"{outcome.quote} {step.command}")
        finding = Finding(
            "result",
            -1,
            2,
            outcome.rule,
            outcome.quote,
            step.kind,
            step.family,
            outcome.signature,
            step.command,
        )
        for episode in chain.episodes:
            if call_id in episode.own_calls and len(said & episode.bullet_words) >= 2:
                episode.add(finding, own=True)
                chain.slips[step.family] = finding

    def _give(self, chain: _Chain, finding: Finding, call_id: str) -> None:
        for episode in chain.episodes:
            own = call_id in episode.own_calls
            if episode.watching:
                if (
                    finding.kind == "ci"
                    and finding.sign < 0
                    and episode.changed_after
                    and chain.turn - episode.turn <= 3
                ):
                    episode.add(finding)
                continue
            episode.add(
                finding, own=own, bearing="yes" if own or episode.overlap(content_words(finding.quote)) else "no"
            )

    def _review(self, chain: _Chain, step: Step, result: ToolResult) -> None:
        match = _REVIEW_FINDS.search(result.text)
        if match is None:
            return
        words = content_words(result.text)
        line = result.text[max(0, result.text.rfind("\n", 0, match.start())) :].strip().split("\n")[0]
        finding = Finding("result", -1, 2, "review-finding", " ".join(line.split())[:200], "review", step.family)
        for episode in chain.episodes:
            if result.call_id in episode.own_calls or not (episode.files or episode.nature in ("talk", "change")):
                continue
            named = any(file in result.text.lower() for file in episode.files)
            same_turn = episode.topic_turn == chain.turn
            if episode.overlap(words) >= (3 if named else 6) and (named or same_turn):
                episode.add(finding)

    def _injected(self, chain: _Chain, text: str) -> None:
        """Notifications of background tasks are results that come late; all else here is the client's."""
        if not chain.episodes or not _NOTICE.search(text[:200]):
            return
        for episode in chain.episodes:
            episode.step_open = False  # what the agent does now, it does because of the notice
        task = _TASK_ID.search(text)
        step = chain.tasks.get(task.group(1).strip()) if task else None
        if step is None or step.kind in ("delegate", "review", "look", "tidy", "admin"):
            return
        summary = re.search(r"<summary>(.*?)</summary>", text, re.DOTALL)
        words = " ".join(summary.group(1).split())[:200] if summary else ""
        if re.search(r"<status>failed|failed with exit code|exit code [1-9]", text):
            self._outcome(chain, step, Outcome("fails", 2, words, "", "background-failed"), "")
        elif "exit code 0" in text and step.kind in CHECKS:
            self._outcome(chain, step, Outcome("passes", 2, words, "", "background-done"), "")

    # -- people ------------------------------------------------------------------------------------

    def _person(self, chain: _Chain, message: Message) -> None:
        chain.turn += bool(message.text.strip())  # a bare interrupt is no turn: its sequel is
        if not chain.episodes:
            return
        self._decide_pending(chain, "")
        for episode in chain.episodes:
            episode.step_open = False
        if message.origin == "refusal" and not message.text.strip():
            note = Finding("person", 0, 1, "interrupted", "interrupted without a reason")
            for episode in chain.episodes:
                if not episode.watching:
                    episode.add(note)
            return
        stance = read_stance(message.text, refused=message.origin == "refusal", answers=chain.asked)
        chain.pending, chain.pending_at = stance, chain.at
        if message.origin == "refusal":
            self._decide_pending(chain, "")

    def _decide_pending(self, chain: _Chain, reaction: str, *, certain: bool = True) -> None:
        """Reads the person's last message in the light of the agent's first words after it."""
        stance = chain.pending
        if stance is None:
            return
        taken = read_reaction(reaction) if reaction else ""
        if not taken and not certain:
            return
        chain.pending = None
        if (
            taken == "concedes"
            and not stance.objects
            and stance.bearing != "mixed"
            and not (stance.bearing == "approves" and stance.strength == 3)
        ):
            stance = Stance(
                "corrects",
                2,
                stance.quote or "the agent conceded the point",
                "agent-concedes",
                stance.about,
                stance.words,
            )
        elif taken == "glad" and stance.bearing in ("other", "asks", "continues"):
            stance = Stance("approves", 2, stance.quote, "agent-glad", stance.about, stance.words)
        elif stance.objects and stance.strength == 1 and taken != "concedes":
            stance = Stance("other", 0, "", "", stance.about, stance.words)
        self._take(chain, stance)
        chain.asked = False

    def _take(self, chain: _Chain, stance: Stance) -> None:
        sign = -1 if stance.objects else +1 if stance.bearing in ("approves", "builds_on") else 0
        finding = Finding("person", sign, stance.strength, stance.rule, stance.quote, stance=stance)
        for episode in chain.episodes:
            if episode.watching:
                if (
                    stance.bearing == "symptom"
                    and stance.strength == 3
                    and episode.overlap_with_advice(stance.about) >= 2
                ):
                    episode.add(finding)
                continue
            bearing = bears(episode, stance, chain.turn)
            if stance.bearing in ("approves", "builds_on", "corrects", "symptom", "mixed") and bearing != "no":
                episode.add(finding, bearing=bearing)
            episode.watching = _ends_topic(episode, stance, bearing)
            if stance.bearing in ("builds_on", "continues", "mixed") or (stance.objects and bearing != "no"):
                episode.topic_turn = chain.turn


def _ends_topic(episode: Episode, stance: Stance, bearing: Bearing) -> bool:
    """Whether the conversation has left the topic with this message."""
    if stance.bearing == "other" or stance.rule == "ship-it":
        return True
    if stance.bearing == "approves":
        return stance.words > 6
    if stance.bearing == "asks":
        episode.questions += 1
        return episode.questions > 1 or bearing == "no"
    return stance.objects and bearing == "no"


def _remember(kept: OrderedDict[str, _T], key: str, value: _T) -> None:
    kept[key] = value
    if len(kept) > _CALLS_KEPT:
        kept.popitem(last=False)


def _edit_of(call: ToolCall, *, inverse: bool = False) -> int:
    """A number for "this text became that text in this file"; 0 for calls that are no edit."""
    old, new = call.input.get("old_string"), call.input.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or not old or not new:
        return 0
    if inverse:
        old, new = new, old
    return crc32(f"{call.input.get('file_path')}\0{old}\0{new}".encode())
