"""A load or a merge that is killed leaves all of it or nothing, and can be done again."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported, load
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, sqlite_file
from tests.ledger import sql
from tests.ledger.events import added, reflected, window

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.exchange.test_killed"])


def _take_in(url: str, path: Path, how: str, pages: Any = None) -> None:
    def lines() -> Iterator[bytes]:
        for number, line in enumerate(path.read_bytes().splitlines()):
            if pages is not None and number == 1000:
                pages.put(number)
            yield line

    with Ledger.open(url) as ledger:
        if how == "load":
            load(ledger, lines())
        else:
            merge(ledger, lines)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["load", "merge"])
def test_who_is_killed_while_taking_a_file_in_leaves_all_of_it_or_nothing(
    ledger_url: str, open_ledger: OpenLedger, tmp_path: Path, how: str
) -> None:
    path, chance = tmp_path / "ledger.ndjson", random.Random(5)
    with sqlite_file() as url, Ledger.open(url) as source:
        source.append([added()])
        for number in range(20):
            seen = window(number, f"s{number}")
            source.append([seen, *reflected(f"r{number}", seen, *[("pat-001", "helpful")] * 120)])
        path.write_text("".join(f"{line}\n" for line in exported(source)))
        head = source.head()
    ledger = open_ledger()
    if how == "merge":
        seen = window("here")  # type: ignore[arg-type]
        ledger.append([added(), seen, *reflected("here", seen, ("pat-001", "helpful"))])
    before = sql.content(ledger)
    for _ in range(5):
        pages: Any = _CONTEXT.Queue()
        process = _CONTEXT.Process(target=_take_in, args=(ledger_url, path, how, pages))
        process.start()
        pages.get(timeout=60)
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.join()
        assert list(verify(ledger)) == []
        if sql.content(ledger) != before:
            break
    else:
        _take_in(ledger_url, path, how)
    assert [(row.helpful, row.harmful) for row in ledger.rows()] == [(2400 + (how == "merge"), 0)]
    assert how == "merge" or ledger.head() == head
    assert list(verify(ledger)) == []
