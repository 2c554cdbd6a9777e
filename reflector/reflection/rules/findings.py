"""What is found about a citation, how much each finding weighs, and when that is enough for a verdict.

Invariant: a finding is there or not, and depends on one citation only. Neutral is the default: a tag is given only
where its estimate reaches the cutoff at which verdicts of its kind were right as often as the policy asks, on labelled
sessions that had no part in the weights. Weights and cutoffs are data: `python -m benchmarks.judgement --fit` writes
them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from reflector.events.sessions import CALLED_WRONG
from reflector.playbook.counting import Verdict, decisive
from reflector.reflection.rules.citation import Citation, Heard, Ran
from reflector.reflection.rules.people import Remark
from reflector.reflection.rules.steps import CHECKS

Side = Literal["helpful", "harmful"]
SIDES: tuple[Side, Side] = ("helpful", "harmful")

#: Every finding, in the order of docs/judging.md: why it decides, in a few words, and when it is there.
FINDINGS: dict[str, tuple[str, str]] = {
    "objects": ("a person objected", "the first word on the step is an objection to it"),
    "names-the-advice": (
        "a person objected and named it",
        "that objection shares a word with the advice or its files",
    ),
    "objects-strongly": ("a person objected strongly", "that objection has two signs or more"),
    "agent-concedes": ("a person corrected the agent", "the agent took that message as a correction"),
    "objects-elsewhere": (
        "a person objected to something",
        "the first word is an objection that names nothing of the advice, and the advice is to look or to check, or "
        "more than 15 calls lie between",
    ),
    "objects-later": (
        "a person objected later and named it",
        "one of the next four messages objects and shares a word with the advice",
    ),
    "replaced": (
        "the agent replaced what it had written",
        "the agent rewrote, unasked and in the same turn, what the step had written",
    ),
    "praised": ("a person praised it", "the first word is praise or says that it works, and the step had not failed"),
    "accepted": (
        "a person accepted it",
        "a person praises it so, or has the work committed, pushed, merged or released before anybody objects",
    ),
    "agreed": ("a person let it go on", "a person let the work go on before the first word on it"),
    "silence": ("nobody said anything after it", "no person says anything after the step"),
    "check-passed": (
        "a check passed after it",
        "a check of the step passed, or the first test after it, nothing is red at the end, and nobody objected",
    ),
    "own-check": (
        "its own check passed",
        "that was a check of the step itself, or one that had been red before the citation",
    ),
    "went-through": (
        "it went through",
        "no person says anything after the step, it is commands only, each ended without an error, and nothing is red "
        "at the end",
    ),
    "advice-to-look": ("the advice is to look", "the advice begins with a verb of reading, searching or looking"),
    "advice-to-check": ("the advice is to check", "the advice begins with a verb of running, testing or verifying"),
}

_LOOKING = re.compile(
    r"(?:always |first |then )*(?:re-?)?(?:read|load|look|search|explore|inspect|examine|find|grep|research|browse"
    r"|consult|study|trace|locate|list|skim)\b",
    re.IGNORECASE,
)
_CHECKING = re.compile(
    r"(?:always |first |then |also |after [^,]{3,60}, )*(?:re-?)?(?:run|verify|test|check|validate|confirm|review"
    r"|compile|build|lint|reproduce|measure|benchmark|double-check|compare|watch|monitor|cover)\b",
    re.IGNORECASE,
)
#: Calls between the step and an objection that does not name it.
_FAR = 15
#: Changes between the step and a check that still is about it.
_NEAR = 2


@dataclass(frozen=True, slots=True)
class Found:
    """One finding: its quote, as written or printed, and the rows of wordings that it rests on."""

    name: str
    quote: str = ""
    rule: str = ""


def findings(citation: Citation) -> dict[str, Found]:
    """Return what is found about a citation, by name."""
    return {found.name: found for found in (*_people(citation), *_results(citation), *_advice(citation))}


def unread(citation: Citation) -> bool:
    """Return whether a person's words on the step are in a language that is not read: no green stands against them."""
    return any(heard.remark.kind == "unread" and not heard.conceded for heard in citation.heard[:2])


