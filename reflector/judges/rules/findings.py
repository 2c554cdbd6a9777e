"""The findings about a citation, and when they are a verdict.

Invariant: a finding is present or absent, speaks for one side, and depends on one citation only. If
all findings are on one side, they are a verdict. If there are none, or some on each side, the
result is neutral. A finding is kept as long as it is right nine times of ten on sessions that it
was not written on (`python -m benchmarks.judgement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from reflector.judges.reading.people import Remark
from reflector.judges.reading.steps import CHECKS
from reflector.judges.rules.citation import Citation, Result
from reflector.playbook.bullet import Verdict
from reflector.transcripts.citations import CALLED_WRONG

#: The model of every answer; the number changes whenever a verdict does.
VERSION = "rules/7"

#: The most calls between the step and a message on it, and the most changes between the step and a
#: check that is still about it.
_FAR = 20
_NEAR = 2
#: Kinds of calls that change nothing that a check could test.
_IDLE: frozenset[str] = frozenset({*CHECKS, "look", "tidy"})


class Evidence(NamedTuple):
    """The evidence of a finding.

    quote  the decisive words, as written or printed; for a call, the `command` of its step
    rule   the id of the wording that the quote matches; without one, the finding's own name
    """

    quote: str
    rule: str


class Finding(NamedTuple):
    """A finding: its side, and in a few words why it decides."""

    side: Literal["helpful", "harmful"]
    reason: str
    find: Callable[[Citation], Evidence | None]


def repeats(citation: Citation, remark: Remark) -> bool:
    """Return whether an objection repeats the advice, and does not say that the advice does harm.
    Then the advice was right, and the agent did not follow it.
    """
    shared = citation.about.keys() & remark.about.keys()
    if remark.kind != "objects" or _names_fault(citation, remark) or shared & remark.harms:
        return False
    if not shared or any(_is_opposed(citation, remark, word) for word in shared):
        return False
    is_told = not {"told", "omits"}.isdisjoint(remark.signs)
    return is_told or len(shared) > 1 or 2 * len(shared) >= len(citation.about)


def _is_opposed(citation: Citation, remark: Remark, word: str) -> bool:
    return citation.about[word] != remark.about[word]


def _names_fault(citation: Citation, remark: Remark) -> bool:
    """Return whether a message reports a fault in a clause with a word of the advice."""
    return remark.faulty is not None and not remark.faulty.isdisjoint(citation.about)


def _opposed(citation: Citation) -> Evidence | None:
    """Return the evidence that the user wants the opposite.

    Condition: your first message after the step objects to a word that the advice supports, and
    does not support any word of the advice
    """
    remark = _first_remark(citation)
    if remark is None or remark.kind != "objects":
        return None
    shared = citation.about.keys() & remark.about.keys()
    agrees = any(not _is_opposed(citation, remark, word) for word in shared)
    if agrees or not any(remark.about[word] for word in shared):
        return None
    return Evidence(remark.quote, "blames" if "blames" in remark.signs else "against")


def _faulty(citation: Citation) -> Evidence | None:
    """Return the evidence of a fault that a user reported.

    Condition: one of your first five messages, at most 20 calls after the step, reports a fault in
    a clause with a word of the advice. Or the first one reports a fault of "this" and contains a
    word of the advice. Not for advice that forbids
    """
    if citation.forbids:
        return None
    first = _first_remark(citation)
    if first is not None and _faults_this(citation, first):
        return Evidence(first.quote, "fault")
    near = [reply.remark for reply in citation.replies if reply.calls_between <= _FAR]
    remark = next((remark for remark in near if _names_fault(citation, remark)), None)
    return None if remark is None else Evidence(remark.quote, "fault")


def _faults_this(citation: Citation, remark: Remark) -> bool:
    """Return whether a message reports a fault of "this" and has a word of the advice."""
    is_reported = "fault" in remark.signs and remark.faulty is None
    return is_reported and not citation.about.keys().isdisjoint(remark.about)


def _undone(citation: Citation) -> Evidence | None:
    """Return the evidence that the user wants the step undone.

    Condition: your first message after the step asks the agent to undo the step. It names the
    advice, or the step cites no other rule. Not for advice that forbids
    """
    remark = _first_remark(citation)
    if remark is None or remark.kind != "objects" or "undoes" not in remark.signs:
        return None
    is_about_it = citation.is_alone or not citation.about.keys().isdisjoint(remark.about)
    return Evidence(remark.quote, "undoes") if is_about_it and not citation.forbids else None


def _refused(citation: Citation) -> Evidence | None:
    """Return the evidence that the user refused the step.

    Condition: you refused a tool call of the step, and gave a reason that does not repeat the
    advice. Not for advice that forbids
    """
    remark = _first_remark(citation)
    if remark is None or "refused" not in remark.signs or citation.replies[0].calls_between > 1:
        return None
    return None if citation.forbids else Evidence(remark.quote, "refused")


def _accepted(citation: Citation) -> Evidence | None:
    """Return the evidence that the user accepted the step.

    Condition: your first message that is neither a question nor a go-ahead accepts the work. The
    agent cited no other rule together with this rule, and did more than answer your question in
    words. The first result of the step, or of a check soon after it, is not a failure
    """
    if _faulty(citation) is not None or not citation.is_alone:
        return None
    # "Go on" (agrees) and a message about something else (other) show nothing about the step.
    opinions = (reply for reply in citation.replies if reply.remark.kind not in ("agrees", "other"))
    reply = next(opinions, None)
    if reply is None or reply.calls_between > _FAR or reply.remark.kind != "approves":
        return None
    # Praise right after a mere answer is for the answer, not for the advice.
    has_worked = bool(citation.step_kinds - {"look"}) or reply.calls_between > 0
    may_be_answer = bool(citation.step_kinds) or citation.answers
    if may_be_answer and not has_worked:
        return None
    first_result = next(filter(_is_near, citation.results), None)
    if first_result is not None and not first_result.passed:
        return None
    # The signs of a remark end with those of approval.
    return Evidence(reply.remark.quote, reply.remark.signs[-1])


def _is_near(result: Result) -> bool:
    """Return whether a result is evidence on the step: the step's own result, or that of a check
    soon after it. A successful commit or push is not.
    """
    has_ending = result.end.ending in ("passes", "fails")
    is_shipped = result.kind == "ship" and result.passed
    is_close = result.is_own or result.changes <= _NEAR
    return has_ending and is_close and not is_shipped


def _mended(citation: Citation) -> Evidence | None:
    """Return the evidence that the step repaired a failure.

    Condition: a check or command that failed before passes at its first run after the citation, or
    at its last run in the step. The step changed something, and all results at the end are green
    """
    # Of equal keys, the last one remains, which is the first run.
    first = {ran.check: ran for ran in reversed(citation.results) if _tells(ran)}
    last_of_step = {ran.check: ran for ran in citation.results if ran.is_own}
    passed = [ran for ran in (*first.values(), *last_of_step.values()) if ran.passed]
    mended = [ran for ran in passed if ran.check in citation.red]
    if not mended or _IDLE.issuperset(citation.step_kinds) or _has_failed(citation):
        return None
    return Evidence(mended[0].end.quote, mended[0].end.rule)


def _went_through(citation: Citation) -> Evidence | None:
    """Return the evidence that all commands of the step ran without an error.

    Condition: the step consists only of commands, each command ended without an error, all results
    at the end are green, and you write nothing afterwards. Commits and pushes alone count only if
    something failed before. Fetching a page does not count, and neither does a check that prints
    more than its result
    """
    step_results = [ran for ran in citation.results if ran.is_own]
    is_whole = len(step_results) >= max(len(citation.step_calls), 1)
    if not is_whole or not all(ran.passed for ran in step_results) or _has_failed(citation):
        return None
    is_routine = citation.step_kinds == {"ship"} and not citation.red
    if citation.replies or is_routine or not citation.is_plain:
        return None
    return Evidence(step_results[-1].end.quote, step_results[-1].end.rule)


def _tells(ran: Result) -> bool:
    return ran.end.ending not in ("silent", "mechanics")


def _has_failed(citation: Citation) -> bool:
    """Return whether a check, or a command of the step, failed at its last run. Also True if a user
    objects, or writes something that cannot be read.
    """
    kinds = {reply.remark.kind for reply in citation.replies[:2]}
    if "objects" in kinds or "unread" in kinds:
        return True
    last = {ran.check: ran for ran in citation.results if _tells(ran)}
    failed = [ran for ran in last.values() if not ran.passed]
    return any(ran.is_own or ran.kind in CHECKS for ran in failed)


def _first_remark(citation: Citation) -> Remark | None:
    """Return the user's first reply to the step; None if it comes too late."""
    if not citation.replies or citation.replies[0].calls_between > _FAR:
        return None
    return citation.replies[0].remark


