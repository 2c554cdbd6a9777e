"""From evidence to a tag: which kind of evidence outranks which, and when it is neutral.

Invariant: neutral is the default. A tag other than neutral names one decisive finding, and findings
that contradict each other at the same rank cancel to neutral. Ranks, highest first: a person's
objection, a person's approval, the agent's own revert, checks and commands, a find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reflector.reflection.protocol import Verdict
from reflector.reflection.rules.episode import Episode, Seen
from reflector.reflection.rules.steps import CHECKS, files_in


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a sentence without quotes; `quote` is the decisive evidence, "" where there is none."""

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""


_NO_EVIDENCE = Judgement("neutral", "no evidence")


def judge(episode: Episode) -> Judgement:
    """The verdict on one citation."""
    if episode.declined:
        return Judgement("neutral", "the agent named the advice to decline it")
    seen = list(episode.seen)
    results = _results(episode, seen)
    persons = _persons(episode, seen)
    if persons is not None:
        return _with_agent(episode, seen, persons, results) or _with_results(episode, persons, results)
    reverted = _last(
        seen, lambda s: s.finding.source == "agent" and s.finding.sign < 0 and s.finding.strength >= 2 and s.related
    )
    if reverted is not None and (reverted.finding.strength == 3 or results is None or results.tag != "helpful"):
        return Judgement("harmful", "the agent took its own step back", reverted.finding.quote, reverted.finding.rule)
    if results is not None and results.tag == "harmful":
        return results
    reviewed = _last(seen, lambda s: s.finding.rule == "review-finding")
    if reviewed is not None:
        if results is not None:
            return Judgement(
                "neutral", "a review found faults and the checks passed later", reviewed.finding.quote, "review-finding"
            )
        return Judgement("harmful", "a review found faults in it", reviewed.finding.quote, "review-finding")
    if results is not None and results.tag == "helpful":
        doubt = _last(seen, lambda s: s.finding.source == "person" and s.finding.sign < 0 and s.bearing == "hint")
        if doubt is not None:
            reason = "checks passed and a person reported a problem that may be of its making"
            return Judgement("neutral", reason, doubt.finding.quote, doubt.finding.rule)
        rewritten = episode.nature in ("change", "act") and any(s.finding.rule == "rewritten" for s in seen)
        if rewritten and results.rule != "runs-now":
            return Judgement("neutral", "checks passed and a person had it rewritten", results.quote, results.rule)
        return results
    find = next((s for s in seen if s.finding.rule == "finds" and s.own), None)
    objected = any(s.finding.source == "person" and s.finding.sign < 0 and s.bearing != "no" for s in seen)
    if (
        find is not None
        and not objected  # what was found led to something that a person did not want
        and (episode.nature in ("look", "check", "act") or episode.aims_at_check or episode.aims_at_look)
        and not _interrupted(seen)
    ):
        return Judgement("helpful", "the step found what it was for", find.finding.quote, "finds")
    if results is not None:
        return results
    return _NO_EVIDENCE


# -- people ----------------------------------------------------------------------------------------


def _persons(episode: Episode, seen: Sequence[Seen]) -> Judgement | None:
    """What people said about the step, None where they said nothing that bears on it."""
    heard = [
        s
        for s in seen
        if (s.finding.source == "person" and s.finding.stance is not None) or s.finding.rule == "plan-approved"
    ]
    objections = [s for s in heard if s.finding.sign < 0 and s.finding.strength >= 2 and s.related]
    approvals = [s for s in heard if s.finding.sign > 0 and _approves(episode, s)]
    mixed = [s for s in heard if s.related and s.finding.stance is not None and s.finding.stance.bearing == "mixed"]
    if objections and approvals:
        overtaken = seen.index(objections[-1]) > seen.index(approvals[-1])
        if overtaken and not _accepts_only(approvals[-1]) and objections[-1].bearing == "maybe":
            return Judgement("helpful", "a person approved", approvals[-1].finding.quote, approvals[-1].finding.rule)
        if overtaken:
            return _harm(objections[-1])
        kept = approvals[-1].finding.stance
        symptom = objections[-1].finding.stance is not None and objections[-1].finding.stance.bearing == "symptom"
        if kept is None or kept.strength < 3 or not (symptom or kept.rule == "takes-back"):
            return _harm(objections[-1])  # what is approved now is what the objection made of it
        return Judgement(
            "neutral", "a person objected and approved later", approvals[-1].finding.quote, approvals[-1].finding.rule
        )
    if mixed and all(s.bearing == "maybe" for s in objections):
        objections = []
    if objections:
        return _harm(next((s for s in objections if s.bearing == "yes"), objections[0]))
    if mixed:
        return Judgement("neutral", "a person found it partly right", mixed[-1].finding.quote, mixed[-1].finding.rule)
    if approvals:
        said = max(approvals, key=lambda s: s.finding.strength)
        reason = "a person built on it" if _accepts_only(said) else "a person approved"
        return Judgement("helpful", reason, said.finding.quote, said.finding.rule)
    return None


