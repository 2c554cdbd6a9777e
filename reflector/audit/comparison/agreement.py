"""Two judges over the same windows, in figures.

Invariant: pure computing over verdicts that were given; no judge is called and nothing is read. A bullet is compared in
a window where at least one of the two judged it; the silence of the other is the category `none`. So the cell
none/none is empty by construction, and a kappa over all pairs is lower than one over the pairs that both judged:
both are given.

Cohen's kappa is (p_o - p_e) / (1 - p_e): the agreement beyond the one that two judges with the same habits reach
by chance. It is None, not 0 and not 1, where it says nothing: without a pair, and where both used one and the same
category throughout (p_e = 1).

Cohen, J. (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20(1), 37-46.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from reflector.events.spent import Spent
from reflector.playbook.counting import VERDICTS
from reflector.playbook.names import is_name
from reflector.reflection.judging import Judgement, Verdict, merged

#: The category in the matrix for a bullet that only the other side judged.
NONE = "none"
CATEGORIES = (*VERDICTS, NONE)

Side = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Pair:
    """What the two said about one bullet in one window; `a` and `b` are among CATEGORIES."""

    session_id: str
    window_id: str
    name: str
    a: str
    b: str
    a_rationale: str = ""
    b_rationale: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one window on either side."""

    session_id: str
    window_id: str
    a: Judgement
    b: Judgement

    def of(self, side: Side) -> Judgement:
        """Return the judgement of one side."""
        return self.a if side == "a" else self.b

    @property
    def is_compared(self) -> bool:
        """Whether both could judge it."""
        return self.a.verdicts is not None and self.b.verdicts is not None

    @property
    def pairs(self) -> list[Pair]:
        """Its pairs, none where it is not compared."""
        if self.a.verdicts is None or self.b.verdicts is None:
            return []
        return pairs_of(self.session_id, self.window_id, self.a.verdicts, self.b.verdicts)


@dataclass(frozen=True, slots=True)
class Tally:
    """What one side did over all windows, whether they were compared or not.

    judged    windows that it could judge
    failures  (session id, window id, why) of those that it could not
    """

    judged: int
    spent: Spent
    strays: int
    models: tuple[str, ...]
    failures: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A confusion matrix, and what it says.

    matrix  {a's category: {b's category: how many pairs}}, every cell there, in the order of CATEGORIES
    """

    matrix: Mapping[str, Mapping[str, int]]

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(sum(row.values()) for row in self.matrix.values())

    @property
    def agreed(self) -> int:
        """In how many the two said the same."""
        return sum(row[category] for category, row in self.matrix.items())

    @property
    def agreement(self) -> float | None:
        """The share of these, None without a pair."""
        return self.agreed / self.pairs if self.pairs else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, from -1 to 1; None where it says nothing."""
        pairs = self.pairs
        if not pairs:
            return None
        by_b = {category: sum(row[category] for row in self.matrix.values()) for category in self.matrix}
        products = sum(sum(row.values()) * by_b[category] for category, row in self.matrix.items())
        # Exact: with floats two judges who agree in everything come out at 0.9999999999999998.
        chance = Fraction(products, pairs * pairs)
        if chance == 1:
            return None
        return float((Fraction(self.agreed, pairs) - chance) / (1 - chance))


@dataclass(frozen=True, slots=True)
class Score:
    """One judge's verdicts of one tag, compared with labels.

    labelled  bullets that are labelled so, in sessions that were compared
    given     labelled bullets that the judge called so
    right     those where the label says the same
    """

    tag: str
    labelled: int
    given: int
    right: int

    @property
    def precision(self) -> float | None:
        """`right` of `given`, None where the tag was never given."""
        return self.right / self.given if self.given else None

    @property
    def recall(self) -> float | None:
        """`right` of `labelled`, None where nothing is labelled so."""
        return self.right / self.labelled if self.labelled else None


