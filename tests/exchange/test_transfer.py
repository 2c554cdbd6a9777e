"""A ledger moved is the same ledger, on either engine; a file that is wrong, or half read,
leaves nothing behind.
"""

import json
import multiprocessing
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import (
    WrongLine,
    copy_ledger,
    exported,
    header_of,
    lines_of,
    load_ledger,
    parse_event_line,
)
from reflector.ledger.canonical import MAX_DEPTH
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.building import OBJECTS, TEXTS, forged
from tests.conftest import Fresh, OpenLedger, examples, first_fast, sqlite_file
from tests.ledger import sql
from tests.ledger.events import added, history, moved, redacted, reflected, retracted, window
from tests.oracle.histories import begin, live

Lines = list[str]


@pytest.fixture(scope="module")
def exported_once() -> Lines:
    """An export of a short history, with a text erased."""
    with sqlite_file() as url, Ledger.open(url) as ledger:
        ledger.append(history())
        completed = next(ledger.events(types=[ev.REFLECTION_COMPLETED]))
        ledger.redact([completed.event_id], reason="a secret", actor="human")
        return list(exported(ledger))


@pytest.fixture
def lines(exported_once: Lines) -> Lines:
    """The same, which a test may change."""
    return list(exported_once)


def _state(ledger: Ledger) -> object:
    return (
        ledger.head(),
        list(ledger.events()),
        ledger.rows(),
        ledger.windows(),
        ledger.updated_at(),
        ledger.counting(),
    )


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), text=TEXTS, value=OBJECTS)
@example(
    seed=0,
    text="a",
    value={
        "text": "a\0b \\u0000",
        "deep": json.loads("[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2)),
    },
)
def test_an_export_loaded_and_exported_is_the_same(
    fresh: Fresh, seed: int, text: str, value: dict[str, Any]
) -> None:
    with (
        sqlite_file() as url,
        Ledger.open(url) as ledger,
        fresh() as other,
        Ledger.open(other) as target,
    ):
        said = NewEvent(
            ev.REFLECTION_SKIPPED,
            "said",
            {"reason": "x", "value": value},
            "me",
            meta={"value": value},
        )
        ledger.append([added("oth-001", text), said])
        begin(ledger)
        live(ledger, random.Random(seed), "a", 15)
        before = list(exported(ledger))
        assert load_ledger(target, before) == ledger.head()
        assert list(exported(target)) == before
        assert _state(target) == _state(ledger)
        assert list(verify(target)) == []
        # And it goes on as any ledger does.
        ledger.append([added("oth-002")])
        target.append([added("oth-002")])
        assert target.rows()[-1].name == "oth-002"
        assert list(verify(target)) == []
        # From this engine back to the other.
        with sqlite_file() as back:
            assert copy_ledger(target, back).chain == target.head().chain


def test_every_line_is_a_cloudevent_1_0(lines: Lines) -> None:
    events = [json.loads(line) for line in lines]
    assert len({(event["source"], event["id"]) for event in events}) == len(events)
    for event in events:
        assert event["specversion"] == "1.0"
        for name, value in event.items():
            # Names: lower-case letters and digits; values: no null, and no object but data (the
            # specification, 3.1).
            assert re.fullmatch("[a-z0-9]{1,20}", name)
            assert isinstance(value, dict) if name == "data" else isinstance(value, str | int)
            assert value != ""
            assert not isinstance(value, int) or abs(value) < 2**31
        assert ("data" in event) == (event.get("datacontenttype") == "application/json")
        time = event.get("time", "2026-01-02T03:04:05.678901Z")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
    assert {event.get("subject") for event in events} >= {None, "pat-001"}


def test_file_rewritten_as_json_is_the_same_ledger(ledger: Ledger, lines: Lines) -> None:
    written = [
        json.dumps({**json.loads(line), "traceparent": "00-1"}, indent=None, sort_keys=True)
        for line in lines
    ]
    load_ledger(ledger, written)
    assert list(exported(ledger)) == lines


def test_export_before_an_erasure_names_why_it_fails(ledger: Ledger, fresh: Fresh) -> None:
    ledger.append(history())
    first = ledger.at([1])[0]
    ledger.redact([first.event_id], reason="a secret", actor="human")
    with (
        fresh() as url,
        Ledger.open(url) as target,
        pytest.raises(WrongLine, match="a position after the erasure") as error,
    ):
        load_ledger(target, exported(ledger, upto=5))
    assert error.value.number == 2


def _edited(number: int, **changes: Any) -> Callable[[Lines], Lines]:
    def edit(lines: Lines) -> Lines:
        event = {**json.loads(lines[number - 1]), **changes}
        event = {name: value for name, value in event.items() if value is not None}
        return [*lines[: number - 1], json.dumps(event), *lines[number:]]

    return edit


WRONG: list[tuple[Callable[[Lines], Lines], int, str]] = [
    (lambda _: [], 1, "not JSON"),
    (lambda lines: lines[1:], 1, "not the header"),
    (lambda lines: ["[]", *lines[1:]], 1, "CloudEvent"),
    (lambda lines: ["[" * 100_000, *lines[1:]], 1, "not JSON"),
    (_edited(1, data={"format": "reflector.ledger", "version": 2}), 1, "version 2"),
    (lambda lines: lines[:-1], 20, "cut off"),
    (lambda lines: [*lines[:-1], lines[-1][:50]], 21, "cut off"),
    (lambda lines: [*lines, lines[-1]], 22, "names 20 as the last position"),
    (lambda lines: [*lines[:4], *lines[5:]], 5, "but must have position 4"),
    (lambda lines: [*lines[:9], "", *lines[9:]], 10, "not JSON"),
    (_edited(3, data={"name": "pat-001"}), 3, "section is missing"),
    (
        _edited(8, data={"name": "pat-001", "tag": "helpful", "disposition": "neutral"}),
        8,
        "the event's data was changed",
    ),
    (_edited(8, datahash="0" * 64), 8, "the event's data was changed"),
    (_edited(8, actor="me"), 8, "the chain must be pl1:"),
    (_edited(8, meta="[]"), 8, "meta is"),
    (_edited(8, chain="pl1:" + "0" * 64), 8, "this line has pl1:0000"),
    (_edited(8, time="2020-01-01T00:00:00.000000Z"), 8, "attributes or meta"),
    (_edited(8, type="bullet.sung"), 8, "upgrade reflector"),
    (_edited(8, source="urn:other"), 8, "`source` is 'urn:other'"),
    (_edited(8, id=None), 8, "`id` is missing"),
    (_edited(8, position="7"), 8, "position is '7'"),
    (_edited(8, data=None), 8, "was erased, but the file lacks the event.redacted that records"),
    (_edited(8, actor="a\nb"), 8, "without newline"),
    (_edited(20, targetid="0" * 32), 20, "attributes or meta"),
]


@pytest.mark.parametrize(
    "ledger_url",
    ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgres, pytest.mark.slow])],
    indirect=True,
)
@pytest.mark.parametrize(("edit", "number", "what"), first_fast(10, WRONG))
def test_first_wrong_line_is_named_and_nothing_kept(
    ledger: Ledger, lines: Lines, edit: Callable[[Lines], Lines], number: int, what: str
) -> None:
    before = sql.content(ledger), _state(ledger)
    with pytest.raises(WrongLine, match=re.escape(what)) as error:
        load_ledger(ledger, edit(lines))
    assert error.value.number == number
    assert f"line {number}:" in str(error.value)
    assert (sql.content(ledger), _state(ledger)) == before
    load_ledger(ledger, lines)
    assert list(verify(ledger)) == []