#: Every finding, in the order of docs/judging.md: a verdict quotes the first that it has. The
#: docstring of a finding's function has its condition, in the words of that page.
FINDINGS: dict[str, Finding] = {
    "opposed": Finding("harmful", "the user wants the opposite of the rule", _opposed),
    "faulty": Finding("harmful", "the user reported a fault in the work", _faulty),
    "undone": Finding("harmful", "the user wants the work undone", _undone),
    "refused": Finding("harmful", "the user refused a tool call and gave a reason", _refused),
    "accepted": Finding("helpful", "the user accepted the work", _accepted),
    "mended": Finding("helpful", "a failed check or command passed after the citation", _mended),
    "went-through": Finding(
        "helpful", "all commands right after the citation succeeded", _went_through
    ),
}


class Judged(NamedTuple):
    """A verdict on one citation, or on all of a bullet in a window.

    reason    a few words without quotes
    quote     the decisive evidence, "" without any
    rule      the decisive finding and its wording
    names     the names of the findings
    followed  False if a user's objection repeats the advice
    """

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""
    names: tuple[str, ...] = ()
    followed: bool = True


def judge_citation(citation: Citation, *, wrong_counts: bool) -> Judged:
    """Return the verdict on one citation. Advice that the agent called wrong is not helpful. It is
    harmful for that reason alone only if `wrong_counts`.
    """
    judged = _judge_by_findings(citation)
    if not citation.wrong or judged.tag == "harmful":
        return judged
    tag: Verdict = "harmful" if wrong_counts else "neutral"
    return Judged(tag, CALLED_WRONG, citation.wrong, names=judged.names)