#: What a person says is right: {(session id, bullet's name): tag}.
Labels = Mapping[tuple[str, str], str]


class BadLabel(ValueError):
    """A text that is not a label; its own text says what a label is."""


def pairs_of(session_id: str, window_id: str, a: Mapping[str, Verdict], b: Mapping[str, Verdict]) -> list[Pair]:
    """Return the pairs of one window, by name."""
    silent = Verdict(NONE)
    found = []
    for name in sorted(a.keys() | b.keys()):
        of_a, of_b = a.get(name, silent), b.get(name, silent)
        found.append(Pair(session_id, window_id, name, of_a.tag, of_b.tag, of_a.rationale, of_b.rationale))
    return found


def agreement_of(pairs: Iterable[Pair]) -> Agreement:
    """Return the matrix of some pairs."""
    matrix = {of_a: dict.fromkeys(CATEGORIES, 0) for of_a in CATEGORIES}
    for pair in pairs:
        matrix[pair.a][pair.b] += 1
    return Agreement(matrix)


def judged_by_both(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs without a silence."""
    return [pair for pair in pairs if NONE not in (pair.a, pair.b)]


def tally_of(rulings: Iterable[Ruling], side: Side) -> Tally:
    """Return what one side did."""
    judged = strays = 0
    spent = Spent()
    models: dict[str, None] = {}
    failures: list[tuple[str, str, str]] = []
    for ruling in rulings:
        judgement = ruling.of(side)
        spent += judgement.spent
        strays += judgement.strays
        models.update(dict.fromkeys(judgement.models))
        judged += judgement.verdicts is not None
        if judgement.failure:
            failures.append((ruling.session_id, ruling.window_id, judgement.failure))
    return Tally(judged, spent, strays, tuple(models), tuple(failures))


def said_by(rulings: Iterable[Ruling], side: Side) -> dict[tuple[str, str], list[Verdict]]:
    """One side's verdicts in the windows that were compared, by (session id, name), oldest first."""
    said: dict[tuple[str, str], list[Verdict]] = {}
    for ruling in rulings:
        verdicts = ruling.of(side).verdicts
        if verdicts is None or not ruling.is_compared:
            continue
        for name, verdict in verdicts.items():
            said.setdefault((ruling.session_id, name), []).append(verdict)
    return said


def scores(labels: Labels, said: Mapping[tuple[str, str], Sequence[Verdict]]) -> list[Score]:
    """One score a tag, in the order of VERDICTS.

    `said` has a judge's verdicts by (session id, name), one for each window of the session that has any; they are
    merged as the citations of one window are. What has no label is left out: its right tag is unknown.
    """
    called = {key: merged(said[key]).tag for key in labels if said.get(key)}
    return [
        Score(
            tag,
            labelled=sum(1 for label in labels.values() if label == tag),
            given=sum(1 for given in called.values() if given == tag),
            right=sum(1 for key, label in labels.items() if label == tag == called.get(key)),
        )
        for tag in VERDICTS
    ]


def read_label(value: object) -> tuple[tuple[str, str], str]:
    """((session id, name), tag) of a label in JSON; other keys besides these are a person's notes.

    Raises BadLabel.
    """
    if not isinstance(value, dict):
        raise BadLabel('is not an object; a label is {"session": ID, "name": "pat-001", "tag": "helpful"}')
    session_id, name, tag = (value.get(key) for key in ("session", "name", "tag"))
    if not isinstance(session_id, str) or not session_id:
        raise BadLabel(f"session is {session_id!r:.80}; it is the whole id of a session")
    if not isinstance(name, str) or not is_name(name):
        raise BadLabel(f"name is {name!r:.80}; it is a bullet's name, such as pat-001")
    if tag not in VERDICTS:
        raise BadLabel(f"tag is {tag!r:.80}; it is one of {', '.join(VERDICTS)}")
    return (session_id, name), str(tag)
