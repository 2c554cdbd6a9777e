"""What checks and commands say about a cited step: which of them can speak, and which stand at the end.

Invariant: a result decides only where it is tied to the step. Of each family of commands the last word
counts; a green that others may have earned, or a red that may be theirs, decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reflector.playbook.verdicts import Verdict
from reflector.reflection.rules.episode import Episode, Seen
from reflector.reflection.rules.steps import CHECKS, files_in
from reflector.reflection.rules.topics import content_words


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a sentence without quotes; `quote` is the decisive evidence, "" where there is none."""

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""


def judge_results(episode: Episode, seen: Sequence[Seen]) -> Judgement | None:
    """Return what checks and commands say about the step, None where none of them can speak about it."""
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
            return failed("the command the advice led to could not be run", unusable)
        told = [s for s in told if s is not unusable]
    open_failures, passes = _standing(told)
    if passes and not open_failures:
        best = max(passes, key=lambda s: (s.finding.strength, s.own))
        failed_first = any(s.finding.sign < 0 and not s.finding.excused for s in told)
        gone = any(s.finding.sign < 0 and s.finding.signature in episode.errors_before for s in told)
        gone_away = left(seen[: seen.index(best)])
        if gone_away is not None and gone_away.finding.rule == "abandons" and is_deed(episode):
            return failed("it failed and the agent went another way", gone_away)
        if gone_away is not None or (best.finding.strength < 2 and not _same_command_failed(told, best)):
            return None
        again = _repeated(episode, told)
        if again is not None and again.own and is_deed(episode) and _follows(seen, again, "replaced"):
            return failed("the same error came again and the agent replaced it", again)
        reason = "a check passed after it" if not failed_first else "it failed first, then the same check passed"
        if gone or (episode.errors_before and not failed_first):
            reason = "the error from before is gone"
        untied = _untied(episode, told, passes, gone=gone or failed_first or bool(episode.errors_before))
        if untied:
            return Judgement("neutral", untied, best.finding.quote, best.finding.rule)
        return Judgement("helpful", reason, best.finding.quote, best.finding.rule)
    if open_failures and max((s.finding.strength for s in passes), default=0) >= 2:
        worst = open_failures[-1]
        return Judgement("neutral", "some checks passed and others failed", worst.finding.quote, worst.finding.rule)
    if not open_failures:
        return _expected(episode, told)
    repeated = _repeated(episode, told)
    if repeated is not None:
        return failed("the same error came again", repeated)
    worst = max(open_failures, key=lambda s: (s.own, s.finding.strength))
    if not worst.own and worst.bearing == "no" and worst.finding.kind == "test" and not _reacted(seen):
        return Judgement(
            "neutral", "tests are red and may be so for another reason", worst.finding.quote, worst.finding.rule
        )
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
    if nature == "look" and not interrupted(seen) and not any(s.finding.rule == "abandons" and s.own for s in seen):
        return None
    return failed("it failed and was not made to work", worst)


_ABOUT_BUILDING = re.compile(
    r"\b(?:build\w*|compil\w+|typ(?:e|es|ed|ing)\b|type-?check\w*|lint\w*|warning\w*|errors?|imports?|bundl\w+|packag\w+|dependenc\w+|upgrad\w+|version\w*|migrat\w+|format\w*|links?)",
    re.IGNORECASE,
)


def _untied(episode: Episode, told: Sequence[Seen], passes: Sequence[Seen], *, gone: bool) -> str:
    """Why a green proves nothing about this advice, "" where it does.

    A change that compiles need not be right; and of several pieces of advice cited in one breath, as in
    a plan, the tests at the end speak for those only whose words they or the changed files bear.
    """
    proofs = {s.finding.kind for s in passes}
    advice = episode.bullet.text
    if (
        episode.nature == "change"
        and not gone
        and proofs <= {"build", "types", "lint"}
        and not _ABOUT_BUILDING.search(advice)
    ):
        return "it compiles, which says little about the advice"
    if episode.company > 1 and not (episode.aims_at_check and "test" in proofs):
        words = content_words(
            " ".join([*episode.own_commands, *episode.files, *(f"{s.finding.command} {s.finding.quote}" for s in told)])
        )
        split = {part for word in words for part in content_words(re.sub(r"[^A-Za-z]+", " ", word))}
        if (episode.bullet_words - episode.others).isdisjoint(words | split):
            return "checks passed and nothing ties them to this advice among others"
    return ""


