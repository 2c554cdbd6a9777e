"""Whatever is changed in a ledger's database, `verify` finds it, or it changed nothing that can be read.

A campaign of random changes to rows, to the schema and to the bytes of the files, and as many clean ledgers, in which
nothing may be found. REFLECTOR_TEST_TAMPERINGS is how many changes of each kind are played, REFLECTOR_TEST_SEED where
they begin.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.exchange.backup import backup, restore
from reflector.ledger.errors import LedgerError
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.proof.verify import Anchor, Finding, verify
from tests.ledger.events import about, added, adopted, changed, history, reflected, retracted, window

from . import forger

#: Of each kind; 2,000 plays the full campaign, CI plays fewer.
_NUMBER = int(os.environ.get("REFLECTOR_TEST_TAMPERINGS", "100"))
_SEED = int(os.environ.get("REFLECTOR_TEST_SEED", "0"))
_PLAYBOOKS = ("default", "other")
Anchors = dict[str, Anchor]


def live(path: Path, chance: random.Random, sessions: int = 30) -> Anchors:
    """A ledger with two playbooks and everything that ledgers hold; the heads of both."""
    anchors = {}
    for number, name in enumerate(_PLAYBOOKS):
        with Ledger.open_file(path, name) as ledger:
            ledger.append(history())
            for session in range(sessions if not number else 4):
                _session(ledger, chance, 100 + session)
            ledger.set_checkpoint("playbook.json", ledger.head().position, "0a" * 32)
            anchors[name] = Anchor(ledger.head().position, ledger.head().chain)
    return anchors


def _session(ledger: Ledger, chance: random.Random, number: int) -> None:
    names = [row.name for row in ledger.rows()]
    first = window(number, f"s{number}", keys=[chance.getrandbits(63) for _ in range(chance.randrange(20))])
    verdicts = [(chance.choice([*names, "nobody"]), chance.choice(["helpful", "harmful", "neutral"])) for _ in range(5)]
    tags = reflected(
        f"r{number}", first, *((*tag, "counted" if tag[1] != "neutral" else "neutral") for tag in verdicts)
    )
    answered = about(ev.REFLECTION_ANSWERED, first, answer="It helped. " * chance.randrange(1, 200))
    ledger.append([first, answered, *tags])
    match chance.randrange(9):
        case 0:
            out = retracted(chance.choice([first, *tags]))
            ledger.append([out, *([retracted(out)] if chance.random() < 0.5 else [])])
        case 1:
            ledger.append([added(f"oth-{number}", f"Advice of {number}", chance.randrange(4))])
        case 2:
            ledger.append([changed(ev.BULLET_RECOUNTED, chance.choice(names), number, helpful=2, harmful=1)])
        case 3:
            ledger.redact(chance.choice([first, answered, tags[0]]).event_id, reason="a name", actor="human")
        case 4:
            ledger.append([adopted(chance.choice(["as_applied", "once_per_session", "once_per_reflection"]), number)])
        case 5:
            other = window(1000 + number, f"s{number}")
            ledger.append([other, about(ev.REFLECTION_FAILED, other, number, stage="parse", message="no", final=True)])
        case 6:
            ledger.append([changed(ev.BULLET_REVISED, chance.choice(names), number, text="Other words")])
            ledger.rebuild()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Anchors]:
    """A ledger in one file, with pages of its own that are free."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    anchors = live(path, random.Random(_SEED))
    connection = forger.connect(path)
    connection.execute("CREATE TABLE rubbish AS SELECT * FROM event")
    connection.execute("DROP TABLE rubbish")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path, anchors


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory, sound: tuple[Path, Anchors]) -> tuple[Path, Anchors]:
    """The same as a crash would leave it: the last sessions stand in the write-ahead log alone."""
    folder = tmp_path_factory.mktemp("in-use")
    shutil.copy(sound[0], folder / "live.db")
    with Ledger.open_file(folder / "live.db") as ledger:
        for number in range(200, 204):
            _session(ledger, random.Random(number), number)
        ledger.append([added("oth-777"), added("oth-778")])
        anchors = {**sound[1], "default": Anchor(ledger.head().position, ledger.head().chain)}
        shutil.copy(folder / "live.db", folder / "ledger.db")
        shutil.copy(folder / "live.db-wal", folder / "ledger.db-wal")
    return folder / "ledger.db", anchors


def _copied(path: Path, to: Path) -> Path:
    for old in to.parent.glob(f"{to.name}*"):
        old.unlink()
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copyfile(f"{path}{suffix}", f"{to}{suffix}")
    return to


def _found(path: Path, anchors: Anchors | None = None) -> list[Finding | LedgerError]:
    """What verifying each playbook finds; a ledger that cannot be opened says so itself."""
    found: list[Finding | LedgerError] = []
    for name in _PLAYBOOKS:
        try:
            with Ledger.open_file(path, name) as ledger:
                found += verify(ledger, *([anchors[name]] if anchors else []))
        except LedgerError as error:
            found.append(error)
    return found


def _read(path: Path) -> object:
    """What software reads of a ledger, None where it cannot be read at all."""
    try:
        return forger.content(path)
    except (sqlite_module().DatabaseError, UnicodeDecodeError):
        return None


