"""Ledgers made by the version before the registry of event types: what they say today is what they said then."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from reflector.events.fold import fold
from reflector.exchange.transfer import exported, load
from reflector.ledger.store import Ledger
from reflector.playbook.document import dump
from reflector.proof.verify import verify

from . import sql

_MADE = Path(__file__).parent / "made_by_older_versions"
_TABLES = ("bullet", "tag", "session_window", "record", "retraction", "projection")


def _tables(ledger: Ledger) -> list[list[tuple[object, ...]]]:
    return [sorted(sql.rows(ledger, f"SELECT * FROM {table}"), key=repr) for table in _TABLES]


@pytest.mark.parametrize("name", ["one-machine", "retracted-and-recounted", "merged-and-redacted"])
def test_a_ledger_of_an_older_version_opens_verifies_and_rebuilds_to_the_same_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(gzip.decompress((_MADE / f"{name}.db.gz").read_bytes()))
    wanted = (_MADE / f"{name}.json").read_bytes()
    with Ledger.open_file(path) as ledger:
        assert list(verify(ledger)) == []
        before = sql.content(ledger), _tables(ledger)
        assert dump(ledger.bullets(), ledger.updated_at()) == wanted
        assert fold(ledger.events()).bullets() == ledger.bullets()
        ledger.rebuild()
        assert (sql.content(ledger), _tables(ledger)) == before
        assert dump(ledger.bullets(), ledger.updated_at()) == wanted
        assert list(verify(ledger)) == []
        with Ledger.open("sqlite://") as other:
            load(other, exported(ledger))
            assert dump(other.bullets(), other.updated_at()) == wanted
