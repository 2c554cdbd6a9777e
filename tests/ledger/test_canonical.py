"""The byte form of events and of the chain over them: a contract, held to the vectors of its
document.
"""

import json
import math
import re
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys, unpack_keys
from reflector.ledger import append
from reflector.ledger.canonical import (
    MAX_DEPTH,
    NotCanonical,
    digest,
    genesis,
    next_chain,
    plain,
    sealed,
)
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.building import _TEXT, OBJECTS
from tests.conftest import OpenLedger

_DOCUMENT = Path(__file__).parents[2] / "docs" / "ledger-format.md"


def canonical(value: Any) -> str:
    return sealed(plain(value))[0]


def _vectors(name: str) -> Any:
    (block,) = re.findall(
        rf"^```json {name}\n(.*?)^```", _DOCUMENT.read_text(encoding="utf-8"), re.M | re.S
    )
    return json.loads(block)


@pytest.mark.parametrize("vector", _vectors("canonical"), ids=lambda vector: vector["text"][:30])
def test_a_value_has_the_documented_text(vector: dict[str, Any]) -> None:
    assert canonical(vector["value"]) == vector["text"]


@pytest.mark.parametrize("vector", _vectors("identity"), ids=lambda vector: vector["event_id"])
def test_an_identity_has_the_documented_digest(vector: dict[str, Any]) -> None:
    assert identity(*vector["parts"]) == vector["event_id"]


def test_either_engine_holds_the_documented_chain(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = _vectors("chain")
    clock = iter(
        ["2026-01-01T00:00:00.000000Z", *(event["recorded_at"] for event in vectors["events"])]
    )
    monkeypatch.setattr(append, "utc_now", lambda: next(clock))
    monkeypatch.setattr("secrets.token_hex", lambda _: vectors["origin"])
    ledger: Ledger = open_ledger(vectors["playbook"])
    assert ledger.head().chain == vectors["genesis"]
    for event in vectors["events"]:
        names = (
            "type",
            "event_id",
            "data",
            "actor",
            "session_id",
            "reflection_id",
            "target_id",
            "meta",
        )
        occurred = event["occurred_at"] if event["occurred_at"] != event["recorded_at"] else None
        ledger.append([NewEvent(**{name: event[name] for name in names}, occurred_at=occurred)])
        assert ledger.head().chain == event["chain"]
    assert list(verify(ledger)) == []


def _reversed(value: Any) -> Any:
    """The same value with every object's keys the other way round, lists as tuples and objects
    as other mappings.
    """
    if isinstance(value, dict):
        return MappingProxyType({key: _reversed(item) for key, item in reversed(value.items())})
    return tuple(_reversed(item) for item in value) if isinstance(value, list) else value


@given(OBJECTS)
def test_canonical_text_reads_back_in_any_order(
    value: dict[str, Any],
) -> None:
    text = canonical(value)
    assert json.loads(text) == value == plain(value)
    assert canonical(json.loads(text)) == canonical(_reversed(value)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_becomes_a_string_of_six_decimals(value: float) -> None:
    text = plain({"x": [value]})["x"][0]
    assert re.fullmatch(r"-?\d+\.\d{6}", text)
    assert not re.fullmatch(r"-0\.0+", text)
    assert math.isclose(float(text), value, rel_tol=1e-15, abs_tol=5.1e-7)


class _Colour(IntEnum):
    RED = 1


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": float("nan")}, "a: the ledger cannot store nan"),
        ({"a": [0, float("inf")]}, r"a\[1\]: the ledger cannot store inf"),
        ({"a": 2**53}, "a: the integer 9007199254740992 is beyond"),
        ({"a": "x\ud800"}, "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({1: "x"}, "the key 1 is not a string"),
        ({"a": {None: 1}}, "a: the key None is not a string"),
        ({"a": b"x"}, "a: the ledger cannot store a value of type bytes"),
        ({"a": _Colour.RED}, "a: the ledger cannot store a value of type _Colour"),
        (_nested(MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} levels deep"),
    ],
)
def test_ambiguous_value_has_no_canonical_form(value: Any, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        canonical(value)


def test_nesting_is_limited_and_cycles_are_refused() -> None:
    assert canonical(_nested(MAX_DEPTH)) == '{"in":' * (MAX_DEPTH - 1) + "{}" + "}" * (
        MAX_DEPTH - 1
    )
    value: dict[str, Any] = {}
    value["a"] = value
    with pytest.raises(NotCanonical, match="nested more than"):
        canonical(value)


@given(st.tuples(_TEXT, _TEXT, _TEXT), st.tuples(_TEXT, _TEXT, _TEXT))
def test_two_identities_are_equal_only_for_equal_parts(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert (identity(*one) == identity(*other)) == (one == other)


_FIELD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1, max_size=5
)
_HEADERS = st.tuples(
    st.integers(1, 99),
    _FIELD,
    _FIELD,
    st.just(1),
    _FIELD,
    _FIELD,
    _FIELD,
    *[st.none() | _FIELD] * 3,
)


@given(_HEADERS, _HEADERS)
def test_the_chain_tells_any_two_headers_apart(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    start, hashes = genesis("p", "o"), (digest("{}"), digest("{}"))
    assert (next_chain(start, one, *hashes) == next_chain(start, other, *hashes)) == (one == other)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_packed_keys_read_back(keys: list[int]) -> None:
    assert list(unpack_keys(pack_keys(keys))) == keys


def test_packed_keys_are_big_endian_in_any_process() -> None:
    assert pack_keys([1, -1]) == "AAAAAAAAAAH//////////w=="
    for broken in ("?", "AAAA", "A" * 9):
        with pytest.raises(ValueError):
            unpack_keys(broken)