def _campaign(
    change: Callable[[Path, random.Random], str], original: Path, anchors: Anchors, folder: Path
) -> Counter[str]:
    """Play changes to a ledger's copies until as many as wanted changed something; what came of them."""
    came: Counter[str] = Counter()
    before = forger.content(_copied(original, folder / "before.db"))
    for number in range(_NUMBER * 20):
        chance = random.Random(f"{_SEED} {change.__name__} {number}")
        path = _copied(original, folder / "ledger.db")
        try:
            told = f"{number}: {change(path, chance)}"
        except sqlite_module().Error:
            continue  # even the engine without its triggers refuses it
        now = _read(_copied(path, folder / "now.db"))
        found = _found(path, anchors)
        for one in found:
            assert (one.message and one.remedy) if isinstance(one, Finding) else str(one), (told, one)
        if found:
            came["found"] += 1
        elif now == before:
            came["without effect"] += 1
        else:
            # Opened by a newer code, tables of an older one are filled anew from the events.
            assert _read(path) == before, told
            came["mended by opening it"] += 1
        if came.total() - (came["without effect"] if change is _row_or_schema else 0) >= _NUMBER:
            break
    return came


def _row_or_schema(path: Path, chance: random.Random) -> str:
    if chance.random() < 0.2:
        return forger.change_the_schema(path, chance)
    return forger.change_a_row(path, chance)[0]


def _bytes(path: Path, chance: random.Random) -> str:
    return forger.change_bytes(path, chance)


def _bytes_of_log(path: Path, chance: random.Random) -> str:
    return forger.change_bytes(Path(f"{path}-wal") if chance.random() < 0.7 else path, chance)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_change_of_a_row_or_of_the_schema_is_found(sound: tuple[Path, Anchors], tmp_path: Path) -> None:
    came = _campaign(_row_or_schema, *sound, tmp_path)
    # A changed version of the code that filled the tables, or of the cached counts, is mended by opening the ledger.
    assert came["found"] + came["mended by opening it"] == _NUMBER, came
    assert came["found"] > 0.9 * _NUMBER, came


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_change_of_the_files_bytes_is_found_or_changed_nothing(
    sound: tuple[Path, Anchors], tmp_path: Path
) -> None:
    came = _campaign(_bytes, *sound, tmp_path)
    assert came["found"] > 0.2 * _NUMBER, came


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_change_of_a_write_ahead_log_is_found_or_changed_nothing(
    in_use: tuple[Path, Anchors], tmp_path: Path
) -> None:
    came = _campaign(_bytes_of_log, *in_use, tmp_path)
    assert came["found"] > 0.2 * _NUMBER, came


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_changed_event_is_named_with_its_position(sound: tuple[Path, Anchors], tmp_path: Path) -> None:
    checked = 0
    for number in range(_NUMBER * 3):
        chance = random.Random(f"{_SEED} position {number}")
        path = _copied(sound[0], tmp_path / "ledger.db")
        try:
            told, at = forger.change_a_row(path, chance)
        except sqlite_module().Error:
            continue
        if at is None or at[0] not in _PLAYBOOKS or forger.content(path) == forger.content(sound[0]):
            continue
        with Ledger.open_file(path, at[0]) as ledger:
            positions = {finding.where for finding in verify(ledger)}
        # The event itself, the one that followed it, or the last one that is left.
        assert positions & {at[1], at[1] + 1, at[1] - 1}, (told, positions)
        checked += 1
    assert checked > _NUMBER // 5


@pytest.mark.parametrize("change", [forger.cut_the_tail, forger.rewrite])
@pytest.mark.parametrize("seed", range(max(3, _NUMBER // 40)))
def test_a_tail_that_was_cut_and_a_history_that_was_rewritten_are_found_by_an_anchor_alone(
    sound: tuple[Path, Anchors], tmp_path: Path, change: Callable[[Path, str, random.Random], str], seed: int
) -> None:
    path = _copied(sound[0], tmp_path / "ledger.db")
    told = change(path, "default", random.Random(seed))
    with Ledger.open_file(path) as ledger:
        ledger.rebuild()
        without = {finding.code for finding in verify(ledger)}
        # A redaction or what was written into playbook.json may have been cut off with the tail.
        assert without <= {"redaction", "projection"}, told
        assert {finding.code for finding in verify(ledger, sound[1]["default"])} == without | {"anchor"}, told


@pytest.mark.parametrize("seed", range(max(3, _NUMBER // 40)))
def test_nothing_is_found_in_clean_ledgers_however_they_came_about(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "ledger.db"
    anchors = live(path, random.Random(f"{_SEED} clean {seed}"), sessions=12)
    assert _found(path, anchors) == []
    with Ledger.open_file(path) as ledger:
        end = backup(ledger, tmp_path / "copy.db")
    assert end == anchors["default"]
    assert _found(tmp_path / "copy.db", anchors) == []
    with Ledger.open_file(path) as ledger:
        ledger.append([added("oth-999")])
    restore(tmp_path / "copy.db", path, "default", force=True)
    assert _found(path, anchors) == []
    connection = forger.connect(path)
    connection.execute("ANALYZE")
    connection.execute("VACUUM")
    connection.close()
    assert _found(path, anchors) == []