def _judge_by_findings(citation: Citation) -> Judged:
    """Return the verdict on a citation: that of its findings, if all of them are on one side."""
    if citation.declined:
        return Judged("neutral", "the agent cited the rule to decline it")
    if citation.replies and repeats(citation, citation.replies[0].remark):
        reason = "the rule is right, but the agent did not follow it: the user repeated the rule"
        return Judged("neutral", reason, citation.replies[0].remark.quote, followed=False)
    tried = {name: finding.find(citation) for name, finding in FINDINGS.items()}
    evidence = {name: basis for name, basis in tried.items() if basis is not None}
    names = tuple(evidence)
    sides = {FINDINGS[name].side for name in names}
    if len(sides) != 1:
        return Judged("neutral", "evidence for both sides" if sides else "no evidence", names=names)
    best = names[0]
    rule = ", ".join(dict.fromkeys((best, evidence[best].rule)))
    return Judged(sides.pop(), FINDINGS[best].reason, evidence[best].quote, rule, names)


def merge_judged(by_tag: Mapping[str, Judged]) -> Judged:
    """Return one verdict for several citations of a bullet in one window, from the first one with
    each tag. A verdict beats neutral. Two that contradict each other become neutral, because it is
    unknown which one is stronger.
    """
    decided = [judged for tag, judged in by_tag.items() if tag != "neutral"]
    if len(decided) == 2:
        reason = "helpful at one citation and harmful at another"
        return Judged("neutral", reason, decided[1].quote, decided[1].rule)
    nothing = by_tag.get("neutral", Judged("neutral", "no evidence"))
    return decided[0] if decided else nothing