def _harm(seen: Seen) -> Judgement:
    stance = seen.finding.stance
    symptom = stance is not None and stance.bearing == "symptom"
    reason = "a person reported that the problem is there" if symptom else "a person objected"
    if seen.finding.rule == "refused-with-reason":
        reason = "a person refused the call and said why"
    return Judgement("harmful", reason, seen.finding.quote, seen.finding.rule)


def _accepts_only(seen: Seen) -> bool:
    stance = seen.finding.stance
    return stance is None or stance.bearing == "builds_on"


def _approves(episode: Episode, seen: Seen) -> bool:
    """Whether approval or acceptance covers this step: "go ahead" accepts what was proposed, not what was read."""
    stance = seen.finding.stance
    if not seen.related:
        return False
    if stance is None:
        return True
    if episode.stopped:
        return episode.overlap_with_advice(stance.about) >= 2  # it was not carried out
    if stance.strength == 1:
        return episode.nature == "talk" and episode.last_of_turn and stance.words <= 12
    if stance.bearing == "builds_on" and stance.rule != "ship-it":
        return episode.nature == "talk" or episode.overlap_with_advice(stance.about) >= 2
    return True


def _with_results(episode: Episode, persons: Judgement, results: Judgement | None) -> Judgement:
    """A person's word against what the checks say: agreement can be overtaken by failure."""
    if persons.tag == "harmful" and results is not None and results.tag == "helpful":
        said = [s for s in episode.seen if s.finding.rule == persons.rule and s.finding.quote == persons.quote]
        if all(s.bearing == "maybe" for s in said):
            return Judgement(
                "neutral", "checks passed and a person objected to something else", persons.quote, persons.rule
            )
    if persons.tag == "helpful" and results is not None and results.tag == "harmful":
        last_person = max((i for i, s in enumerate(episode.seen) if s.finding.source == "person"), default=-1)
        last_failure = max(
            (i for i, s in enumerate(episode.seen) if s.finding.source == "result" and s.finding.sign < 0), default=-1
        )
        if last_failure > last_person:
            return Judgement("neutral", "a person approved and a failure followed", results.quote, results.rule)
    return persons


def _with_agent(
    episode: Episode, seen: Sequence[Seen], persons: Judgement, results: Judgement | None
) -> Judgement | None:
    """Approval of what the agent made after it had taken the step back, or a review had found it faulty."""
    if persons.tag != "helpful":
        return None
    said = [i for i, s in enumerate(seen) if s.finding.rule == persons.rule and s.finding.quote == persons.quote]
    earlier = seen[: said[0]] if said else []
    undone = _last(earlier, lambda s: s.finding.source == "agent" and s.finding.sign < 0 and s.finding.strength == 3)
    if undone is not None:
        return Judgement("harmful", "the agent took its own step back", undone.finding.quote, undone.finding.rule)
    left = _left(earlier)
    if left is not None and _is_deed(episode):
        if seen[said[0]].finding.strength < 3 and left.finding.rule == "abandons":
            return _failed("it failed and the agent went another way", left)
        return Judgement(
            "neutral", "a person approved what the agent made after it failed", persons.quote, persons.rule
        )
    stance = seen[said[0]].finding.stance if said else None
    if stance is not None and stance.more and any(s.finding.rule == "rewritten" for s in seen[said[0] :]):
        return Judgement("neutral", "a person was polite and had it rewritten", persons.quote, persons.rule)
    reviewed = _last(earlier, lambda s: s.finding.rule == "review-finding")
    if reviewed is not None and seen[said[0]].finding.strength < 3:
        reason = "a review found faults in it"
        if results is not None and results.tag == "helpful":
            return Judgement("neutral", reason, reviewed.finding.quote, reviewed.finding.rule)
        return Judgement("harmful", reason, reviewed.finding.quote, reviewed.finding.rule)
    return None