def _advice(citation: Citation) -> Iterator[Found]:
    if _LOOKING.match(citation.text):
        yield Found("advice-to-look")
    elif _CHECKING.match(citation.text):
        yield Found("advice-to-check")
    if citation.replaced:
        yield Found("replaced", " ".join(citation.replaced.split())[:200], "replaced")


def _people(citation: Citation) -> Iterator[Found]:
    if citation.agreed:
        yield Found("agreed")
    if not citation.heard:
        yield Found("silence")
        return
    word, *later = citation.heard
    if word.objects:
        yield from _objection(citation, word)
    elif accepts := _acceptance(citation):
        yield Found("accepted", accepts.quote, accepts.kind)
        if accepts.kind != "ships":
            yield Found("praised", accepts.quote, accepts.kind)
    if again := next((heard for heard in later if heard.objects and heard.shared), None):
        yield Found("objects-later", again.remark.quote, again.rule)


def _objection(citation: Citation, word: Heard) -> Iterator[Found]:
    quote, rule = word.remark.quote, word.rule
    if not word.shared and word.asked and not word.conceded:
        return  # a no to what the agent asked
    if not word.shared and (word.between > _FAR or _LOOKING.match(citation.text) or _CHECKING.match(citation.text)):
        yield Found("objects-elsewhere", quote, rule)
    else:
        yield Found("objects", quote, rule)
        if word.shared:
            yield Found("names-the-advice", quote, rule)
        if len(word.remark.signs) >= 2:
            yield Found("objects-strongly", quote, rule)
        if word.conceded:
            yield Found("agent-concedes", quote, rule)


def _acceptance(citation: Citation) -> Remark | None:
    """Return the first message that accepts the step, where none before it objects.

    What is praised after the step failed, or was replaced, is what came of it.
    """
    if citation.replaced or _LOOKING.match(citation.text):
        return None
    for heard in citation.heard:
        if heard.objects:
            return None
        near = _near(citation)
        is_praise = heard is citation.heard[0] and heard.remark.kind in ("praises", "mixed")
        if heard.remark.kind == "ships" or (is_praise and (near is None or near.passed)):
            return heard.remark
    return None


def _results(citation: Citation) -> Iterator[Found]:
    if citation.opposed or citation.replaced or _LOOKING.match(citation.text):
        return
    if not citation.own and not citation.agreed:
        return  # nothing was done that a check could speak of
    own = [ran for ran in citation.ran if ran.own and ran.kind != "ship"]
    firsts = {ran.check: ran for ran in reversed(citation.ran) if not ran.excused}
    mended = [ran for ran in firsts.values() if ran.mends and ran.changes <= _NEAR]
    near = _near(citation)
    red = _red(citation)
    ended = citation.ended
    went_through = len(ended) >= max(1, len(citation.calls)) and all(one.ending in ("passes", "ran") for one in ended)
    if went_through and not citation.heard and not red:
        yield Found("went-through", ended[-1].quote, ended[-1].rule)
    proof = None if red else own[-1] if own and own[-1].passed else mended[0] if mended else None
    if proof is not None:
        yield Found("own-check", proof.quote, proof.rule)
    shown = proof or (near if near is not None and near.passed and not red else None)
    if shown is not None and (shown is proof or shown.kind not in ("lint", "types", "build")):
        yield Found("check-passed", shown.quote, shown.rule)


def _near(citation: Citation) -> Ran | None:
    """Return the first result that speaks: of the step itself, or of a check soon after it."""
    for ran in citation.ran:
        if ran.excused or (ran.kind == "ship" and ran.passed) or not (ran.own or ran.changes <= _NEAR):
            continue
        if ran.kind in CHECKS or ran.own or (ran.kind in ("run", "install") and (ran.mends or not ran.passed)):
            return ran
    return None


