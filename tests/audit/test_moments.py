"""A moment means one position: a position itself, the end of a time, the last event of a
session.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from reflector.audit.dates import period_of
from reflector.audit.moments import (
    UnknownReference,
    position_before,
    position_of,
    span_of,
    target_named,
)
from reflector.cli.output import short_time
from reflector.events.event import written
from reflector.ledger.store import Ledger
from tests.ledger.events import added, reflected, window


def period(text: str) -> tuple[str, str] | None:
    named = period_of(text)
    return (written(named.first), written(named.last)) if named is not None else None


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """Three appends, a minute apart, a second in front of midnight UTC and after it."""
    stamps = iter(
        [
            "2026-11-20T23:58:59.500000Z",
            "2026-11-20T23:59:59.999999Z",
            "2026-11-21T00:00:59.000000Z",
        ]
    )
    monkeypatch.setattr("reflector.ledger.append.utc_now", lambda: "2026-11-20T00:00:00.000000Z")
    monkeypatch.setattr("reflector.ledger.append.later_than", lambda _: next(stamps))
    first, second = window(1, "abcd-1"), window(2, "abcd-2")
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        opened.append([added()])
        opened.append([first, *reflected("r1", first, ("pat-001", "helpful"))])
        opened.append([second, *reflected("r2", second, ("pat-001", "harmful"))])
        yield opened


@pytest.fixture(params=["UTC0", "CET-1CEST"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("stamp", ["2026-11-20T09:01:20", "2026-11-20T09:01:20Z"])
def test_time_without_a_zone_is_in_utc(zone: str, stamp: str) -> None:
    assert short_time(stamp) == f"2026-11-20 {'09' if zone == 'UTC0' else '10'}:01"


@pytest.mark.parametrize(
    ("moment", "position", "before"),
    [
        *(("0", 0, 0), ("1", 1, 0), ("3", 3, 2), ("abcd-1", 4, 1), ("abcd-2", 7, 4)),
        *(
            ("2026-11-20T23:58Z", 1, 0),
            ("2026-11-20 23:58:58Z", 0, 0),
            ("2026-11-20T23:59:59.9Z", 4, 1),
        ),
        *(
            ("2026-11-20T23:59:59.99999Z", 4, 1),
            ("2026-11-21T01:00:58+01:00", 4, 4),
            ("2026-11-21T00:00Z", 7, 4),
        ),
        *(("2026-11-21T01:00+01:00", 7, 4), ("2199-01-01", 7, 7), ("1999-01-01", 0, 0)),
        ("0001-01-01T00:00Z", 0, 0),
    ],
)
def test_a_moment_is_a_position(ledger: Ledger, moment: str, position: int, before: int) -> None:
    assert (position_of(ledger, moment), position_before(ledger, moment)) == (position, before)


def test_day_without_zone_is_local_until_its_end(ledger: Ledger, zone: str) -> None:
    wanted = {"UTC0": "2026-11-20T23:59:59.999999Z", "CET-1CEST": "2026-11-20T22:59:59.999999Z"}
    assert (period("2026-11-20") or ("", ""))[1] == wanted[zone]
    assert position_of(ledger, "2026-11-20") == {"UTC0": 4, "CET-1CEST": 0}[zone]


def test_time_without_a_year_is_of_this_year() -> None:
    year = datetime.now().year
    assert period("11-25") == period(f"{year}-11-25")
    assert period("11-25 17:24") == period(f"{year}-11-25T17:24")
    assert period("11-25-2") is None


#: A Saturday.
NOW = datetime(2026, 11, 28, 16, 30)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("today", "2026-11-28 00:00", "2026-11-28 23:59"),
        ("Yesterday", "2026-11-27 00:00", "2026-11-27 23:59"),
        ("yesterday 9:14", "2026-11-27 09:14", "2026-11-27 09:14"),
        ("last friday", "2026-11-27 00:00", "2026-11-27 23:59"),
        ("saturday", "2026-11-28 00:00", "2026-11-28 23:59"),
        ("last saturday", "2026-11-21 00:00", "2026-11-21 23:59"),
        ("fri at 14:00", "2026-11-27 14:00", "2026-11-27 14:00"),
        ("2 weeks ago", "2026-11-14 00:00", "2026-11-14 23:59"),
        ("an hour ago", "2026-11-28 15:30", "2026-11-28 15:30"),
        ("9 months ago", "2026-02-28 00:00", "2026-02-28 23:59"),
        ("a year ago", "2025-11-28 00:00", "2025-11-28 23:59"),
        ("this week", "2026-11-23 00:00", "2026-11-29 23:59"),
        ("last month", "2026-10-01 00:00", "2026-10-31 23:59"),
        ("last year", "2025-01-01 00:00", "2025-12-31 23:59"),
        ("2026-02", "2026-02-01 00:00", "2026-02-28 23:59"),
        ("28.11.2026", "2026-11-28 00:00", "2026-11-28 23:59"),
        ("27 Nov", "2026-11-27 00:00", "2026-11-27 23:59"),
        ("29 Nov", "2025-11-29 00:00", "2025-11-29 23:59"),
        ("November 3, 2025", "2025-11-03 00:00", "2025-11-03 23:59"),
    ],
)
@pytest.mark.usefixtures("zone")
def test_words_name_the_whole_period(text: str, first: str, last: str) -> None:
    named = period_of(text, NOW)
    assert named is not None
    assert [f"{end.astimezone():%Y-%m-%d %H:%M}" for end in named] == [first, last]


@pytest.mark.parametrize("text", ["dec", "fr", "soon", "3 pages ago", "abcd-1", "42", "1/2/2026"])
def test_other_words_name_no_time(text: str) -> None:
    assert period_of(text, NOW) is None


def test_a_month_ago_ends_with_its_month() -> None:
    named = period_of("1 month ago", datetime(2026, 3, 31, 12))
    assert named is not None
    assert f"{named.last.astimezone():%Y-%m-%d}" == "2026-02-28"


def test_day_of_25_hours_ends_after_25_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    assert period("2026-10-25") == ("2026-10-24T22:00:00.000000Z", "2026-10-25T22:59:59.999999Z")
    assert period("2026-10-25 02:30") == (
        "2026-10-25T00:30:00.000000Z",
        "2026-10-25T01:30:59.999999Z",
    )
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "wanted"),
    [
        *(
            ("8", "ends at position 7"),
            ("9" * 40, "ends at position 7"),
            ("abcd", "abcd-1, abcd-2"),
            ("zzz", "'zzz' is not a date, a position or a session"),
        ),
        *((time, "not a time") for time in ("2026-02-30", "2026-11-20T25:00", "9999-12-31")),
        *(
            ("2026-11-20T10:00:00.1234567Z", "not a time"),
            ("", "is not a date, a position or a session"),
            ("\x1b[31m", "is not a date, a position or a session"),
            ("31.02.2026", "not a time"),
            ("yesterday 25:00", "not a time"),
            ("9999 years ago", "not a time"),
        ),
    ],
)
def test_unknown_moment_is_named_with_the_alternatives(
    ledger: Ledger, moment: str, wanted: str
) -> None:
    with pytest.raises(
        UnknownReference, match=r"write a date or time|matches several sessions"
    ) as told:
        position_of(ledger, moment)
    assert wanted in str(told.value)


def test_digits_above_the_head_may_begin_a_session(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "reflector.ledger.append.later_than", lambda _: "2026-11-22T00:00:00.000000Z"
    )
    ledger.append([window(3, "12345678-aa")])
    assert position_of(ledger, "12345678") == 8


def test_span_may_omit_its_beginning_or_end(ledger: Ledger) -> None:
    assert span_of(ledger, "2..abcd-1") == (2, 4)
    assert span_of(ledger, "..") == (0, 7)
    assert span_of(ledger, "abcd-2..") == (7, 7)
    # what happened in that minute
    assert span_of(ledger, "2026-11-21T00:00Z..2026-11-21T00:00Z") == (4, 7)
    with pytest.raises(UnknownReference, match=r"is not a span"):
        span_of(ledger, "3")


def test_number_beyond_the_end_names_no_event() -> None:
    ledger = Ledger.open("sqlite://")
    ledger.append([added(f"pat-{number:03}") for number in range(1, 30)])
    digits = next(
        event.event_id[:count]
        for event in ledger.events()
        for count in range(2, 8)
        if event.event_id[:count].isdecimal() and int(event.event_id[:count]) > 30
    )
    with pytest.raises(UnknownReference, match=f"{digits} is not a position in this ledger"):
        target_named(ledger, digits)