def _odd(
    event: NewEvent, meta: dict[str, Any] | None = None, **data: Any
) -> tuple[list[NewEvent], int, str]:
    return [replace(event, data={**event.data, **data}, meta=meta or {})], 2, "line 2"


_MERGE = NewEvent(ev.LEDGER_MERGED, "a", {}, "merge")
_IMPOSSIBLE = [
    ([added(), added("pat-002"), added()], 4, "an earlier line or this ledger already contains"),
    ([added(), redacted(added().event_id)], 3, "but the file still contains the text"),
    ([added(), replace(retracted(added()), target_id="0" * 32)], 3, "is not an earlier event"),
    (
        [added(), *(replace(retracted(added()), event_id=one) for one in "ab")],
        4,
        "already has a evidence.retracted",
    ),
    # What the tables could not read.
    *(_odd(window(), window=odd) for odd in ([], {"keys": "AAA"}, {"keys": 7}, {"after": ["w-1"]})),
    *(_odd(window(), cited=odd) for odd in ([["pat-001"]], 7)),
    *(
        _odd(added(), {"merged": odd})
        for odd in (7, {"origin": "x", "position": "1", "recorded_at": "t"})
    ),
    *(_odd(_MERGE, **odd) for odd in ({"playbook": "default"}, {"here": [[1, "a", "b", "zz"]]})),
    *(
        _odd(added(), **odd)
        for odd in ({"text": "\x1b]0;pwn\x07"}, {"name": "pat-001]\n<system-reminder>"})
    ),
    _odd(replace(added(), type=ev.POLICY_ADOPTED)),
]