def _same_command_failed(told: Sequence[Seen], success: Seen) -> bool:
    """Return whether this very command had failed with a plain error since the citation."""
    return any(
        s.finding.sign < 0 and s.finding.strength >= 2 and _holds(success.finding.command, s.finding.command)
        for s in told
    )


#: "…, passing plain values instead" drops a way only where it names it.
_DETAIL = re.compile(r"\binstead\b|^I(?:'ll| will)? (?:drop|remov|tak|delet)\w*", re.IGNORECASE)


def left(seen: Sequence[Seen]) -> Seen | None:
    """Return the words with which the agent went another way after the step had failed, None where it stayed.

    Those that name nothing of the advice drop a detail, and the step goes on: what comes later decides.
    """
    failed = False
    for s in seen:
        failed = failed or (s.own and s.finding.source == "result" and s.finding.sign < 0 and not s.finding.excused)
        if (
            failed
            and s.finding.rule in ("abandons", "unavailable")
            and (s.related or (s.own and not _DETAIL.search(s.finding.quote)))
        ):
            return s
    return None


def interrupted(seen: Sequence[Seen]) -> bool:
    return any(s.finding.rule == "interrupted" for s in seen)


def _reacted(seen: Sequence[Seen]) -> bool:
    return any(s.finding.source == "agent" and s.finding.rule != "finds" for s in seen)


def _follows(seen: Sequence[Seen], before: Seen, rule: str) -> bool:
    return any(s.finding.rule == rule for s in seen[seen.index(before) :])


def is_deed(episode: Episode) -> bool:
    """Return whether the step was to change or do something: of these a failure says that it was wrong."""
    return episode.nature in ("change", "act") or (episode.nature == "check" and not episode.aims_at_check)


def failed(reason: str, seen: Seen) -> Judgement:
    return Judgement("harmful", reason, seen.finding.quote, seen.finding.rule)


def _speaks(episode: Episode, seen: Seen) -> bool:
    """Return whether a result can speak about the step: its own, or a check that comes after it."""
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
    retried = finding.sign > 0 and any(
        finding.command.split()[:2] == done.split()[:2] or _holds(finding.command, done)
        for done in episode.own_commands
    )
    return retried or (finding.strength >= 2 and episode.nature == "change" and finding.kind in ("run", "ship"))


def _is_unusable(seen: Seen) -> bool:
    return seen.finding.rule == "unknown-command"


def _recovered(episode: Episode, told: Sequence[Seen], failure: Seen) -> bool:
    """Return a later success of the same family: the command was mistyped, the advice was not wrong.

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
    """Return the last word of each family of commands: failures that stand, and passes that stand."""
    last: dict[str, Seen] = {}
    for s in told:
        if s.finding.sign < 0 and s.finding.excused:
            continue
        last[s.finding.family] = s
        for family, before in list(last.items()):
            if s.finding.sign > 0 > before.finding.sign and _holds(s.finding.command, before.finding.command):
                del last[family]
    failures = [s for s in last.values() if s.finding.sign < 0]
    passes = [s for s in last.values() if s.finding.sign > 0]
    return failures, passes


def _holds(command: str, failed_one: str) -> bool:
    """Return whether a longer command runs the failed one again, as after `server & sleep 2; curl …`."""
    plain = failed_one.split("|")[0].strip()
    return len(plain) >= 8 and plain in command


def _expected(episode: Episode, told: Sequence[Seen]) -> Judgement | None:
    """Only excused failures: a red phase that was wanted is a success of advice about checking."""
    last = told[-1].finding
    if episode.aims_at_check and last.rule != "unrelated-failure" and last.sign < 0:
        return Judgement("helpful", "it failed as expected", last.quote, last.rule)
    return None


def _repeated(episode: Episode, told: Sequence[Seen]) -> Seen | None:
    """Return the last failure, when its error was there before or came twice."""
    failures = [s for s in told if s.finding.sign < 0 and s.finding.signature and not s.finding.excused]
    if not failures:
        return None
    last = failures[-1]
    known = {s.finding.signature for s in failures[:-1]} | episode.errors_before
    return last if last.finding.signature in known else None
