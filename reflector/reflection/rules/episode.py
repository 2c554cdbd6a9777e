# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""One citation and what followed it: the state that the evidence reader keeps per open citation.

Invariant: an episode is bounded. It keeps verdict-sized facts (a rule, a quote of 200 characters, a
family), never a message, so a transcript of any length is judged in flat memory.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from reflector.playbook.bullet import Bullet
from reflector.reflection.rules.steps import CHECKS, Kind, Step, files_in
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.user_reaction import Stance

Nature = Literal["change", "check", "act", "look", "tidy", "talk"]
Aim = Literal["look", "check", "change", "tidy", ""]
#: Whether a person's message is about the cited step. "hint": too little to condemn it, enough to doubt a green.
Bearing = Literal["yes", "maybe", "hint", "no"]

_CHECKING = re.compile(
    r"\b(?:(?:re-?)?run(?:ning)?\b.{0,40}\b(?:tests?|suite|lint\w*|build|checks?|type-?check\w*|type checker|ci|benchmarks?|linters?)|tests?\b|verif\w+|validat\w+|lint\w*|type-?check\w*|build(?:ing)? (?:after|before|the)|confirm\w*|reproduc\w+|double-check|smoke|ci\b|review\w*)",
    re.IGNORECASE,
)
#: Advice to run checks, however much the agent changed in the same breath.
_RUNS_CHECKS = re.compile(
    r"(?:\w+ly |always |first |then )*(?:re-?run|run|verify|check|validate|lint|build|compile|type-?check|execute)\b",
    re.IGNORECASE,
)
_LOOKING = re.compile(
    r"\b(?:read\w*|look\w*|search\w*|grep\w*|inspect\w*|explor\w+|understand\w*|examin\w+|investigat\w+|diagnos\w+|trace\w*|find\w*|check\w*|research\w*|survey\w*|measure\w*|compare\w*|gather\w*|consult\w*|root cause|(?:the|in|from|server|error) logs?)\b",
    re.IGNORECASE,
)
_CHANGING = re.compile(
    r"\b(?:implement\w*|fix(?:es|ing)?|add(?:ing|s)?|update\w*|refactor\w*|rewrit\w+|writ(?:e|ing)|create\w*|creating|replac\w+|renam\w+|remov\w+|mov(?:e|ing)|chang\w+|extract\w*|use|using|keep|store|wrap\w*|split\w*|make|making|apply\w*|migrat\w+|configur\w+|set(?:ting)? up|edit\w*|modif\w+|upgrad\w+|bump\w*|install\w*|pin(?:ning)?|deploy\w*|switch\w*|convert\w*|enable|disable|cache|hide|silence|retry|rename)\b",
    re.IGNORECASE,
)

#: Advice on how work is recorded or told: no test can speak about it.
_TIDYING = re.compile(
    r"(?:always |please )?(?:(?:make |do |use |write |create )?(?:a |one |an? \w+ |small |separate |atomic |short )*(?:commits?|branch(?:es)?|pull requests?|prs?|changelogs?|commit messages?|release notes|summar\w+)\b|commit\w*|tag\b|tagging|squash\w*|summari[sz]e|(?:end|finish|close) with (?:a|the) (?:\w+ )?summary)",
    re.IGNORECASE,
)
_PROSE = re.compile(r"\.(?:md|txt|rst|adoc)$")
#: "before editing", "when a test fails": the occasion of a piece of advice, not what it asks for.
_OCCASION = re.compile(
    r"\b(?:before|after|when(?:ever)?|while|without|instead of|rather than|prior to|once|until|unless|if|so that|because|since|even)\b[^,.;:]*",
    re.IGNORECASE,
)