def _interrupted(seen: Sequence[Seen]) -> bool:
    return any(s.finding.rule == "interrupted" for s in seen)


# -- results ---------------------------------------------------------------------------------------


def _results(episode: Episode, seen: Sequence[Seen]) -> Judgement | None:
    """What checks and commands say about the step, None where none of them can speak about it."""
    nature = episode.nature
    if nature in ("tidy", "talk"):
        return None
    told = [
        s for s in seen if s.finding.source == "result" and s.finding.rule != "review-finding" and _speaks(episode, s)
    ]
    if nature == "look":
        told = [s for s in told if s.own and s.finding.sign < 0 and s.finding.strength >= 2]
    if not told:
        return None
    unusable = next((s for s in told if s.own and _is_unusable(s)), None)
    if unusable is not None:
        if not _recovered(episode, told, unusable):
            return _failed("the command the advice led to could not be run", unusable)
        told = [s for s in told if s is not unusable]
    open_failures, passes = _standing(told)
    if passes and not open_failures:
        best = max(passes, key=lambda s: (s.finding.strength, s.own))
        failed_first = any(s.finding.sign < 0 and not s.finding.excused for s in told)
        gone = any(s.finding.sign < 0 and s.finding.signature in episode.errors_before for s in told)
        left = _left(seen[: seen.index(best)])
        if left is not None and left.finding.rule == "abandons" and _is_deed(episode):
            return _failed("it failed and the agent went another way", left)
        if left is not None or best.finding.strength < 2:
            return None
        again = _repeated(episode, told)
        if again is not None and again.own and _is_deed(episode) and _follows(seen, again, "replaced"):
            return _failed("the same error came again and the agent replaced it", again)
        reason = "a check passed after it" if not failed_first else "it failed first, then the same check passed"
        if gone or (episode.errors_before and not failed_first):
            reason = "the error from before is gone"
        return Judgement("helpful", reason, best.finding.quote, best.finding.rule)
    if open_failures and max((s.finding.strength for s in passes), default=0) >= 2:
        worst = open_failures[-1]
        return Judgement("neutral", "some checks passed and others failed", worst.finding.quote, worst.finding.rule)
    if not open_failures:
        return _expected(episode, told)
    repeated = _repeated(episode, told)
    if repeated is not None:
        return _failed("the same error came again", repeated)
    worst = max(open_failures, key=lambda s: (s.finding.strength, s.own))
    if nature == "check" and worst.finding.kind in CHECKS:
        return Judgement(
            "neutral", "the check failed and nothing shows how it ended", worst.finding.quote, worst.finding.rule
        )
    if worst.finding.strength < 2:
        return None
    if (
        nature == "change"
        and worst.finding.kind == "test"
        and episode.watching
        and not episode.changed_later
        and not _reacted(seen)
    ):
        return Judgement("neutral", "a test failed and the agent left it so", worst.finding.quote, worst.finding.rule)
    if nature == "look" and not _interrupted(seen) and not any(s.finding.rule == "abandons" and s.own for s in seen):
        return None
    return _failed("it failed and was not made to work", worst)


def _left(seen: Sequence[Seen]) -> Seen | None:
    """The words with which the agent went another way after the step had failed, None where it stayed."""
    failed = False
    for s in seen:
        failed = failed or (s.own and s.finding.source == "result" and s.finding.sign < 0 and not s.finding.excused)
        if failed and s.finding.rule in ("abandons", "unavailable"):
            return s
    return None


def _reacted(seen: Sequence[Seen]) -> bool:
    return any(s.finding.source == "agent" and s.finding.rule != "finds" for s in seen)


