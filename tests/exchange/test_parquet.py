"""A ledger as Parquet says what its views say, in columns of one type each."""

from __future__ import annotations

import stat
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reflector.exchange import parquet
from reflector.ledger.errors import LedgerUnavailable
from reflector.ledger.readonly_sql import asking
from reflector.ledger.store import Ledger
from reflector.ledger.views import VIEWS
from tests.conftest import OpenLedger
from tests.ledger.events import added, history, window
from tests.road.agent import Agent

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def _asked(ledger: Ledger, view: str) -> list[dict[str, Any]]:
    with asking(ledger) as asker:
        answer = asker.ask(f"SELECT * FROM {view} WHERE playbook = '{ledger.name}' ORDER BY position")
        return [dict(zip(answer.columns, row, strict=True)) for page in answer.pages for row in page]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
        for key, value in row.items()
    }


def test_every_file_says_what_its_view_says_of_this_playbook_alone(
    open_ledger: OpenLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 3)  # several batches
    ledger, other = open_ledger("mine"), open_ledger("other")
    ledger.append(history())
    other.append([added("pat-001"), added("pat-002")])
    folder = tmp_path / "new" / "folder"
    counts = parquet.write_parquet(ledger, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.parquet" for name in counts)
    assert counts.keys() == {"events", *VIEWS[1:]}
    for view in VIEWS[1:]:
        rows = sorted((_plain(row) for row in _rows(folder / f"{view}.parquet")), key=repr)
        assert rows == sorted(_asked(ledger, view), key=repr)
        assert len(rows) == counts[view]
    events = _rows(folder / "events.parquet")
    assert [_plain(row)["recorded_at"] for row in events] == [event.recorded_at for event in ledger.events()]
    assert [(row["position"], row["event_id"], row["chain"]) for row in events] == [
        (event.position, event.event_id, event.chain) for event in ledger.events()
    ]
    assert parquet.write_parquet(other, folder)["bullets"] == 2
    assert len(_rows(folder / "bullets.parquet")) == 2


def test_a_playbook_of_any_name_is_written(open_ledger: OpenLedger, tmp_path: Path) -> None:
    ledger = open_ledger("it's 100% {mine}; --")
    ledger.append([added("pat-001")])
    assert parquet.write_parquet(ledger, tmp_path)["bullets"] == 1


def test_columns_have_one_type_whatever_is_in_them(ledger: Ledger, tmp_path: Path) -> None:
    parquet.write_parquet(ledger, tmp_path / "empty")
    odd = replace(window(9, "s9"), occurred_at="yesterday")
    ledger.append([*history(), replace(window(8, "s8"), occurred_at="2026-01-02T03:04:05.678+01:00"), odd])
    parquet.write_parquet(ledger, tmp_path / "full")
    for path in (tmp_path / "full").iterdir():
        schema = pq.read_schema(path)
        assert schema.equals(pq.read_schema(tmp_path / "empty" / path.name))
        assert {str(field.type) for field in schema} <= {"int64", "string", "double", "timestamp[us, tz=UTC]"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pq.read_schema(tmp_path / "full" / "tags.parquet").field("recorded_at").type == pa.timestamp("us", tz="UTC")
    times = [row["occurred_at"] for row in _rows(tmp_path / "full" / "events.parquet")][-2:]
    assert times == [datetime(2026, 1, 2, 2, 4, 5, 678000, tzinfo=UTC), None]


def test_a_write_that_fails_leaves_the_files_as_they_were(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([added("pat-001")])
    parquet.write_parquet(ledger, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "_batches", full)
    with pytest.raises(OSError, match="No space"):
        parquet.write_parquet(ledger, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_pyarrow_the_extra_is_named(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LedgerUnavailable, match=r"-m pip install '?pyarrow"):
        parquet.write_parquet(ledger, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_writes_parquet_where_it_is_told_to(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    told = agent.call("export", "--format", "parquet", "--to", tmp_path / "out").out.splitlines()
    assert told[1] == f"{tmp_path}/out/bullets.parquet: 3 rows"
    assert [row["name"] for row in _rows(tmp_path / "out" / "bullets.parquet")] == ["pat-001", "pat-002", "mis-001"]
    for arguments in (["--format", "parquet"], ["--to", "x"], ["--format", "parquet", "--to", "x", "--as-of", "1"]):
        assert "belong together" in agent.call("export", *arguments, code=2).err