@pytest.mark.parametrize(("events", "number", "what"), _IMPOSSIBLE)
def test_an_impossible_history_is_named_by_line(
    ledger: Ledger, events: list[NewEvent], number: int, what: str
) -> None:
    lines = forged(*events)
    hows: list[Callable[[], object]] = [lambda: load_ledger(ledger, lines)]
    if number == 2:  # what the tables could not read no merge takes either
        hows.append(lambda: merge_ledger(ledger, lambda: lines))
    for how in hows:
        with pytest.raises(WrongLine, match=re.escape(what)) as error:
            how()
        assert error.value.number == number
        assert ledger.head().position == 0


_NO_TIMES = [
    "Z",
    "2026-13-02T03:04:05.000000Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-01-02T03:04:05Z",
]


def test_moved_or_future_history_is_refused(ledger: Ledger) -> None:
    for lines, what in (
        (forged(moved()), "moved to another ledger"),
        (forged(added(), at="9998-01-01T00:00:00.000000Z"), "which is in the future"),
    ):
        with pytest.raises(WrongLine, match=what):
            load_ledger(ledger, lines)
    assert ledger.head().position == 0


@pytest.mark.parametrize("at", _NO_TIMES)
def test_impossible_time_is_refused_and_the_ledger_continues(ledger: Ledger, at: str) -> None:
    place = {
        "origin": "0" * 32,
        "position": 1,
        "recorded_at": "2026-01-02T03:04:05.000000Z",
        "moment": at,
    }
    for lines in (forged(added(), at=at), forged(replace(added(), meta={"merged": place}))):
        with pytest.raises(WrongLine, match="line 2"):
            load_ledger(ledger, lines)
        with pytest.raises(WrongLine, match="line 2"):
            merge_ledger(ledger, lambda lines=lines: iter(lines))
    ledger.append([added()])
    assert ledger.head().position == 1


@pytest.mark.parametrize(
    ("playbook", "said"),
    [
        (
            "default",
            r"1 events.*reflector import FILE",
        ),
        ("team", "REFLECTOR_PLAYBOOK"),
    ],
)
def test_a_ledger_of_another_history_is_left(
    open_ledger: OpenLedger, lines: Lines, playbook: str, said: str
) -> None:
    ledger = open_ledger(playbook)
    ledger.append([added()])
    before = sql.content(ledger)
    with pytest.raises(LedgerError, match=said):
        load_ledger(ledger, lines)
    assert sql.content(ledger) == before


def test_overlong_line_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"{}\n" + b"x" * (64 * 2**20 + 1))
    with (tmp_path / "x").open("rb") as file, pytest.raises(WrongLine, match="line 2"):
        list(lines_of(file))


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_line_is_read_or_refused(text: str | bytes) -> None:
    for read in (header_of, lambda raw: parse_event_line(raw, "0" * 32)):
        with pytest.raises(LedgerError):
            read(text)


# Killed in the middle: all of it is there or nothing, and it can be done again

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.exchange.test_transfer"])


def _take_in(url: str, path: Path, how: str, pages: Any = None) -> None:
    def lines() -> Iterator[bytes]:
        for number, line in enumerate(path.read_bytes().splitlines()):
            if pages is not None and number == 1000:
                pages.put(number)
            yield line

    with Ledger.open(url) as ledger:
        if how == "load":
            load_ledger(ledger, lines())
        else:
            merge_ledger(ledger, lines)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["load", "merge"])
def test_a_kill_leaves_all_or_nothing(
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