def _red(citation: Citation) -> bool:
    """Return whether the last run of any check, or of a command of the step, failed."""
    last = {ran.check: ran for ran in citation.ran if not ran.excused}
    return any(not ran.passed and (ran.kind in CHECKS or ran.own) for ran in last.values())


@dataclass(frozen=True, slots=True)
class Weights:
    """What the fit wrote.

    version   goes into every answer as its model
    points    per side, the weight of each finding; "" is what a citation starts with
    cutoffs   per side, the estimate from which on that share of 100 verdicts was right, by that share
    """

    version: str
    points: Mapping[Side, Mapping[str, float]]
    cutoffs: Mapping[Side, Mapping[int, float]]

    def estimate(self, side: Side, names: Sequence[str]) -> float:
        """Return how likely a citation with these findings was helpful, or harmful."""
        points = self.points[side]
        return 1 / (1 + math.exp(-points[""] - sum(points.get(name, 0.0) for name in names)))

    def cutoff(self, side: Side, precision: int) -> float:
        """Return the estimate that a verdict has to reach where `precision` of 100 are to be right."""
        reached = [cutoff for share, cutoff in self.cutoffs[side].items() if share >= precision]
        return min(reached, default=1.0)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A verdict on one citation, or on all of a bullet in a window.

    reason     a few words without quotes
    quote      the decisive evidence, "" where there is none
    rule       the decisive finding and the wordings that it rests on
    estimates  how likely it was helpful and harmful, by findings alone
    found      the names of what was found
    """

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""
    estimates: tuple[float, float] = (0.0, 0.0)
    found: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def shipped() -> Weights:
    """Return the weights that ship with the package."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    cutoffs = {side: {int(share): float(cut) for share, cut in data["cutoffs"][side].items()} for side in SIDES}
    points = {side: {name: float(value) for name, value in data["points"][side].items()} for side in SIDES}
    return Weights(str(data["version"]), points, cutoffs)


def judge(citation: Citation, precision: int, weights: Weights, *, wrong_counts: bool = False) -> Weighed:
    """Return the verdict on one citation, where `precision` of 100 verdicts are to be right.

    What the agent called wrong is not helpful; harmful by that alone only where `wrong_counts`.
    """
    one = _judged(citation, precision, weights)
    if citation.wrong is None or one.tag == "harmful":
        return one
    tag: Verdict = "harmful" if wrong_counts else "neutral"
    return Weighed(tag, CALLED_WRONG, citation.wrong, found=one.found)


def _judged(citation: Citation, precision: int, weights: Weights) -> Weighed:
    if citation.declined:
        return Weighed("neutral", "the agent named the advice to decline it")
    found = findings(citation)
    names = tuple(found)
    estimates = (weights.estimate("helpful", names), weights.estimate("harmful", names))
    side = SIDES[estimates[1] > estimates[0]]
    # The finding with a quote that speaks most for that side.
    points = weights.points[side]
    quoted = [one for one in found.values() if one.quote and points.get(one.name, 0.0) > 0]
    best = max(quoted, key=lambda one: points[one.name], default=None)
    if max(estimates) < weights.cutoff(side, precision) or best is None:
        reason = "no evidence" if best is None else "too little for a verdict"
        return Weighed("neutral", reason, estimates=estimates, found=names)
    if side == "helpful" and unread(citation):
        return Weighed("neutral", "a person's words are not in English", estimates=estimates, found=names)
    rule = ", ".join(dict.fromkeys(part for part in (best.name, best.rule) if part))
    return Weighed(side, FINDINGS[best.name][0], best.quote, rule, estimates, names)


def merge(judgements: Sequence[Weighed]) -> Weighed:
    """Return one verdict for several citations of a bullet in one window, by the rule of `decisive`."""
    decided = decisive(judgements, lambda one: one.tag)
    if not decided:
        return max(judgements, key=lambda one: max(one.estimates), default=Weighed("neutral", "no evidence"))
    if len(decided) == 1:
        return decided[0]
    return Weighed("neutral", "helpful at one citation and harmful at another", decided[-1].quote, decided[-1].rule)
