"""What is found about a citation: the few documented signals that a verdict is weighed from.

Invariant: a finding is there or not, and depends on one citation only. How much it weighs is not said here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reflector.reflection.rules.citation import Citation, Heard, Ran
from reflector.reflection.rules.people import Remark
from reflector.reflection.rules.steps import CHECKS

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
