"""One session taken in piece by piece, and what came of it beside the whole file read once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from reflector.audit.doubles import Totals, double_counts
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.runner import Runner
from reflector.sessions.intake import Source, take_in
from reflector.transcripts.reading import UnknownTranscript, scan


@dataclass(frozen=True)
class Cut:
    """Where a window ends (the size of the file then), and whether it is judged before the next one begins."""

    end: int
    judged: bool = True


@dataclass(frozen=True)
class Outcome:
    """What the session says: each bullet's counters under every policy, the verdicts, and the doubles."""

    totals: tuple[Totals, ...]
    verdicts: dict[str, list[str]]
    doubles: int


class Yard:
    """Ledgers that all begin with the same bullets."""

    def __init__(self, folder: Path, bullets: Iterable[Bullet]) -> None:
        self.folder = folder
        self.template = folder / "template.db"
        with Ledger.open_file(self.template) as ledger:
            ledger.append([added(bullet) for bullet in bullets])

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with tempfile.TemporaryDirectory(dir=self.folder) as fresh:
            shutil.copy(self.template, Path(fresh) / "ledger.db")
            with Ledger.open_file(Path(fresh) / "ledger.db") as opened:
                yield opened

    def assert_cut_counts_as_whole(self, path: Path, data: st.DataObject) -> None:
        """Read a transcript in any windows, each judged at once or with a later one, and whole."""
        places = data.draw(st.lists(st.sampled_from(ends(path)), min_size=1, max_size=6, unique=True).map(sorted))
        cuts = [Cut(place, data.draw(st.booleans())) for place in places]
        assert self.taken(path, cuts) == self.taken(path)

    def taken(self, path: Path, cuts: Sequence[Cut] = ()) -> Outcome:
        """A transcript in windows that end at these cuts and at its end, in a ledger of its own."""
        with self.ledger() as ledger:
            take(ledger, path, cuts)
            return outcome(ledger)


def take(ledger: Ledger, path: Path, cuts: Sequence[Cut] = (), session_id: str | None = None) -> None:
    """As hooks hand it over: the session's id is known, and a compaction says how much to read."""
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
    """What the ledger's session says by now."""
    doubles = double_counts(ledger)
    verdicts: dict[str, list[str]] = {}
    for event in ledger.events(types=[ev.BULLET_TAGGED]):
        data = event.data or {}
        retracted = [one for one in ledger.targeting(event.event_id) if one.type == ev.EVIDENCE_RETRACTED]
        if data["disposition"] == "counted" and not retracted:
            verdicts.setdefault(data["name"], []).append(data["tag"])
    return Outcome(doubles.totals, verdicts, sum(one.tags for one in doubles.classes))


def ends(path: Path) -> list[int]:
    """Where the records of a file end, but for the last one."""
    size, found = 0, []
    for line in path.read_bytes().splitlines(keepends=True):
        size += len(line)
        found.append(size)
    return found[:-1]


def at_random(chance: Random, path: Path) -> list[Cut]:
    """One to five cuts at records, each window judged at once or with a later one."""
    places = ends(path)
    chosen = sorted(chance.sample(places, min(len(places), chance.randint(1, 5))))
    return [Cut(end, chance.random() < 0.7) for end in chosen]


def added(bullet: Bullet) -> NewEvent:
    """The event that adds a bullet without counts."""
    data = {"name": bullet.name, "section": bullet.section, "text": bullet.text, "helpful": 0, "harmful": 0}
    return NewEvent(ev.BULLET_ADDED, identity(ev.BULLET_ADDED, bullet.name), {**data, "origin": "cli"}, "human")
