"""Transaction ids: which commands in a ledger are this user's."""

from pathlib import Path

import pytest

from reflector import authorship


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    authorship._key.cache_clear()


def test_drawn_id_is_own() -> None:
    assert authorship.is_own(authorship.draw())


def test_another_homes_id_is_not_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("HOME", str(other))
    theirs = authorship.draw()
    monkeypatch.setenv("HOME", str(tmp_path))
    authorship.draw()
    assert not authorship.is_own(theirs)


@pytest.mark.parametrize("tx", ["", "not hex, nor an id", "é" * 48, "0" * 32, "0" * 48])
def test_forged_id_is_not_own(tx: str) -> None:
    authorship.draw()
    assert not authorship.is_own(tx)


def test_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    authorship.draw()
    (key,) = tmp_path.glob(".local/share/reflector/ledgers/transactions.key")
    assert key.stat().st_mode & 0o777 == 0o600


def test_without_a_writable_home_no_id_is_own(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file in the place of the folder")
    tx = authorship.draw()
    assert len(tx) == 32
    assert not authorship.is_own(tx)


def test_every_id_is_drawn_once() -> None:
    assert len({authorship.draw() for _ in range(1000)}) == 1000


def test_damaged_key_is_made_again(tmp_path: Path) -> None:
    authorship.draw()
    (key,) = tmp_path.glob(".local/share/reflector/ledgers/transactions.key")
    key.write_bytes(b"cut")
    authorship._key.cache_clear()
    assert authorship.is_own(authorship.draw())
