# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""Reads a window once, as a stream, and gives each citation the evidence that follows it.

Invariant: evidence flows forward and stays on its chain. What stands before a citation, or on another
sidechain, is never evidence for it; a person's message is read together with the agent's first words
after it, because these tell a polite correction from the next task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from reflector.playbook.bullet import Bullet
from reflector.reflection.rules.chains import Chain, remember
from reflector.reflection.rules.commentary import comment
from reflector.reflection.rules.episode import (
    Bearing,
    Episode,
    Finding,
    bears,
    failed_after_shipping,
    names_as_the_agents,
    opened,
)
from reflector.reflection.rules.outcomes import Outcome, read_result
from reflector.reflection.rules.steps import CHECKS, Step, read_call
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.user_reaction import Stance, read_reaction, read_stance
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

#: Open citations kept per bullet and chain; the oldest is settled when another one opens.
_OPEN_PER_BULLET = 8
_CHAINS_KEPT = 32
#: Characters of an answer that are read.
_READ = 16 * 1024

_REVIEW_FINDS = re.compile(
    r"\b(?:critical|blocker|blocking|must[- ]fix|high[- ]severity|severity: ?high|is (?:wrong|incorrect|broken|buggy)|would (?:break|fail|crash)|regression|request(?:ed)? changes|not safe|do not merge|bugs? found|security (?:issue|hole)|P[01]\b|🔴|❌|^\s*(?:\d+[.)]|[-*#]+)\s*\W*(?:high|critical|major|blocker|bug)\b|can (?:lose|leak|corrupt|crash|break|deadlock|charge)\b)",
    re.IGNORECASE | re.MULTILINE,
)
#: A question mark of a sentence, not that of `?page=2`.
_ASKS = re.compile(r"\?(?=[\s*_)\"']|$)")
_NOTICE = re.compile(r"<task-notification>|<bash-notification>|<background-task")
_TASK_ID = re.compile(r"<(?:task-id|shell-id|task_id)>([^<]+)<")
_BACKGROUND = re.compile(r"(?:running in (?:the )?background with ID: ?|task_id: ?|agentId: ?)([\w-]+)")


