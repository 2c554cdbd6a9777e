"""Our dataclass is the standard library's: each law here is asked of both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import pytest

from reflector.dataclass import dataclass

T = TypeVar("T")
Make = Callable[..., Any]


@pytest.fixture(params=[dataclass, dataclasses.dataclass], ids=["ours", "stdlib"])
def make(request: pytest.FixtureRequest) -> Make:
    """The decorator."""
    return request.param  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 0


@dataclass(frozen=True)
class Open:
    """Has no slots."""

    x: int


def _whole(make: Make, **options: Any) -> Any:
    @make(**options)
    class Whole:
        """Every kind of field."""

        plain: int
        text: str = "a"
        grown: list[int] = field(default_factory=list)
        hidden: str = field(default="secret", repr=False)
        apart: int = field(default=0, compare=False)
        counted: int = field(default=7, init=False)
        gathered: dict[str, int] = field(default_factory=dict, init=False)

    return Whole


_OPTIONS = [{"frozen": frozen, "slots": slots} for frozen in (True, False) for slots in (True, False)]


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_a_value_has_its_defaults_its_words_and_its_fields(make: Make, options: dict[str, bool]) -> None:
    whole = _whole(make, **options)
    one = whole(1, "b", apart=3)
    assert repr(one).endswith("Whole(plain=1, text='b', grown=[], apart=3, counted=7, gathered={})")
    assert astuple(one) == (1, "b", [], "secret", 3, 7, {})
    assert asdict(one)["hidden"] == "secret"
    assert is_dataclass(whole)
    assert whole.__match_args__ == ("plain", "text", "grown", "hidden", "apart")
    assert whole(1).grown is not whole(1).grown
    assert replace(one, text="c") == whole(1, "c", apart=9)
    assert hasattr(one, "__dict__") is not options["slots"]


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_values_are_equal_by_their_fields_and_only_to_their_own_class(make: Make, options: dict[str, bool]) -> None:
    whole, other = _whole(make, **options), _whole(make, **options)
    assert whole(1) == whole(1, apart=5)
    assert whole(1) != whole(2)
    assert whole(1) != other(1)
    assert whole(1) != (1, "a", [], "secret", 7, {})


@pytest.mark.parametrize("slots", [True, False])
def test_only_a_frozen_value_can_be_a_key(make: Make, slots: bool) -> None:
    @make(frozen=True, slots=slots)
    class Key:
        name: str

    @make(slots=slots)
    class Loose:
        name: str

    @make(frozen=True, slots=slots)
    class Nothing:
        pass

    assert {Key("a"): 1}[Key("a")] == 1
    assert {Nothing(): 1}[Nothing()] == 1
    with pytest.raises(TypeError, match="unhashable type"):
        hash(Loose("a"))


@pytest.mark.parametrize("slots", [True, False])
def test_a_frozen_value_takes_no_change(make: Make, slots: bool) -> None:
    one = _whole(make, frozen=True, slots=slots)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'text'"):
        one.text = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'text'"):
        del one.text
    loose = _whole(make, slots=slots)(1)
    loose.text = "b"
    assert loose.text == "b"


def test_a_call_that_does_not_fit_says_what_is_missing(make: Make) -> None:
    @make(frozen=True, slots=True, kw_only=True)
    class Named:
        one: int
        two: int = 2

    assert Named(one=1) == Named(one=1, two=2)
    with pytest.raises(TypeError, match=r"Named.__init__\(\) missing 1 required keyword-only argument: 'one'"):
        Named()
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Named(1)


def test_the_signature_is_that_of_the_fields() -> None:
    ours, theirs = _whole(dataclass), _whole(dataclasses.dataclass)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert ours.__init__.__annotations__ == theirs.__init__.__annotations__
    assert [one.name for one in fields(ours)] == [one.name for one in fields(theirs)]


def test_what_a_class_says_itself_stays(make: Make) -> None:
    @make(frozen=True, slots=True, eq=False)
    class Own:
        """Its own words."""

        seen: list[int]

        def __post_init__(self) -> None:
            self.seen.append(1)

        def __repr__(self) -> str:
            return "its own"

    assert (repr(Own([])), Own([]).seen, Own.__doc__) == ("its own", [1], "Its own words.")
    assert Own([]) != Own([])


def test_a_subclass_has_the_fields_of_its_base_first(make: Make) -> None:
    @make(frozen=True, slots=True)
    class Base:
        one: int

    class Other(Base):
        __slots__ = ()

    @make(frozen=True, slots=True)
    class Long(Base, Generic[T]):
        two: int = 2

    assert (Long(1).one, Long(1, 3).two, Other(4).one) == (1, 3, 4)
    assert Long(1) != Base(1)
    assert Other(1) == Other(1)


def test_a_value_that_contains_itself_can_be_shown(make: Make) -> None:
    @make(slots=True)
    class Node:
        next: Any = None

    one = Node()
    one.next = one
    assert repr(one).endswith("Node(next=...)")


@pytest.mark.parametrize("value", [Point(1, 2), Open(1)])
def test_a_frozen_value_can_be_copied_and_pickled(value: Any) -> None:
    for found in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert found == value
        assert type(found) is type(value)