#: "it does not apply here": advice that was named only to say why it was not followed.
_DECLINED = re.compile(
    r"\b(?:does ?n[o']?t|do ?n[o']?t|not|is ?n[o']?t|n/a) (?:really |quite )?(?:apply|applicable|relevant|fit|concern)\b|\bnot (?:following|going to follow)\b|\b(?:ignor|skipp?|disregard|overrid|deviat|depart)(?:e|es|ing) (?:from )?(?:it|this|that|the (?:advice|rule|guideline|note|bullet|playbook|pattern|usual))?\s*(?:here|this time|for now|\[|[.,;:(—–-])|\b(?:contrary to|against|despite|unlike) (?:the )?(?:advice|rule|guideline|playbook|note)?\s*\[",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


@dataclass(slots=True)
class Finding:
    """One piece of evidence, shared by all episodes that saw it.

    sign      +1 speaks for the advice, -1 against it, 0 says that it is ambiguous
    excused   the agent said that this failure was expected, or was there before
    """

    source: Literal["person", "result", "agent"]
    sign: int
    strength: int
    rule: str
    quote: str
    kind: Kind | Literal["words"] = "words"
    family: str = ""
    signature: str = ""
    command: str = ""
    excused: bool = False
    stance: Stance | None = None


@dataclass(slots=True)
class Seen:
    """A finding as one episode saw it: from its own step or a later one, about its topic or not."""

    finding: Finding
    own: bool
    bearing: Bearing
    watching: bool

    @property
    def related(self) -> bool:
        """True unless the finding is, for all one can tell, about something else."""
        return self.bearing in ("yes", "maybe")


@dataclass(slots=True)
class Episode:
    """A citation that is still open.

    words      content words of the bullet and of what the agent wrote beside the citation
    failed_before  commands that failed before the citation, without what they are piped into
    own        kinds of the calls of the cited step, at most 12
    own_calls  ids of those calls
    step_open  the step goes on until the agent speaks again after a call, or a person does
    declined   the agent named the advice to say that it does not apply
    company    how many pieces of advice were cited in the same message
    others     content words of those that are not this one
    stopped    a person interrupted or refused a call of the cited step
    watching   the topic has ended: only "still", reverts, red CI and reviews of the same files count
    """

    name: str
    bullet: Bullet
    turn: int
    at: int
    cited: str
    words: frozenset[str]
    bullet_words: frozenset[str]
    errors_before: frozenset[str] = frozenset()
    failed_before: frozenset[str] = frozenset()
    files: set[str] = field(default_factory=set)
    own: list[Kind] = field(default_factory=list)
    own_verifies: bool = False
    own_calls: set[str] = field(default_factory=set)
    own_edits: set[int] = field(default_factory=set)
    own_texts: list[str] = field(default_factory=list)
    declined: bool = False
    stopped: bool = False
    company: int = 1
    others: frozenset[str] = frozenset()
    own_commands: list[str] = field(default_factory=list)
    own_files: list[str] = field(default_factory=list)
    step_open: bool = True
    last_of_turn: bool = True
    changed_after: bool = False
    changed_later: bool = False
    calls_later: int = 0
    questions: int = 0
    topic_turn: int = 0
    shipped: bool = False
    watching: bool = False
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=64))

    def add_call(self, step: Step, call_id: str, edit: int) -> None:
        """Takes a call that comes after the citation; the cited step's own ones are remembered."""
        if step.kind == "change":
            self.changed_after = True
        if not self.step_open or step.kind in ("admin", "poll") or len(self.own) >= 12:
            self.changed_later = self.changed_later or step.kind == "change"
            self.calls_later += step.kind != "admin"
            return
        self.own.append(step.kind)
        self.own_calls.add(call_id)
        self.own_commands.append(step.command)
        self.own_verifies = self.own_verifies or step.verifies
        if step.kind in ("change", "review", "test"):
            self.files.update(step.files)
        if step.kind == "change":
            self.own_files.extend(step.files)
        if edit:
            self.own_edits.add(edit)

    def add(self, finding: Finding, *, own: bool = False, bearing: Bearing = "yes") -> None:
        """Takes one piece of evidence."""
        self.seen.append(Seen(finding, own, bearing, self.watching))

    @property
    def nature(self) -> Nature:
        """What kind of step was cited: it decides which evidence can speak about it."""
        own = set(self.own)
        if "look" in own and not own & CHECKS and aim_of(self.bullet.text) == "look":
            return "look"  # what was changed in the same breath is another step
        if aim_of(self.bullet.text) == "tidy" and "revert" not in own:
            return "tidy"
        if "change" in own and not (own & CHECKS and _RUNS_CHECKS.match(self.bullet.text)):
            return "change"
        if own & {"install", "ship", "run"} and not self.own_verifies and aim_of(self.bullet.text) == "change":
            return "act"
        if own & CHECKS or "review" in own:
            return "check"
        if own & {"run", "install", "ship", "revert", "delegate"}:
            return "check" if self.own_verifies else "act"
        if "look" in own:
            if self.own_verifies:
                return "check"
            if self.aims_at_change and self.changed_after:
                return "change"
            return "look"
        if own & {"tidy"}:
            return "tidy"
        if not own and self.changed_after and self.aims_at_change:
            return "change"
        return "talk"

    @property
    def documents(self) -> bool:
        """The step changed nothing but prose, which no test or type checker reads."""
        return "change" in self.own and bool(self.own_files) and all(_PROSE.search(file) for file in self.own_files)

    @property
    def aims_at_change(self) -> bool:
        """The advice speaks first of changing something, not of looking or checking."""
        return aim_of(self.bullet.text) == "change"

    @property
    def aims_at_check(self) -> bool:
        """The advice is about running tests, builds, linters or reviews."""
        return _CHECKING.search(self.bullet.text) is not None

    @property
    def aims_at_look(self) -> bool:
        """The advice is about reading or investigating."""
        return _LOOKING.search(self.bullet.text) is not None

    def overlap(self, words: frozenset[str]) -> int:
        """Return how many content words a text shares with the advice, the words beside it and its files."""
        return len(words & self.words) + self._files_in(words)

    def overlap_with_advice(self, words: frozenset[str]) -> int:
        """Return how many content words a text shares with the advice itself and the files of its step."""
        return len(words & self.bullet_words) + self._files_in(words)

    def _files_in(self, words: frozenset[str]) -> int:
        return sum(1 for file in self.files if file in words or not content_words(file.split(".")[0]).isdisjoint(words))