def _follows(seen: Sequence[Seen], before: Seen, rule: str) -> bool:
    return any(s.finding.rule == rule for s in seen[seen.index(before) :])


def _is_deed(episode: Episode) -> bool:
    """Whether the step was to change or do something: of these a failure says that it was wrong."""
    return episode.nature in ("change", "act") or (episode.nature == "check" and not episode.aims_at_check)


def _failed(reason: str, seen: Seen) -> Judgement:
    return Judgement("harmful", reason, seen.finding.quote, seen.finding.rule)


def _speaks(episode: Episode, seen: Seen) -> bool:
    """Whether a result can speak about the step: its own, or a check that comes after it."""
    finding = seen.finding
    if finding.sign < 0 and finding.strength < 2:
        return False
    named = set(files_in(f"{finding.quote} {finding.signature}"))
    if finding.sign < 0 and finding.kind in ("types", "lint") and episode.nature == "change" and named:
        return not named.isdisjoint(episode.files)  # what is red elsewhere and stays so was red before
    if finding.kind in CHECKS and episode.documents and not seen.own:
        return False
    if finding.rule == "pushed" and (not seen.own or episode.nature == "change"):
        return False  # what was pushed need not work
    if seen.own:
        return True
    if finding.kind in CHECKS:
        return True
    retried = finding.sign > 0 and any(finding.command.split()[:2] == done.split()[:2] for done in episode.own_commands)
    return retried or (finding.strength >= 2 and episode.nature == "change" and finding.kind in ("run", "ship"))


def _is_unusable(seen: Seen) -> bool:
    return seen.finding.rule == "unknown-command"


def _recovered(episode: Episode, told: Sequence[Seen], failure: Seen) -> bool:
    """A later success of the same family: the command was mistyped, the advice was not wrong.

    Unless the advice names the very word that had to go.
    """
    at = told.index(failure)
    later = [
        s
        for s in told[at + 1 :]
        if s.finding.sign > 0
        and (s.finding.family == failure.finding.family or s.finding.command in failure.finding.command)
    ]
    if not later:
        return False
    dropped = set(failure.finding.command.lower().split()) - set(later[0].finding.command.lower().split())
    return not any(len(word) >= 3 and word in episode.bullet.text.lower().split() for word in dropped)


def _standing(told: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """The last word of each family of commands: failures that stand, and passes that stand."""
    last: dict[str, Seen] = {}
    for s in told:
        if s.finding.sign < 0 and s.finding.excused:
            continue
        last[s.finding.family] = s
    failures = [s for s in last.values() if s.finding.sign < 0]
    passes = [s for s in last.values() if s.finding.sign > 0]
    return failures, passes


def _expected(episode: Episode, told: Sequence[Seen]) -> Judgement | None:
    """Only excused failures: a red phase that was wanted is a success of advice about checking."""
    last = told[-1].finding
    if episode.aims_at_check and last.rule != "unrelated-failure":
        return Judgement("helpful", "it failed as expected", last.quote, last.rule)
    return None


def _repeated(episode: Episode, told: Sequence[Seen]) -> Seen | None:
    """The last failure, when its error was there before or came twice."""
    failures = [s for s in told if s.finding.sign < 0 and s.finding.signature and not s.finding.excused]
    if not failures:
        return None
    last = failures[-1]
    known = {s.finding.signature for s in failures[:-1]} | episode.errors_before
    return last if last.finding.signature in known else None


def _last(seen: Sequence[Seen], wanted: Callable[[Seen], bool]) -> Seen | None:
    return next((s for s in reversed(seen) if wanted(s)), None)


def merge(judgements: Sequence[Judgement]) -> Judgement:
    """One verdict for several citations of a bullet in one window.

    Neutral ones say nothing. If the others agree, the first of them stands for all; if they
    contradict each other, the whole is neutral.
    """
    decided = [judgement for judgement in judgements if judgement.tag != "neutral"]
    if not decided:
        return next((j for j in judgements if j.quote), judgements[0] if judgements else _NO_EVIDENCE)
    tags = {judgement.tag for judgement in decided}
    if len(tags) == 1:
        return decided[0]
    return Judgement("neutral", "helpful at one citation and harmful at another", decided[-1].quote, decided[-1].rule)
