import hashlib
import io
import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from reflector.transcripts import records
from reflector.transcripts.message import Tally
from reflector.transcripts.records import (
    count_type,
    parse_line,
    read_lines,
    record_key,
    record_uuid,
)


def lines_of(data: bytes, limit: int | None = None) -> tuple[list[tuple[int, bytes]], Tally]:
    tally = Tally()
    lines = read_lines(io.BytesIO(data), limit, tally)
    return [(line.offset, line.text) for line in lines], tally


@pytest.mark.parametrize(
    ("data", "lines", "unfinished"),
    [
        (b'{"a":1}\r\n\n  \n{"b":2}\n', [(0, b'{"a":1}'), (13, b'{"b":2}')], 0),
        (b'{"a":1}\n{"b":2}', [(0, b'{"a":1}'), (8, b'{"b":2}')], 0),
        (b'{"a":1}\n{"b":', [(0, b'{"a":1}')], 5),
    ],
)
def test_only_whole_lines_come_with_their_offsets(
    data: bytes, lines: list[tuple[int, bytes]], unfinished: int
) -> None:
    assert lines_of(data) == (lines, Tally(lines=len(lines), unfinished_bytes=unfinished))


@given(st.integers(0, 40))
def test_limit_reads_like_the_end_of_file(limit: int) -> None:
    data = b'{"a":1}\n{"b":"xyz"}{"c":1}\n{"d":2}\n'
    assert lines_of(data, limit) == lines_of(data[:limit])


def test_overlong_line_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LINE_LIMIT", 10)
    found, tally = lines_of(b'{"a":1}\n' + b"x" * 5000 + b'\n{"b":2}\n' + b"y" * 11)
    assert found == [(0, b'{"a":1}'), (5009, b'{"b":2}')]
    assert tally == Tally(lines=3, oversized=1, unfinished_bytes=11)


@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00{")
@example(b"[" * 200_000)
@example(b'{"a":' * 200_000)
@example(b"{} trailing")
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    tally = Tally()
    for line in read_lines(io.BytesIO(data), None, tally):
        parse_line(line.text, tally)
    assert tally.unfinished_bytes <= len(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), json_values), max_size=4), st.booleans())
def test_records_written_as_json_lines_are_read_back(
    written: list[dict[str, Any]], glued: bool
) -> None:
    data = ("" if glued else "\n").join(json.dumps(record) for record in written).encode()
    tally = Tally()
    read = [
        record
        for line in read_lines(io.BytesIO(data), None, tally)
        for record, _ in parse_line(line.text, tally)
    ]
    assert read == written
    assert tally.malformed == 0
    assert tally.records == len(written)


def test_numbers_that_python_refuses_become_null() -> None:
    tally = Tally()
    ((record, _),) = parse_line(
        b'{"big":' + b"9" * 5000 + (b',"nan":NaN,"inf":-Infinity,"n":12,"c":"\x00\x01"}'), tally
    )
    assert record == {"big": None, "nan": None, "inf": None, "n": 12, "c": "\x00\x01"}
    assert tally.malformed == 0


def test_key_is_the_first_eight_digest_bytes() -> None:
    uuid = "6eedcc97-3e2b-44f3-a314-04bae1f9f3df"
    assert (
        record_key(uuid).to_bytes(8, "big", signed=True)
        == hashlib.sha256(uuid.encode()).digest()[:8]
    )
    assert record_key("") == -2039914840885289964  # golden: the key is stored in ledgers
    assert isinstance(record_key("\ud800"), int)


def test_record_is_known_by_its_uuid() -> None:
    assert record_uuid({"uuid": "a"}, b"{}") == "a"


@pytest.mark.parametrize("odd", [{}, {"uuid": ""}, {"uuid": 7}, {"uuid": None}])
def test_record_without_uuid_is_known_by_its_text(odd: dict[str, Any]) -> None:
    assert record_uuid(odd, b"{}") == "sha256:" + hashlib.sha256(b"{}").hexdigest()


def test_unknown_types_are_counted_within_bounds() -> None:
    tally = Tally()
    for number in range(1000):
        count_type(tally, f"type-{number}" * 100)
    count_type(tally, None)
    assert len(tally.unknown_types) <= 65
    assert sum(tally.unknown_types.values()) == 1001
    assert max(map(len, tally.unknown_types)) <= 64
