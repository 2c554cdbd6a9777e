"""What is found about a citation, and when that is a verdict.

Invariant: a finding is there or not, speaks for one side, and depends on one citation only. A
verdict is given where all findings are on one side; where there is none, or one on each side, it is
neutral. Each finding is right at least nine times of ten on the labelled sessions, which were in
view when it was worded (`python -m benchmarks.judgement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from reflector.events.sessions import CALLED_WRONG
from reflector.judges.rules.citation import Citation, Heard, Ran
from reflector.judges.rules.people import Remark
from reflector.judges.rules.steps import CHECKS
from reflector.judges.rules.wordings import expression
from reflector.playbook.bullet import Verdict

#: The model of every answer; the number changes whenever a verdict does.
VERSION = "rules/5"

#: Every finding, in the order of docs/judging.md: its side, and why it decides, in a few words.
FINDINGS: dict[str, tuple[Literal["helpful", "harmful"], str]] = {
    "opposed": ("harmful", "a person wants the opposite"),
    "faulty": ("harmful", "a person reported a fault in it"),
    "undone": ("harmful", "a person wants it undone"),
    "refused": ("harmful", "a person refused the call and said why"),
    "conceded": ("harmful", "a person corrected the agent"),
    "still-red": ("harmful", "what failed before it failed again after it"),
    "accepted": ("helpful", "a person accepted it"),
    "mended": ("helpful", "what failed before it passed after it"),
    "went-through": ("helpful", "it went through"),
}

#: Calls between the step and a word on it, and changes between it and a check that still is about
#: it.
_FAR, _NEAR = 20, 2
#: Kinds of calls that change nothing which a check could speak of.
_IDLE: frozenset[str] = frozenset({*CHECKS, "look", "tidy", "poll", "admin"})
#: Signs of an objection that may repeat the advice.
_STRONG = frozenset({"starts-with-no", "told", "omits", "blames", "fault", "excess", "refused"})


@dataclass(frozen=True, slots=True)
class Found:
    """One finding: its quote, as written or printed, and the row of wordings that it rests on."""

    name: str
    quote: str
    rule: str


def findings(citation: Citation) -> list[Found]:
    """Return what is found about a citation, each finding once."""
    said = list(_objections(citation)) or list(_acceptance(citation))
    return list({found.name: found for found in reversed([*said, *_results(citation)])}.values())[
        ::-1
    ]


def repeats(citation: Citation, remark: Remark) -> bool:
    """Return whether an objection repeats the advice: then the advice was right, and the agent
    did not follow it.
    """
    if remark.kind != "objects" or (remark.faulty and not remark.faulty.isdisjoint(citation.words)):
        return False
    same, other = _shared(citation, remark)
    is_strong = not _STRONG.isdisjoint(remark.signs) or any(remark.about[word] for word in same)
    is_told = not {"told", "omits"}.isdisjoint(remark.signs)
    return (
        bool(same)
        and not other
        and is_strong
        and (is_told or len(same) > 1 or 2 * len(same) >= len(citation.words))
    )


def _shared(citation: Citation, remark: Remark) -> tuple[set[str], set[str]]:
    """Return the words that both speak for, or both against, and those that one speaks for and
    the other against.
    """
    words = citation.words
    shared = {
        word: against is words[word] for word, against in remark.about.items() if word in words
    }
    return {word for word in shared if shared[word]}, {word for word in shared if not shared[word]}


def _objections(citation: Citation) -> Iterator[Found]:
    """Find what speaks against it in what people said: in the first word on the step, a reported
    fault in later ones. A word that repeats the advice is none.
    """
    for heard in citation.heard:
        if heard.between > _FAR or repeats(citation, heard.remark):
            continue
        if heard is citation.heard[0]:
            yield from _objection(citation, heard)
        elif not citation.forbids and _names(citation, heard.remark.faulty or ()):
            yield Found("faulty", heard.remark.quote, "fault")


def _objection(citation: Citation, heard: Heard) -> Iterator[Found]:
    remark, signs = heard.remark, heard.remark.signs
    same, other = _shared(citation, remark)
    names = _names(citation, remark.about)
    #: It names the advice in passing: an objection that is made of the advice's words may repeat
    #: it.
    in_passing = 3 * len(same) < len(citation.words)
    if remark.kind == "objects" and not same and any(remark.about[word] for word in other):
        yield Found("opposed", remark.quote, "blames" if "blames" in signs else "against")
    if citation.forbids or remark.kind not in ("objects", "other"):
        return
    if "undoes" in signs and (names or citation.alone):
        yield Found("undone", remark.quote, "undoes")
    if "fault" in signs and (names if remark.faulty is None else _names(citation, remark.faulty)):
        yield Found("faulty", remark.quote, "fault")
    if "refused" in signs and heard.between <= 1 and in_passing:
        yield Found("refused", remark.quote, "refused")
    reports_this = citation.alone and "fault" in signs and remark.faulty is None
    if heard.conceded and ((names and in_passing) or reports_this):
        yield Found("conceded", remark.quote, "concedes")


def _names(citation: Citation, words: Iterable[str]) -> bool:
    return any(word in citation.words or word in citation.files for word in words)


def _acceptance(citation: Citation) -> Iterator[Found]:
    """Find the word that accepts what was done, where nothing had failed and no other bullet was
    cited with it.
    """
    heard = next(
        (one for one in citation.heard if one.remark.kind not in ("agrees", "other")), None
    )
    if (
        heard is None
        or heard.remark.kind != "approves"
        or heard.between > _FAR
        or not citation.alone
    ):
        return
    near = _near(citation)
    only_looks = citation.own and {"look"}.issuperset(citation.own) and not heard.between
    is_look = only_looks or expression("looks").match(citation.text)
    if not is_look and (near is None or near.passed):
        yield Found("accepted", heard.remark.quote, heard.remark.signs[-1])


def _results(citation: Citation) -> Iterator[Found]:
    """Find what runs say of it, as long as nobody objects: one of the first two words does, or
    cannot be read.
    """
    if any(heard.remark.kind in ("objects", "unread") for heard in citation.heard[:2]):
        return
    runs: dict[str, list[Ran]] = {}
    for ran in citation.ran:
        runs.setdefault(ran.check, []).append(ran)
    was_red = [
        ended
        for check, ended in runs.items()
        if check in citation.red and ended[0].changes <= _NEAR
    ]
    again = [ended for ended in was_red if len(ended) > 1 and not any(ran.passed for ran in ended)]
    if again and not citation.forbids:
        yield Found("still-red", again[0][-1].quote, again[0][-1].rule)
    is_red = any(
        not ended[-1].passed and (ended[-1].own or ended[-1].kind in CHECKS)
        for ended in runs.values()
    )
    if is_red or expression("looks").match(citation.text):
        return
    own = {ran.check: ran for ran in citation.ran if ran.own}
    mended = [
        ran
        for ended in was_red
        for ran in (ended[0], own.get(ended[0].check))
        if ran and ran.passed
    ]
    if mended and not _IDLE.issuperset(citation.own):
        yield Found("mended", mended[0].quote, mended[0].rule)
    ended = citation.ended
    went = len(ended) >= max(1, len(citation.calls)) and all(
        one.ending in ("passes", "ran") for one in ended
    )
    is_routine = {"ship"}.issuperset(citation.own) and not citation.red
    if went and citation.is_plain and not citation.heard and not is_routine:
        yield Found("went-through", ended[-1].quote, ended[-1].rule)


def _near(citation: Citation) -> Ran | None:
    """Return the first result that speaks: of the step itself, or of a check soon after it."""
    for ran in citation.ran:
        if (ran.kind == "ship" and ran.passed) or not (ran.own or ran.changes <= _NEAR):
            continue
        if (
            ran.kind in CHECKS
            or ran.own
            or (ran.kind in ("run", "install") and (ran.mends or not ran.passed))
        ):
            return ran
    return None


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on one citation, or on all of a bullet in a window.

    reason    a few words without quotes
    quote     the decisive evidence, "" where there is none
    rule      the decisive finding and the wording that it rests on
    found     the names of what was found
    followed  False where a person's objection repeats the advice
    """

    tag: Verdict
    reason: str
    quote: str = ""
    rule: str = ""
    found: tuple[str, ...] = ()
    followed: bool = True


