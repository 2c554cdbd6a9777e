"""A simulated month of lessons with a known true worth: `python -m benchmarks.lessons [--plot
FOLDER]`.

The month has 5,000 sessions in 30 days, 150 mistakes with their corrections and 50 reflections. A
lesson's true worth is the probability that a session which applies it succeeds. In the middle of
the month, ten good mistakes become outdated (0.9 to 0.1) and ten bad ones become right (0.1 to
0.9). The outcomes use the same events and the same fold as those of real sessions. The output shows
how the learned figures rank the lessons, beside the truth. `--plot` writes two SVG files.
Everything follows from one seed.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import correlation, fmean

from reflector.embed.lessons.book import Lesson, LessonFold
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.folds import fold_events
from reflector.ledger.store import Ledger

SEED, SESSIONS, DAYS, HALF = 20261122, 5_000, 30, 15
MISTAKES, REFLECTIONS, CHANGED, APPLIED = 150, 50, 10, 3
#: The percentage of sessions that apply a reflection. It is low, because a reflection belongs to
#: one turn and has few outcomes.
OF_A_HUNDRED = 4
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_GOOD = ("task_completed", "review_approved", "test_validation_approved")
_BAD = ("task_failed", "review_rejected", "test_validation_rejected")
#: pygal writes today's date into a comment of each file.
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Truth:
    """A lesson's kind, and its true worth in the first and in the second half of the month."""

    id: str
    kind: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Month:
    """The true values, and the learned lessons at the end of each day."""

    truths: Sequence[Truth]
    days: Sequence[dict[str, Lesson]]


def month() -> Month:
    """Play the month."""
    chance = random.Random(SEED)
    truths = [_truth(number, chance) for number in range(MISTAKES + REFLECTIONS)]
    made = [_lesson(truth, number) for number, truth in enumerate(truths)]
    for session in range(SESSIONS):
        at = _BEGIN + timedelta(days=DAYS) * (session / SESSIONS)
        for truth in _applied(truths, chance):
            worth = truth.before if session < SESSIONS // 2 else truth.after
            kinds = _kinds(truth, chance.random() < worth)
            kind = kinds[int(chance.random() * len(kinds))]
            event_id = identity(ev.OUTCOME_OBSERVED, truth.id, session)
            data = {"kind": kind, "source": "tests"}
            made.append(
                NewEvent(ev.OUTCOME_OBSERVED, event_id, data, "agent", _iso(at), target_id=truth.id)
            )
    with Ledger.open("sqlite://") as ledger:
        ledger.append(made)
        events = list(ledger.events())
    ends = [_iso(_BEGIN + timedelta(days=day + 1)) for day in range(DAYS)]
    return Month(truths, [_learned(events, end) for end in ends])


def _truth(number: int, chance: random.Random) -> Truth:
    kind = "mistake" if number < MISTAKES else "reflection"
    worth = chance.random()
    before, after = worth, worth
    if number < CHANGED:
        before, after = 0.9, 0.1
    elif number < 2 * CHANGED:
        before, after = 0.1, 0.9
    return Truth(identity(ev.LESSON_RECORDED, "month", number), kind, before, after)


def _lesson(truth: Truth, number: int) -> NewEvent:
    data = {"kind": truth.kind, "text": f"lesson {number} of the month", "task": "any"}
    return NewEvent(ev.LESSON_RECORDED, truth.id, data, "agent", _iso(_BEGIN - timedelta(days=1)))


def _applied(truths: Sequence[Truth], chance: random.Random) -> list[Truth]:
    """Return the lessons that a session applies."""
    found = [truths[int(chance.random() * MISTAKES)] for _ in range(APPLIED)]
    if chance.random() * 100 < OF_A_HUNDRED:
        found.append(truths[MISTAKES + int(chance.random() * REFLECTIONS)])
    return list(dict.fromkeys(found))


def _kinds(truth: Truth, success: bool) -> tuple[str, ...]:
    if truth.kind == "mistake":
        return ("success",) if success else ("failure",)
    return _GOOD if success else _BAD


def _learned(events: Sequence[Event], end: str) -> dict[str, Lesson]:
    until_then = (event for event in events if event.occurred_at <= end)
    return dict(fold_events(LessonFold(), until_then).lessons)


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation, with equal values on their mean rank."""
    return correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def report(played: Month) -> list[str]:
    """Return the figures, one line each."""
    last = played.days[-1]
    outcomes = sum(len(one.outcomes) for one in last.values())
    lines = [f"{SESSIONS:,} sessions, {len(played.truths)} lessons, {outcomes:,} outcomes"]
    chosen = {
        "mistakes": played.truths[:MISTAKES],
        "mistakes whose worth did not change": played.truths[2 * CHANGED : MISTAKES],
        "reflections": played.truths[MISTAKES:],
    }
    for what, truths in chosen.items():
        worth = [truth.after for truth in truths]
        lessons = [last[truth.id] for truth in truths]
        found = []
        for name in ("effectiveness", "confidence"):
            scores = [float(getattr(lesson, name)) for lesson in lessons]
            found.append(f"{name} {rank_correlation(scores, worth):.3f}")
        lines.append(f"{what}: rank correlation with the true worth: {', '.join(found)}")
    for name, truths in groups(played).items():
        told = (
            f"{fmean(one.effectiveness for one in _of(played, truths, day)):.2f}"
            for day in (HALF - 1, DAYS - 1)
        )
        lines.append(f"{name}: mean effectiveness {' on day 15, '.join(told)} on day 30")
    return lines


def groups(played: Month) -> dict[str, list[Truth]]:
    """Return the mistakes in groups of similar worth."""
    same = played.truths[2 * CHANGED : MISTAKES]
    return {
        "worth above 0.8": [truth for truth in same if truth.after > 0.8],
        "worth 0.4 to 0.6": [truth for truth in same if 0.4 <= truth.after <= 0.6],
        "worth below 0.2": [truth for truth in same if truth.after < 0.2],
        "outdated on day 15": list(played.truths[:CHANGED]),
        "right since day 15": list(played.truths[CHANGED : 2 * CHANGED]),
    }


def _of(played: Month, truths: Sequence[Truth], day: int) -> list[Lesson]:
    return [played.days[day][truth.id] for truth in truths]


def plot(played: Month, folder: Path) -> list[Path]:
    """Write the mean effectiveness and confidence of each group, day by day, as SVG. Return the
    files.
    """
    import pygal
    from pygal.style import CleanStyle

    written = []
    for name in ("effectiveness", "confidence"):
        chart = pygal.Line(
            js=(),
            no_prefix=True,
            style=CleanStyle,
            range=(0, 1),
            width=800,
            height=400,
            show_dots=False,
            legend_at_bottom=True,
            legend_at_bottom_columns=3,
            x_labels_major_every=5,
            show_minor_x_labels=False,
            title=f"Mean {name} of lessons, by their true worth",
            x_title="day",
        )
        chart.x_labels = [str(day + 1) for day in range(DAYS)]
        for group, truths in groups(played).items():
            days = [_of(played, truths, day) for day in range(DAYS)]
            chart.add(group, [round(fmean(getattr(one, name) for one in day), 4) for day in days])
        path = folder / f"lessons-{name}.svg"
        path.write_bytes(_COMMENT.sub(b"", chart.render()))
        written.append(path)
    return written


def main(arguments: Sequence[str]) -> int:
    played = month()
    print("\n".join(report(played)))
    if arguments[:1] == ["--plot"]:
        for path in plot(played, Path(arguments[1]) if len(arguments) > 1 else Path("docs")):
            print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
