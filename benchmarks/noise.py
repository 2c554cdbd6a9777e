"""How often `check` gives a false result, and how often it finds a true one.

Files of 150 rules are drawn. Sessions of one branch are alike: a rule's share is drawn for each
branch, with the intraclass correlation `ALIKE`. `python -m benchmarks.noise` prints the table of
docs/judging.md. tests/check/test_noise.py contains the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

from reflector.check.facts import Answers, RuleFacts
from reflector.check.results import Began, results

RULES = 150
ALIKE = 0.3
_START = datetime(2026, 1, 1, tzinfo=UTC)


class Study(NamedTuple):
    """Files that are drawn in the same way.

    sessions   of each file, `per_branch` of them on a branch, one branch a day
    followed   rules that sessions follow with the probability `share`; the others with one half
    is_daily   whether a check is made after each day, not only at the end
    """

    sessions: int
    per_branch: int = 1
    followed: int = 0
    share: float = 0.9
    is_daily: bool = False


class Outcome(NamedTuple):
    """The share of files with any false result, and the mean share of true results that are
    found.
    """

    any_false: float
    found: float


def run(study: Study, files: int, seed: int = 7) -> Outcome:
    """Draw files and check them."""
    random = Random(seed)
    any_false = 0
    found = 0.0
    for _ in range(files):
        true_words = {f"rule:{number}": "followed" for number in range(study.followed)}
        false, right = _checked(_drawn(study, random), true_words, is_daily=study.is_daily)
        any_false += false
        found += right / max(1, study.followed)
    return Outcome(any_false / files, found / files)


def _checked(
    days: Sequence[Sequence[_Session]], true_words: dict[str, str], *, is_daily: bool
) -> tuple[bool, int]:
    """Return whether a check ever gave a false result, and the number of true results in the last
    one.
    """
    is_false = False
    right = 0
    for day in range(1, len(days) + 1) if is_daily else [len(days)]:
        sessions = [session for past in days[:day] for session in past]
        words = results(_rules(sessions), {session.name: session.began for session in sessions})
        right = sum(words.get(place, "").startswith(word) for place, word in true_words.items())
        is_false |= len(words) > right
    return is_false, right


class _Session(NamedTuple):
    """A session, with its answer about each rule."""

    name: str
    began: Began
    answers: Sequence[bool]


def _drawn(study: Study, random: Random) -> list[list[_Session]]:
    """Return the sessions of a file, day by day."""
    days = []
    for day, first in enumerate(range(0, study.sessions, study.per_branch)):
        number = min(study.per_branch, study.sessions - first)
        shares = [_share(study, rule, random) for rule in range(RULES)]
        days.append([*_day(day, number, shares, random)])
    return days


def _share(study: Study, rule: int, random: Random) -> float:
    """Return a rule's share on one branch."""
    share = study.share if rule < study.followed else 0.5
    return random.betavariate(share * (1 - ALIKE) / ALIKE, (1 - share) * (1 - ALIKE) / ALIKE)


def _day(day: int, number: int, shares: Sequence[float], random: Random) -> Iterator[_Session]:
    for index in range(number):
        at = _START + timedelta(days=2 * day, hours=index)
        answers = [random.random() < share for share in shares]
        yield _Session(f"{day}-{index}", Began(f"branch-{day}", at), answers)


def _rules(sessions: Sequence[_Session]) -> list[RuleFacts]:
    return [
        RuleFacts(
            place=f"rule:{rule}",
            text="",
            judged_since=Answers(
                len(sessions),
                len(sessions),
                {session.name: session.answers[rule] for session in sessions},
            ),
        )
        for rule in range(RULES)
    ]


def main(files: int = 200) -> None:
    """Print the table."""
    print("sessions  a branch  checked  followed  any false  found")
    for sessions in (14, 30, 50):
        for per_branch in (1, 2, 3, 5):
            for followed, is_daily in ((0, False), (0, True), (30, False)):
                study = Study(sessions, per_branch, followed, is_daily=is_daily)
                outcome = run(study, files)
                when = "daily" if is_daily else "once"
                found = f"{outcome.found:.0%}" if followed else "-"
                print(
                    f"{sessions:8}  {per_branch:8}  {when:7}  {followed:8}  "
                    f"{outcome.any_false:9.1%}  {found:>5}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
