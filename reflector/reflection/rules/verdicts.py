"""From evidence to a tag: which kind of evidence outranks which, and when it is neutral.

Invariant: neutral is the default. A tag other than neutral names one decisive finding, and findings
that contradict each other at the same rank cancel to neutral. Ranks, highest first: a person's
objection, a person's approval, the agent's own revert, checks and commands, a find.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from reflector.playbook.verdicts import decisive
from reflector.reflection.rules.episode import Episode, Seen
from reflector.reflection.rules.results import Judgement as Judgement
from reflector.reflection.rules.results import failed, interrupted, is_deed, judge_results, left
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.user_reaction import Stance

_MERE_OK = re.compile(r"(?:ok|okay|k|y|alright|right|sure|correct)\b", re.IGNORECASE)
#: What the agent does to its own step when it goes another way.
_REPLACES = frozenset({"rewritten", "replaced", "edited-back", "reverted", "reverts", "abandons"})
_NO_EVIDENCE = Judgement("neutral", "no evidence")


def judge(episode: Episode) -> Judgement:
    """Return the verdict on one citation."""
    if episode.declined:
        return Judgement("neutral", "the agent named the advice to decline it")
    seen = list(episode.seen)
    results = judge_results(episode, seen)
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
        and not interrupted(seen)
    ):
        return Judgement("helpful", "the step found what it was for", find.finding.quote, "finds")
    if results is not None:
        return results
    return _NO_EVIDENCE


# -- people ----------------------------------------------------------------------------------------


def _persons(episode: Episode, seen: Sequence[Seen]) -> Judgement | None:
    """Return what people said about the step, None where they said nothing that bears on it."""
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
        between = seen[seen.index(objections[-1]) : seen.index(approvals[-1])]
        if any(s.finding.rule in _REPLACES for s in between):
            return _harm(objections[-1])
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
    if stance.strength == 1 and not stance.answers and _MERE_OK.match(stance.quote):
        return False  # "ok, now …" begins the next task
    if stance.strength == 1:
        return episode.nature == "talk" and episode.last_of_turn and stance.words <= 12
    if stance.strength < 3 and stance.bearing == "approves" and not _supported(episode, stance):
        return False
    if stance.rule == "ship-it":
        return False  # to have a change committed says that it may stay, not that the advice was good
    if stance.bearing == "builds_on":
        return episode.nature == "talk" or episode.overlap_with_advice(stance.about) >= 2
    return True


def _supported(episode: Episode, stance: Stance) -> bool:
    """Whether politeness may be read as praise of this step: "thanks", "great, next …" praise no step by name."""
    praise = re.split(r"[.!;,\n]", stance.quote, maxsplit=1)[0]  # what follows may be the next task
    if not content_words(praise).isdisjoint(episode.bullet_words):
        return True
    if episode.company > 1 or episode.nature in ("look", "tidy"):
        return False
    if episode.nature == "talk":
        return stance.rule != "thanks" or stance.answers
    green = any(s.finding.source == "result" and s.finding.sign > 0 and s.finding.strength >= 2 for s in episode.seen)
    return green or (stance.words <= 12 and stance.rule not in ("thanks", "agent-glad"))


def _with_results(episode: Episode, persons: Judgement, results: Judgement | None) -> Judgement:
    """Return a person's word against what the checks say: agreement can be overtaken by failure."""
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
    gone = left(earlier)
    if gone is not None and is_deed(episode):
        if seen[said[0]].finding.strength < 3 and gone.finding.rule == "abandons":
            return failed("it failed and the agent went another way", gone)
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


def _last(seen: Sequence[Seen], wanted: Callable[[Seen], bool]) -> Seen | None:
    return next((s for s in reversed(seen) if wanted(s)), None)


def merge(judgements: Sequence[Judgement]) -> Judgement:
    """One verdict for several citations of a bullet in one window, by the rule of `decisive`."""
    decided = decisive(judgements, lambda judgement: judgement.tag)
    if not decided:
        return next((j for j in judgements if j.quote), judgements[0] if judgements else _NO_EVIDENCE)
    if len(decided) == 1:
        return decided[0]
    return Judgement("neutral", "helpful at one citation and harmful at another", decided[-1].quote, decided[-1].rule)
