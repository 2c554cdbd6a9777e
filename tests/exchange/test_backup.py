"""A backup is one sound state of the ledger; nothing is replaced unseen, and nothing is lost by
putting one back.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from reflector.exchange.backup import backup_ledger, restore_ledger
from reflector.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.proof.verify import Anchor, verify
from tests.conftest import OpenLedger, first_fast
from tests.ledger import sql
from tests.ledger.events import added, history, reflected, window


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "ledger.db"


def _told(path: Path) -> Ledger:
    ledger = Ledger.open_file(path)
    ledger.append(history())
    return ledger


def _content(path: Path) -> object:
    with Ledger.open_file(path) as ledger:
        return ledger.head(), list(ledger.events()), ledger.rows(), ledger.windows()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"ledger.db-wal", "ledger.db-shm"}


def test_backup_is_a_private_ledger_of_its_own(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "backup.db"
    with _told(path) as ledger:
        head = ledger.head()
        assert backup_ledger(ledger, copy) == Anchor(head.position, head.chain)
        ledger.append([added("oth-009")])
    assert copy.stat().st_mode & 0o777 == 0o600
    assert _names(tmp_path) == {"backup.db", "state"}
    with Ledger.open_file(copy) as other:
        assert other.head() == head
        assert list(verify(other, Anchor(head.position, head.chain))) == []


def test_next_backup_removes_what_a_killed_one_left(path: Path, tmp_path: Path) -> None:
    old, new = (
        tmp_path / f".{name}.db.4711.reflector-unfinished" for name in ("monday", "tuesday")
    )
    for left in (old, new):
        left.mkdir()
    os.utime(old, (0, 0))
    with _told(path) as ledger:
        backup_ledger(ledger, tmp_path / "wednesday.db")
    assert _names(tmp_path) == {"wednesday.db", "state", new.name}


def test_backup_overwrites_nothing_and_leaves_nothing_if_refused(
    path: Path, tmp_path: Path
) -> None:
    copy, link = tmp_path / "backup.db", tmp_path / "link.db"
    copy.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    with _told(path) as ledger:
        for there in (copy, link):
            with pytest.raises(LedgerUnavailable, match=f"{there.name} already exists"):
                backup_ledger(ledger, there)
        sql.forge(ledger, "UPDATE event SET actor = 'x' WHERE position = 2")
        with pytest.raises(
            LedgerCorrupt,
            match=(
                r"this bullet\.added or the event before it was "
                r"changed"
            ),
        ):
            backup_ledger(ledger, tmp_path / "new.db")
    assert copy.read_text() == "mine"
    assert _names(tmp_path) == {"backup.db", "link.db", "state"}


@pytest.mark.slow
def test_backup_under_load_is_one_complete_state(path: Path, tmp_path: Path) -> None:
    def write(number: int) -> int:
        with Ledger.open_file(path) as ledger:
            first = window(number, f"s{number}")
            return len(
                ledger.append([first, *reflected(f"r{number}", first, ("pat-001", "helpful"))])
            )

    with _told(path) as ledger, ThreadPoolExecutor(1) as beside:
        writes = [beside.submit(write, number) for number in range(100, 120)]
        ends = [
            (ledger.head().position, backup_ledger(ledger, tmp_path / f"{n}.db").position)
            for n in range(5)
        ]
        assert [one.result() for one in writes] == [3] * 20
        assert ledger.head().position > ends[0][1]
        for number, (before, end) in enumerate(ends):
            assert end >= before
            with Ledger.open_file(tmp_path / f"{number}.db") as copy:
                assert list(copy.events()) == list(ledger.events(upto=end))
        assert list(verify(ledger)) == []


def test_restore_works_under_open_processes(path: Path, tmp_path: Path) -> None:
    with _told(path) as ledger, Ledger.open_file(path) as other:
        end = backup_ledger(ledger, tmp_path / "b.db")
        before = _content(path)
        other.append([added("oth-009")])
        now = _content(path)
        with pytest.raises(LedgerError, match=f"b.db lacks .*, up to position {end.position + 1};"):
            restore_ledger(tmp_path / "b.db", path, "default")
        assert _content(path) == now
        with ledger.asking() as reading:  # who reads meanwhile reads on in the old state
            count = "SELECT count(*) FROM event WHERE playbook_id = ?"
            before_that = reading.run(count).fetchone()
            again, kept = restore_ledger(tmp_path / "b.db", path, "default", force=True)
            assert reading.run(count).fetchone() == before_that == (end.position + 1,)
        assert again.position == end.position
        assert _content(path) == before
        assert kept.stat().st_mode & 0o777 == 0o600
        assert _content(kept) == now
        assert other.append([added("oth-010")])[0].position == end.position + 1
        assert ledger.head().position == end.position + 1
        assert list(verify(ledger)) == []


@pytest.mark.slow
def test_contained_history_is_replaced_without_force(path: Path, tmp_path: Path) -> None:
    with _told(tmp_path / "other.db") as stranger:
        backup_ledger(stranger, tmp_path / "stranger.db")
    with _told(path) as ledger:
        backup_ledger(ledger, tmp_path / "old.db")
        ledger.append([added("oth-009")])
        backup_ledger(ledger, tmp_path / "new.db")
    restore_ledger(tmp_path / "old.db", path, "default", force=True)
    assert restore_ledger(tmp_path / "new.db", path, "default")[0].position == len(history()) + 1
    with pytest.raises(
        LedgerError, match=r"stranger\.db lacks .*'default', up to position \d+; .*--force"
    ):
        restore_ledger(tmp_path / "stranger.db", path, "default")
    with pytest.raises(
        LedgerUnavailable, match=r"does not contain the playbook 'mine'; set .*: default"
    ):
        restore_ledger(tmp_path / "stranger.db", path, "mine", force=True)


def test_unsound_backup_is_refused_and_the_ledger_stays(path: Path, tmp_path: Path) -> None:
    with _told(path) as ledger:
        backup_ledger(ledger, tmp_path / "b.db")
    now, names = _content(path), _names(path.parent)
    with Ledger.open_file(tmp_path / "b.db") as copy:
        sql.forge(copy, "UPDATE event SET data = '{}' WHERE position = 2")
    raw = (tmp_path / "b.db").read_bytes()
    for name, content in {
        "cut": raw[: len(raw) // 2],
        "text": b"no database" * 100,
        "empty": b"",
    }.items():
        (tmp_path / f"{name}.db").write_bytes(content)
    with closing(sqlite_module().connect(tmp_path / "strange.db")) as strange:
        strange.execute("CREATE TABLE mine (x)")
    for name in ("b.db", "cut.db", "text.db", "empty.db", "strange.db"):
        with pytest.raises(LedgerCorrupt):
            restore_ledger(tmp_path / name, path, "default", force=True)
    with pytest.raises(LedgerError, match=r"nothing\.db is not a file.*`reflector ledger backup`"):
        restore_ledger(tmp_path / "nothing.db", path, "default")
    assert (_content(path), _names(path.parent)) == (now, names)


@pytest.mark.parametrize(
    "damage", first_fast(2, ["missing", "missing, and its log is not", "empty", "broken"])
)
def test_lost_or_broken_ledger_is_replaced_and_kept(
    path: Path, tmp_path: Path, damage: str
) -> None:
    with _told(path) as ledger:
        backup_ledger(ledger, tmp_path / "b.db")
    before, broken = _content(path), b"broken" * 1000
    with Ledger.open_file(path) as ledger:
        ledger.append([added("oth-009")])
        logs = {part: part.read_bytes() for part in path.parent.glob("ledger.db-*")}
    for part in path.parent.glob("ledger.db*"):
        part.unlink()
    if "log" in damage:
        for part, content in logs.items():
            part.write_bytes(content)
    if damage in ("empty", "broken"):
        path.write_bytes(b"" if damage == "empty" else broken)
    if damage == "broken":
        with pytest.raises(LedgerError, match=r"b\.db lacks .*cannot be read; .*--force"):
            restore_ledger(tmp_path / "b.db", path, "default")
    _, kept = restore_ledger(tmp_path / "b.db", path, "default", force=damage == "broken")
    assert _content(path) == before
    assert path.stat().st_mode & 0o777 == 0o600
    if damage == "broken":
        assert kept.read_bytes() == broken


def test_server_ledger_is_backed_up_with_server_tools(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    ledger = open_ledger()
    if ledger.engine.dialect == "sqlite":
        pytest.skip("a file")
    with pytest.raises(LedgerUnavailable, match="pg_dump"):
        backup_ledger(ledger, tmp_path / "b.db")
    assert _names(tmp_path) == set()
