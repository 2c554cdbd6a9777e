"""Sessions that are cut into windows: the steps of a session, and ledgers that record it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st

from reflector.audit.doubles import Totals, find_double_counts
from reflector.events import event as ev
from reflector.judges.rules.judge import RulesBackend
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.reflection.runner import Runner
from reflector.sessions.intake import Source, take_in
from reflector.transcripts.reading import UnknownTranscript, scan
from tests.ledger.events import added
from tests.road.sessions import Session


@dataclass(frozen=True)
class Cut:
    """The end of a window (the size of the file then), and whether the window is judged before the
    next one begins.
    """

    end: int
    judged: bool = True


@dataclass(frozen=True)
class Outcome:
    """The results of a session: each bullet's counters under every policy, the verdicts, and the
    duplicates.
    """

    totals: tuple[Totals, ...]
    verdicts: dict[str, list[str]]
    doubles: int


class Yard:
    """Ledgers that all begin with the same bullets."""

    def __init__(self, folder: Path, bullets: Iterable[Bullet]) -> None:
        self.folder = folder
        self.template = folder / "template.db"
        with Ledger.open_file(self.template) as ledger:
            ledger.append([added(bullet.name, bullet.text) for bullet in bullets])

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with tempfile.TemporaryDirectory(dir=self.folder) as fresh:
            shutil.copy(self.template, Path(fresh) / "ledger.db")
            with Ledger.open_file(Path(fresh) / "ledger.db") as opened:
                yield opened

    def assert_cut_counts_as_whole(self, path: Path, data: st.DataObject) -> None:
        """Read a transcript as a whole, and in any windows, each judged at once or with a later
        one. The results must be equal.
        """
        places = data.draw(
            st.lists(st.sampled_from(ends(path)), min_size=1, max_size=6, unique=True).map(sorted)
        )
        cuts = [Cut(place, data.draw(st.booleans())) for place in places]
        assert self.taken(path, cuts) == self.taken(path)

    def taken(self, path: Path, cuts: Sequence[Cut] = ()) -> Outcome:
        """Return the results of a transcript in windows that end at these cuts and at its end, in
        its own ledger.
        """
        with self.ledger() as ledger:
            take(ledger, path, cuts)
            return outcome(ledger)


def take(
    ledger: Ledger, path: Path, cuts: Sequence[Cut] = (), session_id: str | None = None
) -> None:
    """Record a window as hooks deliver it. The session's id is known, and a compaction gives the
    size to read.
    """
    session_id = session_id or scan(path).session_id
    for cut in (*cuts, Cut(path.stat().st_size)):
        try:
            take_in(ledger, Source(path, "PreCompact", limit=cut.end, session_id=session_id))
        except UnknownTranscript:  # a cut before the first record that a reader knows
            assert cut.end < path.stat().st_size
        if cut.judged:
            judge(ledger)


def judge(ledger: Ledger) -> None:
    Runner(ledger, RulesBackend()).finish_pending(retry="all")


def outcome(ledger: Ledger) -> Outcome:
    """Return the current results of the ledger's session."""
    doubles = find_double_counts(ledger)
    verdicts: dict[str, list[str]] = {}
    for event in ledger.events(types=[ev.BULLET_TAGGED]):
        data = event.data or {}
        retracted = [
            one for one in ledger.targeting(event.event_id) if one.type == ev.EVIDENCE_RETRACTED
        ]
        if data["disposition"] == "counted" and not retracted:
            verdicts.setdefault(data["name"], []).append(data["tag"])
    return Outcome(doubles.totals, verdicts, sum(one.tags for one in doubles.classes))


def ends(path: Path) -> list[int]:
    """Return the ends of a file's records, without the last one."""
    size, found = 0, []
    for line in path.read_bytes().splitlines(keepends=True):
        size += len(line)
        found.append(size)
    return found[:-1]


def at_random(chance: Random, path: Path) -> list[Cut]:
    """Return one to five cuts at records, each window judged at once or with a later one."""
    places = ends(path)
    chosen = sorted(chance.sample(places, min(len(places), chance.randint(1, 5))))
    return [Cut(end, chance.random() < 0.7) for end in chosen]


BULLETS = (
    Bullet("pat-001", "pat", "Change how the cart adds up its total.", 0, 0),
    Bullet("pat-002", "pat", "Run the tests of the cart before saying that it works.", 0, 0),
    Bullet("mis-001", "mis", "Mocking the database hides broken migrations.", 0, 0),
)


Step = Callable[[Session], object]


def compaction(session: Session) -> None:
    session.user("This session is continued from an earlier one: the cart's total was changed.")
    session.records[-1]["isCompactSummary"] = True


def subagent(session: Session) -> None:
    """Add words on a sidechain, as version 1 wrote them into the session's own file."""
    session.user("Look at the cart.").agent("As [pat-001] says, I look at the total.").agent(
        "Done."
    )
    for record in session.records[-3:]:
        record["isSidechain"] = True


CITES = [
    "As [{}] says, I change how the cart adds up its total.",
    "I keep [{}] in mind.",
    "Now I run the tests of the cart, as [{}] advises.",
    "[{} wrong: the cart has no total, see [mis-001]].",
]


SAYS = [
    "Perfect, that works. Thanks!",
    "No, that is wrong. Please don't change the total there, revert it.",
    "Why is the total still wrong?",
    "Thanks. Now write the release notes.",
    "Go on.",
    "The total is wrong when a coupon is applied. Please fix it.",
    "Great, the total is right now!",
]


ANSWERS = [
    "You are right, I take it back.",
    "Glad to hear it.",
    "I look into it.",
    "Shall I go on?",
]


RUNS = [
    ("pytest tests/test_cart.py", "1 passed in 0.10s", False),
    ("pytest tests/test_cart.py", "E   assert 3 == 4\n1 failed in 0.10s", True),
    ("git checkout -- cart.py", "", False),
    ("ls", "cart.py", False),
    ("ruff check .", "All checks passed!", False),
]


CITING: st.SearchStrategy[Step] = st.builds(
    lambda words, bullet: lambda session: session.agent(words.format(bullet.name)),
    st.sampled_from(CITES),
    st.sampled_from(BULLETS),
)


SAYING: st.SearchStrategy[Step] = st.sampled_from(SAYS).map(
    lambda words: lambda session: session.user(words)
)


ANSWERING: st.SearchStrategy[Step] = st.sampled_from(ANSWERS).map(
    lambda words: lambda session: session.agent(words)
)


RUNNING: st.SearchStrategy[Step] = st.sampled_from(RUNS).map(
    lambda run: lambda session: session.runs(run[0], run[1], is_error=run[2])
)


STEPS: st.SearchStrategy[Step] = st.one_of(
    CITING, SAYING, ANSWERING, RUNNING, st.sampled_from([compaction, subagent])
)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return Yard(tmp_path_factory.mktemp("yard"), BULLETS)


def performed(steps: list[Step], session: Session) -> Session:
    for step in steps:
        step(session)
    return session


def played(steps: list[Step], path: Path) -> Path:
    return performed(steps, Session()).write(path)