def judge(citation: Citation, *, wrong_counts: bool = False) -> Judged:
    """Return the verdict on one citation. What the agent called wrong is not helpful; harmful by
    that alone only where `wrong_counts`.
    """
    one = _judged(citation)
    if citation.wrong is None or one.tag == "harmful":
        return one
    return Judged(
        "harmful" if wrong_counts else "neutral", CALLED_WRONG, citation.wrong, found=one.found
    )


def _judged(citation: Citation) -> Judged:
    if citation.declined:
        return Judged("neutral", "the agent named the advice to decline it")
    word = citation.heard[0].remark if citation.heard else None
    if word is not None and repeats(citation, word):
        return Judged(
            "neutral", "right, and not followed: a person repeated it", word.quote, followed=False
        )
    found = findings(citation)
    names = tuple(one.name for one in found)
    sides = {FINDINGS[name][0] for name in names}
    if len(sides) != 1:
        return Judged("neutral", "evidence for both sides" if sides else "no evidence", found=names)
    best = found[0]
    rule = ", ".join(dict.fromkeys((best.name, best.rule)))
    return Judged(sides.pop(), FINDINGS[best.name][1], best.quote, rule, names)


def merge(judgements: Sequence[Judged]) -> Judged:
    """Return one verdict for several citations of a bullet in one window: a verdict beats neutral,
    and two that contradict each other become neutral, because it is unknown which weighs more.
    """
    first: dict[str, Judged] = {}
    for one in judgements:
        first.setdefault(one.tag, one)
    decided = [one for tag, one in first.items() if tag != "neutral"]
    if not decided:
        telling = (one for one in judgements if not one.followed or one.found)
        return next(telling, judgements[0] if judgements else Judged("neutral", "no evidence"))
    if len(decided) == 1:
        return decided[0]
    return Judged(
        "neutral",
        "helpful at one citation and harmful at another",
        decided[-1].quote,
        decided[-1].rule,
    )