class EvidenceReader:
    """Feed it messages in order, then ask for what is left open.

    bullets   the live bullets whose citations are judged, by name
    settle    called once per citation, when no more evidence can come
    """

    def __init__(self, bullets: Mapping[str, Bullet], settle: Callable[[Episode], None]) -> None:
        self._bullets = bullets
        self._settle = settle
        self._chains: dict[str, Chain] = {}

    def read(self, messages: Iterable[Message]) -> None:
        """Reads all messages, then settles every citation that is still open."""
        for message in messages:
            chain = self._chain(message.chain)
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

    def _chain(self, name: str) -> Chain:
        """Return the chain of this name. A window may hold thousands of sidechains: the oldest are settled."""
        chain = self._chains.get(name)
        if chain is None:
            chain = self._chains[name] = Chain()
            oldest = next(key for key in self._chains if key) if len(self._chains) > _CHAINS_KEPT else ""
            if oldest:
                for episode in self._chains.pop(oldest).episodes:
                    self._settle(episode)
        return chain

    # -- the agent ---------------------------------------------------------------------------------

    def _model(self, chain: Chain, message: Message) -> None:
        names = [name for name in citations_of(message) if name in self._bullets]
        spoken = message.text.strip()
        if chain.episodes:
            if chain.pending is not None:
                self._decide_pending(chain, spoken or message.thinking, certain=bool(spoken or message.calls))
            if spoken or message.thinking:
                comment(chain, spoken or message.thinking, thinking=not spoken)
        if spoken:
            chain.asked = spoken.rstrip("*_` )").endswith("?") or _ASKS.search(spoken[-160:]) is not None
            for episode in chain.episodes:
                if episode.turn == chain.turn and episode.at < chain.at:
                    episode.last_of_turn = False
        if spoken or message.thinking.strip():
            for episode in chain.episodes:
                episode.step_open = episode.step_open and not episode.own
        for name in names:
            self._open(chain, name, message, names)
        for call in message.calls:
            self._call(chain, call)

    def _open(self, chain: Chain, name: str, message: Message, company: Sequence[str]) -> None:
        mine = [episode for episode in chain.episodes if episode.name == name]
        if mine and mine[-1].turn == chain.turn and not mine[-1].watching and mine[-1].step_open:
            return
        if len(mine) >= _OPEN_PER_BULLET:
            chain.episodes.remove(mine[0])
            self._settle(mine[0])
        chain.read_what_was_before()
        text = message.text if message.text.strip() else message.thinking
        episode = opened(name, self._bullets[name], turn=chain.turn, at=chain.at, text=text)
        episode.company = len(company)
        episode.others = content_words(" ".join(self._bullets[other].text for other in company if other != name))
        episode.errors_before = frozenset(chain.errors)
        episode.failed_before = frozenset(chain.failing)
        chain.episodes.append(episode)

    def _call(self, chain: Chain, call: ToolCall) -> None:
        if not chain.episodes:
            remember(chain.steps, call.id, call)
            return
        if chain.answered:
            chain.uncommented, chain.quiet, chain.answered = [], [], False
        step = read_call(call)
        remember(chain.steps, call.id, step)
        edit = _edit_of(call)
        undone = _edit_of(call, inverse=True)
        for episode in chain.episodes:
            acted = episode.nature == "act" and not episode.watching and episode.turn == chain.turn
            if step.kind == "revert" and not episode.step_open and (episode.changed_after or acted):
                same = set(step.files) & episode.files or (acted and not episode.changed_after)
                if same or (not step.files and not episode.watching):
                    episode.add(Finding("agent", -1, 3, "reverted", step.command, "revert", step.family))
            if undone and undone in episode.own_edits and episode.nature != "check":
                episode.add(Finding("agent", -1, 3, "edited-back", step.command, "change", step.family))
            if chain.turn <= episode.topic_turn + 1 and _rewrites(call, episode.own_texts):
                rule = "rewritten" if episode.turn < chain.turn else "replaced"
                episode.add(Finding("agent", 0, 1, rule, step.command, "change", step.family))
            if not episode.watching:
                episode.add_call(step, call.id, edit)
                if step.kind == "change" and call.id in episode.own_calls:
                    episode.own_texts.append(str(call.input.get("new_string") or call.input.get("content") or "")[:400])

    # -- tools -------------------------------------------------------------------------------------

    def _result(self, chain: Chain, result: ToolResult) -> None:
        result = ToolResult(result.call_id, result.text[:_READ], result.is_error)
        known = chain.steps.pop(result.call_id, None)
        chain.answered = True
        if not chain.episodes:
            call = known if isinstance(known, ToolCall) else None
            if call is not None:
                started = _BACKGROUND.search(result.text[:400])
                if started:
                    remember(chain.tasks, started.group(1), (read_call(call), call.id))
                chain.before.append((call, result))
            return
        step = read_call(known) if isinstance(known, ToolCall) else known
        if step is None:
            return
        started = _BACKGROUND.search(result.text[:400])
        if started:
            remember(chain.tasks, started.group(1), (step, result.call_id))
        call_id = result.call_id
        if step.task and step.task in chain.tasks:
            origin, call_id = chain.tasks[step.task]
            step = Step(origin.kind, origin.family, origin.command, origin.files, "", origin.verifies)
        if step.kind == "plan":
            if not result.is_error and re.search(r"approved", result.text[:200]):
                approved = Finding("person", +1, 2, "plan-approved", "the plan was approved")
                for episode in chain.episodes:
                    if not episode.watching:
                        episode.add(approved, bearing="yes" if episode.nature in ("talk", "change", "act") else "no")
            return
        if step.kind in ("review", "delegate") and not result.is_error and len(result.text) > 80:
            self._review(chain, step, result)
            return
        self._outcome(chain, step, read_result(step, result), call_id)

    def _outcome(self, chain: Chain, step: Step, outcome: Outcome, call_id: str) -> None:
        if outcome.ending != "mechanics" and step.family in chain.slips:
            chain.slips.pop(step.family).excused = True
        if outcome.ending == "silent":
            if step.verifies or step.kind == "run":
                chain.quiet.append((step, call_id))
            return
        sign = +1 if outcome.ending == "passes" else -1
        finding = Finding("result", sign, outcome.strength, outcome.rule, outcome.quote, step.kind, step.family)
        finding.signature, finding.command = outcome.signature, step.command
        if outcome.ending == "mechanics":
            self._mechanics(chain, finding, call_id)
            return
        if sign > 0 and outcome.strength == 1:
            chain.quiet.append((step, call_id))
        chain.remember_failure(step, outcome)
        chain.uncommented.append(finding)
        chain.give(finding, call_id)

    def _mechanics(self, chain: Chain, finding: Finding, call_id: str) -> None:
        """Mechanics speak only about the advice that names that very step, and not if the next try works."""
        said = content_words(f"{finding.quote} {finding.command}")
        finding.strength = 2
        for episode in chain.episodes:
            if call_id in episode.own_calls and len(said & episode.bullet_words) >= 2:
                episode.add(finding, own=True)
                chain.slips[finding.family] = finding

    def _review(self, chain: Chain, step: Step, result: ToolResult) -> None:
        match = _REVIEW_FINDS.search(result.text)
        if match is None:
            return
        words = content_words(result.text)
        line = result.text[max(0, result.text.rfind("\n", 0, match.start())) :].strip().split("\n")[0]
        finding = Finding("result", -1, 2, "review-finding", " ".join(line.split())[:200], "review", step.family)
        for episode in chain.episodes:
            asked_for = result.call_id in episode.own_calls and episode.nature != "change"
            if asked_for or not (episode.files or episode.nature in ("talk", "change")):
                continue
            named = any(file in result.text.lower() for file in episode.files)
            same_turn = episode.topic_turn == chain.turn
            if episode.overlap(words) >= (3 if named else 6) and (named or same_turn):
                episode.add(finding)

    def _injected(self, chain: Chain, text: str) -> None:
        """Notifications of background tasks are results that come late; all else here is the client's."""
        if not chain.episodes or not _NOTICE.search(text[:200]):
            return
        for episode in chain.episodes:
            episode.step_open = False  # what the agent does now, it does because of the notice
        task = _TASK_ID.search(text)
        step, call_id = chain.tasks.get(task.group(1).strip(), (None, "")) if task else (None, "")
        if step is None or step.kind in ("delegate", "review", "look", "tidy", "admin"):
            return
        summary = re.search(r"<summary>(.*?)</summary>", text, re.DOTALL)
        words = " ".join(summary.group(1).split())[:200] if summary else ""
        if re.search(r"<status>failed|failed with exit code|exit code [1-9]", text):
            self._outcome(chain, step, Outcome("fails", 2, words, "", "background-failed"), call_id)
        elif "exit code 0" in text and step.kind in CHECKS:
            self._outcome(chain, step, Outcome("passes", 2, words, "", "background-done"), call_id)

    # -- people ------------------------------------------------------------------------------------

    def _person(self, chain: Chain, message: Message) -> None:
        chain.turn += message.origin == "human"  # a refusal is no turn of its own: its sequel is
        if not chain.episodes:
            return
        self._decide_pending(chain, "")
        for episode in chain.episodes:
            episode.stopped = episode.stopped or (
                message.origin == "refusal" and episode.step_open and bool(episode.own) and not episode.watching
            )
            episode.step_open = False
        if message.origin == "refusal" and not message.text.strip():
            note = Finding("person", 0, 1, "interrupted", "interrupted without a reason")
            for episode in chain.episodes:
                if not episode.watching:
                    episode.add(note)
            return
        stance = read_stance(message.text, refused=message.origin == "refusal", answers=chain.asked)
        chain.pending = stance
        if message.origin == "refusal":
            self._decide_pending(chain, "")

    def _decide_pending(self, chain: Chain, reaction: str, *, certain: bool = True) -> None:
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
            about = stance.about | content_words(reaction[:300])
            stance = replace(stance, bearing="corrects", strength=2, rule="agent-concedes", about=about)
        elif taken == "glad" and stance.bearing in ("other", "asks", "continues"):
            stance = replace(stance, bearing="approves", strength=2, rule="agent-glad")
        elif stance.objects and stance.strength == 1 and taken != "concedes":
            stance = replace(stance, bearing="other", strength=0, rule="")
        self._take(chain, stance)
        chain.asked = False

    def _take(self, chain: Chain, said: Stance) -> None:
        named = {id(episode): episode.overlap_with_advice(said.bad or said.about) for episode in chain.episodes}
        for episode in chain.episodes:
            rivals = (named[id(other)] for other in chain.episodes if other.at == episode.at)
            part = _part_for(episode, said)
            other = part.objects and named[id(episode)] < max(rivals)
            self._hear(chain, episode, part, about_another=other)

    def _hear(self, chain: Chain, episode: Episode, stance: Stance, *, about_another: bool) -> None:
        """One episode takes a person's message; of bullets cited together an objection meets the one it names."""
        sign = -1 if stance.objects else +1 if stance.bearing in ("approves", "builds_on") else 0
        finding = Finding("person", sign, stance.strength, stance.rule, stance.quote, stance=stance)
        if episode.watching:
            if names_as_the_agents(episode, stance):
                episode.add(finding)
                return
            late = stance.objects and stance.strength == 3 and episode.nature in ("change", "act")
            named = episode.overlap_with_advice(stance.about)
            if late and named >= 2 and (stance.bearing == "symptom" or 2 * named >= len(episode.bullet_words)):
                episode.add(finding)
            elif failed_after_shipping(episode, stance, chain.turn):
                episode.add(finding, bearing="maybe")
            return
        bearing: Bearing = "hint" if about_another else bears(episode, stance, chain.turn)
        if stance.bearing in ("approves", "builds_on", "corrects", "symptom", "mixed"):
            episode.add(finding, bearing=bearing)
        episode.watching = _ends_topic(episode, stance, bearing)
        if stance.bearing in ("builds_on", "continues", "mixed") or (stance.objects and bearing in ("yes", "maybe")):
            episode.topic_turn = chain.turn