@lru_cache(maxsize=512)
def aim_of(advice: str) -> Aim:
    """Return what a piece of advice asks for: the first verb outside its occasion."""
    core = _OCCASION.sub(" ", advice)
    if _TIDYING.match(core):
        return "tidy"
    first: tuple[int, Aim] = (len(core) + 1, "")
    aims: tuple[tuple[Aim, re.Pattern[str]], ...] = (("check", _CHECKING), ("look", _LOOKING), ("change", _CHANGING))
    for aim, expression in aims:
        match = expression.search(core)
        if match is not None and match.start() < first[0]:
            first = (match.start(), aim)
    return first[1]


def opened(name: str, bullet: Bullet, *, turn: int, at: int, text: str) -> Episode:
    """Return a new episode for a citation of `bullet` in an assistant's `text`."""
    cited = re.sub(r"\[(?:[a-z]+-\d+|kpt_\d+)\]", " ", text[:2000])
    bullet_words = content_words(bullet.text)
    episode = Episode(name, bullet, turn, at, cited[:400], bullet_words | content_words(cited), bullet_words)
    episode.files.update(files_in(bullet.text))
    episode.declined = any(f"[{name}]" in part and _DECLINED.search(part) for part in _SENTENCE.split(text[:2000]))
    episode.topic_turn = turn
    return episode


