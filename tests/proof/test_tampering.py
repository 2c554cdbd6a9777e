"""Whatever is changed in a ledger's database, `verify` finds it, or it changed nothing that can be
read.

A campaign of random changes to rows, to the schema and to the bytes of the files, and as many clean
ledgers, in which nothing may be found. REFLECTOR_TEST_TAMPERINGS is how many changes of each kind
are played, REFLECTOR_TEST_SEED where they begin.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reflector.ledger.errors import LedgerError
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.proof.verify import Anchor, Finding, verify
from tests.ledger.events import added, history
from tests.oracle.histories import live

from . import forger

#: Of each kind; 2,000 plays the full campaign, CI plays fewer.
_NUMBER = int(os.environ.get("REFLECTOR_TEST_TAMPERINGS", "100"))
_SEED = int(os.environ.get("REFLECTOR_TEST_SEED", "0"))
_PLAYBOOKS = ("default", "other")
Anchors = dict[str, Anchor]


def told(path: Path, chance: random.Random, steps: int = 90) -> Anchors:
    """A ledger with two playbooks and everything that ledgers hold; the heads of both."""
    anchors = {}
    for name, many in zip(_PLAYBOOKS, (steps, 12), strict=True):
        with Ledger.open_file(path, name) as ledger:
            ledger.append(history())
            live(ledger, chance, name, many)
            ledger.set_checkpoint("playbook.json", ledger.head().position, "0a" * 32)
            anchors[name] = Anchor(ledger.head().position, ledger.head().chain)
    return anchors


def _run(path: Path, *statements: str) -> None:
    with closing(forger.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Anchors]:
    """A ledger in one file, with pages of its own that are free."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    anchors = told(path, random.Random(_SEED))
    _run(
        path,
        "CREATE TABLE rubbish AS SELECT * FROM event",
        "DROP TABLE rubbish",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    )
    return path, anchors


@pytest.fixture(scope="module")
def in_use(
    tmp_path_factory: pytest.TempPathFactory, sound: tuple[Path, Anchors]
) -> tuple[Path, Anchors]:
    """The same as a crash would leave it: the last sessions stand in the write-ahead log alone."""
    folder = tmp_path_factory.mktemp("in-use")
    shutil.copy(sound[0], folder / "live.db")
    with Ledger.open_file(folder / "live.db") as ledger:
        live(ledger, random.Random(200), "later", 12)
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
    """Play changes to a ledger's copies until as many as wanted changed something; what came of
    them.
    """
    came: Counter[str] = Counter()
    before = forger.content(_copied(original, folder / "before.db"))
    for number in range(_NUMBER * 20):
        chance = random.Random(f"{_SEED} {change.__name__} {number}")
        path = _copied(original, folder / "ledger.db")
        try:
            done = f"{number}: {change(path, chance)}"
        except sqlite_module().Error:
            continue  # even the engine without its triggers refuses it
        now = _read(_copied(path, folder / "now.db"))
        found = _found(path, anchors)
        for one in found:
            assert (one.message and one.remedy) if isinstance(one, Finding) else str(one), (
                done,
                one,
            )
        if found:
            came["found"] += 1
        elif now == before:
            came["without effect"] += 1
        else:
            # Opened by a newer code, tables of an older one are filled anew from the events. The
            # next opening makes the triggers anew if their digest went with a row.
            with Ledger.open_file(path):
                pass
            assert _read(path) == before, done
            came["mended by opening it"] += 1
        if came.total() - (came["without effect"] if change is _row_or_schema else 0) >= _NUMBER:
            break
    return came


def _row_or_schema(path: Path, chance: random.Random) -> str:
    if chance.random() < 0.2:
        return forger.change_the_schema(path, chance)
    return forger.change_a_row(path, chance)


def _bytes_of_log(path: Path, chance: random.Random) -> str:
    return forger.change_bytes(Path(f"{path}-wal") if chance.random() < 0.7 else path, chance)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("change", "state", "least"),
    [
        (_row_or_schema, "sound", 0.9),
        (forger.change_bytes, "sound", 0.2),
        (_bytes_of_log, "in_use", 0.2),
    ],
)
def test_every_change_is_found_or_changed_nothing(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    change: Callable[[Path, random.Random], str],
    state: str,
    least: float,
) -> None:
    came = _campaign(change, *request.getfixturevalue(state), tmp_path)
    assert came["found"] > least * _NUMBER, came
    if change is _row_or_schema:
        # A changed version of the code that filled the tables, or of the cached counts, is mended
        # by an opening.
        assert came["found"] + came["mended by opening it"] == _NUMBER, came