def _part_for(episode: Episode, said: Stance) -> Stance:
    """Of a mixed message the part that names the advice, the whole where both or neither do."""
    if said.bearing != "mixed" and not said.good:
        return said
    praised, blamed = episode.overlap_with_advice(said.good), episode.overlap_with_advice(said.bad)
    if said.bearing == "corrects":
        if not praised or blamed:
            return said
        return replace(said, bearing="approves" if praised >= 2 else "mixed", about=said.good)
    if praised >= 2 and not blamed and said.rule.startswith("praises"):
        return replace(said, bearing="approves", about=said.good)
    if blamed and not praised and episode.nature in ("change", "act"):
        return replace(said, bearing="corrects", about=said.bad)
    return said


def _ends_topic(episode: Episode, stance: Stance, bearing: Bearing) -> bool:
    """Return whether the conversation has left the topic with this message."""
    if stance.bearing == "other" or stance.rule == "ship-it":
        episode.shipped = stance.rule == "ship-it"
        return True
    if stance.bearing == "approves":
        return stance.words > 6
    if stance.bearing == "asks":
        episode.questions += 1
        return episode.questions > 1 or bearing == "no"
    return stance.objects and bearing in ("hint", "no")


def _edit_of(call: ToolCall, *, inverse: bool = False) -> int:
    """Return a number for "this text became that text in this file"; 0 for calls that are no edit."""
    old, new = call.input.get("old_string"), call.input.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or not old or not new:
        return 0
    if inverse:
        old, new = new, old
    return crc32(f"{call.input.get('file_path')}\0{old}\0{new}".encode())


def _rewrites(call: ToolCall, texts: Iterable[str]) -> bool:
    """Return whether an edit replaces text that the cited step had written."""
    old = call.input.get("old_string")
    return (
        isinstance(old, str)
        and len(old.strip()) >= 4
        and any(old in text or (len(text) >= 4 and text in old) for text in texts)
    )