#: Wordings that point at the work just done, whatever else they name.
_POINTING = frozenset({"not-what-i-asked", "calls-it-wrong", "take-it-back", "stop", "refused-with-reason", "no"})
_ABOUT_CHECKS = re.compile(r"\b(?:tests?|ci|build|lint\w*|pipeline|type ?check|compil\w+|checks?)\b", re.IGNORECASE)


def bears(episode: Episode, stance: Stance, turn: int) -> Bearing:
    """Return whether a person's message is about the cited step: running the tests is not refuted by a wrong colour.

    The first message after the topic's last turn may speak of "it"; a later one must name the advice.
    """
    broad = stance.deictic
    remote = len(stance.about) >= 2 and not episode.overlap(stance.about)
    if episode.stopped and stance.objects and turn - episode.topic_turn <= 1:
        return "yes"  # the reason of the interrupt
    advice = episode.overlap_with_advice(stance.about)
    if names_as_the_agents(episode, stance):
        return "yes"
    if turn - episode.topic_turn > 1:
        return "yes" if advice >= 2 and (episode.nature in ("change", "act") or not stance.objects) else "no"
    if episode.nature == "check":
        named = stance.bearing == "symptom" and _ABOUT_CHECKS.search(stance.quote) is not None
        objection: Bearing = "hint" if advice else "no"
        return "yes" if advice >= 2 or named or not stance.objects else objection
    if episode.nature == "tidy":
        return "yes" if advice >= 2 else "no"
    if episode.nature == "look":
        if stance.bearing == "approves" and stance.strength == 3 and _PRAISES_FIND.search(stance.quote):
            return "yes"
        return "yes" if advice >= 2 or (broad and not episode.changed_after) else "no"
    shared = episode.overlap(stance.about)
    points = stance.rule in _POINTING
    named = stance.words <= 60 and not stance.about.isdisjoint(episode.bullet_words | episode.files)
    if advice >= 2 or named or (points and shared) or not stance.objects:
        return "yes"
    if broad:
        return "maybe" if remote and not points and not _PERSISTS.match(stance.quote) else "yes"
    if advice or shared >= 2 or points or stance.words <= 8:
        return "maybe"
    if episode.nature == "change" and stance.bearing == "symptom" and _ABOUT_CHECKS.search(stance.quote):
        return "maybe"
    return "hint" if episode.nature == "change" and stance.strength == 3 else "no"


_PRAISES_FIND = re.compile(
    r"\b(?:good|great|nice|excellent|amazing) (?:catch|find|call|spot|thinking|detective)", re.IGNORECASE
)
#: "no difference", "still red": said of what was done last, whatever else is named.
_PERSISTS = re.compile(
    r"(?:(?:no|nope|nah|h+m+|ok|sorry|ugh|well|uh)[,.!]* )*(?:no (?:difference|change|effect|luck)|still\b|same\b|(?:it |that |this )?(?:did ?n[o']?t|does ?n[o']?t) (?:help|fix|change|work)|not fixed|nothing changed)",
    re.IGNORECASE,
)
_YOURS = re.compile(
    r"\b(?:your|you(?:'ve| have)? (?:just )?(?:added|made|introduced|used|put in|wrote|built|did)(?: (?:a|an|the|this|that))?)((?: [\w.-]+){1,3})",
    re.IGNORECASE,
)


def names_as_the_agents(episode: Episode, stance: Stance) -> bool:
    """Return whether a person objects to what they call the agent's: "since your cache", "you added an index"."""
    if not stance.objects or episode.nature not in ("change", "act"):
        return False
    theirs = content_words(" ".join(match.group(1) for match in _YOURS.finditer(stance.quote)))
    return not theirs.isdisjoint(episode.bullet_words)


def failed_after_shipping(episode: Episode, stance: Stance, turn: int) -> bool:
    """Return whether a person reports red checks soon after having had the step's change committed or pushed."""
    named = stance.bearing == "symptom" and _ABOUT_CHECKS.search(stance.quote) is not None
    return named and episode.shipped and episode.nature == "change" and turn - episode.topic_turn <= 2
